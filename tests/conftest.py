"""Fixtures that several test folders share."""

import gc
import os
from collections.abc import Generator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from matplotlib.figure import Figure
from PIL import Image

from tests import quick_hydra

gc.disable()  # until everything is collected: what is imported stays, and to look through it takes a fifth of the time

# before torch and transformers are imported, and for the processes that tests start
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # models this small only lose by more threads


quick_hydra.install()
os.fsync = lambda file: None  # no test cuts the power, and every file that is written would wait for the disk

# the same examples in every run of the suite; new ones with `--hypothesis-profile=explore`
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("same")

REPOSITORY = Path(__file__).parents[1]
SHARED = REPOSITORY.parent / "shared"
_OF_METHODS = REPOSITORY / "tests" / "methods"
GIVEN = {
    "methods/scores": (f"path={_OF_METHODS / 'scores.jsonl'}",),
    "methods/importances": (f"path={_OF_METHODS / 'importances.json'}",),
}
"""Settings of a YAML that have to be given, so that it can be built."""


def shared(relative: str) -> Path:
    """A file or folder of the reference data; the test is skipped where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"the reference data '{relative}' is not beside the repository")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the YAMLs of the tiny task and a checkpoint `bert`."""
    from tests import text_models, tiny_task

    folder = tmp_path_factory.mktemp("place")
    text_models.save_bert(folder / "bert")
    tiny_task.write_yamls(folder / "conf")
    return folder


def _saved_as_a_point(_figure: Figure, place: Any, **_: Any) -> None:
    """A picture of one point in the place of the figure, in a stream or a file."""
    held = BytesIO()
    Image.new("1", (1, 1)).save(held, "png")
    if hasattr(place, "write"):
        place.write(held.getvalue())
    else:
        Path(place).write_bytes(held.getvalue())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Figures are drawn in every test, and made files of where one is marked `rendered`."""
    if item.get_closest_marker("rendered"):
        return (yield)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Figure, "savefig", _saved_as_a_point)
        return (yield)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves are drawn in the tests of the report alone."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no core waits for another's last one; what was imported is not collected."""
    gc.freeze()
    gc.enable()
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
