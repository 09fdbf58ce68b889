"""What a figure says of attention, which line of a table is read, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmark.analyses.context import Context, ReadsElsewhere, ReadsTables
from benchmark.analyses.debate.verdict import Answer, Verdict, _agrees
from benchmark.analyses.debate.verdict_rules import AGAINST, FOR, RULES, UNDECIDED, OfAdversary, Reading, Rule, said
from benchmark.comparison import analyse, finish_all, in_order
from benchmark.errors import NotApplicable
from benchmark.report.analysis_tables import read_tables
from benchmark.results.statistics import Interval
from benchmark.results.tables import Table, line, not_applicable
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose, make
from tests.analyses.test_analyses import config

NAMES = {"attention": "raw_attention", "last": "1"}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 0.2, FOR),
        (-0.2, -0.1, AGAINST),
        (-0.1, 0.1, UNDECIDED),
        (0.0, 0.1, UNDECIDED),
        (np.nan, np.nan, UNDECIDED),
    ],
)
def test_an_interval_speaks_where_it_lies_on_one_side(low, high, expected):
    figure = Interval((low + high) / 2, low, high, 9)
    assert said(figure, (0.0, 0.0), FOR) == expected
    assert said(figure, (0.0, 0.0), AGAINST) == {FOR: AGAINST, AGAINST: FOR}.get(expected, UNDECIDED)
    assert said(figure, None, FOR) == ""


def table(name, labels, rows):
    return Table(name, name, labels, pd.DataFrame(rows))


def test_the_wider_scope_is_read_and_the_method_that_stands_for_attention():
    rule = Rule("?", "", "t", "change", FOR, 0.05, {"scope": ("all layers", "read row"), "method": ("{attention}",)})
    rows = [
        line({"scope": scope, "method": method}, metric, value, value - 0.01, value + 0.01, 7)
        for scope, method, metric, value in [
            ("read row", "raw_attention", "change of p", 0.2),
            ("all layers", "rollout", "change of p", 0.3),
            ("all layers", "raw_attention", "other", 0.4),
            ("all layers", "raw_attention", "change of p", 0.01),
        ]
    ]
    whole = table("t", ("scope", "method"), rows)
    assert rule.read(whole, NAMES) == Reading(Interval(0.01, pytest.approx(0.0), pytest.approx(0.02), 7), AGAINST, "")
    assert rule.read(table("t", ("scope", "method"), rows[:1]), NAMES).says == FOR
    assert rule.read(whole, NAMES | {"attention": "absent"}) is None
    assert rule.read(not_applicable("t", "it cannot serve"), NAMES) is None


def test_an_adversary_is_held_to_the_seeds_if_it_predicts_alike():
    def of(kind, model, tvd, jsd):
        labels = {"kind": kind, "model": model}
        return [
            line(labels, "TVD", tvd, tvd, tvd, 9),
            line(labels, "JSD, heads matched", jsd, jsd - 0.01, jsd + 0.01, 9),
        ]

    rule = next(rule for rule in RULES if isinstance(rule, OfAdversary))
    adversaries = of("adversary", "λ = .1", 0.01, 0.5) + of("adversary", "λ = 1", 0.3, 0.69)
    for seed, expected in ((0.2, AGAINST), (0.495, UNDECIDED), (0.6, FOR)):
        rows = adversaries + of("seed", "1", 0.0, seed) + of("seed", "2", 0.0, seed)
        reading = rule.read(table("adversarial_training", ("kind", "model"), rows), NAMES)
        assert (reading.figure.value, reading.says) == (0.5, expected)
    assert rule.measured.endswith("that of the seeds")
    reading = rule.read(table("", ("kind", "model"), adversaries[2:] + of("seed", "1", 0.0, 0.1)), NAMES)
    assert (reading.figure.n, reading.says) == (0, UNDECIDED)
    assert rule.read(table("", ("kind", "model"), adversaries), NAMES) is None, "no seed to hold it to"


def test_an_answer_is_misled_only_about_this_model_and_where_it_is_decided():
    answer = Answer("?", "", "this model", Reading(Interval(0, 0, 0, 1), AGAINST, ""))
    assert [_agrees(answer, truth) for truth in (FOR, AGAINST, UNDECIDED)] == ["no", "yes", UNDECIDED]
    assert _agrees(replace(answer, about="word classifiers"), FOR) == "—"
    assert _agrees(replace(answer, reading=replace(answer.reading, says=UNDECIDED)), FOR) == "—"


def test_the_page_says_what_agrees_what_misleads_and_what_was_not_asked(context):
    made = context()

    class Planted(type(made.setting.task)):
        rationale_is_truth = True

    labels = {"scope": "all layers", "predicted class": "all"}
    permuted = line(labels | {"largest weight": "any"}, "median change of the output", 0.3, 0.2, 0.4, 8)
    found = line(labels, "share with JSD > 0.4", 1.0, 0.7, 1.0, 8)
    tables = {
        "permutation": [table("permutation", (*labels, "largest weight"), [permuted])],
        "adversarial_attention": [table("adversarial_attention", tuple(labels), [found])],
        "uniform_attention": [not_applicable("uniform_attention", "no example has a label")],
    }
    truth = Answer("does it find the planted words?", "", "this model", Reading(Interval(0.5, 0.4, 0.6, 8), FOR, ""))

    class Known(Verdict):
        def _advantage(self, context, name, question):
            return [truth] if name == self.plausibility else []

    made = replace(made, setting=replace(made.setting, task=Planted()), tables=tables)
    (page,) = Known()(made)
    page.check()
    notes = page.rows.set_index(["question", "metric"])["note"]
    assert notes["does it find the planted words?", "agrees with the truth"] == "it is the truth"
    assert notes["does another order of its weights give another output?", "says"] == FOR
    assert notes["does another order of its weights give another output?", "agrees with the truth"] == "yes"
    assert notes["is there another attention with the same output?", "agrees with the truth"] == "no"
    assert page.sentences[0].startswith(
        "Of the questions about this model's attention 2 speak for it, 1 against it, and 0 "
    )
    assert "finds the planted words. 1 of 2 other answers" in page.sentences[1]
    assert page.sentences[2] == "These would mislead: is there another attention with the same output?"
    assert "uniform_attention" not in page.sentences[3]
    assert "weight_removal" in page.sentences[3]

    (page,) = Verdict()(replace(made, setting=context().setting))
    assert "agrees with the truth" not in set(page.rows["metric"]), "what people marked is not what the model used"
    with pytest.raises(NotApplicable):
        Verdict()(context())


@pytest.mark.slow
def test_every_rule_finds_its_figure_where_its_analysis_writes_it(place, tmp_path, monkeypatch):
    """Of models that two steps have trained: that it is found is all that is tested here."""
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))
    other = f"""['model=adversarial','model.base="{place / "bert"}"','model.course.steps=1']"""  # of any other weights
    made_by = {
        "agreement_matrix": (),
        "agreement_and_quality": (),
        "heads_agreement": (),
        "contextualisation": ("layers=[0,1]", "recipe.steps=2", "recipe.hidden=8", "recipe.heads=2"),
        "permutation": ("permutations=3",),
        "adversarial_attention": ("steps=2", "restarts=2"),
        "weight_removal": (),
        "uniform_attention": (),
        "adversarial_training": ("weights=[1]", "adversary=['model=adversarial','model.course.steps=1']"),
        "seeds": (),
        "trained_uniform": ("kinds=[uniform]", "trainer.course.steps=2"),
        "deception": ("deceptive=['model=deceptive','model.course.steps=2']",),
        "guide": ("limit=4", "recipe.steps=2"),
        "verdict": (),
    }
    seeds = [
        f"analyses.{name}={{seed 1:null,seed 2:{other}}}" for name in ("adversarial_training.seeds", "seeds.settings")
    ]
    chosen = config(
        place,
        "methods=[raw_attention,rollout,gradient_x_input,partial_lrp,random]",
        "evaluations=[agreement,perturbation,rationale]",
        f"analyses=[{','.join(made_by)}]",
        *(f"analyses.{name}.{setting}" for name, settings in made_by.items() for setting in settings),
        *seeds,
        f"out={tmp_path / 'runs'}",
    )
    setting = open_setting(chosen)
    evaluations, analyses = (
        {name: make(part) for name, part in chosen[group].items()} for group in ("evaluations", "analyses")
    )
    context = Context(
        setting, {name: setting.cell(name) for name in chosen.methods}, evaluations, tmp_path / "comparison"
    )
    assert len(list(finish_all(context.cells, evaluations))) == 5
    analyse(analyses, context, context.folder)
    tables = {table.name: table for table in read_tables(context.folder)}
    assert {rule.table for rule in RULES} <= tables.keys()
    page = tables["verdict"].rows
    found = page[page["metric"] == "figure"].set_index("question")
    for rule in RULES:
        seen = found["n"].get(rule.question, 0) > 0 or found["note"].get(rule.question, "")
        assert seen, rule.question
    assert len(found) == len(RULES) + 2
    assert not tables["verdict"].sentences[-1].startswith("Not asked")


def test_what_reads_tables_comes_last():
    analyses = {name: make(compose(None, [f"+analyses={name}"]).analyses[name]) for name in ("verdict", "permutation")}
    assert [name for name, _ in in_order(analyses)] == ["permutation", "verdict"]
    assert isinstance(analyses["verdict"], ReadsTables)
    assert not isinstance(analyses["permutation"], ReadsTables | ReadsElsewhere)
