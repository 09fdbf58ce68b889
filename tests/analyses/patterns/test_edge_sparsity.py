"""Sparsity of attention and of attribution by loops over heads; planted maps; what has no edges."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from benchmark import load_model
from benchmark.analyses.patterns.edge_maps import MEASURES, SHARES, shown, sparsity
from benchmark.analyses.patterns.edge_sparsity import EdgeSparsity
from benchmark.errors import NotApplicable
from benchmark.settings.making import build
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method
from tests import text_models

TEXTS = ["a fine film , the untold story", "the plot was dull .", "good bad"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


@dataclass(frozen=True)
class Scores(Method):
    """Edge scores made from attention."""

    make: object
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        return Attribution(target=target)

    def edge_scores(self, model, batch, target):
        return self.make(torch.stack(model.run(batch, record=("attentions",)).attentions, dim=1))


def first_key(attention):
    """All mass on one edge: from the token read to itself."""
    one = torch.zeros_like(attention)
    one[..., 0, 0] = -2
    return one


def slow(mass):
    """Every measure of one map but that by query."""
    flat = np.sort(mass.ravel())[::-1]
    n = len(flat)
    index = sum(abs(a - b) for a in flat for b in flat) / (2 * n * n * flat.mean())
    return index, scipy_entropy(flat), *(flat[: int(np.ceil(share * n))].sum() / flat.sum() for share in SHARES)


def test_it_equals_a_loop_over_heads(bert):
    batch = bert.encode(TEXTS)
    explainer = build("methods/attattr", "edges.steps=2")
    found = sparsity(bert, batch, explainer, ClassTarget(torch.tensor([0, 1, 0])))
    attentions = torch.stack(bert.run(batch, record=("attentions",)).attentions, dim=1)
    both = attentions, explainer.edge_scores(bert, batch, torch.tensor([0, 1, 0]))
    for b, n in enumerate(batch.attention_mask.sum(1).tolist()):
        for layer in range(bert.n_layers):
            for head in range(bert.n_heads):
                maps = [m[b, layer, head, :n, :n].abs().double().numpy() for m in both]
                used = [i for i in range(n) if maps[0][i].sum() > 0 and maps[1][i].sum() > 0]
                for which in range(2):
                    index, spread, *tops = slow(maps[which])
                    by_query = np.mean([slow(maps[which][i])[0] for i in used])
                    expected = [index, by_query, spread, *tops]
                    assert found[b, which, layer, head].tolist() == pytest.approx(expected)


def test_one_edge_is_the_sparsest_map(bert, given):
    batch = bert.encode(TEXTS)
    tables = EdgeSparsity(Scores(first_key), limit=None)(given(bert, [batch]))
    overall = tables[0].rows.set_index(["map", "metric"])["value"]
    counts = (batch.attention_mask.sum(1) ** 2).numpy()
    assert overall["attribution", "Gini index"] == pytest.approx(np.mean(1 - 1 / counts))
    assert overall["attribution", "entropy (nats)"] == 0
    assert overall["attribution", "mass in the best 1 %"] == 1
    assert overall["attribution less attention", "Gini index"] > 0
    assert {table.name: len(table.rows) for table in tables}["edge_sparsity_heads"] == bert.n_layers * bert.n_heads * 6


def test_attention_beside_itself_differs_in_nothing(bert, given):
    texts = [f"{text} {word}" for text in TEXTS for word in ("good", "fine story", "dull film .", "the")]
    tables = {
        table.name: table.rows
        for table in EdgeSparsity(Scores(lambda a: a), limit=None)(given(bert, [bert.encode(texts)]))
    }
    overall = tables["edge_sparsity"].set_index(["map", "metric"])["value"]
    for measure in MEASURES:
        assert overall["attribution less attention", measure] == 0
    told = tables["edge_sparsity_verdict"].set_index(["by", "metric"])["note"]
    assert (
        told["Gini index", "not told apart"]
        == f"{bert.n_layers * bert.n_heads} of {bert.n_layers * bert.n_heads} heads"
    )


def test_the_sparser_map_is_told_by_every_head(bert, given):
    texts = [f"{text} {word}" for text in TEXTS for word in ("good", "fine story", "dull film .", "the")]
    tables = {
        table.name: table.rows
        for table in EdgeSparsity(Scores(first_key), limit=None)(given(bert, [bert.encode(texts)]))
    }
    told = tables["edge_sparsity_verdict"].set_index(["by", "metric"])["note"]
    heads = bert.n_layers * bert.n_heads
    assert told["Gini index", "attribution is sparser"] == f"{heads} of {heads} heads"
    assert told["Gini index by query", "attention is sparser"] == f"0 of {heads} heads"


def test_a_map_of_zeros_is_counted_and_in_no_mean(bert, given):
    tables = EdgeSparsity(Scores(torch.zeros_like), limit=None)(given(bert, [bert.encode(TEXTS)]))
    overall = tables[0].rows.set_index(["map", "metric"])
    assert overall.loc[("attribution", "share of maps of zeros"), "value"] == 1
    assert overall.loc[("attribution", "Gini index"), "note"] == "every map is one of zeros"


def test_the_head_that_is_shown(bert):
    batches = [bert.encode(TEXTS[:1]), bert.encode(TEXTS[1:])]

    def second_layer(attention):
        return attention * torch.tensor([1.0, 3.0])[None, :, None, None, None]

    head = shown(
        bert, batches, Scores(second_layer), lambda batch: ClassTarget(torch.zeros(len(batch), dtype=torch.long))
    )
    assert head.layer == 1
    assert head.uid == batches[0].uids[0]  # nine tokens are nearer to twelve than seven or four
    assert head.maps.max((1, 2)).tolist() == [1, 1]
    assert len({*head.tokens}) == len(head.tokens) == head.maps.shape[1]


def test_what_scores_no_heads_is_not_compared(bert, given):
    context = given(bert, [bert.encode(TEXTS)])
    with pytest.raises(NotApplicable, match="know no heads"):
        EdgeSparsity(Scores(lambda a: a.sum(2, keepdim=True)), limit=None)(context)
    with pytest.raises(NotApplicable, match="scores no edges"):
        EdgeSparsity(build("methods/gradient_x_input"), limit=None)(context)
