"""Deception: mass on marked words by hand, what a table says of explainers, and a comparison of a deceptive model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from benchmark.analyses import differences
from benchmark.analyses.context import Context
from benchmark.analyses.debate import deception
from benchmark.analyses.debate.deception import DECEPTIVE, GAIN, HONEST, Deception, explainer_lines, masses
from benchmark.errors import NotApplicable
from benchmark.run.steps import finish
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from benchmark.training.deceptive import marked_tokens, mass_elsewhere
from tests.analyses.test_analyses import config

TINY = {"_target_": "benchmark.training.tiny.TinyModel"}


def test_marked_tokens_are_those_of_the_rationales_words(place):
    setting = open_setting(config(place))
    batch = setting.data.batches[0]
    marked = marked_tokens(batch)
    for row, rationale in enumerate(batch.rationale):
        expected = [unit >= 0 and bool(rationale[unit]) for unit in batch.units[row].tolist()]
        assert marked[row].tolist() == expected
    without = replace(batch, rationale=(None,) * len(batch))
    assert not marked_tokens(without).any()


def test_mass_of_two_tokens():
    attention = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]]]])
    elsewhere = mass_elsewhere([attention, 1 - attention], torch.tensor([[False, True]]))
    assert elsewhere[0].flatten(1).tolist() == [pytest.approx([0.9, 0.5]), pytest.approx([0.1, 0.5])]


def test_masses_equal_a_loop(place):
    setting = open_setting(config(place, "limit=5"))
    model, batches = setting.model, setting.data.batches
    found, expected = masses(model, batches), {"layer": [], "all": [], "share": []}
    for batch in batches:
        layers = model.run(batch, record=("attentions",)).attentions
        marked = marked_tokens(batch)
        for b, length in enumerate(batch.attention_mask.sum(1).tolist()):
            keys = [t for t in range(length) if marked[b, t]]

            def of(layer, query, b=b, keys=keys, layers=layers):
                heads = range(model.n_heads)
                return np.mean([sum(float(layers[layer][b, h, query, j]) for j in keys) for h in heads])

            expected["layer"].append(of(1, 0))
            expected["all"].append(np.mean([of(layer, i) for layer in (0, 1) for i in range(length)]))
            expected["share"].append(len(keys) / length)
    assert found["read token, layer 1"] == pytest.approx(expected["layer"], abs=1e-6)
    assert found["all queries and layers"] == pytest.approx(expected["all"], abs=1e-6)
    assert found["share of tokens"] == pytest.approx(expected["share"], abs=1e-6)


def values(array):
    return {f"{i:02d}": np.array([value]) for i, value in enumerate(array)}


def test_a_deceived_explainer_is_named_and_a_control_is_not():
    n = 12
    high, low, noise = np.linspace(0.8, 0.9, n), np.linspace(0.2, 0.1, n), np.linspace(0.2, 0.3, n)
    wiggle = high + np.tile([0.01, -0.01], n // 2)
    scores = {
        "attention": (values(high), values(low)), "gradient": (values(high), values(wiggle)),
        "random": (values(noise), values(noise)), "silent": ({}, {}),
    }  # fmt: skip
    rows, sentences = explainer_lines(scores)
    by_name = {(row["explainer"], row["metric"]): row for row in rows}
    assert by_name["attention", HONEST]["value"] == pytest.approx(high.mean())
    assert by_name["attention", DECEPTIVE]["value"] == pytest.approx(low.mean())
    assert by_name["attention", "difference"]["value"] == pytest.approx((low - high).mean())
    assert by_name["attention", GAIN]["value"] == pytest.approx((low - noise).mean())
    assert by_name["attention", "p (Holm)"]["value"] == pytest.approx(2 * 2 / 2**n), "two of 2^12 flips, two explainers"
    assert by_name["random", "difference"]["note"] == "it does not look at the model"
    assert ("random", "p (Holm)") not in by_name
    assert by_name["silent", DECEPTIVE]["note"] == "it scores no words here"
    assert sentences == [
        "Deceived: worse than on the honest model, and not above random scores: attention.",
        "Worse than on the honest model, but above random scores: none.",
        "Better at finding the words than on the honest model: none.",
        "Without a difference that can be told: gradient.",
    ]
    rows, sentences = explainer_lines(scores, {"attention": "all scores are equal in 92 % of its explanations"})
    lines = {(row["explainer"], row["metric"]): row for row in rows}
    assert lines["attention", DECEPTIVE]["note"] == "not judged: all scores are equal in 92 % of its explanations"
    assert ("attention", "difference") not in lines
    assert ("attention", GAIN) not in lines
    assert sentences[0] == "Deceived: worse than on the honest model, and not above random scores: none."
    assert sentences[-1] == "Not judged: attention (all scores are equal in 92 % of its explanations)."
    _, sentences = explainer_lines({name: scores[name] for name in ("attention", "gradient")})
    assert sentences[0] == "Worse at finding the words than on the honest model: attention."


def test_other_words_for_its_figures_name_the_same_explainers(monkeypatch):
    n = 12
    high, low, noise = np.linspace(0.8, 0.9, n), np.linspace(0.2, 0.1, n), np.linspace(0.2, 0.3, n)
    scores = {"attention": (values(high), values(low)), "random": (values(noise), values(noise))}
    _, sentences = explainer_lines(scores)
    for name in ("HONEST", "DECEPTIVE", "GAIN"):
        monkeypatch.setattr(deception, name, f"{name} in other words")
    monkeypatch.setattr(differences, "P_VALUE", "a probability")
    assert explainer_lines(scores)[1] == sentences


def test_a_comparison_of_a_deceptive_model_explains_its_base_too(place, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))
    given = ["task=tiny_task", "model=deceptive", f"model.base={place / 'bert'}", "model.course.steps=2"]
    chosen = ["methods=[raw_attention,random]", "evaluations=[rationale]", f"out={tmp_path / 'runs'}", "batch_size=4"]
    setting = open_setting(compose("config", [*given, "model.device=cpu", *chosen], str(place / "conf")))
    test = make(setting.config.evaluations.rationale)
    context = Context(setting, {name: setting.cell(name) for name in setting.config.methods}, {"rationale": test})
    for cell in context.cells.values():
        finish(cell, context.evaluations)
    mass, explainers = Deception()(context)
    honest = open_setting(config(place, f"out={tmp_path / 'runs'}", "methods=[raw_attention]"))
    before = honest.cell("raw_attention")
    assert before.folder.is_dir(), "the honest model's run folder is that of a comparison of its own"
    index = context.setting.model.n_layers - 1
    found = mass.rows.set_index(["of", "metric"])["value"]
    for name, model in ((HONEST, honest.model), (DECEPTIVE, setting.model)):
        expected = masses(model, setting.data.batches)[f"read token, layer {index}"].mean()
        assert found[f"mass on the words: read token, layer {index}", name] == pytest.approx(expected)
    table = explainers.rows.set_index(["explainer", "metric"])
    assert table.loc[("raw_attention", HONEST), "n"] == 12
    assert table.loc[("random", HONEST), "value"] == table.loc[("random", DECEPTIVE), "value"]
    assert Deception().reads(context) == Deception().reads(context) != {}
    explainers.check()


def test_an_honest_model_has_a_deceptive_one_trained_from_it(place, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))
    given = ("methods=[raw_attention]", "evaluations=[rationale]", f"out={tmp_path / 'runs'}")
    setting = open_setting(config(place, *given))
    test = make(setting.config.evaluations.rationale)
    context = Context(setting, {"raw_attention": setting.cell("raw_attention")}, {"rationale": test})
    asked = Deception(deceptive=("model=deceptive", "model.course.steps=2"))
    mass, explainers = asked(context)
    other = ["task=tiny_task", "model=deceptive", f"model.base={place / 'bert'}", "model.course.steps=2"]
    deceptive = open_setting(compose("config", [*other, "model.device=cpu"], str(place / "conf")))
    found = mass.rows.set_index(["of", "metric"])["value"]
    for name, model in ((HONEST, setting.model), (DECEPTIVE, deceptive.model)):
        expected = masses(model, setting.data.batches)["all queries and layers"].mean()
        assert found["mass on the words: all queries and layers", name] == pytest.approx(expected)
    assert explainers.rows["n"].max() == 12
    assert set(asked.reads(context)) == {"honest", "deceptive"}


def test_a_task_without_rationales_cannot_be_deceived(context):
    with pytest.raises(NotApplicable, match="no rationales in its training split"):
        Deception()(replace(context(), setting=replace(context().setting, config=OmegaConf.create({"model": TINY}))))
