"""From the command to an edge score there are few calls, and each room is entered once."""

import traceback
from pathlib import Path
from typing import ClassVar

import pytest

from benchmark.commands.entry import compare_or_plan
from benchmark.settings.declared import configurable
from methods.edges.product import FactorProduct
from tests.conftest import REPOSITORY

OURS = tuple(f"{REPOSITORY / package}/" for package in ("benchmark", "methods"))
chains: list[list[traceback.FrameSummary]] = []


@configurable
class Told(FactorProduct):
    """Attention; whoever asks for it is noted."""

    version: ClassVar[int] = 1

    def __call__(self, model, batch, target):
        chains.append([frame for frame in traceback.extract_stack() if frame.filename.startswith(OURS)])
        return super().__call__(model, batch, target)


@pytest.mark.usefixtures("no_pictures")
def test_the_chain_is_short(place, tmp_path, capsys):
    words = [
        "--config-dir", str(place / "conf"), "task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "limit=4",
        "tracking=none", f"out={tmp_path / 'runs'}", "methods=[raw_attention,random]",
        "methods.raw_attention.edges._target_=tests.run.test_chain.Told", "evaluations=[rationale]", "analyses=[]",
    ]  # fmt: skip
    chains.clear()
    compare_or_plan(words, "benchmark")
    assert chains
    for chain in chains:
        told = "\n".join(f"{Path(frame.filename).relative_to(REPOSITORY)}:{frame.name}" for frame in chain)
        assert len(chain) + 1 <= 20, told  # the edge score itself is one
        assert len({frame.filename for frame in chain}) + 1 <= 10, told
