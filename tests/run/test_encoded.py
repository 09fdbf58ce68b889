"""Batches are encoded when they are asked for: the same to the byte, and no more of them at a time with more examples."""

import gc
import weakref

import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses.opening import opened
from benchmark.comparison import run_comparison
from benchmark.engines.moving import moved
from benchmark.errors import UserError
from benchmark.models.encoding import Encoder
from benchmark.opened import open_comparison
from benchmark.planning.measuring import mean_batch
from benchmark.results import store
from benchmark.run import encoded
from benchmark.run.encoded import Chosen, Encoded, sizes_of, uids_of
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.types import Batch
from tests import text_models
from tests.run.test_image_input import words
from tests.tasks.image_data import write_folder

IMAGE = 3 * 16 * 16 * 4  # bytes of one of the checkpoint's images


class Living:
    """How many pixels of batches that the encoder made are alive, now and at most."""

    def __init__(self, monkeypatch):
        self.now = self.most = self.made = 0
        encode = Encoder.__call__

        def counted(encoder, inputs, **given):
            batch = encode(encoder, inputs, **given)
            pixels = batch.tensors["pixel_values"]
            self.now += len(pixels)
            self.made += len(pixels)
            self.most = max(self.most, self.now)
            weakref.finalize(pixels, self.less, len(pixels))
            return batch

        monkeypatch.setattr(Encoder, "__call__", counted)

    def less(self, count):
        self.now -= count


def pictures(tmp_path, each):
    folder = write_folder(tmp_path / f"data{each}", each=each, size=(16, 16))
    rows = [f"{path.name},2,2,9,9" for path in sorted(folder.rglob("*.png"))]
    (tmp_path / f"boxes{each}.csv").write_text("\n".join(["file,x0,y0,x1,y1", *rows]), encoding="utf-8")
    return folder, tmp_path / f"boxes{each}.csv"


def compared(checkpoint, tmp_path, each, *more):
    folder, boxes = pictures(tmp_path, each)
    chosen = (f"task.boxes={boxes}", "batch_size=2", "methods=[rollout,gradient_x_input]", "analyses=[]")
    tests = "evaluations=[perturbation,rationale,localisation]"
    config = compose("config", words(checkpoint, folder, *chosen, tests, f"out={tmp_path / f'out{each}'}", *more))
    return config, run_comparison(config).cells


@pytest.mark.thorough
@pytest.mark.usefixtures("no_pictures")
def test_no_more_pixels_are_alive_with_four_times_as_many_images(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "ROOM", 6 * IMAGE)
    most = {}
    for each in (2, 8):
        with monkeypatch.context() as patch:
            living = Living(patch)
            compared(checkpoint, tmp_path, each)
            most[each] = living.most
            gc.collect()
            assert living.now == 0
    assert most[2] == most[8]
    assert most[8] <= 8  # of 32


@pytest.mark.usefixtures("no_pictures")
def test_rows_and_attributions_are_the_same_to_the_byte_however_little_is_held(
    checkpoint,
    tmp_path,
    monkeypatch,
):
    found = []
    for name, room in (("much", 1 << 30), ("little", 1)):
        monkeypatch.setattr(encoded, "ROOM", room)
        _, cells = compared(checkpoint, tmp_path, 3, f"out={tmp_path / name}")
        arrays = [path.read_bytes() for folder in cells for path in sorted(folder.glob("rows.parquet"))]
        scores = [store.Ragged.read(path).arrays["tokens"] for c in cells for path in c.glob("attributions-pred*")]
        found.append((arrays, scores))
    assert found[0][0] == found[1][0]
    assert len(found[0][0]) == 2
    assert all(np.array_equal(one, two) for one, two in zip(found[0][1], found[1][1], strict=True))


def test_a_plan_opens_one_batch(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "ROOM", 8 * IMAGE)
    folder, boxes = pictures(tmp_path, 16)
    config = compose("config", words(checkpoint, folder, f"task.boxes={boxes}", "batch_size=4", "methods=[rollout]"))
    living = Living(monkeypatch)
    data = open_comparison(config).setting.data
    made = living.made
    assert (made, living.most) == (64, 12)
    chosen = data.excerpt(lambda batches: encoded.Chosen(batches, [mean_batch(data.lengths)]))
    assert [batch.tensors["pixel_values"].shape[0] for batch in chosen.batches] == [4]
    assert living.made - made <= 4


@pytest.fixture
def texts(tmp_path):
    """A model, its examples, and how often each was encoded."""
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    lines, asked = [("good " * (1 + n % 5)).strip() for n in range(40)], []

    def encode(places):
        asked.append(tuple(places))
        return model.encoder(
            [lines[place] for place in places],
            uids=[str(place) for place in places], labels=[0] * len(places), rationale=[None] * len(places),
            query_units=[0] * len(places), meta=[{}] * len(places),
        )  # fmt: skip

    return model, lines, encode, asked


PARTS = [range(start, start + 4) for start in range(0, 40, 4)]


def test_texts_are_let_go_as_images_are(texts):
    _, _, encode, asked = texts
    batches = Encoded(encode, PARTS, room=1)
    assert (len(batches), sizes_of(batches), len(asked)) == (10, [4] * 10, 10)
    assert uids_of(batches) == tuple(map(str, range(40)))
    assert batches.units == sum(1 + n % 5 for n in range(40))
    alive = [weakref.ref(batches[index].tensors["input_ids"]) for index in range(10)]
    gc.collect()
    assert sum(one() is not None for one in alive) == 2
    for index, places in enumerate(PARTS):
        one, two = batches[index], encode(places)
        assert (one.uids, one.words, list(one.tensors)) == (two.uids, two.words, list(two.tensors))
        assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in two.tensors)
    assert batches[-1].uids == ("36", "37", "38", "39")
    before = len(asked)
    assert sizes_of(batches[2:5]) == sizes_of(Chosen(batches, [1, 2, 3])) == [4, 4, 4]
    assert len(asked) == before
    assert [batch.uids[0] for batch in batches[2:5]] == ["8", "12", "16"]
    with pytest.raises(IndexError):
        batches[10]


def test_what_fits_is_encoded_once(texts):
    _, _, encode, asked = texts
    batches = Encoded(encode, PARTS)
    assert batches[3] is batches[3]
    assert [len(batch) for batch in batches] == [4] * 10
    assert len(asked) == 10


def test_an_example_that_changes_meanwhile_is_one_line(texts):
    _, lines, encode, _ = texts
    batches = Encoded(encode, PARTS, room=1)
    lines[1] = "bad"
    assert batches[1].uids[0] == "4"
    with pytest.raises(
        UserError, match=r"^examples '0' to '3' are not what they were when the command began"
    ) as caught:
        batches[0]
    assert "\n" not in str(caught.value)


def test_units_and_labels_of_images_open_no_file_and_what_travels_is_whole(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "ROOM", 1)
    folder, boxes = pictures(tmp_path, 4)
    config = compose("config", words(checkpoint, folder, f"task.boxes={boxes}", "batch_size=4", "methods=[rollout]"))
    living = Living(monkeypatch)
    batches = open_comparison(config).setting.data.batches
    before = living.made
    for batch in batches:
        assert (batch.attention_mask.shape, len(batch.masks), batch.label.shape) == ((4, 17), 4, (4,))
        assert list(batch.tensors) == ["pixel_values"]
        assert "input_ids" not in batch.tensors
        assert batch.rationale[0].sum() == 9
        assert batch.tensors.get("attention_mask") is None
    assert living.made == before
    travelled: Batch = moved(batches[0], "cpu")
    assert isinstance(travelled.tensors, dict)
    assert isinstance(travelled.masks, tuple)
    assert torch.equal(travelled.tensors["pixel_values"], batches[0].tensors["pixel_values"])
    assert np.array_equal(travelled.masks[0], batches[0].masks[0])
    part = batches[0].select([2, 0])
    assert torch.equal(part.tensors["pixel_values"][1], travelled.tensors["pixel_values"][0])
    assert np.array_equal(part.masks[1], travelled.masks[0])


def test_what_the_model_does_not_see_is_said_once(tmp_path, caplog):
    path = text_models.save_bert(tmp_path / "bert", window=9)
    config = compose("config", [
        "task=planted", "task.train=4", "task.validation=4", "task.test=6", "model=hf", f"model.path={path}",
        "model.labels=[negative,positive]", f"out={tmp_path}",
    ])  # fmt: skip
    setting = open_setting(config)
    setting.limited(2)
    opened(setting, {"batch_size": 2})  # as analyses open others

    def said(window):
        return [message for message in caplog.messages if f"lie beyond the window of {window} tokens" in message]

    assert len(said(9)) == 1
    opened(setting, {"model.window": 8})
    assert (len(said(9)), len(said(8))) == (1, 1), "of another window it is another number"
