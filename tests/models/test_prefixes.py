"""Variants of a text behind a common prefix: the logits are those of whole passes, for less."""

import pytest
import torch
from torch import Tensor

from benchmark.checking import small_models
from benchmark.models import prefixes, removal
from benchmark.models.prefixes import Lengths, Prefixes, before_the_first, is_causal
from benchmark.models.removal import OPERATORS, logits_without
from tests.covering import one_in

CAUSAL = ("gpt2", "llama", "qwen3")
OF_TOKENS = ("pad", "delete", "attention")


@pytest.fixture(scope="module", params=CAUSAL)
def model(request, tmp_path_factory):
    return small_models.load(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def batch(model):
    return model.encode(small_models.inputs("gpt2"))


def whole(model, batch, removed, operator, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(removal, "is_causal", lambda _: False)
        return logits_without(model, batch, removed, operator)


def left_out(batch):
    """Each unit alone."""
    width = int(batch.units.max()) + 1
    visible = torch.stack([(batch.units == unit).any(1) for unit in range(width)], dim=1)
    return torch.eye(width, dtype=torch.bool)[:, None] & visible


def anything(batch):
    """Random removals, nothing, everything, and the last tokens."""
    shape = (9, len(batch), int(batch.units.max()) + 1)
    drawn = torch.Generator().manual_seed(0)
    random = torch.rand(shape, generator=drawn) < torch.rand(9, 1, 1, generator=drawn) * 0.5
    ends = torch.zeros(3, *shape[1:], dtype=torch.bool)
    ends[1], ends[2, :, 3:] = True, True
    return torch.cat([random, ends, left_out(batch)])


@pytest.mark.parametrize("name", one_in(2, OF_TOKENS))
@pytest.mark.parametrize("choose", [left_out, anything])
@pytest.mark.parametrize("budget", [1 << 27, 1 << 12, 1])
def test_logits_are_those_of_whole_passes(model, batch, name, choose, budget, monkeypatch):
    """At once, in a few parts of the batch, and example by example."""
    removed = choose(batch)
    if name == "attention":  # of a text that is hidden whole, transformers attends to padding too
        visible = torch.stack([(batch.units == unit).any(1) for unit in range(removed.shape[2])], dim=1)
        removed &= (visible & ~removed).any(-1, keepdim=True)
    small = replace(model, memory_budget=budget)
    monkeypatch.setattr(Lengths, "pays", lambda *_: True)
    found = logits_without(small, batch, removed, OPERATORS[name]())
    expected = whole(model, batch, removed, OPERATORS[name](), monkeypatch)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def replace(model, **settings):
    from dataclasses import replace

    return replace(model, **settings)


def test_one_unit_left_out_costs_about_half(model, batch, monkeypatch):
    """A pass is counted by the share of its tokens that are computed; the text without a removal by its last one."""
    removed, costs = left_out(batch), []
    single = replace(model, max_tokens=1)  # each variant in a pass of its own
    for run in (logits_without, lambda *given: whole(*given, monkeypatch)):
        before = model.cost.forward_passes
        run(single, batch, removed, OPERATORS["pad"]())
        costs.append(model.cost.forward_passes - before)
    parts = []
    for row, n in zip(batch.units, batch.attention_mask.sum(1).tolist(), strict=True):
        places = (row >= 0).nonzero().flatten().tolist()
        parts.append(
            [(n - min(place, n - 2)) / n for place in places]
        )  # without the last token, the one before is read
        parts.append([1 / n] * (len(places) < removed.shape[2]))  # without a unit that it has not
    assert costs[0] == pytest.approx(len(batch) + sum(map(sum, parts)))
    assert costs[1] == pytest.approx(sum(map(len, parts)))
    assert costs[0] < 0.7 * costs[1]


def test_where_it_does_not_pay_nothing_is_remembered(model, batch, monkeypatch):
    removed = torch.zeros(2, len(batch), int(batch.units.max()) + 1, dtype=torch.bool)
    removed[:, :, 0] = True  # the first token
    monkeypatch.setattr(Prefixes, "of", _never)
    logits_without(model, batch, removed, OPERATORS["pad"]())


def test_embeddings_that_are_edited_are_computed_whole(model, batch, monkeypatch):
    monkeypatch.setattr(Prefixes, "of", _never)
    logits_without(model, batch, left_out(batch), OPERATORS["zero_embedding"]())


def _never(*_: object) -> Tensor:
    raise AssertionError("it does not pay")


def test_tokens_before_the_first_that_is_gone():
    gone = torch.tensor([[False, True, True, False], [False] * 4, [True] * 4, [False, False, True, False]])
    attended = torch.tensor([[True] * 4, [True] * 4, [True] * 4, [True, True, True, False]])
    assert before_the_first(gone, attended).tolist() == [1, 3, 0, 2]


def test_it_pays_where_a_quarter_of_the_tokens_is_saved(model):
    lengths = Lengths(kept=torch.tensor([8, 8, 8, 4]), known=torch.tensor([7, 5, 0, 4]))
    assert lengths.left.tolist() == [1, 3, 8, 1]
    alone = replace(model, max_tokens=1)
    assert lengths.pays(alone, texts=9, most=1), "of 28 tokens 9 + 8 + 3 + 1 + 0"
    assert not lengths.pays(alone, texts=10, most=1)
    assert not lengths.pays(replace(model, max_tokens=100), texts=0, most=9), "a pass begins where its earliest does"


@pytest.mark.parametrize("family", ["bert", "bart", "vit", "modernbert"])
def test_where_tokens_look_ahead_there_is_no_prefix(family, tmp_path):
    assert not is_causal(small_models.load(family, tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"sliding_window": 4},
        {"layer_types": ["sliding_attention", "full_attention"]},
        {"rope_parameters": {"rope_type": "dynamic"}},
    ],
)
def test_windows_and_positions_that_depend_on_the_length_are_computed_whole(model, settings, monkeypatch):
    assert is_causal(model)
    for name, value in settings.items():
        monkeypatch.setattr(model.config, name, value, raising=False)
    assert not is_causal(model)


def test_keys_and_values_fill_no_more_than_the_budget(model):
    size = 2 * model.n_layers * model.config.get_text_config().hidden_size * 8
    assert prefixes.rows_within(replace(model, memory_budget=size * 30), 10) == 3
    assert prefixes.rows_within(replace(model, memory_budget=1), 10) == 1
