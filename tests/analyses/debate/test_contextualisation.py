"""Word classifiers under one attention: importance by hand, a case that theory decides, and the cache."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmark.analyses.debate.contextualisation import Contextualisation, gradient_importance, leave_one_out, measured
from benchmark.errors import UserError
from benchmark.evaluations import ranks
from benchmark.training.pooled import PooledClassifier, PooledRecipe, WordModel
from benchmark.types import Example
from tests.tiny_task import TinyTask

SMALL = PooledRecipe(hidden=8, heads=2, steps=3, batch_size=4)


def word_model(layers):
    torch.manual_seed(1)
    network = PooledClassifier(7, 2, layers, 8, 2, 16).double().eval()
    return WordModel(network.requires_grad_(requires_grad=False), ("a", "b", "c", "d", "e"), 16)


def test_two_words_by_hand():
    """Attention, pooled state, output and both kinds of importance, written out for one text of two words."""
    model = word_model(0)
    network = model.network
    ids, mask = model.encode([Example("x", "a c", 0), Example("y", "b d e", 1)])
    states = [network.embeddings.weight[ids[0, j]] for j in range(2)]
    energy = [float(network.score.weight[0] @ torch.tanh(network.project(state))) for state in states]
    weights = np.exp(energy) / np.sum(np.exp(energy))

    def probabilities(weights, states):
        pooled = sum(w * state for w, state in zip(weights, states, strict=True))
        return network.output(pooled).softmax(-1)

    whole = probabilities(weights, states)
    target = int(whole.argmax())
    step = 1e-6
    slow = []
    for j, state in enumerate(states):
        ends = []
        for sign in (1, -1):
            moved = list(states)
            moved[j] = state * (1 + sign * step)  # the derivative along e_j is Σ_d ∂p/∂e_d · e_d
            ends.append(float(probabilities(weights, moved)[target]))
        slow.append(abs(ends[0] - ends[1]) / (2 * step))
    attention, gradient, predicted = gradient_importance(model, ids, mask)
    assert int(predicted[0]) == target
    assert attention[0, :2].tolist() == pytest.approx(weights.tolist())
    assert attention[0, 2] == 0
    assert gradient[0, :2].tolist() == pytest.approx(slow, rel=1e-5)
    alone = [float((whole - probabilities([1.0], [state])).abs().sum() / 2) for state in reversed(states)]
    assert leave_one_out(model, ids, mask)[0].tolist() == pytest.approx([*alone, 0.0], abs=1e-7)


@pytest.mark.parametrize("layers", [0, 2])
def test_padding_changes_nothing(layers):
    model = word_model(layers)
    texts = [Example("x", "a c b", 0), Example("y", "b d e a c d e", 1)]
    together = (
        gradient_importance(model, *model.encode(texts))[1][0, :3],
        leave_one_out(model, *model.encode(texts))[0, :3],
    )
    alone = (
        gradient_importance(model, *model.encode(texts[:1]))[1][0],
        leave_one_out(model, *model.encode(texts[:1]))[0],
    )
    for a, b in zip(together, alone, strict=True):
        assert a.tolist() == pytest.approx(b.tolist(), abs=1e-7)


@pytest.mark.parametrize("layers", [0, 1])
def test_conicity_is_of_the_states_that_attention_pools(layers):
    """Written out for a text of two words, beside a longer one: the mean cosine of both states with their mean."""
    model = word_model(layers)
    network = model.network
    ids, mask = model.encode([Example("x", "a c", 0)])
    states = network.embeddings(ids)
    if layers:
        states = network.layers[0](states + network.positions.weight[:2])
    logits, attention = network(network.embeddings(ids), mask)
    pooled = (attention[..., None] * states).sum(1)
    assert torch.allclose(network.output(pooled), logits), "these are the states that it pools"
    first, second = states[0].numpy()
    mean = (first + second) / 2

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    found = measured(model, [Example("x", "a c", 0), Example("y", "b d e a", 1)])
    assert found.conicity[0] == pytest.approx((abs(cosine(first, mean)) + abs(cosine(second, mean))) / 2)


def test_where_no_word_needs_its_context_attention_is_importance():
    """Each word votes ±1 and its weight is all that differs: gradient importance is then proportional to attention."""
    network = PooledClassifier(7, 2, 0, 2, 1, 16).double().eval()
    with torch.no_grad():
        network.embeddings.weight[:, 0] = torch.tensor([0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0])  # the vote
        network.embeddings.weight[:, 1] = torch.tensor([0.0, 0.0, 0.1, 0.4, 0.8, 1.2, 1.9])  # what attention looks at
        network.project.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        network.project.bias.zero_()
        network.score.weight.copy_(torch.tensor([[0.0, 2.0]]))
        network.output.weight.copy_(torch.tensor([[1.5, 0.0], [-1.5, 0.0]]))
        network.output.bias.zero_()
    model = WordModel(network.requires_grad_(requires_grad=False), ("a", "b", "c", "d", "e"), 16)
    texts = [Example("x", "c a e d b", 0), Example("y", "e b a", 1)]
    ids, mask = model.encode(texts)
    attention, gradient, _ = gradient_importance(model, ids, mask)
    for b in range(2):
        words = mask[b]
        ratio = gradient[b, words] / attention[b, words]
        assert ratio.tolist() == pytest.approx([float(ratio[0])] * len(ratio))
    assert measured(model, texts).taus[:, 0].tolist() == [1.0, 1.0]


def test_the_table_holds_the_means_and_models_are_trained_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = TinyTask()
    context = SimpleNamespace(setting=SimpleNamespace(task=task, config=SimpleNamespace(split="test")))
    analysis = Contextualisation((0, 1), SMALL, limit=None)
    table, differences = analysis(context)
    for layers in (0, 1):
        measures = measured(SMALL.model(task, layers), task.split("test"))
        values = measures.taus
        found = table.rows[table.rows["contextual layers"] == layers].set_index("metric")
        for place, reference in enumerate(("gradient", "leave-one-out")):
            defined = values[np.isfinite(values[:, place]), place]
            assert found.loc[f"τ_b with {reference}", "value"] == pytest.approx(defined.mean())
            assert found.loc[f"undefined with {reference}", "value"] == pytest.approx(1 - len(defined) / len(values))
        assert found.loc["conicity", "value"] == pytest.approx(measures.conicity.mean())
        assert found.loc["accuracy", "value"] == pytest.approx(measures.correct.mean())
    assert "conicity" in table.drawing.y
    assert set(differences.rows["metric"]) == {"difference", "p (Holm)"}
    monkeypatch.setattr(PooledRecipe, "_train", None)
    assert analysis(context)[0].rows.equals(table.rows), "nothing is trained again"


def test_a_text_of_one_word_has_no_order():
    model = word_model(0)
    found = measured(model, [Example("x", "a", 0)])
    assert np.isnan(found.taus).all()
    assert found.conicity == pytest.approx(1)
    assert ranks.constant(np.ones((1, 1)))[0]


def test_heads_divide_the_states():
    with pytest.raises(UserError, match="hidden=6: allowed are multiples of heads=4"):
        PooledRecipe(hidden=6)
