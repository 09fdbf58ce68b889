"""What is explained of an example: a class, or why one class rather than another."""

import math

import numpy as np
import pytest
import torch

import benchmark
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.aopc import Aopc
from benchmark.evaluations.completeness import Completeness
from benchmark.evaluations.perturbation import Perturbation
from benchmark.models.removal import logits_without, operator_for
from benchmark.results.store import Ragged
from benchmark.run.arrays import flat, padded
from benchmark.run.reducing import SAID_OF_TARGET
from benchmark.run.stages import Explaining, heads_from
from benchmark.targets import ClassTarget, Contrast, LogProbability, joined, runner_up, target_from, target_of
from benchmark.types import Attribution, PlainMethod
from benchmark.units import pool
from tests import tiny_task

CLASSES, AGAINST = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
TARGETS = {"class": ClassTarget(CLASSES), "contrast": Contrast(CLASSES, AGAINST)}
EVERY = {**TARGETS, "log-probability": LogProbability(CLASSES)}
LOGITS = torch.tensor([[1.0, -2, 0.5], [0, 3, 2], [4, 4, -1]], dtype=torch.float64)


def contrasted(logits):
    """`y_c − y_d`, by hand."""
    return torch.stack([logits[b, c] - logits[b, d] for b, (c, d) in enumerate(zip(CLASSES, AGAINST, strict=True))])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_models.load("bert", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model):
    return model.encode(small_models.inputs("bert", (7, 5, 9)))


@pytest.mark.parametrize("target", EVERY.values(), ids=EVERY)
def test_the_seed_is_the_gradient_of_the_value(target):
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(target.value(logits).sum(), logits)
    assert torch.allclose(target.seed(logits), gradient, rtol=0, atol=1e-15)
    assert torch.allclose(target.of_parts(LOGITS, logits), (gradient * LOGITS).sum(-1))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_classes_and_contrasts_are_linear(target):
    assert torch.equal(target.of_parts(torch.stack([LOGITS, LOGITS]), LOGITS)[1], target.value(LOGITS))
    assert target.value(torch.stack([LOGITS, 2 * LOGITS]))[1].tolist() == (2 * target.value(LOGITS)).tolist()


def test_values_and_probabilities_by_hand():
    one, contrast = TARGETS.values()
    assert one.value(LOGITS).tolist() == [1.0, 3.0, -1.0]
    assert contrast.value(LOGITS).tolist() == [3.0, 1.0, -5.0]
    p = [[math.exp(y) / sum(map(math.exp, row)) for y in row] for row in LOGITS.tolist()]
    assert one.probability(LOGITS).tolist() == pytest.approx([p[0][0], p[1][1], p[2][2]])
    among = [p[b][c] / (p[b][c] + p[b][d]) for b, (c, d) in enumerate([(0, 1), (1, 2), (2, 0)])]
    assert contrast.probability(LOGITS).tolist() == pytest.approx(among)
    logarithm = EVERY["log-probability"]
    assert logarithm.value(LOGITS).tolist() == pytest.approx([math.log(p[b][c]) for b, c in enumerate(CLASSES)])
    assert logarithm.holds(LOGITS).tolist() == [True, True, False]
    assert logarithm.names(["bad", "good", "odd"])[2] == "probability of odd"
    with pytest.raises(NotApplicable, match="probability of its own"):
        logarithm.probability(LOGITS, multilabel=True)
    for target in EVERY.values():
        assert torch.allclose(target.among(LOGITS.softmax(-1)), target.probability(LOGITS))
        assert torch.allclose(target.log_probability(LOGITS).exp(), target.probability(LOGITS))
    assert one.probability(LOGITS, multilabel=True).tolist() == pytest.approx(
        [1 / (1 + math.exp(-y)) for y in (1, 3, -1)]
    )
    assert one.holds(LOGITS).tolist() == [True, True, False]
    assert contrast.holds(LOGITS).tolist() == [True, True, False]


def test_of_two_classes_a_contrast_has_the_probability_of_its_class():
    logits = LOGITS[:, :2]
    contrast = Contrast(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 0]))
    assert torch.allclose(contrast.probability(logits), ClassTarget(contrast.classes).probability(logits))


def test_the_runner_up_has_the_second_largest_logit():
    found = runner_up(LOGITS)
    assert found.ids == [(0, 2), (1, 2), (0, 1)]  # of equal logits the first is predicted
    assert found.names(["bad", "good", "odd"]) == [
        "bad rather than odd",
        "good rather than odd",
        "bad rather than good",
    ]
    with pytest.raises(NotApplicable, match="single class"):
        runner_up(LOGITS[:, :1])
    with pytest.raises(NotApplicable, match="probability of its own"):
        runner_up(LOGITS, multilabel=True)
    with pytest.raises(NotApplicable, match="probability of its own"):
        found.probability(LOGITS, multilabel=True)


def test_what_a_setting_asks_for():
    label = torch.tensor([2, 2, -1])
    assert target_of("label", label, lambda: pytest.fail("no logits are needed")).ids == [(2,), (2,), (-1,)]
    assert target_of("predicted", label, lambda: LOGITS).ids == [(0,), (1,), (0,)]
    assert target_of("contrast", label, lambda: LOGITS).ids == runner_up(LOGITS).ids
    assert target_of("log_probability", label, lambda: pytest.fail("no logits are needed")).stored["logarithm"].all()
    with pytest.raises(NotApplicable, match="probability of its own"):
        target_of("log_probability", label, lambda: LOGITS, multilabel=True)
    assert ClassTarget(label).known.tolist() == [True, True, False]


def test_examples_differ_by_what_is_explained():
    one, contrast = TARGETS.values()
    assert one.differs(ClassTarget(torch.tensor([0, 2, 2]))).tolist() == [False, True, False]
    assert contrast.differs(Contrast(CLASSES, torch.tensor([1, 0, 0]))).tolist() == [False, True, False]
    assert one.differs(contrast).all()
    assert one.differs(EVERY["log-probability"]).all()


@pytest.mark.parametrize("target", EVERY.values(), ids=EVERY)
def test_parts_of_a_target_are_joined_and_stored(target):
    assert joined([target[:1], target[[1, 2]]]).ids == target.ids == target_from(target.stored).ids
    assert target.repeat(2).ids == 2 * target.ids
    assert type(target[:1]) is type(target) is type(target_from(target.stored))


def test_a_contrast_is_stored_with_the_scores(batch):
    target = TARGETS["contrast"]
    found = Attribution(target, tokens=torch.rand(batch.units.shape, dtype=torch.float64) * batch.attention_mask)
    parts = [flat(batch.select([b]), found.select([b]), {}) for b in range(3)]
    again = padded(Ragged.merge(parts), 0, batch)
    assert again.target.ids == target.ids
    assert torch.equal(again.tokens, found.tokens)


LINEAR = {
    "gradient_x_input": ["output=logit"],
    "integrated_gradients": ["output=logit", "steps=5"],
    "occlusion": ["output=logit"],
    "deeplift": [],
    "decompx": [],
    "attnlrp": [],
    "attcat": [],
}
"""Methods whose scores are linear in the explained function of the logits, with the setting that makes them so."""


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_explanation_of_a_contrast_is_the_difference_of_two(model, batch, name):
    method = benchmark.build(f"methods/{name}", *LINEAR[name])
    found = method(model, batch, TARGETS["contrast"]).tokens
    one, other = (method(model, batch, classes).tokens for classes in (CLASSES, AGAINST))
    assert torch.allclose(found, one - other, rtol=1e-9, atol=1e-9 * float(one.abs().max()))
    assert not torch.allclose(found, one)


@pytest.mark.parametrize("name", ["gradient_x_input", "deeplift", "decompx", "attnlrp", "attcat"])
def test_an_explanation_of_a_log_probability_is_that_of_its_gradient(model, batch, name):
    """`∂ ln p_c / ∂y` weighs the explanations of all classes."""
    method = benchmark.build(f"methods/{name}", *LINEAR[name])
    found = method(model, batch, LogProbability(CLASSES)).tokens
    weights = LogProbability(CLASSES).seed(model.run(batch).logits)
    of_classes = [method(model, batch, torch.full((3,), c)).tokens for c in range(weights.shape[1])]
    expected = sum(weights[:, c, None] * tokens for c, tokens in enumerate(of_classes))
    assert torch.allclose(found, expected, rtol=1e-7, atol=1e-9 * float(of_classes[0].abs().max()))


def test_what_explains_probabilities_explains_their_logarithm(model, batch):
    """So that scores of several tokens add up: removal, integrated attention and games give changes of ln p."""
    target = LogProbability(CLASSES)
    before = model.run(batch).logits.log_softmax(-1).gather(1, CLASSES[:, None])[:, 0]
    removed = torch.zeros(1, len(batch), int(batch.units.max()) + 1, dtype=torch.bool)
    removed[0, :, 0] = True
    (after,) = logits_without(model, batch, removed, operator_for("auto", model, batch, "operator"))
    dropped = before - after.log_softmax(-1).gather(1, CLASSES[:, None])[:, 0]
    scores, _ = pool(benchmark.build("methods/leave_one_out")(model, batch, target).tokens, batch.units)
    assert torch.allclose(scores[:, 0], dropped, atol=1e-9)
    edges = benchmark.build("methods/attattr", "edges.steps=64", "edges.quadrature=gauss_legendre")
    rows = Completeness(target="log_probability").rows(model, batch, edges(model, batch, target))
    means = rows.groupby("metric")["value"].mean()
    assert means["gap"] < 1e-3 * means["contribution"]


@pytest.mark.parametrize("name", ["decompx", "attattr"])
def test_an_explanation_of_a_contrast_completes(model, batch, name):
    """Parts of a logit sum to the difference of two, integrated attention to the fall of σ(y_c − y_d)."""
    target, logits = TARGETS["contrast"], model.run(batch).logits
    if name == "decompx":
        tokens, rest = benchmark.build("methods/decompx").contributions(model, batch, target)
        assert torch.allclose(
            tokens.sum(1) + rest, logits.gather(1, CLASSES[:, None])[:, 0] - logits[range(3), AGAINST]
        )
        return
    edges = benchmark.build("methods/attattr", "edges.steps=64", "edges.quadrature=gauss_legendre")
    scores = edges.edge_scores(model, batch, target)
    for layer in range(model.n_layers):

        def remove(call, attention, at=layer):
            return torch.zeros_like(attention) if call == at else attention

        without = model.run(batch, edits=[remove]).logits
        fall = contrasted(logits).sigmoid() - contrasted(without).sigmoid()
        assert scores[:, layer].sum((1, 2, 3)).tolist() == pytest.approx(fall.tolist(), abs=1e-8)


def test_tests_watch_the_contrast(model, batch):
    """Of the most relevant word taken away, by hand: the difference of two logits, and σ of it."""
    target = TARGETS["contrast"]
    scores = torch.where(batch.units == 1, 1.0, 0.0).double() * batch.attention_mask
    attribution = Attribution(target, tokens=scores)
    removed = torch.zeros(1, 3, int(batch.units.max()) + 1, dtype=torch.bool)
    removed[..., 1] = True
    share = 1e-9  # one word
    operator = operator_for("auto", model, batch, "operator")
    (after,) = logits_without(model, batch, removed, operator)
    aopc = Aopc(target="contrast", fractions=(share,)).rows(model, batch, attribution)
    before = model.run(batch).logits
    whole = contrasted(before).sigmoid()
    found = aopc[aopc["metric"] == "comprehensiveness"].set_index("uid")["value"].loc[list(batch.uids)]
    assert found.tolist() == pytest.approx((whole - contrasted(after).sigmoid()).tolist())
    curves = Perturbation(target="contrast", fractions=(0.99,)).rows(model, batch, attribution)
    start = curves[(curves["metric"] == "positive_logit") & (curves["x"] == 0)].set_index("uid")["value"]
    assert start.loc[list(batch.uids)].tolist() == pytest.approx(
        (before[range(3), CLASSES] - before[range(3), AGAINST]).tolist()
    )
    chance = curves[(curves["metric"] == "positive_probability") & (curves["x"] == 0)].set_index("uid")["value"]
    assert chance.loc[list(batch.uids)].tolist() == pytest.approx(whole.tolist())


def test_tests_watch_the_log_probability(model, batch):
    target = LogProbability(CLASSES)
    attribution = Attribution(target, tokens=torch.rand(batch.units.shape).double() * batch.attention_mask)
    test = Perturbation(target="log_probability", fractions=(0.5, 0.99))
    rows = test.rows(model, batch, attribution)
    assert set(rows["metric"]) <= set(test.metrics)
    assert "positive_log_probability_auc_mean" in set(rows["metric"])
    assert not any("logit" in metric for metric in test.metrics)
    start = rows[(rows["metric"] == "positive_log_probability") & (rows["x"] == 0)].set_index("uid")["value"]
    expected = model.run(batch).logits.log_softmax(-1)[range(3), CLASSES]
    assert start.loc[list(batch.uids)].tolist() == pytest.approx(expected.tolist())


def test_a_function_explains_classes_alone(model, batch):
    def function(model, batch, target):
        assert target.tolist() == CLASSES.tolist()
        return Attribution(target=target, tokens=batch.attention_mask.double())

    method = PlainMethod(function)
    assert method(model, batch, TARGETS["class"]).target.ids == TARGETS["class"].ids
    with pytest.raises(NotApplicable, match="explains classes alone"):
        method(model, batch, TARGETS["contrast"])
    function.class_specific = False
    assert method(model, batch, TARGETS["contrast"]).tokens is not None


def test_a_target_of_other_examples_is_refused(model, batch):
    with pytest.raises(UserError, match="target is of 2 examples, and the batch has 3"):
        benchmark.build("methods/gradient_x_input")(model, batch, TARGETS["contrast"][:2])


def test_calibration_examples_are_explained_as_asked():
    sample = type("Sample", (), {"split": "train", "limit": 5})
    assert heads_from("same", "contrast") == Explaining(which="contrast")
    assert heads_from(sample, "predicted").which == heads_from(sample, "label").which == "label"
    assert heads_from(sample, "contrast").name == "attributions-calibration-train-5-contrast"


@pytest.mark.usefixtures("no_pictures")
def test_a_comparison_of_contrasts(place, tmp_path):
    """Of two classes the contrast has the class's probability, so that figures agree; columns say what they are of."""
    chosen = "methods=[raw_attention,gradient_x_input,probe]", "evaluations=[perturbation,head_pruning]", "analyses=[]"
    of_probability = "methods.gradient_x_input.output=probability"
    contrast = [f"evaluations.{name}.target=contrast" for name in ("perturbation", "head_pruning")]
    plain = tiny_task.compared(place, tmp_path, *chosen, of_probability)
    found = tiny_task.compared(place, tmp_path, *chosen, of_probability, *contrast)
    one, two = (
        benchmark.leaderboard(each.folder).set_index(["method", "evaluation", "metric"]) for each in (plain, found)
    )
    names = [("gradient_x_input", "perturbation", f"{side}_auc_mean") for side in ("positive", "negative")]
    for name in names:
        assert two.loc[name, "value"] == pytest.approx(one.loc[name, "value"], abs=1e-6)
    logit = "gradient_x_input", "perturbation", "positive_logit_auc_mean"
    assert not np.isclose(two.loc[logit, "value"], one.loc[logit, "value"])
    of_test = found.loaded[0].record.evaluations["perturbation"]
    logarithm = "evaluations.perturbation.target=log_probability"
    third = tiny_task.compared(place, tmp_path, *chosen[1:], "methods=[raw_attention,random]", logarithm)
    figures = benchmark.leaderboard(third.folder).set_index(["method", "evaluation", "metric"])
    assert figures.loc[("random", "perturbation", "positive_log_probability_auc_mean"), "value"] < 0
    metric = of_test.metrics["positive_auc_mean"]
    assert of_test.about.title == "Perturbation, contrast"
    assert metric.title.endswith(", contrast")
    assert metric.short.endswith(", contrast")
    assert metric.meaning.endswith(SAID_OF_TARGET["contrast"][1])


def test_a_margin_is_of_the_annotated_class():
    """Against the best of the others; where nobody annotated a class, it is the contrast."""
    label = torch.tensor([2, 0, -1])
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 1.0, 2.0], [0.0, 1.0, 3.0]])
    target = target_of("margin", label, lambda: logits)
    assert target.classes.tolist() == [2, 0, 2]
    assert target.against.tolist() == [1, 2, 1]
    assert target.value(logits).tolist() == [-1.0, 3.0, 2.0]
    with pytest.raises(NotApplicable):
        target_of("margin", label, lambda: logits, multilabel=True)
