"""Attributions without padding and back, edges included."""

from dataclasses import replace

import pytest
import torch

import benchmark
from benchmark.errors import NotApplicable
from benchmark.results.store import Ragged
from benchmark.run.arrays import flat, overlaid, padded, without_padding
from benchmark.targets import ClassTarget
from benchmark.types import Attribution
from tests import text_models


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("m") / "bert"))


def random_attribution(model, batch, seed):
    generator = torch.Generator().manual_seed(seed)
    size, width = batch.units.shape
    mask = batch.attention_mask

    def draw(*shape):
        return torch.rand(*shape, generator=generator)

    return Attribution(
        target=torch.arange(size) % 2,
        tokens=draw(size, width) * mask,
        heads=draw(size, model.n_layers, model.n_heads),
        layers=draw(size, model.n_layers, width) * mask[:, None],
        totals=draw(size, model.n_layers),
        classes=draw(size, 3, width) * mask[:, None],
        edges=without_padding(draw(size, model.n_layers, model.n_heads, width, width), batch),
    )


def test_what_is_stored_comes_back_batch_by_batch(model, tmp_path):
    texts = [["a good film", "bad"], ["a really bad film indeed", "good", "a film"], ["film"]]
    batches = [model.encode(group) for group in texts]
    given = [random_attribution(model, batch, seed) for seed, batch in enumerate(batches)]
    pairs = zip(batches, given, strict=True)
    Ragged.merge([flat(batch, scores, {"seconds": 1.0}) for batch, scores in pairs]).write(tmp_path / "a.safetensors")
    stored = Ragged.read(tmp_path / "a.safetensors")
    start = 0
    for batch, scores in zip(batches, given, strict=True):
        found = padded(stored, start, batch)
        assert found.target.ids == scores.target.ids
        for name in ("tokens", "heads", "totals", "classes"):
            assert torch.equal(getattr(found, name), getattr(scores, name)), name
        for name in ("layers", "edges"):
            torch.testing.assert_close(getattr(found, name), getattr(scores, name), rtol=2**-16, atol=0)
        again = flat(batch, found, {"seconds": 1.0})
        assert all((array == flat(batch, scores, {}).arrays[name]).all() for name, array in again.arrays.items())
        start += len(batch)


def test_float64_is_kept_as_it_is(model):
    batch = model.encode(["a good film", "bad"])
    scores = random_attribution(model, batch, 0)
    wide = replace(scores, layers=scores.layers.double(), edges=scores.edges.double())
    found = padded(flat(batch, wide, {}), 0, batch)
    assert torch.equal(found.layers, wide.layers)
    assert torch.equal(found.edges, wide.edges)


@pytest.mark.parametrize("rows", [(), (1,), (0, 2), (0, 1, 2)])
def test_explanations_of_another_class_are_laid_over_those_of_the_first(model, rows):
    batch = model.encode(["a really bad film indeed", "good", "a film"])
    first, second = (random_attribution(model, batch, seed) for seed in (0, 1))
    target = torch.tensor([int(row in rows) for row in range(3)])
    others = flat(batch.select(rows), replace(second, target=target).select(rows), {"seconds": 2.0})
    laid = overlaid(flat(batch, replace(first, target=torch.zeros(3)), {"seconds": 1.0}), others, ClassTarget(target))
    found, kept = padded(laid, 0, batch), [padded(flat(batch, scores, {}), 0, batch) for scores in (first, second)]
    assert laid.cost == {"seconds": 2.0}
    assert torch.equal(found.target.classes, target)
    for name in ("tokens", "heads", "layers", "totals", "edges", "classes"):
        for row in range(3):
            assert torch.equal(getattr(found, name)[row], getattr(kept[row in rows], name)[row]), name


def test_scores_of_padding_are_left_out_of_the_sum_over_heads(model):
    batch = model.encode(["a good film", "bad"])
    width = batch.units.shape[1]
    edges = without_padding(torch.ones(2, 1, 3, width, width), batch)
    lengths = batch.attention_mask.sum(1)
    assert edges.sum((1, 2, 3)).tolist() == [3 * int(n) ** 2 for n in lengths]


def test_scores_that_are_not_finite_are_refused(model):
    batch = model.encode(["bad"])
    width = batch.units.shape[1]
    edges = torch.full((1, 2, width, width), torch.nan)
    with pytest.raises(NotApplicable, match="edges scores are not finite"):
        flat(batch, Attribution(target=torch.zeros(1, dtype=torch.long), edges=edges), {})
