"""Out of memory: chunks are halved, what fits is the same, and nothing is counted twice."""

import logging
import multiprocessing
import resource
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.checking import small_models
from benchmark.engines.base import Series, nothing
from benchmark.engines.local import Fitted, Here, is_out_of_memory
from benchmark.errors import UserError
from methods.edges.attattr import AttAttr


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_models.load("bert", tmp_path_factory.mktemp("models"), dtype="float32")


@dataclass(frozen=True)
class Needs:
    """Edge scores, on a device that has no room for more tokens at once than `most`."""

    method: AttAttr
    most: int

    def __call__(self, model, batch):
        if model.max_tokens > self.most:
            model.run(batch)  # counted, until memory runs out
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nOf the allocated memory ...")
        return self.method(model, batch, torch.zeros(len(batch), dtype=torch.long))


@pytest.fixture
def roomy(model):
    return replace(model, max_tokens=1024, memory_budget=1 << 20)


def test_chunks_are_halved_until_they_fit_and_it_is_said_once(roomy, caplog):
    method, batches = AttAttr(steps=4), [roomy.encode(small_models.inputs("bert"))] * 3
    whole = Needs(method, 1024)(roomy, batches[0])
    plain = replace(roomy.cost)
    with caplog.at_level(logging.WARNING):
        found = list(Here().results(Series(roomy, Needs(method, 256), batches, nothing)))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "out of memory (CUDA out of memory. Tried to allocate 9 GiB.): chunks are halved"
    )
    for scores in found:
        for ours, theirs in zip(scores, whole, strict=True):
            torch.testing.assert_close(ours, theirs)
    assert roomy.cost.forward_passes == 4 * plain.forward_passes, "what failed is not counted"
    assert roomy.max_tokens == 1024, "the comparison's model stays as it is"


def test_one_example_that_does_not_fit_is_one_line(roomy):
    batch = roomy.encode(small_models.inputs("bert"))
    with pytest.raises(UserError, match=r"out of memory, with one example of \d+ tokens at a time .*model\.window"):
        Fitted(Needs(AttAttr(steps=1), 0), roomy)(batch)


def sums(model, batch):
    """Of every example's edge scores."""
    target = torch.zeros(len(batch), dtype=torch.long)
    method, parts = AttAttr(steps=2), model.parts(batch)
    return torch.cat([torch.stack(method(model, part, target[rows])).sum((0, 2, 3, 4)) for part, rows in parts])


def scores_in_little_memory(folder, room, answer):
    """In a process of its own, which may take `room` bytes more than it has."""
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # once it was refused memory for its code, it fails however much there is
    model = small_models.load("bert", folder, dtype="float32")
    batch = model.encode(small_models.inputs("bert", (20,) * 1000))
    work = Fitted(sums, replace(model, max_tokens=1 << 20, memory_budget=1 << 28))
    work(batch.select(range(10)))
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + room, held + room))
    try:
        answer.put((work._model.memory_budget, work(batch).tolist(), work._model.memory_budget))
    except BaseException as error:  # of a process of its own: the test sees it
        answer.put(repr(error))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads what a process holds from /proc")
def test_memory_that_really_is_short(tmp_path):
    """Halved by refusals of the operating system; the same scores as with room for everything."""
    context, found = multiprocessing.get_context("spawn"), []
    for room in (1 << 34, 1 << 26):
        answer = context.Queue()
        process = context.Process(target=scores_in_little_memory, args=(tmp_path, room, answer))
        process.start()
        found.append(answer.get(timeout=120))
        process.join()
    (before, plenty, after), (start, little, end) = found
    assert before == after
    assert end < start
    assert little == pytest.approx(plenty, abs=1e-5)


def test_other_errors_pass(roomy):
    def bug(model, batch):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        Fitted(bug, roomy)(roomy.encode(small_models.inputs("bert")))


def test_every_library_that_refuses_memory_is_understood():
    """PyTorch's own refusal is provoked; those of other devices are quoted from its sources."""
    for enough in (lambda: torch.empty(1 << 60, dtype=torch.uint8), lambda: np.empty(1 << 60, dtype=np.uint8)):
        with pytest.raises((RuntimeError, MemoryError)) as refused:
            enough()
        assert is_out_of_memory(refused.value), refused.value
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 1 GB, max allowed: 2 GB)"))
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    assert not is_out_of_memory(ValueError("out of memory"))
