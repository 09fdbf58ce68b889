"""Attacks with triggers: against a slow transcription, on planted truth, and on another model."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertForSequenceClassification

from benchmark.comparison import run_comparison
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.head_pruning import Calibration
from benchmark.evaluations.triggers.patterns import Placed, Trigger, written
from benchmark.evaluations.triggers.triggers import Triggers
from benchmark.models import load_model
from benchmark.results import store
from benchmark.settings.configuration import compose
from benchmark.types import Attribution, Method
from tests import text_models, tiny_task
from tests.evaluations.conftest import attribution_of, polarity

NEGATIVE, POSITIVE = "LABEL_0", "LABEL_1"  # names of the planted model's classes


@dataclass(frozen=True)
class Polarity(Method):
    """Scores each word by how much it speaks for the target class; `sign` -1 turns it round."""

    sign: int = 1
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        scores = [
            [self.sign * polarity(word) * (1 if t else -1) for word in words]
            for words, t in zip(batch.words, target.classes.tolist(), strict=True)
        ]
        return attribution_of(batch, scores, target)


def by_hand(model):
    """Two triggers against one class, one against the other, with and without controls."""
    bad = Trigger((Placed("awful", 0, 0.0), Placed("bad", 0, 0.55)), NEGATIVE, (POSITIVE,), 1.0, "a")
    weak = Trigger((Placed("film", 0, 0.3),), NEGATIVE, (POSITIVE,), 0.5, "b", random=(("dull",), ("the",)))
    good = Trigger((Placed("great", 0, 1.0),), POSITIVE, (NEGATIVE,), 1.0, None, matched=(("lovely",),))
    bad = replace(bad, random=(("film", "the"), ("plot", "poor")), matched=(("good", "a"), ("seen", "it")))
    return written([bad, weak, good], model)


def prepared(model, **settings):
    return Triggers(**settings).restored(by_hand(model))


def tried(model, batch, evaluation):
    return evaluation.rows(model, batch, Attribution(target=batch.label))


def value(rows, metric, uid, x=np.nan):
    found = rows[(rows.metric == metric) & (rows.uid == uid)]
    found = found[found.x.isna()] if np.isnan(x) else found[found.x == x]
    return found.value.tolist()


def test_equals_a_slow_transcription(sentiment, reviews):
    evaluation = prepared(sentiment, positions=[0.0, 0.5])
    rows = tried(sentiment, reviews, evaluation)
    triggers = [
        {"words": ["awful", "bad"], "positions": [0.0, 0.55], "attacks": 1},
        {"words": ["film"], "positions": [0.3], "attacks": 1},
        {"words": ["great"], "positions": [1.0], "attacks": 0},
    ]
    random = {0: [["film", "the"], ["plot", "poor"]], 1: [["dull"], ["the"]]}
    matched = {0: [["good", "a"], ["seen", "it"]], 2: [["lovely"]]}

    def correct(words, label):
        return float(int(sentiment.predict(sentiment.encode([" ".join(words)]))) == label)

    def after(words, label, new, positions):
        n = len(words)
        places = [int(np.floor(p * n + 0.5)) for p in positions]
        result = []
        for place in range(n + 1):
            result += [word for word, at in zip(new, places, strict=True) if at == place]
            result += words[place : place + 1]
        return correct(result, label)

    for uid, words, label in zip(reviews.uids, reviews.words, reviews.label.tolist(), strict=True):
        words = list(words)
        before = correct(words, label)
        own = [i for i, trigger in enumerate(triggers) if trigger["attacks"] == label]
        drops = {i: before - after(words, label, triggers[i]["words"], triggers[i]["positions"]) for i in own}
        assert value(rows, "accuracy_drop", uid) == pytest.approx([np.mean(list(drops.values()))])
        assert value(rows, "accuracy_drop_class", uid, label) == value(rows, "accuracy_drop", uid)
        assert value(rows, "accuracy_drop_class", uid, 1 - label) == []
        for i in range(3):
            assert value(rows, "drop_of_trigger", uid, i) == ([drops[i]] if i in own else [])
        controls = {}
        for name, drawn in (("random", random), ("matched", matched)):
            found = [
                before - after(words, label, new, triggers[i]["positions"]) for i in own for new in drawn.get(i, [])
            ]
            controls[name] = [np.mean(found)] if found else []
            assert value(rows, f"{name}_drop", uid) == pytest.approx(controls[name])
        advantage = [np.mean(list(drops.values())) - control for control in controls["random"]]
        assert value(rows, "advantage", uid) == pytest.approx(advantage)
        assert value(rows, "success", uid) == (value(rows, "accuracy_drop", uid) if before else [])
        for p in (0.0, 0.5):
            moved = [before - after(words, label, triggers[i]["words"], [p] * len(triggers[i]["words"])) for i in own]
            assert value(rows, "drop_at_position", uid, p) == pytest.approx([np.mean(moved)])


def test_order_and_composition_of_batches_change_nothing(sentiment, reviews):
    evaluation = prepared(sentiment)
    whole = tried(sentiment, reviews, evaluation)
    order = np.random.default_rng(0).permutation(len(reviews)).tolist()
    parts = [tried(replace(sentiment, max_tokens=50), reviews.select(order[at::3]), evaluation) for at in range(3)]
    columns = ["uid", "metric", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b)


def test_planted_truth(sentiment, reviews):
    figures = {}
    for sign in (1, -1):
        evaluation = Triggers(draws=10)
        artifact = evaluation.extract(sentiment, Polarity(sign), [reviews])
        rows = tried(sentiment, reviews, evaluation.restored(json.loads(json.dumps(artifact))))
        figures[sign] = {(f.metric, f.x if f.x == f.x else None): f for f in evaluation.reduce(rows)}
    found = figures[1]
    drop = found["accuracy_drop", None]
    assert drop.value > found["random_drop", None].value > figures[-1]["accuracy_drop", None].value
    assert found["advantage", None].value == pytest.approx(drop.value - found["random_drop", None].value)
    assert found["advantage", None].low > 0
    assert drop.n == 40
    assert found["success", None].value > 0.6  # three words of the other polarity outvote three against one
    assert figures[-1]["success", None].value < 0.05
    by_class = [found["accuracy_drop_class", float(k)] for k in (0, 1)]
    assert sum(f.n for f in by_class) == 40
    assert sum(f.n * f.value for f in by_class) / 40 == pytest.approx(drop.value)
    assert {metric for metric, _ in found} == set(Triggers().metrics)


def test_one_pair_is_two_words_tried_at_no_other_position(sentiment, reviews):
    for pairs in (1, 2):
        evaluation = Triggers(pairs=pairs, positions=())
        artifact = evaluation.extract(sentiment, Polarity(), [reviews])
        assert {len(trigger["words"]) for trigger in artifact["triggers"]} == {2 * pairs}
        rows = tried(sentiment, reviews, evaluation.restored(artifact))
        assert "drop_at_position" not in {*rows.metric, *evaluation.metrics}


def test_extraction_is_deterministic_and_excludes_the_lexicon(sentiment, reviews):
    artifact = Triggers().extract(sentiment, Polarity(), [reviews])
    assert artifact == Triggers().extract(sentiment, Polarity(), [reviews])
    assert artifact == Triggers().extract(
        sentiment, Polarity(), [reviews.select(range(20)), reviews.select(range(20, 40))]
    )
    assert Triggers(seed=1).extract(sentiment, Polarity(), [reviews]) != artifact

    def said(artifact):
        return {word["word"] for trigger in artifact["triggers"] for word in trigger["words"]}

    assert any(polarity(word) for word in said(artifact))
    kept = Triggers(lexicon="sentiment").extract(sentiment, Polarity(), [reviews])
    assert not any(polarity(word) for word in said(kept))
    drawn = {word for t in kept["triggers"] for kind in ("random", "matched") for words in t[kind] for word in words}
    assert drawn
    assert not any(polarity(word) for word in drawn)


def test_triggers_are_tried_on_another_model_with_another_tokenizer(sentiment, reviews, tmp_path):
    gpt2 = load_model(text_models.save_gpt2(tmp_path / "gpt2"), dtype="float64", device="cpu")
    path = tmp_path / "triggers-0.json"
    artifact = Triggers().extract(sentiment, Polarity(), [reviews])
    path.write_text(json.dumps(artifact))
    evaluation = Triggers(file=str(path))
    assert evaluation.extract(gpt2, Polarity(), []) == artifact
    texts = ["the film was a plot", "good film", "dull plot , the story was bad"]
    batch = gpt2.encode(texts, labels=[0, 1, 1])
    rows = tried(gpt2, batch, evaluation.restored(artifact))
    assert set(rows.uid) == {"0", "1", "2"}
    assert rows.value.notna().all()
    with pytest.raises(UserError, match=r"file=.*: class LABEL_0 is unknown to the model, which has \['bad', 'good'\]"):
        evaluation.extract(replace(gpt2, labels=("bad", "good")), Polarity(), [])


def test_what_cannot_be_attacked(sentiment, reviews, decoder, vision):
    evaluation = prepared(sentiment)
    unlabelled = replace(reviews, label=torch.full_like(reviews.label, -1))
    rows = tried(sentiment, unlabelled, evaluation)
    assert rows.empty
    with pytest.raises(NotApplicable, match="no scored example is of a class"):
        evaluation.reduce(rows)
    ids = decoder.encode([{"input_ids": [4, 5, 6]}], labels=[0])
    with pytest.raises(NotApplicable, match="no tokenizer"):
        tried(decoder, ids, evaluation)
    images = vision.encode([{"pixel_values": torch.rand(3, 16, 16)}], labels=[0])
    with pytest.raises(NotApplicable, match="images"):
        tried(vision, images, evaluation)


def test_settings(tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[1]")
    other = tmp_path / "other.json"
    other.write_text('{"schema": 1}')
    for settings, message in (
        ({"triggers": 0}, "triggers=0"),
        ({"pairs": 0}, "pairs=0"),
        ({"tau": 1.0}, "tau=1.0"),
        ({"max_words": 1}, "max_words=1"),
        ({"draws": 0}, "draws=0"),
        ({"positions": [0.0, 1.1]}, r"positions=\[0.0, 1.1\]"),
        ({"lexicon": "nowhere.txt"}, "lexicon=nowhere.txt"),
        ({"file": "nowhere.json"}, "file=nowhere.json cannot be read"),
        ({"file": str(wrong)}, "holds no triggers"),
        ({"file": str(other)}, "holds no triggers of schema 1"),
    ):
        with pytest.raises(UserError, match=message):
            Triggers(**settings)
    assert Triggers().reads == "method"


@pytest.fixture
def place(tmp_path):
    """YAMLs of a tiny task, and a checkpoint that gives its texts both classes."""
    folder = text_models.save_bert(tmp_path / "bert")
    tiny_task.write_yamls(tmp_path / "conf")
    model = load_model(folder, dtype="float64", device="cpu")
    texts = [example.inputs for example in tiny_task.TinyTask().split("train")]
    logits = model.run(model.encode(texts)).logits
    network = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        network.classifier.bias[1] -= float((logits[:, 1] - logits[:, 0]).median())
    network.save_pretrained(folder)
    return tmp_path


def compared(place, out, *overrides):
    settings = [
        "task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=4",
        "evaluations=[triggers]", f"out={out}", *overrides,
    ]  # fmt: skip
    return run_comparison(compose("config", settings, str(place / "conf"))).cells


@pytest.mark.usefixtures("no_pictures")
def test_a_comparison(place):
    settings = ("methods=[raw_attention,probe]", "evaluations.triggers.min_words=2")
    edges, tokens = compared(place, place / "runs", *settings)
    for cell in (edges, tokens):
        test = store.read_record(cell).evaluations["triggers"]
        assert test.dash is None
        assert {"accuracy_drop", "advantage", "drop_at_position"} <= {figure.metric for figure in test.figures}
    (path,) = edges.glob("triggers-*.json")
    artifact = store.read_json(path)
    assert {trigger["source"] for trigger in artifact["triggers"]} == {"bad", "good"}
    assert all(trigger["uid"].startswith("train-") for trigger in artifact["triggers"])
    again = (*settings, f"evaluations.triggers.file={path}")
    (_, other) = compared(place, place / "transfer", *again)
    a, b = (store.read_rows(cell).sort_values(["metric", "uid", "x"]).reset_index(drop=True) for cell in (edges, other))
    pd.testing.assert_frame_equal(a, b)


@pytest.mark.usefixtures("no_pictures")
def test_too_few_source_examples_leave_a_dash(place):
    (cell,) = compared(place, place / "runs", "methods=[probe]", "evaluations.triggers.calibration.limit=1")
    assert "two classes" in store.read_record(cell).evaluations["triggers"].dash
    assert Triggers().calibration == Calibration("train", 100)


def test_other_rules_give_what_a_test_of_their_own_gives(sentiment, reviews):
    evaluation = Triggers(positions=(), taus=(0.0, 0.5), pair_counts=(1, 2))
    artifact = json.loads(json.dumps(evaluation.extract(sentiment, Polarity(), [reviews])))
    rows = tried(sentiment, reviews, evaluation.restored(artifact))
    assert set(evaluation.metrics) == set(rows.metric)
    for metric, x, own in (
        ("drop_of_pairs", 1, Triggers(positions=(), pairs=1)),
        ("drop_of_pairs", 2, Triggers(positions=())),
        ("drop_at_tau", 0.0, Triggers(positions=(), tau=0.0)),
        ("drop_at_tau", 0.5, Triggers(positions=(), tau=0.5)),
    ):
        alone = tried(sentiment, reviews, own.restored(own.extract(sentiment, Polarity(), [reviews])))
        expected = alone[alone.metric == "accuracy_drop"].set_index("uid").value.sort_index()
        found = rows[(rows.metric == metric) & (rows.x == x)].set_index("uid").value.sort_index()
        pd.testing.assert_series_equal(found, expected)
    with pytest.raises(UserError, match=r"pair_counts=\[0\]"):
        Triggers(pair_counts=(0,))
