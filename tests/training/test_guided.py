"""Word classifiers under fixed weights: the forward pass by hand, guides that do not touch each other, planted truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark.training.guided import GuidedRecipe, GuidedTexts, WordMlps
from tasks.planted import Planted

SMALL = GuidedRecipe(hidden=4, steps=5, batch_size=4, least_count=1, seeds=2)
PLENTY = 1 << 30


def texts(words, weights=None):
    """Texts in which every word counts, padded by one place."""
    mask = torch.zeros(len(words), max(map(len, words)) + 1, dtype=torch.bool)
    for row, text in zip(mask, words, strict=True):
        row[: len(text)] = True
    return GuidedTexts(words, mask, weights)


def drawn(n, seed):
    """Texts of random letters, their labels, and two guides."""
    generator = np.random.default_rng(seed)
    words = [[str(word) for word in generator.choice(list("abcdef"), 2 + i % 4)] for i in range(n)]
    given = texts(words)
    weights = torch.as_tensor(generator.random((2, *given.mask.shape))) * given.mask
    return replace(given, weights=weights / weights.sum(2, keepdim=True)), torch.as_tensor(generator.integers(0, 2, n))


def test_two_words_by_hand():
    network = WordMlps(vocabulary=4, classes=3, hidden=2, seeds=(5, 6), guides=2)
    with torch.no_grad():
        for parameter in network.parameters():  # guides that were trained differ
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    ids = torch.tensor([[[2, 3, 0]], [[1, 2, 0]]])  # a text of two words and padding for each seed
    mask = torch.tensor([[[True, True, False]]] * 2)
    weights = torch.tensor([[[0.25, 0.75, 0.0]], [[1.0, 0.0, 0.0]]], dtype=torch.float64).expand(2, 2, 1, 3)
    found = network(ids, mask, weights)
    learned = network(ids, mask, None)
    own = {name: value.detach().numpy() for name, value in network.named_parameters()}
    for s, g in np.ndindex(2, 2):
        part = {name: value[s, g] for name, value in own.items()}
        words = [part["embeddings"][i] for i in ids[s, 0, :2].tolist()]
        logits = [
            np.tanh(word @ part["inner"] + part["inner_bias"][0]) @ part["outer"] + part["outer_bias"][0]
            for word in words
        ]
        expected = sum(w * row for w, row in zip(weights[s, g, 0, :2].tolist(), logits, strict=True))
        assert found[s, g, 0].tolist() == pytest.approx(expected.tolist())
        scores = [float((np.tanh(word @ part["query"] + part["query_bias"][0]) @ part["score"])[0]) for word in words]
        attention = np.exp(scores) / np.sum(np.exp(scores))
        assert learned[s, g, 0].tolist() == pytest.approx((attention @ np.stack(logits)).tolist())


def test_a_step_of_training_by_hand():
    """One example, one step: AdamW moves each weight by its learning rate against the gradient's sign, less its decay."""
    recipe = replace(SMALL, steps=1, batch_size=1, seeds=1)
    given = texts([["a", "b"]], torch.tensor([[[0.5, 0.5, 0.0]]], dtype=torch.float64))
    start = WordMlps(3, 2, recipe.hidden, (0,), 1)
    loss = torch.nn.functional.cross_entropy(
        start(given.ids({"a": 1, "b": 2})[None], given.mask[None], given.weights[None])[0, 0], torch.tensor([1])
    )
    gradient = torch.autograd.grad(loss, start.outer_bias)[0]
    trained = []
    original = WordMlps.forward

    def watched(self, *inputs):
        trained.append(self)
        return original(self, *inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WordMlps, "forward", watched)
        recipe.classify(given, torch.tensor([1]), given, 2, PLENTY)
    moved = trained[-1].outer_bias.detach()
    expected = -recipe.learning_rate * gradient.sign()  # the bias begins at 0, so that nothing of it decays
    assert torch.allclose(moved, expected, rtol=1e-4)


def test_guides_begin_alike_and_seeds_do_not():
    network = WordMlps(5, 2, 4, (0, 1), 3)
    assert all(torch.equal(p[:, 0], p[:, 1]) and torch.equal(p[:, 0], p[:, 2]) for p in network.parameters())
    assert not torch.equal(network.inner[0], network.inner[1])


def test_one_more_guide_changes_no_other(monkeypatch):
    (train, label), (test, _) = drawn(11, 0), drawn(7, 1)
    together = SMALL.classify(train, label, test, 2, PLENTY)
    assert together.shape == (2, 2, 7)
    assert torch.equal(SMALL.classify(train, label, test, 2, memory_budget=1), together), "one after the other"
    for guide in range(2):
        alone = SMALL.classify(train.guides(guide, guide + 1), label, test.guides(guide, guide + 1), 2, PLENTY)
        assert torch.equal(alone[:, 0], together[:, guide])
    one_seed = replace(SMALL, seeds=1, seed=1).classify(train, label, test, 2, PLENTY)
    assert torch.equal(one_seed[0], together[1])


def test_words_that_do_not_count_are_not_seen():
    """Places outside of the mask, and words behind them, change nothing: of fixed weights as of learned ones."""
    (train, label), (test, _) = drawn(11, 0), drawn(7, 1)
    for learned in (False, True):
        first, second = (replace(part, weights=None) if learned else part for part in (train, test))
        found = SMALL.classify(first, label, second, 2, PLENTY)
        longer = replace(second, words=[[*words, "z"] for words in second.words])
        assert torch.equal(SMALL.classify(first, label, longer, 2, PLENTY), found)


def test_a_text_without_words_has_a_class():
    train, label = drawn(6, 0)
    nothing = GuidedTexts([[]], torch.zeros(1, 1, dtype=torch.bool), torch.zeros(2, 1, 1, dtype=torch.float64))
    for given, weights in ((train, nothing.weights), (replace(train, weights=None), None)):
        assert SMALL.classify(given, label, replace(nothing, weights=weights), 2, PLENTY).shape[2] == 1


def test_the_words_of_planted_reviews_beat_all_words():
    """The label depends on few words: whoever is shown them classifies better than whoever sees all alike."""
    task, given = Planted(train=120, validation=1, test=120), {}
    for split in ("train", "test"):
        examples = task.split(split)
        plain = texts([example.inputs for example in examples])
        marked = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(e.rationale) for e in examples], batch_first=True)
        marked = torch.nn.functional.pad(marked, (0, 1)).double()
        guides = [part / part.sum(1, keepdim=True) for part in (plain.mask.double(), marked)]
        given[split] = replace(plain, weights=torch.stack(guides)), torch.tensor([e.label for e in examples])
    found = GuidedRecipe(steps=80).classify(*given["train"], given["test"][0], 2, PLENTY)
    uniform, oracle = (found == given["test"][1]).double().mean((0, 2)).tolist()
    assert oracle > uniform + 0.1
    assert oracle > 0.85
