"""Fixtures that several test folders share."""

import gc
import os
import pickle
from functools import cache
from pathlib import Path

import pytest
from hydra.plugins.config_source import ConfigResult
from hypothesis import settings

# before torch and transformers are imported, and for the processes that tests start
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # models this small only lose by more threads


def _read_once() -> None:
    """Let Hydra read each YAML of `conf/` once a process: no test changes one, and thousands of tests compose."""
    from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource as Source

    load, found, held = Source.load_config, Source.is_config, dict[tuple[str, str], bytes]()

    def load_once(source: Source, config_path: str) -> ConfigResult:
        key = source.path, config_path
        if key not in held:
            held[key] = pickle.dumps(load(source, config_path))
        return pickle.loads(held[key])  # type: ignore[no-any-return]  # what was pickled

    @cache
    def is_there(package: str, config_path: str) -> bool:
        return found(Source("", package), config_path)

    Source.load_config = load_once
    Source.is_config = lambda source, config_path: is_there(source.path, config_path)


_read_once()
os.fsync = lambda file: None  # no test cuts the power, and every file that is written would wait for the disk

# the same examples in every run of the suite; new ones with `--hypothesis-profile=explore`
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("same")

REPOSITORY = Path(__file__).parents[1]
SHARED = REPOSITORY.parent / "shared"
GIVEN = {"methods/scores": (f"path={REPOSITORY / 'tests' / 'methods' / 'scores.jsonl'}",)}
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


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves are drawn in the tests of the report alone."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no core waits for another's last one; what was imported is not collected."""
    gc.freeze()
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
