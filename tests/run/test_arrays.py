"""Attributions without padding and back, edges included."""

import pytest
import torch

import benchmark
from benchmark.errors import NotApplicable
from benchmark.results.store import Ragged
from benchmark.run.arrays import flat, padded, without_padding
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
        for name in ("target", "tokens", "heads", "layers", "totals", "edges", "classes"):
            assert torch.equal(getattr(found, name), getattr(scores, name)), name
        start += len(batch)


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
