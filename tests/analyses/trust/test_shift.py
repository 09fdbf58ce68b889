"""How strange a text is: by hand, against halves of one sample, against nonsense, and for a model that met masks."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from benchmark.analyses.context import Context
from benchmark.analyses.trust.shift import AS_NATURAL, AS_TRAINED, INVERTED, ORACLE, RANDOM, Shift, removals
from benchmark.analyses.trust.strange import (
    BETWEEN,
    IN,
    NATURAL,
    OUT,
    TRAINING,
    Strange,
    states_of,
    told_apart,
    verdict,
)
from benchmark.errors import NotApplicable
from benchmark.models import load_model
from benchmark.models.typicality import Reference, paired_auroc
from benchmark.results.statistics import Interval
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.training.tiny import TinyModel
from tasks.planted import Planted
from tests import text_models


def states(seed, n, shift=0.0, layers=3, size=20):
    return (np.random.default_rng(seed).normal(size=(n, layers, size)) + shift).astype(np.float32)


def test_strangeness_equals_a_loop():
    """The smaller tail with what is equal, Simes over dimensions, Fisher over layers: one number after another."""
    reference, given = np.round(states(0, 12), 1), np.round(states(1, 3), 1)
    first, second = reference[::2], reference[1::2]

    def tail(known, value):
        return (min((known <= value).sum(), (known >= value).sum()) + 1) / (len(known) + 1)

    def simes(x, layer):
        q = sorted(tail(first[:, layer, d], x[layer, d]) for d in range(20))
        return min(value * 20 / (k + 1) for k, value in enumerate(q))

    expected = []
    for x in given:
        total = 0.0
        for layer in range(3):
            total -= 2 * np.log(tail(np.array([simes(other, layer) for other in second]), simes(x, layer)))
        expected.append(total)
    assert Reference.of(reference).strangeness(given) == pytest.approx(expected)


def auroc(natural, changed):
    return roc_auc_score([0] * len(natural) + [1] * len(changed), np.concatenate([natural, changed]))


def test_auroc_is_sklearns_and_resamples_count_texts():
    natural, changed = np.round(states(2, 30)[:, 0, 0], 1), np.round(states(3, 30, 0.5)[:, 0, 0], 1)
    expected = auroc(natural, changed)
    weights = np.random.default_rng(0).integers(0, 3, (4, 30)).astype(float)
    found = paired_auroc(natural, changed, np.vstack([np.ones(30), weights]))
    assert found[0] == pytest.approx(expected)
    for counts, value in zip(weights.astype(int), found[1:], strict=True):
        again = np.repeat(natural, counts), np.repeat(changed, counts)
        assert value == pytest.approx(auroc(*again))


def test_texts_of_one_kind_cannot_be_told_apart_and_others_can():
    """Held-out texts against themselves in another sample: .5; moved by one standard deviation: nearly always stranger."""
    reference = Reference.of(states(4, 400, layers=4, size=40))
    same = reference.strangeness(states(5, 300, layers=4, size=40))
    again = reference.strangeness(states(6, 300, layers=4, size=40))
    moved = reference.strangeness(states(7, 300, 2.0, layers=4, size=40))
    chance = told_apart(same, [again], 0, "")
    assert chance.value == pytest.approx(0.5, abs=0.08)
    assert verdict(chance) == IN
    assert auroc(same, moved) > 0.9
    assert verdict(told_apart(same, [moved], 0, "")) == OUT


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What a BERT of twelve layers makes of texts: 120 of reference, and two samples of 80.

    A text is the states of its tokens in every layer [T L D]. In the last layers the tokens of one text are alike.
    """
    model = load_model(text_models.save_bert(tmp_path_factory.mktemp("deep"), layers=12), device="cpu")
    draw, found = np.random.default_rng(0), []
    texts = [" ".join(draw.choice(text_models.WORDS[:9], draw.integers(18, 22))) for _ in range(280)]
    for start in range(0, len(texts), 40):
        batch = model.encode(texts[start : start + 40])
        hidden = torch.stack(list(model.run(batch, record=("hidden",)).hidden), dim=2).numpy()
        found += [own[:length] for own, length in zip(hidden, batch.attention_mask.sum(1).tolist(), strict=True)]
    return found[:120], found[120:200], found[200:]


def largest(texts):
    return np.stack([tokens.max(0) for tokens in texts])


def test_natural_texts_of_a_model_are_as_strange_as_others_that_it_has_not_seen(read):
    reference, one, other = (largest(texts) for texts in read)
    typical = Reference.of(reference)
    chance = told_apart(typical.strangeness(one), [typical.strangeness(other)], 0, "")
    assert chance.low < 0.5 < chance.high
    assert chance.high - chance.low < 0.25


def test_tokens_that_are_shuffled_between_texts_are_nonsense(read):
    """Each token of a text gives its place to one that is drawn from all texts, with the states that this one has in all
    layers in its own text. No text has such tokens side by side: each has read all others of its text.
    """
    reference, natural, _ = read
    tokens = np.concatenate(natural)[np.random.default_rng(0).permutation(sum(map(len, natural)))]
    shuffled = np.split(tokens, np.cumsum([len(own) for own in natural])[:-1])
    assert [len(own) for own in shuffled] == [len(own) for own in natural]
    typical = Reference.of(largest(reference))
    own, other = (typical.strangeness(largest(texts)) for texts in (natural, shuffled))
    assert auroc(own, other) > 0.9
    assert verdict(told_apart(own, [other], 0, "")) == OUT


@pytest.mark.thorough
def test_known_words_in_another_order_or_company_look_nearly_as_typical(tmp_path, monkeypatch):
    """What the statistic does not see: it reads the largest value of each dimension, wherever it stands in a text."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = TinyModel(layers=2, heads=2, hidden=32, intermediate=32, vocab_size=400, steps=150, batch_size=16)
    task = Planted(train=1500, validation=40, test=120)
    model, draw = load_model(source.resolve(task), device="cpu"), np.random.default_rng(0)

    def strange(texts):
        read = [
            states_of(model, model.encode(texts[start : start + 40]).tensors)[0] for start in range(0, len(texts), 40)
        ]
        return np.concatenate(read)

    natural = [example.inputs for example in task.split("test")]
    pool = draw.permutation(np.concatenate(natural))
    others = {
        "within texts": [draw.permutation(words) for words in natural],
        "between texts": np.split(pool, np.cumsum([len(words) for words in natural])[:-1]),
    }
    typical = Reference.of(strange([" ".join(example.inputs) for example in task.split("train")[:400]]))
    own = typical.strangeness(strange([" ".join(words) for words in natural]))
    for name, texts in others.items():
        found = typical.strangeness(strange([" ".join(words) for words in texts]))
        assert auroc(own, found) < 0.65, name


def test_verdicts():
    def of(low, high):
        return verdict(Interval((low + high) / 2, low, high, 50))

    assert (of(0.4, 0.6), of(0.5, 0.7), of(0.75, 0.9), of(0.7, 0.9)) == (IN, BETWEEN, OUT, BETWEEN)


@pytest.fixture(scope="module")
def setting(place):
    settings = ["task=tiny_task", "task.size=80", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    config = compose("config", [*settings, f"out={place / 'runs_shift'}", "methods=[random]"], str(place / "conf"))
    return open_setting(config)


def test_states_are_the_largest_of_the_tokens_and_padding_has_no_part(setting):
    model, batch = setting.model, setting.data.batches[0]
    found, logits = states_of(model, batch.tensors)
    trace = model.run(batch, record=("hidden",))
    for b in range(len(batch)):
        length = int(batch.attention_mask[b].sum())
        for layer, hidden in enumerate(trace.hidden):
            assert found[b, layer] == pytest.approx(hidden[b, :length].amax(0).numpy(), abs=1e-5)
    assert torch.allclose(logits, model.run(batch).logits, atol=1e-5)


def test_orders_of_removal(setting):
    batch = setting.data.batches[0]
    masks = removals(batch, (0.5, 1.0), seed=0, marked=True)
    assert set(masks) == {RANDOM, ORACLE, INVERTED}
    for b in range(len(batch)):
        n, marked = int(batch.rated_units(b).sum()), np.flatnonzero(batch.rationale[b])
        for own in masks.values():
            assert own[0, b].sum() == n // 2
            assert own[1, b].sum() == n
        assert masks[ORACLE][0, b, marked].all()
        assert not masks[INVERTED][0, b, marked].any()
    assert torch.equal(masks[RANDOM], removals(batch, (0.5, 1.0), seed=0, marked=False)[RANDOM])


def test_without_masks_in_training_both_references_are_one(setting):
    strange = Strange.of(setting, 16, 0.0, 0)
    assert strange.references[NATURAL] is strange.references[TRAINING]
    assert Strange.of(setting, 16, None, 0).share is None
    masked = Strange.of(setting, 16, 1.0, 0)
    assert not np.array_equal(masked.references[TRAINING].values, masked.references[NATURAL].values)


def test_the_table(setting):
    context = Context(setting, {}, {})
    (table,) = Shift(operators=("mask", "delete"), fractions=(0.4, 0.9), reference=60, mask_share=0.4)(context)
    assert len(table.rows.groupby(["operator", "removed first", "share"])) == 2 * 3 * 2
    assert not table.keyed("mask.random.0.9.shift").empty
    assert "accuracy lost" not in set(table.rows["metric"])  # what people would mark is no truth
    table.check()


def test_no_training_split_is_not_applicable(setting):
    def nothing(split, n):
        raise NotApplicable("there is none")

    without = replace(setting, data=replace(setting.data, calibration=nothing))
    with pytest.raises(NotApplicable):
        Shift(limit=None)(Context(without, {}, {}))


def of_images(place, *chosen):
    """The table of 60 images of digits, half of whose patches go in a random order."""
    words = [
        "task=digit_scenes",
        "task.train=200",
        "task.validation=4",
        "task.test=60",
        "tracking=none",
        f"out={place}",
    ]
    setting = open_setting(compose("config", [*words, *chosen]))
    (table,) = Shift(fractions=(0.5,), reference=200)(Context(setting, {}, {}))
    return setting, table


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Of a small ViT that met black patches in training: the setting and the table."""
    folder = tmp_path_factory.mktemp("images")
    small = ["model=tiny_vit", "model.steps=60", "model.layers=2", "model.hidden=16", "model.mask_share=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_BENCHMARK_CACHE", str(folder / "cache"))
        yield of_images(folder, *small)


def in_random_order(table, metric):
    rows = table.rows[(table.rows["removed first"] == RANDOM) & (table.rows["metric"] == metric)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_patches_that_went_in_training_are_strange_to_natural_images_alone(images):
    training, natural = (in_random_order(images[1], metric) for metric in (AS_TRAINED, AS_NATURAL))
    assert training["low"] < 0.5 < training["high"]
    assert natural["low"] > 0.75
    assert training["n"] == natural["n"] == 60


def test_the_verdict_on_images_is_that_of_hidden_states_against_the_training_like_reference(images):
    _, table = images
    table.check()
    assert set(table.rows["removed first"]) == {RANDOM, ORACLE, INVERTED}
    for _, rows in table.rows.groupby("removed first"):
        by_metric = rows.set_index("metric")
        own = by_metric.loc[AS_TRAINED]
        assert by_metric.loc["so"]["note"] == verdict(Interval(own["value"], own["low"], own["high"], 60))
    assert any("trained with masks on up to 100 %" in said for said in table.sentences)


def test_of_images_whose_training_nobody_knows_both_references_are_natural(images, tmp_path):
    trained = images[0].model.config._name_or_path
    shutil.copytree(trained, tmp_path / "vit", ignore=shutil.ignore_patterns("training.json", "digests.json"))
    _, table = of_images(tmp_path, "model=hf", f"model.path={tmp_path / 'vit'}")
    natural = in_random_order(images[1], AS_NATURAL)["value"]
    assert in_random_order(table, AS_TRAINED)["value"] == in_random_order(table, AS_NATURAL)["value"] == natural
    assert in_random_order(table, "so")["note"] == OUT
    assert any("nobody knows whether the model met masks" in said.lower() for said in table.sentences)
