"""Heads that are no softmax over classes: labels with a probability each, and numbers."""

import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import benchmark
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.aopc import Aopc
from benchmark.evaluations.completeness import layer_contributions
from benchmark.evaluations.head_pruning import pruned_logits
from benchmark.evaluations.perturbation import Perturbation
from benchmark.settings.making import build
from benchmark.targets import ClassTarget
from tests.text_models import save_bert

LABELS = ("anger", "joy", "fear")
TEXTS = ["a fine film , the story was good", "the plot was dull", "good film !"]


def save_head(folder, problem_type, outputs=3):
    save_bert(folder, labels=LABELS[:outputs])
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.config.problem_type = problem_type
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return save_head(tmp_path_factory.mktemp("several"), "multi_label_classification")


def expected_probabilities(folder, texts=TEXTS):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts]).sigmoid().double()


def test_each_label_has_a_sigmoid_of_its_own(several):
    model = benchmark.load_model(several, device="cpu")
    expected = expected_probabilities(several)
    assert ((expected.sum(1) - 1).abs() > 0.05).all()
    found = benchmark.explain(model, TEXTS, methods=["random"])
    torch.testing.assert_close(found.probabilities, expected, atol=1e-6, rtol=1e-6)
    assert found.target.classes.tolist() == expected.argmax(1).tolist()
    torch.testing.assert_close(model.run(model.encode(TEXTS)).probabilities.double(), expected, atol=1e-6, rtol=1e-6)


def test_the_tests_compare_sigmoids(several):
    model = benchmark.load_model(several, device="cpu")
    batch, expected = model.encode(TEXTS), expected_probabilities(several)
    target = torch.tensor([2, 0, 1])
    attribution = build("methods/random")(model, batch, target)
    erased = Aopc().erase(model, batch, attribution)
    torch.testing.assert_close(erased.whole.cpu(), expected, atol=1e-6, rtol=1e-6)
    rows = Perturbation().rows(model, batch, attribution)
    first = rows[(rows.metric == "positive_probability") & (rows.x == 0)].set_index("uid")["value"]
    for index in range(len(TEXTS)):
        assert first[str(index)] == pytest.approx(float(expected[index, target[index]]), abs=1e-6)
    keep = torch.ones(2, len(TEXTS), model.n_layers, model.n_heads, dtype=torch.bool)
    keep[1, :, 0] = False
    logits = pruned_logits(model, batch, keep).sigmoid()
    falls = (logits[0] - logits[1])[torch.arange(len(TEXTS)), target]
    torch.testing.assert_close(
        layer_contributions(model, batch, ClassTarget(target))[:, 0], falls, atol=1e-6, rtol=1e-6
    )


def test_a_removal_is_measured_in_sigmoids(several):
    model = benchmark.load_model(several, device="cpu", dtype="float64")
    batch = model.encode(["good film !"])
    scores = build("methods/leave_one_out")(model, batch, torch.tensor([1])).tokens[0][batch.units[0] >= 0]
    ids = batch.tensors["input_ids"].clone()
    ids[0, int((batch.units[0] == 1).nonzero()[0])] = model.mask_token_id
    before, after = model.run(batch).logits, model.run({**batch.tensors, "input_ids": ids}).logits
    assert float(scores[1]) == pytest.approx(float((before.sigmoid() - after.sigmoid())[0, 1]), abs=1e-9)
    assert float(scores[1]) != pytest.approx(float((before.softmax(-1) - after.softmax(-1))[0, 1]), abs=1e-4)


def test_a_gradient_of_the_probability_is_that_of_the_sigmoid(several):
    model = benchmark.load_model(several, device="cpu", dtype="float64")
    batch, target = model.encode([TEXTS[0]]), torch.tensor([2])
    of_logit, of_probability = (
        build("methods/gradient_x_input", f"output={output}")(model, batch, target).tokens
        for output in ("logit", "probability")
    )
    p = model.run(batch).logits.sigmoid()[0, 2]
    torch.testing.assert_close(of_probability, of_logit * p * (1 - p))


def test_what_needs_a_distribution_says_so(several):
    model = benchmark.load_model(several, device="cpu")
    with pytest.raises(NotApplicable, match="multi_label_classification"):
        build("methods/occlusion", "output=total_variation")(model, model.encode(TEXTS), torch.tensor([0, 0, 0]))


@pytest.mark.parametrize(("problem_type", "outputs"), [(None, 1), ("regression", 1), ("regression", 3)])
def test_a_regression_is_refused_with_what_it_is(tmp_path, problem_type, outputs):
    folder = save_head(tmp_path / "m", problem_type, outputs)
    loaded = AutoModelForSequenceClassification.from_pretrained(folder)
    table = tmp_path / "numbers.csv"
    pd.DataFrame({"text": TEXTS, "label": [0.5, 1.25, 3.0]}).to_csv(table, index=False)
    overrides = ["task=text_classification", f"task.files={{test: '{table}'}}", "model=hf", f"model.path={folder}"]
    more = ["methods=[random]", "evaluations=[aopc]", "tracking=none", f"out={tmp_path / 'out'}"]
    for call in (
        lambda: benchmark.load_model(folder, device="cpu"),
        lambda: benchmark.load_model(loaded, device="cpu"),
        lambda: benchmark.compare(*overrides, *more),
    ):
        with pytest.raises(UserError, match="is a regression") as raised:
            call()
        assert "model.labels" not in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_single_label_is_refused_with_what_comes_nearest(tmp_path):
    with pytest.raises(UserError, match="two outputs"):
        benchmark.load_model(save_head(tmp_path / "m", "multi_label_classification", 1), device="cpu")
