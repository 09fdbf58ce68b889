"""`benchmark.evaluate`: the figures of a comparison from texts and scores at hand, and reasons where something lacks."""

import pickle

import numpy as np
import pandas as pd
import pytest

import benchmark
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.settings.configuration import compose
from tests.tiny_task import TinyTask

EXAMPLES = TinyTask().split("test")
TEXTS = [example.inputs for example in EXAMPLES]
GIVEN = {
    "labels": [("bad", "good")[example.label] for example in EXAMPLES],
    "rationales": [example.rationale for example in EXAMPLES],
    "uids": [example.uid for example in EXAMPLES],
}
TESTS = ("perturbation", "rationale", "head_pruning", "completeness")
KEYS = ["method", "evaluation", "metric"]
FIGURES = ["value", "low", "high", "n"]


@pytest.fixture(scope="module")
def compared(checkpoint, tmp_path_factory):
    place = tmp_path_factory.mktemp("compared")
    from tests import tiny_task

    tiny_task.write_yamls(place / "conf")
    chosen = ("task=tiny_task", "model=hf", f"model.path={checkpoint}", "tracking=none", f"out={place / 'runs'}")
    tests = (f"evaluations=[{','.join(TESTS)}]", "evaluations.head_pruning.calibration=same", "methods=[probe,rollout]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        return run_comparison(compose("config", [*chosen, *tests], str(place / "conf"))).folder


def test_the_figures_are_those_of_a_comparison(model, compared):
    scores = {"probe": [[len(word) for word in text.split()] for text in TEXTS]}
    tests = [*TESTS, "head_pruning.calibration=same"]
    result = benchmark.evaluate(model, TEXTS, scores, tests, methods=["rollout"], **GIVEN)
    found = result.table().set_index(KEYS)
    expected = pd.read_csv(compared / "leaderboard.csv").set_index(KEYS)
    assert len(expected) > 40
    assert set(found.index) == set(expected.index)
    pd.testing.assert_frame_equal(found.loc[expected.index, FIGURES], expected[FIGURES], check_dtype=False, atol=1e-6)
    assert list(dict.fromkeys(result.table()["method"])) == ["probe", "rollout"]
    assert set(result.rows["uid"]) == set(GIVEN["uids"])
    curves = pd.read_csv(compared / "curves.csv")
    assert len(result.curves()) == len(curves)


def test_the_leaderboard_is_that_of_the_comparison(compared):
    board = benchmark.leaderboard(compared)
    expected = pd.read_csv(compared / "leaderboard.csv")
    pd.testing.assert_frame_equal(board[expected.columns], expected, check_dtype=False, rtol=0, atol=0)
    assert board.loc[board["value"].isna(), "reason"].notna().all()
    pd.testing.assert_frame_equal(benchmark.leaderboard(compared.parents[1]), board)  # the run folders themselves


def test_tests_of_another_comparison_are_left_out(compared, checkpoint, tmp_path):
    """Two comparisons share run folders: each shows its own tests."""
    from tests import tiny_task

    out = compared.parents[1]
    tiny_task.write_yamls(tmp_path / "conf")
    chosen = (
        "task=tiny_task",
        "model=hf",
        f"model.path={checkpoint}",
        "tracking=none",
        f"out={out}",
        "methods=[probe]",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        other = run_comparison(compose("config", [*chosen, "evaluations=[aopc]"], str(tmp_path / "conf"))).folder
    assert set(benchmark.leaderboard(other)["evaluation"]) == {"aopc"}
    assert set(benchmark.leaderboard(compared)["evaluation"]) == set(TESTS)


def test_what_lacks_is_said(model):
    scores = {"mine": [np.linspace(0, 1, len(text.split())) for text in TEXTS]}
    tests = ["perturbation", "rationale", "head_pruning", "completeness", "head_pruning_each"]
    result = benchmark.evaluate(model, TEXTS, scores, tests)
    table = result.table().set_index(["evaluation", "metric"])
    assert table.loc[("rationale", "average_precision"), "reason"] == "no example has a rationale"
    assert table.loc[("completeness", "gap"), "reason"] == "the method does not score edges"
    assert (
        "only texts were given; set calibration=same or each" in table.loc[("head_pruning", "auc_difference"), "reason"]
    )
    assert "no labels" in table.loc[("perturbation", "positive_auc_mean"), "reason"]
    assert table.loc[("perturbation", "positive_probability_auc_mean"), "n"] == 12
    assert table["reason"].isna().equals(table["value"].notna())
    for shown in (repr(result), result._repr_html_()):
        assert "no example has a rationale" in shown
    assert "12 texts" in repr(result)
    assert len(repr(result).splitlines()) < 20


def test_scores_of_an_explanation_are_taken_back(model):
    texts = ["the untoldly film", "the " * 30]
    explanation = benchmark.explain(model, texts, methods=["attattr"])
    result = benchmark.evaluate(model, texts, explanation.scores(), "aopc", methods={"again": "attattr"})
    both = result.figures.set_index("method")["value"]
    assert np.allclose(both.loc["attattr"], both.loc["again"], equal_nan=True)


def test_an_explanation_is_taken_as_it_is(model):
    methods = ["rollout", "position", "taylor"]  # the last scores heads alone
    explanation = benchmark.explain(model, TEXTS, methods)
    found = benchmark.evaluate(model, TEXTS, explanation, ["aopc"])
    pd.testing.assert_frame_equal(
        found.table(), benchmark.evaluate(model, TEXTS, explanation.scores(), ["aopc"]).table()
    )
    assert set(found.table().method) == {"rollout", "position"}
    one = benchmark.explain(model, TEXTS[0], "position")
    assert benchmark.evaluate(model, TEXTS[0], one, ["aopc"]).n == 1
    with pytest.raises(UserError, match=r"the explanation is of other texts than those that are tested"):
        benchmark.evaluate(model, TEXTS[::-1], explanation, ["aopc"])
    other = 1 - int(one.target.classes[0])
    with pytest.raises(UserError, match=r"of something else than the predicted class.*explain without target"):
        benchmark.evaluate(model, TEXTS[0], benchmark.explain(model, TEXTS[0], "position", other), ["aopc"])


def test_tests_of_edges_and_heads_read_an_explanation_as_they_read_its_method(model):
    """It holds no edges: they are asked of the method that explained, for the model that was explained, and no other."""
    tests = ["kept_edges", "head_pruning", "evaluations.head_pruning.calibration=same"]
    explanation = benchmark.explain(model, TEXTS, methods=["attattr", "gradient_x_input"])
    found = benchmark.evaluate(model, TEXTS, explanation, evaluations=tests).table()
    expected = benchmark.evaluate(model, TEXTS, methods=["attattr", "gradient_x_input"], evaluations=tests).table()
    pd.testing.assert_frame_equal(found, expected)
    of_edges = found[(found["method"] == "attattr") & (found["evaluation"] == "kept_edges")]
    assert of_edges["value"].notna().any()
    kept = pickle.loads(pickle.dumps(explanation))
    again = benchmark.evaluate(model, TEXTS, kept, evaluations=["kept_edges"]).table()
    reasons = dict(zip(again["method"], again["reason"], strict=True))
    assert reasons["attattr"] == "the explanation keeps no edges, and was not made with this model; give methods=[...]"
    assert reasons["gradient_x_input"] == reasons["attattr"], "which methods they were is not known any more"
    assert pickle.loads(pickle.dumps(benchmark.explain(model, TEXTS[0], [lambda text: [1.0] * len(text.split())])))


@pytest.mark.parametrize(
    ("rationale", "marked"),
    [(["fine film"], [0, 1, 1]), ([[2, 6]], [0, 1, 0]), (["a", "film"], [1, 0, 1]), ([0, 1, 1], [0, 1, 1])],
)
@pytest.mark.parametrize("text", ["a fine film", ["a", "fine", "film"]])
def test_rationales_are_marks_spans_or_phrases(model, rationale, marked, text):
    scores = {"mine": [[0.3, 0.2, 0.1]]}
    found, expected = (
        benchmark.evaluate(model, [text], scores, evaluations=["rationale"], rationales=[given]).table()
        for given in (rationale, marked)
    )
    pd.testing.assert_frame_equal(found, expected)


def test_a_phrase_that_does_not_occur_is_one_line(model):
    with pytest.raises(UserError, match=r"rationales\[0\]: it names 'great', which does not occur in the text"):
        benchmark.evaluate(
            model, ["a fine film"], {"mine": [[1, 2, 3]]}, evaluations=["rationale"], rationales=[["great"]]
        )


def test_what_was_built_of_a_yaml_bears_its_name(model):
    built = [benchmark.build("methods/attattr", f"edges.steps={steps}") for steps in (2, 3)]
    explanation = benchmark.explain(model, "a fine film", methods=[benchmark.build("methods/rollout"), *built])
    assert explanation.methods == ("rollout", "attattr", "attattr (2)")
    tests = benchmark.evaluate(model, ["a fine film"], {"mine": [[1, 2, 3]]}, [benchmark.build("evaluations/aopc")])
    assert set(tests.table()["evaluation"]) == {"aopc"}


def test_one_text_and_functions(model):
    result = benchmark.evaluate(
        model, "a fine film", {"mine": [0.1, 0.9, 0]}, ["rationale"], rationales=[0, 1, 0],
        methods=[lambda text: [1, 2, 3], "random"],
    )  # fmt: skip
    table = result.table().query("metric == 'average_precision'").set_index("method")["value"]
    assert list(table.index) == ["mine", "function", "random"]
    assert table["mine"] == 1.0
    assert table["function"] < 1.0


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((["a film"],), {}, r"nothing to test; give scores=\{'mine'.*, or methods="),
        ((["a film"], [[1, 2]]), {}, r"scores must map a name .*; explainers are methods=\[\.\.\.\]"),
        ((["a film"], {"mine": [[1]]}), {}, r"scores\['mine'\]\[0\] is 1 numbers; give one for each of the 2 words: a film"),
        ((["a film"], {"mine": [[1, 2], [3]]}), {}, r"scores\['mine'\] is 2 lists; give .* for each text \(1\)"),
        ((["a film"], {"mine": 3}), {}, r"scores\['mine'\] is int"),
        ((["a film"], {"mine": ["ab"]}), {}, r"scores\['mine'\]\[0\] is 'ab'; give one number per word"),
        ((["a film"], {"mine": [np.array([1, 2j])]}), {}, r"scores\['mine'\]\[0\] is array\(.*; give one number per word"),
        ((["a film"], {"mine": [[1, float("nan")]]}), {}, r"scores\['mine'\] of text 0 has nan for word 1 \('film'\)"),
        ((["a film"], {"mine": [[1, 2]]}, ["aop"]), {}, r"evaluations=aop does not exist; did you mean aopc\?"),
        ((["a film"], {"mine": [[1, 2]]}, [3]), {}, "int is no test; give a name: agreement"),
        ((["a film"], {"mine": [[1, 2]]}), {"rationales": [[1]]}, r"rationales\[0\] is 1 numbers"),
        ((["a film"], {"mine": [[1, 2]]}), {"rationales": [1, 0]}, "rationales has 2 entries; give one"),
        ((["a film"], {"mine": [[1, 2]]}), {"rationales": [[0.5, 0]]}, "give 1 for a word that is rationale, else 0"),
        ((["a film"], {"mine": [[1, 2]]}), {"labels": ["POS"]}, "labels='POS' is no class of the model; allowed: bad, good"),
        ((["a film"], {"mine": [[1, 2]]}), {"labels": [0, 1]}, "labels has 2 classes for 1 text"),
        ((["a", "b"], {"mine": [[1], [2]]}), {"uids": ["x", "x"]}, "uids must be 2 different names"),
        ((["a film"], {"rollout": [[1, 2]]}), {"methods": "rollout"}, "'rollout' is the name of scores and of a method"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(model, arguments, named, message):
    with pytest.raises(UserError, match=message):
        benchmark.evaluate(model, *arguments, **named)


def test_a_leaderboard_of_nothing(tmp_path):
    with pytest.raises(UserError, match="is no folder; give that of a comparison"):
        benchmark.leaderboard(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no finished run folder"):
        benchmark.leaderboard(tmp_path)


def test_what_there_is():
    from benchmark.settings.configuration import options

    methods, evaluations = benchmark.methods(), benchmark.evaluations()
    assert set(methods.index) == set(options("methods"))
    assert set(evaluations.index) == set(options("evaluations"))
    assert evaluations.loc["rationale", "needs"] == "scores of words, rationales"
    assert evaluations.loc["head_pruning", "needs"] == "scores of heads, labels, examples of a split"
    assert "Hao et al. 2021" in evaluations.loc["attribution_graph", "source"]
    assert evaluations.loc["rationale", "metrics"].startswith("average_precision ↑")
    assert evaluations["what"].str.len().min() > 20


def test_a_figure_of_one_text_says_why_it_has_no_interval(model):
    scores = {"mine": [[len(word) for word in TEXTS[0].split()]]}
    result = benchmark.evaluate(model, TEXTS[:1], scores, ["perturbation", "aopc"])
    table = result.table()
    figures = table[table["value"].notna()]
    assert len(figures) > 4
    assert {*figures["reason"]} == {*result.curves()["reason"]} == {"no interval: n is 1"}
    for shown in (repr(result), result._repr_html_()):
        assert "] no interval: n is 1" in shown
    two = benchmark.evaluate(model, TEXTS[:2], {"mine": [*scores["mine"], [len(w) for w in TEXTS[1].split()]]}, "aopc")
    bounded = two.table()["low"].notna()
    assert bounded.any()
    assert two.table().loc[bounded, "reason"].isna().all()


def test_a_dash_says_what_the_examples_lack(model):
    same = {"mine": [[1.0] * len(text.split()) for text in TEXTS[:3]]}
    found = benchmark.evaluate(model, TEXTS[:3], same, ["aopc", "agreement", "attribution_graph"], methods=["attattr"])
    reasons = found.table().set_index(["method", "metric"])["reason"]
    assert reasons["attattr", "rationale_f1_mean"] == "no example has a rationale"
    assert reasons["attattr", "sufficiency_hard"].endswith("not all examples are annotations of ERASER (task=eraser)")
    assert reasons["mine", "gradient_tau"] == (
        "in no example do both the scores and what they are compared with order words"
    )
