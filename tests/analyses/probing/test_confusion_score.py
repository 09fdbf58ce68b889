"""The confusion score: by hand with a split word, as the authors' notebook has it, and on heads that are set by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.probing.confusion_score import ConfusionScore, _position
from benchmark.analyses.probing.confusions import GROUPS, confusion, confusions
from benchmark.annotations import KEYS, Stimulus
from benchmark.errors import NotApplicable
from benchmark.results.tables import Table, line
from benchmark.types import Example
from tasks.stimuli import Stimuli
from tests import text_models
from tests.analyses.rewording import reworded
from tests.conftest import shared
from tests.planted_heads import WORD_KIND, Nowhere, ToKind, ToPosition, save_planted_heads


def encoded(model, *rows):
    examples = [
        Example(f"s{i}", words.split(), -1, meta={KEYS[Stimulus]: Stimulus(condition, target, antecedent, distractors)})
        for i, (words, condition, target, antecedent, distractors) in enumerate(rows)
    ]
    return model.encode_examples(examples, ())


def test_three_words_with_a_split_word_by_hand(tmp_path):
    """un ##told ##ly film dull: the target "dull" depends on "film", and "untoldly" could be mistaken for it."""
    model = load_model(text_models.save_bert(tmp_path), "float64")
    found = confusions(model, [encoded(model, ("untoldly film dull", "agr.4", 2, (1,), ((0,),)))])
    layers = model.run(model.encode(["untoldly film dull"]), record=("attentions",)).attentions
    for layer, attention in enumerate(layers):
        for head in range(2):
            row = attention[0, head, 5].tolist()
            own, other = row[4], row[1] + row[2] + row[3]
            assert found.heads[0, layer, head] == pytest.approx(-math.log2(own / (own + other)), abs=1e-9)
        mean = attention[0].mean(0)[5].tolist()
        expected = -math.log2(mean[4] / (mean[4] + sum(mean[1:4])))
        assert found.bits[0, layer] == pytest.approx(expected, abs=1e-9)
    assert found.split_words == 1


def test_without_distractors_it_is_nothing_and_without_attention_it_is_bounded():
    attention = torch.tensor([[[0.2, 0.0, 0.8]]])
    assert confusion(attention, (0,), ()).item() == 0
    assert confusion(attention, (1,), ()).item() == 0
    assert confusion(attention, (1,), ((2,),)).item() == pytest.approx(math.log2(1e12), rel=1e-3)


def test_the_loss_of_position_is_found_whatever_the_probes_are_called():
    bits = np.array([[4.0, 3.0, 1.0]])
    found = {"m": SimpleNamespace(bits=bits, condition=np.array([GROUPS[next(iter(GROUPS))][1][0]]))}
    rows = [
        line({"model": "m", "probe": probe, "states": str(layer)}, "test", value, key=key and f"m.by_place.{layer}")
        for layer, value in enumerate((0.9, 0.7, 0.6))
        for probe, key, value in (
            ("n-th token, n = 1", "k", value),
            ("n-th token, n = 2", "k", value / 2),
            ("noun", "", 0),
        )
    ]
    table = Table("diagnostic_classifiers", "T", ("model", "probe", "states"), pd.DataFrame(rows))
    for one in (table, reworded(table)):
        of_agreement = _position(found, [one]).rows.iloc[0]
        loss = 1 - 0.75 * np.array([0.9, 0.7, 0.6])
        assert of_agreement["value"] == pytest.approx(np.corrcoef(bits[0], loss)[0, 1])
        assert of_agreement["n"] == 3


def test_official_stimuli_as_the_notebook_has_them():
    """Heads averaged, groups summed and normalised, −log2 of the first group: on MiniLM, whose tokenizer splits no word."""
    task = Stimuli(root=str(shared("data/opensesame")), kinds=["agreement", "reflexives"], stimuli=3)
    model = load_model(shared("models/minilm-base"), "float64", head="zero")
    examples = task.split("test")[::4]
    found = confusions(model, [model.encode_examples(examples, ())])
    assert found.split_words == 0
    for number, example in enumerate(examples):
        stimulus = example.meta[KEYS[Stimulus]]
        trace = model.run(model.encode([" ".join(example.inputs)]), record=("attentions",))
        groups = [[w + 1 for w in stimulus.antecedent], [w + 1 for pair in stimulus.distractors for w in pair]]
        for layer, attention in enumerate(trace.attentions):
            head_avg = attention[0].numpy().mean(axis=0)
            sums = np.array([head_avg[stimulus.target + 1, group].sum() for group in groups])
            assert found.bits[number, layer] == pytest.approx(-np.log2((sums / sums.sum())[0]), abs=1e-9)
        assert found.condition[number] == stimulus.condition


DET, NOUN, AUX = WORD_KIND, WORD_KIND + 1, WORD_KIND + 2
WORDS = {"the": DET, "dog": NOUN, "cat": NOUN, "near": WORD_KIND + 3, "does": AUX, "sleep": WORD_KIND + 4}
STIMULI = [("the dog near the cat does sleep", f"agr.{n}", 5, (0, 1), ((3, 4),)) for n in range(4, 20)]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Head 0-0 looks from the auxiliary to the subject's noun, 0-1 at all tokens alike; 1-0 at the last noun's kind."""
    rules = [[ToPosition(2, of=AUX), Nowhere()], [ToKind(NOUN, of=[AUX]), Nowhere()]]
    return load_model(save_planted_heads(tmp_path_factory.mktemp("planted"), WORDS, rules), "float64")


def test_a_planted_head_is_never_confused_and_an_even_one_is_as_chance_has_it(planted, given):
    batch = encoded(planted, *STIMULI)
    found = confusions(planted, [batch])
    assert found.heads[:, 0, 0] == pytest.approx(np.zeros(16), abs=1e-6)
    assert found.heads[:, 0, 1] == pytest.approx(np.full(16, math.log2(4 / 2)), abs=1e-6)
    tables = {table.name: table for table in ConfusionScore()(given(planted, [batch], [batch]))}
    heads = tables["confusion_heads"].rows
    best = heads[(heads["phenomenon"] == "agreement") & heads["by"].str.startswith("best")].set_index("metric")
    assert best.loc["antecedent before distractors", "value"] == 1
    assert best.loc["antecedent before distractors", "by"] == "best head, 0-0"
    by_condition = tables["confusion_score"].rows.set_index(["condition", "layer"])
    n = by_condition.loc[("A1: phrase, same number", 0), "n"]
    assert n == 4
    effects = tables["confusion_effects"].rows.set_index("effect")["value"]
    assert effects["distractor of the same number"] == pytest.approx(0, abs=1e-9)
    assert effects["of a layer (slope)"] == pytest.approx((found.bits[:, 1] - found.bits[:, 0]).mean())
    for table in tables.values():
        table.check()


def test_effects_are_differences_of_means(planted, given, monkeypatch):
    """Scores that are set: 1 bit more for equal numbers, 2 for clauses, 4 for inflected auxiliaries."""
    from dataclasses import replace

    batch = encoded(planted, *STIMULI)
    own = confusions(planted, [batch])
    numbers = np.arange(4, 20)
    same = np.isin(numbers, [4, 5, 10, 11, 12, 13, 18, 19])
    value = 1.0 * same + 2.0 * (numbers >= 12) + 4.0 * (numbers % 2)
    bits = np.stack([value, value + 3], axis=1)
    monkeypatch.setattr(
        "benchmark.analyses.probing.confusion_score.confusions", lambda model, batches: replace(own, bits=bits)
    )
    tables = {table.name: table for table in ConfusionScore()(given(planted, [batch], [batch]))}
    effects = tables["confusion_effects"].rows.set_index("effect")["value"]
    assert effects.to_dict() == pytest.approx(
        {
            "of a layer (slope)": 3.0,
            "distractor of the same number": 1.0,
            "relative clause rather than phrase": 2.0,
            "inflected auxiliary rather than modal": 4.0,
        }
    )


def test_effects_are_no_differences_of_means_where_files_are_unequal(planted, given, monkeypatch):
    """Two of three phrases have a modal, half of the clauses: a difference of means would say 8 / 3 bits and not 2."""
    from dataclasses import replace

    rows = [row for row in STIMULI for _ in range(3) if int(row[1][4:]) >= 12 or row[1] in ("agr.4", "agr.6", "agr.9")]
    batch = encoded(planted, *rows)
    own = confusions(planted, [batch])
    numbers = np.array([int(row[1][4:]) for row in rows])
    same = np.isin(numbers, [4, 5, 10, 11, 12, 13, 18, 19])
    value = 1.0 * same + 2.0 * (numbers >= 12) + 4.0 * (numbers % 2)
    noise = np.random.default_rng(0).normal(size=len(value))
    bits = np.stack([value + noise, value - noise], axis=1)
    monkeypatch.setattr(
        "benchmark.analyses.probing.confusion_score.confusions", lambda model, batches: replace(own, bits=bits)
    )
    tables = {table.name: table for table in ConfusionScore()(given(planted, [batch], [batch]))}
    effects = tables["confusion_effects"].rows.set_index("effect")["value"]
    assert effects["distractor of the same number"] == pytest.approx(1)
    assert effects["relative clause rather than phrase"] == pytest.approx(2)
    assert effects["inflected auxiliary rather than modal"] == pytest.approx(4)


def test_factors_that_go_together_have_no_effects_of_their_own(planted, given):
    batch = encoded(planted, *[row for row in STIMULI if row[1] in ("agr.4", "agr.7")])
    tables = {table.name: table for table in ConfusionScore()(given(planted, [batch], [batch]))}
    rows = tables["confusion_effects"].rows.set_index("effect")
    assert rows.loc["distractor of the same number", "note"] == "these sentences do not tell the factors apart"


def test_stimuli_beyond_the_window_are_left_out(tmp_path):
    model = load_model(text_models.save_bert(tmp_path, window=8), "float64", window=8)
    long = ("the film was dull . the film was", "agr.4", 7, (0, 1), ((5, 6),))
    short = ("the film was dull", "agr.4", 3, (0, 1), ())
    found = confusions(model, [encoded(model, long, short)])
    assert (found.lost, len(found.bits)) == (1, 1)
    with pytest.raises(NotApplicable, match="no example is a stimulus"):
        confusions(model, [model.encode(["the film"])])
