"""What a figure says of attention, which line of a table is read, and the page."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from benchmark.analyses import measured
from benchmark.analyses.context import Context
from benchmark.analyses.debate.verdict import Answer, Verdict, _agrees
from benchmark.analyses.debate.verdict_rules import (
    AGAINST,
    FOR,
    MODEL,
    ROW,
    RULES,
    UNDECIDED,
    OfAdversary,
    OfDeceiver,
    Reading,
    Rule,
    corrected,
    p_of,
    read_against,
    said,
)  # fmt: skip
from benchmark.comparison import analyse, finish_all, in_order
from benchmark.errors import NotApplicable
from benchmark.report.analysis_tables import read_tables
from benchmark.results.statistics import Interval, interval
from benchmark.results.tables import KEY, Table, line, not_applicable
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests.analyses.rewording import all_reworded, reworded
from tests.analyses.test_analyses import config

NAME = "raw_attention"


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
    assert said(figure, (0.0, 0.0), FOR, AGAINST) == expected
    assert said(figure, (0.0, 0.0), AGAINST, FOR) == {FOR: AGAINST, AGAINST: FOR}.get(expected, UNDECIDED)
    assert said(figure, None, FOR, AGAINST) == ""


def test_the_p_of_an_interval_is_that_of_students_distribution():
    figure = Interval(0.3, 0.1, 0.4, 10)
    t = student.ppf(0.975, 9) * 0.3 / 0.2  # the side that faces the threshold
    assert p_of(figure, (0.0, 0.0)) == pytest.approx(2 * student.sf(t, 9))
    assert p_of(figure, (0.1, 0.1)) == pytest.approx(0.05), "an interval that ends at the threshold"
    assert p_of(figure, (0.5, 0.6)) == pytest.approx(2 * student.sf(student.ppf(0.975, 9) * 2, 9)), "its upper side"
    assert p_of(figure, (0.2, 0.6)) == 1, "within the interval that it is held to"
    assert np.isnan(
        [p_of(figure, None), p_of(replace(figure, low=np.nan), (0, 0)), p_of(replace(figure, n=1), (0, 0))]
    ).all()


def test_figures_of_one_page_are_corrected_for_each_other():
    def reading(distance, n=40):
        return read_against(Interval(distance, distance - 1, distance + 1, n), (0.0, 0.0), FOR, AGAINST)

    alone = reading(1.2)
    assert corrected([alone])[0].says == FOR
    assert corrected([alone, *(reading(0.1) for _ in range(9))])[0].says == UNDECIDED
    assert corrected([reading(2.0), *(reading(0.1) for _ in range(9))])[0].says == FOR
    unjudged = read_against(Interval(5, 4, 6, 40), None, "", "")
    assert corrected([alone, *[unjudged] * 9])[0].says == FOR, "a figure without a threshold is no hypothesis"
    few = [reading(-9.0, n=9), *(reading(0.1) for _ in range(18))]
    assert corrected(few)[0].says == UNDECIDED, "2^(1-9) · 19 > .05"
    assert corrected(few[:10])[0].says == AGAINST


@pytest.mark.thorough
def test_few_figures_speak_by_chance():
    """Twenty figures at their thresholds: in at most one page of ten anything speaks (.03 to .09 are measured)."""
    draw = np.random.default_rng(0)

    def anything_speaks(values, bounds):
        readings = [read_against(interval(row, bounds=bounds), (0.5, 0.5), FOR, AGAINST) for row in values]
        return any(reading.says != UNDECIDED for reading in corrected(readings))

    normal = [anything_speaks(draw.normal(0.5, 1, (20, 20)), None) for _ in range(40)]
    binary = [anything_speaks(draw.integers(0, 2, (20, 20)).astype(float), (0.0, 1.0)) for _ in range(40)]
    assert sum(normal) <= 5
    assert sum(binary) <= 5


def table(name, labels, rows):
    return {name: Table(name, name, labels, pd.DataFrame(rows))}


def test_the_figure_with_the_key_is_read_and_of_the_method_that_stands_for_attention():
    rule = Rule("?", "", "t", ("{attention}.all_layers.change",), FOR, AGAINST, 0.05)
    rows = [
        line({"of": number}, "change", value, value - 0.01, value + 0.01, 7, key=key)
        for number, (key, value) in enumerate([
            ("raw_attention.read_row.change", 0.2),
            ("rollout.all_layers.change", 0.3),
            ("", 0.4),
            ("raw_attention.all_layers.change", 0.01),
        ])
    ]  # fmt: skip
    whole = table("t", ("of",), rows)
    read = rule.read(whole, NAME)
    assert replace(read, p=0) == Reading(Interval(0.01, pytest.approx(0.0), pytest.approx(0.02), 7), AGAINST, "", 0)
    either = replace(rule, keys=("{attention}.nowhere", "{attention}.read_row.change", *rule.keys))
    assert either.read(whole, NAME).says == FOR, "of several keys the first that occurs"
    assert rule.read(table("t", ("of",), rows[:1]), NAME) is None
    assert rule.read(whole, "absent") is None
    assert rule.read({"t": not_applicable("t", "it cannot serve")}, NAME) is None
    assert rule.read({}, NAME) is None


def test_an_adversary_beyond_the_seeds_speaks_and_one_that_is_not_says_nothing():
    def of(kind, model, tvd, jsd):
        labels = {"kind": kind, "model": model}
        return [
            line(labels, "TVD", tvd, tvd, tvd, 9, key=f"{kind}.tvd"),
            line(labels, "JSD, heads matched", jsd, jsd - 0.01, jsd + 0.01, 9, key=f"{kind}.jsd_matched"),
        ]

    rule = next(rule for rule in RULES if isinstance(rule, OfAdversary))
    adversaries = of("adversary", "λ = .1", 0.01, 0.5) + of("adversary", "λ = 1", 0.3, 0.69)
    for seed, expected in ((0.2, AGAINST), (0.495, UNDECIDED), (0.6, UNDECIDED)):
        rows = adversaries + of("seed", "1", 0.0, seed) + of("seed", "2", 0.0, seed)
        reading = rule.read(table("adversarial_training", ("kind", "model"), rows), NAME)
        assert (reading.figure.value, reading.says) == (0.5, expected)
    far = table("adversarial_training", ("kind", "model"), adversaries[2:] + of("seed", "1", 0.0, 0.1))
    assert (rule.read(far, NAME).figure.n, rule.read(far, NAME).says) == (0, UNDECIDED)
    alone = table("adversarial_training", ("kind", "model"), adversaries)
    assert rule.read(alone, NAME) is None, "no seed to hold it to"


def test_a_search_that_finds_little_says_nothing():
    rule = next(rule for rule in RULES if rule.table == "adversarial_attention" and rule.about == ROW)
    labels = {"scope": "last layer, read row", "predicted class": "all"}
    for value, expected in ((0.9, AGAINST), (0.1, UNDECIDED)):
        found = line(labels, "share with JSD > 0.4", value, value - 0.1, value + 0.1, 9, key="read_row.share_found")
        assert rule.read(table("adversarial_attention", tuple(labels), [found]), NAME).says == expected


def test_a_model_that_was_not_deceived_says_nothing_of_attention():
    rule = next(rule for rule in RULES if isinstance(rule, OfDeceiver))
    found = table(
        "deception",
        ("explainer",),
        [line({"explainer": NAME}, "over random, deceptive model", 0.5, 0.4, 0.6, 9, key=f"{NAME}.over_random")],
    )
    labels, key = {"of": "mass on the words: read token, layer 1"}, "read_token.difference"
    for high, expected in ((-0.1, FOR), (0.1, UNDECIDED)):
        fell = line(labels, "difference", high - 0.1, high - 0.2, high, 9, key=key)
        assert rule.read(found | table("deception_mass", ("of",), [fell]), NAME).says == expected


def test_an_answer_is_held_to_the_truth_only_about_the_row_that_is_read_and_where_it_speaks():
    answer = Answer("?", "", ROW, Reading(Interval(0, 0, 0, 1), AGAINST, ""))
    assert [_agrees(answer, truth) for truth in (FOR, AGAINST, UNDECIDED)] == ["no", "yes", UNDECIDED]
    assert _agrees(replace(answer, about="word classifiers"), FOR) == "—"
    assert _agrees(replace(answer, about=MODEL), FOR) == "—"
    assert _agrees(replace(answer, reading=replace(answer.reading, says=UNDECIDED)), FOR) == "—"


def test_the_page_says_what_agrees_what_misleads_and_what_was_not_answered(context):
    made = context()

    class Planted(type(made.setting.task)):
        rationale_is_truth = True

    labels = {"scope": "last layer, read row", "predicted class": "all"}
    permuted = line(labels | {"largest weight": "any"}, "median change", 0.3, 0.2, 0.4, 8, key="read_row.change")
    found = line(labels, "share with JSD > 0.4", 1.0, 0.75, 1.0, 8, key="read_row.share_found")
    guided = {"guide": NAME, "explained class": "none", "question": "more than its weights in another order"}
    trained = line(guided, "difference", 0.0, -0.1, 0.1, 8, key=f"{NAME}.no_class.beyond_order")
    tables = {
        "permutation": list(table("permutation", (*labels, "largest weight"), [permuted]).values()),
        "adversarial_attention": list(table("adversarial_attention", tuple(labels), [found]).values()),
        "guide": list(table("guide_differences", tuple(guided), [trained]).values()),
        "uniform_attention": [not_applicable("uniform_attention", "no example has a label")],
    }
    truth = Answer(
        "does it find the planted words?", "", ROW, read_against(Interval(0.5, 0.4, 0.6, 8), (0, 0), FOR, AGAINST)
    )

    class Known(Verdict):
        def _advantage(self, context, names, question, trusted):
            return [truth] if "planted" in question else []

    made = replace(made, setting=replace(made.setting, task=Planted()), tables=tables)
    (page,) = Known()(made)
    page.check()
    notes = page.rows.set_index(["question", "metric"])["note"]
    assert notes["does it find the planted words?", "agrees with the truth"] == "it is the truth"
    assert notes["does another order of its weights give another output?", "says"] == FOR
    assert notes["does another order of its weights give another output?", "agrees with the truth"] == "yes"
    assert notes["is there another attention with the same output?", "agrees with the truth"] == "no"
    family, trusted, trainings, held, missing = page.sentences
    assert trusted == "Which of the tests can be trusted here was not asked, or cannot be (`which_test`)."
    assert "Holm's correction over the 4 figures that have one" in family
    assert not re.search(r"\d+ (speak )?(for|against)", family), "figures are not counted as votes"
    p_values = page.rows[page.rows["metric"] == "p (Holm)"]
    assert len(p_values) == 4
    assert p_values["value"].between(0, 1).all()
    assert trainings.startswith("Figures of models that were trained")
    assert (
        "these agree with that: does another order of its weights give another output? These would mislead: is there"
        in held
    )
    assert not re.search(r"\d", held), "figures are not counted as votes"
    assert {"uniform_attention", "weight_removal"} <= set(missing.rpartition(": ")[2].rstrip(".").split(", "))
    assert "permutation" not in missing

    (page,) = Verdict()(replace(made, setting=context().setting))
    assert "agrees with the truth" not in set(page.rows["metric"]), "what people marked is not what the model used"
    with pytest.raises(NotApplicable):
        Verdict()(context())


def every_figure():
    """A table for each that the rules read, with the figures that they ask for and others between them."""
    found: dict[str, list[dict]] = {}
    for place, rule in enumerate(RULES):
        keys = [rule.keys[-1].format(attention=NAME), *([rule.beside] if rule.beside else [])]
        for number, key in enumerate(keys):
            value = (-1) ** place * (0.3 + 0.01 * place) - 0.4 * number
            labels = {"of": f"{rule.question} {number}", "scope": rule.about}
            rows = found.setdefault(rule.table, [])
            rows.append(line(labels, "another", -value, -value - 0.01, -value + 0.01, 30, "of others"))
            rows.append(line(labels, f"figure {place}", value, value - 0.05, value + 0.05, 30, "its own", key=key))
    close, fell = (line({"of": "", "scope": ""}, "d", value, value - 0.01, value + 0.01, 30) for value in (0.01, -0.2))
    found["adversarial_training"].append(close | {KEY: "adversary.tvd"})
    found["deception_mass"] = [fell | {KEY: "read_token.difference"}]
    return [one for name, rows in found.items() for one in table(name, ("of", "scope"), rows).values()]


def says(context, tables):
    """What the page says of these tables, figure by figure."""
    (page,) = Verdict()(replace(context, tables={"all": tables}))
    return page.rows[["question", "about", "metric", "value", "n", "note"]].to_numpy().tolist(), page.sentences


def test_rewording_every_table_changes_no_verdict(context):
    made, tables = context(), every_figure()
    rows, sentences = says(made, tables)
    spoken = [row for row in rows if row[2] == "says"]
    assert len(spoken) == len(RULES)
    assert {FOR, AGAINST} <= {row[-1] for row in spoken}
    assert not sentences[-1].startswith("Not answered")
    assert repr(says(made, all_reworded(tables))) == repr((rows, sentences))


def test_figures_without_keys_answer_nothing(context):
    with pytest.raises(NotApplicable):
        says(context(), [replace(one, rows=one.rows.drop(columns=KEY)) for one in every_figure()])


def test_attention_is_held_to_random_scores_on_its_own_examples(place, tmp_path):
    chosen = config(place, "methods=[raw_attention,random,partial_lrp]", "evaluations=[rationale]", f"out={tmp_path}")
    setting = open_setting(chosen)
    evaluations = {name: make(part) for name, part in chosen.evaluations.items()}
    context = Context(setting, {name: setting.cell(name) for name in chosen.methods}, evaluations)
    list(finish_all(context.cells, evaluations))
    (page,) = Verdict()(context)
    found = page.rows[page.rows["metric"] == "figure"].iloc[0]
    columns = [
        measured.tested(context.cells[name], context.tests)[1]
        .read("rationale", "average_precision")
        .set_index("uid")["value"]
        for name in ("raw_attention", "random")
    ]
    assert found["value"] == pytest.approx((columns[0] - columns[1]).mean())
    assert found["question"] == "does it find the words of the rationale?"
    with pytest.raises(NotApplicable):
        Verdict(control="absent")(context)


def test_a_test_that_cannot_be_trusted_here_has_no_verdict_and_the_page_says_which_can(place, tmp_path):
    made = config(place, "methods=[raw_attention,random]", "evaluations=[aopc,rationale]", f"out={tmp_path}")
    opened = open_setting(made)
    evaluations = {name: make(part) for name, part in made.evaluations.items()}
    cells = {name: opened.cell(name) for name in made.methods}
    list(finish_all(cells, evaluations))
    keys = {"aopc.comprehensiveness": ("not here", "fails controls"), "aopc.sufficiency": ("use it", "all passes")}
    rows = [
        line({"test": key}, part, note=note, key=f"{key}.{part}")
        for key, told in keys.items()
        for part, note in zip(("verdict", "why"), told, strict=True)
    ]
    context = Context(
        opened, cells, evaluations, tables={"which_test": list(table("which_test", ("test",), rows).values())}
    )
    (page,) = Verdict(plausibility="none.none")(context)
    notes = page.rows.set_index("metric")["note"]
    assert notes["says"] == "no verdict: the test is not here: fails controls"
    assert "use it: aopc.sufficiency; not here: aopc.comprehensiveness." in page.sentences[1]
    assert "p (Holm)" not in notes.index, "it is no member of the family"


def test_nothing_is_said_of_attention_that_is_constant_on_more_than_a_tenth_of_the_examples(place, tmp_path):
    chosen = config(place, "methods=[constant,random]", "evaluations=[rationale,aopc]", f"out={tmp_path}", "limit=6")
    setting = open_setting(chosen)
    evaluations = {name: make(part) for name, part in chosen.evaluations.items()}
    context = Context(setting, {name: setting.cell(name) for name in chosen.methods}, evaluations)
    list(finish_all(context.cells, evaluations))
    (page,) = Verdict(attention="constant")(context)
    said = page.rows[page.rows["metric"] == "says"]["note"].tolist()
    assert said == ["no verdict: all scores are equal in 100 % of its explanations"] * 2
    assert "agrees with the truth" not in set(page.rows["metric"])


@pytest.mark.thorough
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
    assert read_tables(context.folder)[0].name == "verdict", "it stands before the tables that it reads"
    tables = {table.name: table for table in read_tables(context.folder)}
    assert {rule.table for rule in RULES} <= tables.keys()
    page = tables["verdict"].rows.copy()
    page["question"] += page["about"]
    found = page[page["metric"] == "figure"].set_index("question")
    for rule in RULES:
        seen = found["n"].get(rule.question + rule.about, 0) > 0 or found["note"].get(rule.question + rule.about, "")
        assert seen, rule.question
    assert len(found) == len(RULES) + 2
    assert not tables["verdict"].sentences[-1].startswith("Not answered")
    given = {name: table for name, table in tables.items() if name != "verdict"}
    in_other_words = {name: reworded(table) for name, table in given.items()}
    for rule in RULES:
        was, again = (corrected([rule.read(whole, "raw_attention")])[0] for whole in (given, in_other_words))
        assert (repr(again.figure), again.says, repr(again.p)) == (repr(was.figure), was.says, repr(was.p)), (
            rule.question
        )


def test_what_reads_tables_comes_last():
    analyses = {
        name: make(compose(None, [f"+analyses={name}"]).analyses[name])
        for name in ("over_seeds", "verdict", "permutation")
    }
    assert [name for name, _ in in_order(analyses)] == ["permutation", "verdict", "over_seeds"]
    assert analyses["verdict"].reads_tables
    assert not analyses["permutation"].reads_tables
    assert not analyses["permutation"].reads_elsewhere
