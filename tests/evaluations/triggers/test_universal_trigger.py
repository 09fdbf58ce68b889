"""The search for triggers by gradients: it finds the planted words, keeps to its budget, and scores nothing."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import benchmark
from benchmark.errors import UserError
from benchmark.evaluations.triggers.insertion import encode, insert
from benchmark.evaluations.triggers.patterns import Placed, Search, Trigger, TriggerSearch
from benchmark.evaluations.triggers.triggers import Triggers
from benchmark.evaluations.triggers.universal_trigger import UniversalTrigger, _Climb
from benchmark.evaluations.triggers.words import Exclusion
from benchmark.types import Method
from methods.attention_explainer import AttentionExplainer
from methods.edges.attattr import AttAttr
from methods.readouts.column_sum import ColumnSum
from tests.evaluations.conftest import BAD, GOOD

SEARCH = Search(triggers=3, words=2, exclusion=Exclusion())


def correct(model, examples):
    return examples.select((model.predict(examples) == examples.label).nonzero().flatten().tolist())


def loss_of(model, examples, label, trigger):
    """Mean cross-entropy of the examples of a class with a trigger in them, one at a time."""
    losses = []
    for row, own in enumerate(examples.label.tolist()):
        if own == label:
            one = examples.select([row])
            found = insert(model, one.tensors, one.units, encode(model, [trigger]))
            losses.append(float(F.cross_entropy(model.run(found.tensors).logits, one.label)))
    return float(np.mean(losses))


def test_it_finds_the_words_of_the_other_class(sentiment, reviews):
    examples = correct(sentiment, reviews)
    found = UniversalTrigger().search_triggers(sentiment, [examples], SEARCH)
    assert len(found) == 6
    best = {trigger.attacks: trigger for trigger in reversed(found)}
    for label, words in ((0, GOOD), (1, BAD)):
        trigger = best[(sentiment.labels[label],)]
        assert {word.word for word in trigger.words} <= set(words)
        assert trigger.source == sentiment.labels[label]
        assert trigger.score == pytest.approx(loss_of(sentiment, examples, label, trigger))


def test_no_single_replacement_beats_a_finished_search(sentiment, reviews):
    """With a budget for everything, the search ends where no replacement of one word is better."""
    examples = correct(sentiment, reviews).select(range(6))
    method = UniversalTrigger(forward_passes_per_example=2000, candidates=100)
    for trigger in method.search_triggers(sentiment, [examples], replace(SEARCH, triggers=1)):
        label = sentiment.labels.index(trigger.attacks[0])
        for place, word in itertools.product(range(2), (*GOOD, *BAD, "the", "plot")):
            words = [placed.word for placed in trigger.words]
            words[place] = word
            assert loss_of(sentiment, examples, label, trigger.saying(words)) <= trigger.score + 1e-9


def test_the_loss_never_falls(tiny, batch, monkeypatch):
    kept = []
    gradient = _Climb._gradient

    def watched(self, words):
        found = gradient(self, words)
        kept.append((int(self.batches[0].label[0]), found[0]))
        return found

    monkeypatch.setattr(_Climb, "_gradient", watched)
    examples = replace(batch, label=tiny.predict(batch))
    UniversalTrigger(forward_passes_per_example=40).search_triggers(tiny, [examples], SEARCH)
    by_class = {label: [loss for own, loss in kept if own == label] for label, _ in kept}
    assert any(len(losses) > 2 for losses in by_class.values())
    for losses in by_class.values():
        assert losses == sorted(losses)


def test_the_gradient_is_that_of_the_mean_loss(tiny, batch):
    """First-order gains equal finite differences of the loss along the change of an embedding."""
    examples = replace(batch, label=torch.tensor([0, 0, 0, 0, 0]))
    climb = _Climb(UniversalTrigger(position=0.5), tiny, [examples], torch.tensor([5, 6, 7]))
    words = (5, 9)
    loss, gradient = climb._gradient(words)
    spelled = tuple(Placed(tiny.tokenizer.decode([word]).strip(), 1, 0.5) for word in words)
    encoded = encode(tiny, [Trigger(spelled, "", (), 0.0)] * 5)
    inserted = insert(tiny, examples.tensors, examples.units, encoded)
    direction = torch.randn(tiny.config.hidden_size, generator=torch.Generator().manual_seed(0), dtype=tiny.dtype)
    for place in range(2):
        losses = []
        for step in (-1e-5, 1e-5):

            def moved(embeddings, step=step, place=place):
                at = inserted.places[:, place]
                shift = torch.zeros_like(embeddings)
                shift[torch.arange(5), at] = step * direction
                return embeddings + shift

            logits = tiny.run(inserted.tensors, embedding_edit=moved).logits
            losses.append(float(F.cross_entropy(logits, examples.label)))
        assert (losses[1] - losses[0]) / 2e-5 == pytest.approx(float(gradient[place] @ direction), rel=1e-5, abs=1e-8)
        assert loss == pytest.approx(sum(losses) / 2, rel=1e-6)


def test_it_takes_the_passes_of_attattr_at_most(tiny, batch):
    examples = replace(batch, label=tiny.predict(batch))
    before = tiny.cost.forward_passes
    attattr = AttentionExplainer(AttAttr(steps=20), ColumnSum(part="positive"))
    attattr.edge_scores(tiny, examples, examples.label)
    allowed = tiny.cost.forward_passes - before
    assert allowed == pytest.approx(5 * (1 + 20 * (tiny.n_layers + 1) / 2))
    before = tiny.cost.forward_passes
    UniversalTrigger().search_triggers(tiny, [examples], replace(SEARCH, words=4))
    used = tiny.cost.forward_passes - before
    assert used <= allowed + 1e-6
    assert used > allowed - 2 * 5
    for budget in (2, 3.5, 7):
        before = tiny.cost.forward_passes
        UniversalTrigger(forward_passes_per_example=budget).search_triggers(tiny, [examples], SEARCH)
        assert tiny.cost.forward_passes - before <= budget * 5


def test_batches_padding_and_repetition_change_nothing(sentiment, reviews):
    examples = correct(sentiment, reviews)
    method = UniversalTrigger(forward_passes_per_example=12)
    found = method.search_triggers(sentiment, [examples], SEARCH)
    assert method.search_triggers(sentiment, [examples], SEARCH) == found
    parts = [examples.select([0]), examples.select(range(1, len(examples)))]
    for one, two in zip(method.search_triggers(sentiment, parts, SEARCH), found, strict=True):
        assert one.words == two.words
        assert math.isclose(one.score, two.score, rel_tol=1e-9)
    other = replace(method, seed=1, forward_passes_per_example=2).search_triggers(sentiment, [examples], SEARCH)
    assert [t.words for t in other] != [t.words for t in found]


def test_words_that_are_excluded_are_not_used(sentiment, reviews, tmp_path):
    examples = correct(sentiment, reviews)
    lexicon = tmp_path / "own.txt"
    lexicon.write_text("\n".join(GOOD))
    search = Search(triggers=20, words=2, exclusion=Exclusion(frozenset(BAD)))
    found = UniversalTrigger(lexicon=str(lexicon)).search_triggers(sentiment, [examples], search)
    words = {word.word for trigger in found for word in trigger.words}
    assert words
    assert not words & {*GOOD, *BAD, "[PAD]", "told", "##told"}


def test_the_test_of_triggers_uses_the_search(sentiment, reviews):
    artifact = Triggers(draws=1).extract(sentiment, UniversalTrigger(forward_passes_per_example=12), [reviews])
    assert {tuple(trigger["attacks"]) for trigger in artifact["triggers"]} == {("LABEL_0",), ("LABEL_1",)}
    assert all(len(trigger["words"]) == 4 for trigger in artifact["triggers"])
    assert all(trigger["random"] and trigger["matched"] for trigger in artifact["triggers"])


def test_it_is_no_explainer_and_names_wrong_settings():
    built = benchmark.build("methods/universal_trigger")
    assert built == UniversalTrigger()
    assert isinstance(built, TriggerSearch)
    assert not isinstance(built, Method)
    for settings in (
        {"steps": 0}, {"candidates": 0}, {"position": 1.5}, {"forward_passes_per_example": 1},
        {"lexicon": "nowhere.txt"},
    ):  # fmt: skip
        with pytest.raises(UserError, match=f"^(methods.universal_trigger.)?{next(iter(settings))}="):
            UniversalTrigger(**settings)
