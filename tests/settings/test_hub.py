"""Names of the hub that are mistyped paths, without a network."""

import time

import huggingface_hub
import pytest

from benchmark.errors import UserError
from benchmark.models.weights import existing_source
from benchmark.settings.availability import check_on_hub


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A working folder with a checkpoint, an empty cache, and a hub that nothing answers for."""
    (tmp_path / "checkpoints" / "sst-2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    return monkeypatch


def test_a_hub_that_does_not_answer_is_asked_once(alone):
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        existing_source("checkpoints/sst2")
    assert time.monotonic() - started < 10
    message = str(caught.value)
    assert message.startswith(
        "model.path=checkpoints/sst2 is no folder here, and as the name of a checkpoint of the hub"
    )
    assert "the hub does not answer" in message
    assert message.endswith("did you mean model.path=checkpoints/sst-2?")
    assert "\n" not in message


def test_a_hub_that_may_not_be_asked_is_not(alone):
    alone.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"model\.path=some/model is no folder.*HF_HUB_OFFLINE.*give the folder of the"):
        existing_source("some/model")


def test_a_data_set_likewise(alone, tmp_path):
    with pytest.raises(
        UserError, match=r"task\.path=some/data is no folder .* data set .* give the folder of the data set"
    ):
        check_on_hub("task.path", "some/data", "dataset")
    (tmp_path / "prepared" / "some___data").mkdir(parents=True)
    alone.setenv("HF_DATASETS_CACHE", str(tmp_path / "prepared"))
    check_on_hub("task.path", "some/data", "dataset")


@pytest.mark.parametrize("status", [401, 404])
def test_a_name_that_the_hub_does_not_have(alone, status):
    class Session:
        def head(self, address, **_):
            assert address == "http://127.0.0.1:9/api/models/checkpoints/sst2"
            return type("Answer", (), {"status_code": status})()

    alone.setattr(huggingface_hub, "get_session", Session)
    with pytest.raises(UserError, match=r"of the hub it is not there \(or is private: hf auth login\); did you mean"):
        existing_source("checkpoints/sst2")


def test_what_is_here_or_in_the_cache_is_not_asked_for(alone, tmp_path):
    (tmp_path / "hub" / "models--some--model").mkdir(parents=True)
    assert existing_source("some/model") == "some/model"
    assert existing_source("checkpoints/sst-2") == "checkpoints/sst-2"
