"""What the tests of own tables share: checkpoints of three kinds, a folder to be in, and a composed command line."""

import pytest

import benchmark
from benchmark.models.label_matching import with_labels
from tests import text_models


@pytest.fixture(scope="package")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    text_models.save_bert(folder / "named", labels=("NEG", "POS"))
    text_models.save_bert(folder / "numbered", labels=("LABEL_0", "LABEL_1"))
    text_models.save_bert(folder / "three", labels=("bad", "so", "good"))
    return folder


@pytest.fixture(scope="package", autouse=True)
def loaded_once():
    """Each checkpoint is loaded once for all tests."""
    kept = {}

    def load(path, labels=None, **settings):
        if path not in kept:
            kept[path] = benchmark.load_model(path, **settings)
        return with_labels(kept[path], labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.run.workbench.load_model", load)
        yield


@pytest.fixture
def here(tmp_path, monkeypatch, no_pictures):
    monkeypatch.chdir(tmp_path)
    return tmp_path
