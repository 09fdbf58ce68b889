"""A checkpoint of the cache is used where it is what was written, by this user; else it is trained anew, with a line."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmark.errors import UserError
from benchmark.training import cached
from benchmark.training.cached import checkpoint_directory, discard_foreign, flaw, trained_once
from benchmark.training.finetune import Recipe, finetuned_for
from benchmark.training.pooled import PooledRecipe
from benchmark.training.tiny import TinyModel
from tasks.planted import Planted
from tests.text_models import save_bert

TASK = Planted(train=8, validation=4, test=4)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cached, "_WHOLE", {})
    return tmp_path / "cache" / "models"


class Trained:
    """A training that writes what it is told, and counts."""

    def __init__(self):
        self.count = 0

    def __call__(self, folder: Path) -> None:
        self.count += 1
        (folder / "inner").mkdir(parents=True)
        for name, content in (("model.safetensors", b"weights" * 9), ("training.json", b"{}"), ("inner/a.txt", b"abc")):
            (folder / name).write_bytes(content)


def once(train, name="mine"):
    return Path(trained_once(checkpoint_directory(name, [1]), "my model", train))


def later(monkeypatch):
    """As another process."""
    monkeypatch.setattr(cached, "_WHOLE", {})


def test_what_is_whole_is_used_and_read_once(monkeypatch):
    train, reads = Trained(), []
    folder = once(train)
    later(monkeypatch)
    whole = cached.store.hash_of
    monkeypatch.setattr(cached.store, "hash_of", lambda path: reads.append(path.name) or whole(path))
    assert once(train) == once(train) == folder
    assert train.count == 1
    assert sorted(reads) == ["a.txt", "model.safetensors", "training.json"]


def test_any_flipped_bit_of_any_file_is_noticed(monkeypatch, caplog):
    train = Trained()
    folder = once(train)
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(contents) == 4
    generator = np.random.default_rng(0)
    for path, content in contents.items():
        for place in generator.integers(0, 8 * len(content), size=15).tolist():
            damaged = bytearray(content)
            damaged[place // 8] ^= 1 << place % 8
            path.write_bytes(bytes(damaged))
            caplog.clear()
            before = train.count
            assert once(train) == folder
            assert train.count == before + 1
            assert {each: each.read_bytes() for each in contents} == contents
            (line,) = [record.getMessage() for record in caplog.records]
            assert line.startswith("my model in the cache is trained anew, as ")


def add(folder):
    (folder / "tokenizer.json").write_text("{}")


def remove(folder):
    (folder / "training.json").unlink()


def no_digests(folder):
    (folder / "digests.json").unlink()


def link(folder):
    (folder / "training.json").rename(folder.parent / "elsewhere")
    (folder / "training.json").symlink_to(folder.parent / "elsewhere")


def writable(folder):
    (folder / "model.safetensors").chmod(0o666)


def writable_folder(folder):
    (folder / "inner").chmod(0o777)


def of_a_group(folder):
    (folder / "model.safetensors").chmod(0o664)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (add, "tokenizer.json is not what was written"),
        (remove, "training.json is not what was written"),
        (no_digests, "it has no digests"),
        (link, "training.json is no regular file"),
        (writable, "others may write model.safetensors"),
        (writable_folder, "others may write inner"),
        (of_a_group, "others may write model.safetensors"),
    ],
)
def test_what_is_not_as_written_is_trained_anew(damage, told, monkeypatch, caplog):
    train = Trained()
    folder = once(train)
    later(monkeypatch)
    damage(folder)
    assert once(train) == folder
    assert train.count == 2
    assert f"my model in the cache is trained anew, as {told} ({folder})" in caplog.text
    assert flaw(folder) is None


def test_a_checkpoint_of_another_name_is_not_taken_for_this_one(monkeypatch, caplog):
    """Though it is whole and this user's."""
    train, folder = Trained(), checkpoint_directory("mine", [1])
    shutil.copytree(once(train, "other"), folder)
    assert once(train) == folder
    assert train.count == 2
    assert "as it was written for another model" in caplog.text


def test_what_a_stranger_planted_is_not_used(monkeypatch, caplog):
    train, folder = Trained(), checkpoint_directory("mine", [1])
    once(train)
    later(monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    monkeypatch.setattr(cached.os, "geteuid", lambda: 4321)
    owner = os.stat(folder).st_uid
    if owner == 0:  # root is trusted
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 1234, 1234)
    assert flaw(folder) == f"{folder.name} belongs to another user"
    monkeypatch.setattr(cached.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(
        UserError, match=r"belongs to another user, and it cannot be removed; set ATTENTION_BENCHMARK_CACHE"
    ):
        once(train)


def test_a_planted_folder_without_digests_is_replaced(cache, caplog):
    train, folder = Trained(), checkpoint_directory("mine", [1])
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"planted")
    assert once(train) == folder
    assert (folder / "model.safetensors").read_bytes() == b"weights" * 9
    link = checkpoint_directory("other", [1])
    link.symlink_to(folder)
    assert once(train, "other") == link
    assert not link.is_symlink()


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_it_is_whole_under_any_umask(mask):
    before = os.umask(mask)
    try:
        train = Trained()
        folder = once(train)
        assert flaw(folder) is None
        assert once(train) == folder
        assert train.count == 1
    finally:
        os.umask(before)


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(bytes(content))


def test_all_that_train_on_first_use_check_it(tmp_path, caplog, monkeypatch):
    base = save_bert(tmp_path / "base")
    tiny = TinyModel(layers=1, hidden=16, heads=2, steps=1, batch_size=4)
    makers = {
        "tiny": lambda: tiny.resolve(TASK),
        "finetuned": lambda: finetuned_for(TASK, str(base), Recipe(epochs=1, batch_size=8)),
        "pooled": lambda: PooledRecipe(steps=1, hidden=8, heads=2).model(TASK, 0) and None,
    }
    for name, make in makers.items():
        make()
        (folder,) = [
            path for path in checkpoint_directory("x", []).parent.iterdir() if path.name.startswith(f"{name}-")
        ]
        weights = (folder / "model.safetensors").read_bytes()
        flipped(folder / "model.safetensors")
        caplog.clear()
        make()
        assert "is trained anew, as model.safetensors is not what was written" in caplog.text, name
        assert (folder / "model.safetensors").read_bytes() == weights
        caplog.clear()
        make()
        assert "trained anew" not in caplog.text


def test_the_state_of_a_strangers_training_is_not_gone_on_from(tmp_path, caplog):
    work = tmp_path / "work"
    work.mkdir()
    (work / "state.pt").write_bytes(b"state")
    discard_foreign(work)
    assert (work / "state.pt").exists()
    (work / "state.pt").chmod(0o666)
    discard_foreign(work)
    assert not work.exists()
    assert "is not used, as others may have written it" in caplog.text
