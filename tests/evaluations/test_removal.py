from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.errors import UserError
from benchmark.models.fills import Mean
from benchmark.models.removal import OPERATORS, Delete, Mask, Paint, logits_without, operator_for
from benchmark.models.variants import chunks, distinct
from benchmark.units import pool

SETTING = "evaluations.perturbation.operator"
TEXT = ("mask", "pad", "delete", "attention", "zero_embedding")


def pattern(batch, seed=0, n=3):
    visible = pool(torch.zeros(batch.units.shape), batch.units)[1]
    chosen = torch.rand((n, *visible.shape), generator=torch.Generator().manual_seed(seed)) < 0.4
    return chosen & visible


def slow_logits(model, batch, removed, name):
    """One example and one removal at a time, edited by hand."""
    rows = []
    for mask in removed:
        for b in range(len(batch)):
            length = int(batch.attention_mask[b].sum())
            ids, units = batch.tensors["input_ids"][b, :length].tolist(), batch.units[b, :length].tolist()
            gone = [unit >= 0 and bool(mask[b, unit]) for unit in units]
            attention = [1] * length
            edit = None
            if name == "mask":
                ids = [model.mask_token_id if g else i for i, g in zip(ids, gone, strict=True)]
            if name == "pad":
                ids = [model.pad_token_id if g else i for i, g in zip(ids, gone, strict=True)]
            if name == "delete":
                ids = [i for i, g in zip(ids, gone, strict=True) if not g]
                attention = [1] * len(ids)
            if name == "attention":
                attention = [0 if g else 1 for g in gone]
            if name == "zero_embedding":
                keep = torch.tensor([not g for g in gone])[None, :, None]
                edit = lambda e, keep=keep: e * keep  # noqa: E731  # a closure of one line
            tensors = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([attention])}
            rows.append(model.run(tensors, embedding_edit=edit).logits[0])
    return torch.stack(rows).reshape(len(removed), len(batch), -1)


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("max_tokens", [1, 40, 100_000])
def test_logits_equal_the_slow_loop(tiny, batch, name, max_tokens):
    removed = pattern(batch)
    fast = logits_without(replace(tiny, max_tokens=max_tokens), batch, removed, OPERATORS[name]())
    assert torch.allclose(fast, slow_logits(tiny, batch, removed, name), atol=1e-10)


@pytest.mark.parametrize("name", TEXT)
def test_operators_change_the_logits_and_nothing_changes_none(tiny, batch, name):
    removed = pattern(batch)
    removed[0] = False
    found = logits_without(tiny, batch, removed, OPERATORS[name]())
    plain = tiny.run(batch).logits
    assert torch.allclose(found[0], plain, atol=1e-10)
    touched = removed[1].any(1)
    assert (found[1][touched] - plain[touched]).abs().amax(1).min() > 1e-6


def test_pairs_keep_their_segments_when_units_are_deleted(tiny):
    pair = tiny.encode([("a good film", "it was a dull plot"), ("the story", "bad")])
    removed = torch.zeros(1, 2, 8, dtype=torch.bool)
    removed[0, 0, [1, 4]] = True
    shorter = Delete()(tiny, pair.tensors, pair.units, removed[0])
    expected = tiny.encode([("a film", "it a dull plot"), ("the story", "bad")])
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert shorter.tensors[name].equal(expected.tensors[name]), name


def test_positions_count_on_where_units_were_deleted(tiny):
    """The tokens that are left are those of a shorter text: positions have no gap, and segments go with their tokens."""
    batch = tiny.encode(["a good film was dull", "the story was bad"])
    shape = batch.units.shape
    tensors = {**batch.tensors, "position_ids": torch.arange(shape[1]).expand(shape)}
    removed = torch.tensor([[True, False, True, False, False], [True, False, False, False, False]])
    shorter = Delete()(tiny, tensors, batch.units, removed).tensors
    assert shorter["position_ids"].tolist() == [[0, 1, 2, 3, 4]] * 2
    words = [tiny.tokenizer.convert_ids_to_tokens(row) for row in shorter["input_ids"].tolist()]
    assert words == [["[CLS]", "good", "was", "dull", "[SEP]"], ["[CLS]", "story", "was", "bad", "[SEP]"]]


def test_a_row_of_which_nothing_is_left_is_one_attended_padding_token(decoder):
    batch = decoder.encode([{"input_ids": [4, 5, 6]}, {"input_ids": [7, 8]}])
    removed = torch.tensor([[True] * 3, [True, False, False]])
    shorter = Delete()(decoder, batch.tensors, batch.units, removed).tensors
    assert shorter["attention_mask"].tolist() == [[1], [1]]
    assert shorter["input_ids"].tolist() == [[decoder.pad_token_id], [8]]


def test_words_of_several_tokens_go_whole(tiny):
    batch = tiny.encode(["the untoldly film"])
    assert batch.units.tolist() == [[-1, 0, 1, 1, 1, 2, -1]]
    masked = Mask()(tiny, batch.tensors, batch.units, torch.tensor([[False, True, False]]))
    words = tiny.tokenizer.convert_ids_to_tokens(masked.tensors["input_ids"][0].tolist())
    assert words == ["[CLS]", "the", "[MASK]", "[MASK]", "[MASK]", "film", "[SEP]"]
    assert "[MASK]" not in tiny.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0].tolist())


def test_a_row_of_which_nothing_is_left_still_runs(decoder):
    batch = decoder.encode([{"input_ids": [4, 5, 6]}, {"input_ids": [7, 8]}])
    removed = torch.tensor([[[True] * 3, [True, True, False]]])
    found = logits_without(replace(decoder, max_tokens=100), batch, removed, Delete())
    alone = decoder.run({"input_ids": torch.tensor([[0]]), "attention_mask": torch.tensor([[1]])}).logits[0]
    assert torch.allclose(found[0, 0], alone)
    assert torch.allclose(found[0, 1], alone)


def test_equal_removals_run_once(tiny, batch):
    removed = pattern(batch)[:1].repeat(7, 1, 1)
    before = tiny.cost.forward_passes
    found = logits_without(tiny, batch, removed, Mask())
    assert tiny.cost.forward_passes - before == len(batch)
    assert all(row.equal(found[0]) for row in found)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10), st.integers(0, 99))
def test_distinct_restores_every_mask(k, b, m, seed):
    masks = torch.rand(k, b, m, generator=torch.Generator().manual_seed(seed)) < 0.3
    variants = distinct(masks)
    assert variants.mask[variants.place].equal(masks)
    assert variants.example[variants.place].equal(torch.arange(b).expand(k, b))
    seen = {(int(e), tuple(row.tolist())) for e, row in zip(variants.example, variants.mask, strict=True)}
    assert len(seen) == len(variants.example)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 200))
def test_chunks_cover_all_rows_within_the_budget(tiny, lengths, budget):
    parts = [part.tolist() for part in chunks(torch.tensor(lengths), replace(tiny, max_tokens=budget))]
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    one_by_one = [part.tolist() for part in chunks(torch.tensor([600, 600]), tiny)]
    assert one_by_one == [[0], [1]]
    for part in parts:
        assert len(part) == 1 or len(part) * max(lengths[i] for i in part) <= budget


def test_auto_is_what_the_model_can_do(tiny, batch, decoder, vision):
    ids = decoder.encode([{"input_ids": [4, 5]}])
    image = vision.encode([{"pixel_values": torch.zeros(3, 16, 16)}])
    assert isinstance(operator_for("auto", tiny, batch, SETTING), Mask)
    assert isinstance(operator_for("auto", decoder, ids, SETTING), Delete)
    assert operator_for("auto", vision, image, SETTING) == Paint(Mean())


def test_operators_that_cannot_serve_name_the_setting(tiny, batch, decoder, vision):
    ids = decoder.encode([{"input_ids": [4, 5]}])
    image = vision.encode([{"pixel_values": torch.zeros(3, 16, 16)}])
    for name, model, inputs in (
        ("mask", decoder, ids),
        ("black", tiny, batch),
        ("delete", vision, image),
        ("black", vision, image),
        ("erase", tiny, batch),
    ):
        with pytest.raises(UserError, match=rf"{SETTING}={name}"):
            operator_for(name, model, inputs, SETTING)


class Processor:
    image_mean, image_std, do_normalize = [0.5, 0.4, 0.3], [0.5, 0.2, 0.1], True


def test_black_is_the_normalised_zero(vision):
    shown = replace(vision, encoder=replace(vision.encoder, processor=Processor))
    image = vision.encode([{"pixel_values": torch.ones(3, 16, 16)}])
    removed = torch.zeros(1, 16, dtype=torch.bool)
    removed[0, 6] = True  # row 1, column 2
    pixels = OPERATORS["black"]()(shown, image.tensors, image.units, removed).tensors["pixel_values"][0]
    assert pixels[:, 4:8, 8:12].mean((1, 2)).tolist() == pytest.approx([-1.0, -2.0, -3.0])
    assert int((pixels != 1).sum()) == 3 * 16


@pytest.mark.parametrize("name", ["mean", "blur", "zero_embedding"])
def test_images_are_changed_at_removed_patches_only(vision, name):
    pixels = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    image = vision.encode([{"pixel_values": p} for p in pixels])
    removed = torch.zeros(2, 16, dtype=torch.bool)
    removed[0, 5] = removed[1, 0] = True
    inputs = OPERATORS[name]()(vision, image.tensors, image.units, removed)
    if inputs.embedding_edit is not None:
        edited = inputs.embedding_edit(torch.ones(2, 16, 8))
        assert (edited == 0).all(-1).equal(removed)
        return
    changed = (inputs.tensors["pixel_values"] != pixels).any(1)
    expected = torch.zeros(2, 16, 16, dtype=torch.bool)
    expected[0, 4:8, 4:8] = expected[1, 0:4, 0:4] = True
    assert changed.equal(expected)
    if name == "mean":
        patch = inputs.tensors["pixel_values"][0, :, 4:8, 4:8]
        assert torch.allclose(patch, pixels[0].mean((1, 2))[:, None, None].expand_as(patch))
    else:
        patch, before = inputs.tensors["pixel_values"][0, :, 4:8, 4:8], pixels[0, :, 4:8, 4:8]
        assert patch.std() < 0.3 * before.std()


def test_image_logits_equal_the_slow_loop(vision):
    pixels = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    image = vision.encode([{"pixel_values": p} for p in pixels])
    removed = torch.rand(3, 2, 16, generator=torch.Generator().manual_seed(1)) < 0.3
    fast = logits_without(replace(vision, max_tokens=40), image, removed, OPERATORS["mean"]())
    for k in range(3):
        for b in range(2):
            edited = pixels[b].clone()
            for patch in range(16):
                if removed[k, b, patch]:
                    r, c = 4 * (patch // 4), 4 * (patch % 4)
                    edited[:, r : r + 4, c : c + 4] = pixels[b].mean((1, 2))[:, None, None]
            assert torch.allclose(fast[k, b], vision.run({"pixel_values": edited[None]}).logits[0], atol=1e-10)
