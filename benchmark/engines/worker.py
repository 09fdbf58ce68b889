"""What a worker does: it holds the model once, and computes the shards that it is given.

The module imports nothing that is slow; torch comes with the model.
"""

import logging
import pickle
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from benchmark.working_folder import own_classes_importable, without_folder

_KEPT = 64  # pieces of work, with what they remember of batches

Status = Literal["done", "answer", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a shard.

    Attributes:
        status: `done`; `answer` for an exception that says something to a person; `failed` for any other.
        content: pickled: the list of results, or the exception.
        traceback: of an exception.
        said: logger, level and message of what was logged meanwhile.
        peak: bytes that the worker has held at most so far.
    """

    status: Status
    content: bytes
    traceback: str = ""
    said: tuple[tuple[str, int, str], ...] = ()
    peak: int = 0


class Worker:
    """Lives in a process of its own.

    Args:
        model: the pickled classifier, or None for work that needs none.
        device: where it computes.
        threads: of torch.
        paths: where the driver finds modules; classes of the user's own are looked for there too.
        folder: of classes that a configuration names, where that is no part of the driver's path.
    """

    def __init__(
        self, model: bytes | None, device: str, threads: int, paths: Sequence[str], folder: str | None = None
    ) -> None:
        if folder is not None:
            without_folder(folder)
            own_classes_importable(folder)
        sys.path.extend(path for path in paths if path not in sys.path)
        self.device, self.model = device, None if model is None else _loaded(model, device, threads)
        self._works: OrderedDict[str, Any] = OrderedDict()
        self._before = None if self.model is None else _look(self.model)

    def run(self, key: str, work: bytes, items: bytes) -> Outcome:
        """Do one piece of work for each batch of a shard.

        Args:
            key: of the work; what is known by it is not unpickled again, and goes on with what it remembers.
            work: pickled.
            items: pickled: batches, each with its inputs.
        """
        with _heard() as said:
            try:
                done = self._done(key, work, items)
                outcome = Outcome("done", pickle.dumps(done, protocol=5))
            except Exception as error:  # whatever it is, the driver decides what it means
                outcome = failed(error)
        peak = 0 if self.model is None else _peak_memory()
        return Outcome(outcome.status, outcome.content, outcome.traceback, tuple(said), peak)

    def _done(self, key: str, work: bytes, items: bytes) -> list[Any]:
        if key not in self._works:
            self._works[key] = self._fitted(pickle.loads(work))
        self._works.move_to_end(key)
        if len(self._works) > _KEPT:
            self._works.popitem(last=False)
        compute, results = self._works[key], []
        for batch, inputs in pickle.loads(items):
            if self.device != "cpu":
                batch, inputs = _moved((batch, inputs), self.device)
            result = compute(batch, *inputs)
            results.append(result if self.device == "cpu" else _moved(result, "cpu"))
        if self._before is not None:
            self._before.check(_named(compute))
        return results

    def _fitted(self, work: Any) -> Any:
        """`(batch, *inputs) -> result`; without a model there is nothing whose memory could run out."""
        if self.model is None:
            return partial(work, None)
        from benchmark.engines.local import Fitted

        return Fitted(work, self.model)


def failed(error: Exception) -> Outcome:
    """The outcome of an exception, which is carried as what it is where it can be pickled."""
    from benchmark.errors import NotApplicable, UserError

    told = traceback.format_exc()
    try:
        content = pickle.dumps(error)
        pickle.loads(content)
    except Exception:  # an error of somebody's class may refuse in any way to be packed
        kind = next((kind for kind in (UserError, NotApplicable) if isinstance(error, kind)), RuntimeError)
        content = pickle.dumps(kind(str(error)))
    return Outcome("answer" if isinstance(error, UserError | NotApplicable) else "failed", content, told)


def _loaded(model: bytes, device: str, threads: int) -> Any:
    import torch

    from benchmark.engines.moving import placed

    torch.set_num_threads(threads)
    return placed(pickle.loads(model), device)


def _look(model: Any) -> Any:
    """The model as nothing may leave it changed."""
    from benchmark.models.guard import Look

    return Look(model)


def _named(work: Any) -> str:
    """The method that the work asks, or else what is done."""
    asked = getattr(work, "work", work)
    name = getattr(getattr(asked, "method", None), "name", None)
    return type(asked).__name__ if name is None else f"methods.{name}"


def _moved(value: Any, device: str) -> Any:
    from benchmark.engines.moving import moved

    return moved(value, device)


def _peak_memory() -> int:
    from benchmark.engines.local import peak_memory

    return peak_memory()


@contextmanager
def _heard() -> Iterator[list[tuple[str, int, str]]]:
    """What the benchmark logs, to be said by the driver."""
    said: list[tuple[str, int, str]] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: said.append((record.name, record.levelno, record.getMessage()))  # type: ignore[method-assign]  # a handler of its own
    logger = logging.getLogger("benchmark")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
