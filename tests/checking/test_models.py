"""Models that are read right pass, of every family; what is read wrong is named."""

from dataclasses import replace

import pytest
import torch

import benchmark
from benchmark.checking import places, small_models
from benchmark.checking.models import CHECKS, check_model
from benchmark.errors import UserError
from benchmark.models.loading import load_model
from methods.propagation.operations import KINDS
from tests import language_models, text_models
from tests.checking.cheap import place
from tests.covering import one_in


@pytest.mark.parametrize("family", one_in(2, [*small_models.FAMILIES]))
def test_every_family_is_read_right(family):
    report = check_model(place(family))
    assert report.ok, report.first
    assert {one.check for one in report.outcomes} == set(CHECKS)
    assert {one.status for one in report.outcomes} == {"pass"}


def with_model(small, **changes):
    own = place(small)
    return replace(own, model=replace(own.model, **changes))


def test_a_row_that_is_not_read_is_named():
    own = place("bert").model
    report = check_model(with_model("bert", family=replace(own.family, read="last")), only=["read"])
    assert report.first.where == "example 1"
    assert report.first.words == "the rows that are said to be read ([6]; [4]; [8]) change no answer"


def test_a_block_that_is_not_found_is_named():
    own = place("gpt2").model
    report = check_model(with_model("gpt2", attention_modules=own.attention_modules[1:]), only=["blocks", "gradients"])
    assert report.first.check == "blocks"


def test_other_weights_than_those_of_transformers_are_named(monkeypatch):
    """As where an edit of attention is left on."""
    from benchmark.models.classifier import Classifier

    run = Classifier.run
    monkeypatch.setattr(
        Classifier, "run", lambda self, *a, **k: run(self, *a, **k | {"edits": (lambda _, attention: attention * 0.9,)})
    )
    report = check_model(place("bert"), only=["logits", "rows"])
    assert [one.status for one in report.outcomes] == ["fail", "fail"]
    assert report.of("rows")[0].where == "layer 0"


def test_operations_without_a_rule_are_listed(monkeypatch):
    for function in (torch.nn.functional.gelu, torch.nn.functional.layer_norm):
        monkeypatch.delitem(KINDS, function)
    monkeypatch.setattr("methods.propagation.mode.module_kind", lambda module: None)
    (outcome,) = check_model(place("bert"), only=["rules"]).outcomes
    assert outcome.status == "fail"
    assert "torch.nn.functional.gelu (" in outcome.words
    assert "torch.nn.functional.layer_norm (" in outcome.words


def test_a_model_of_ones_own(tmp_path):
    model = load_model(text_models.save_bert(tmp_path / "mine"), device="cpu")
    report = check_model(model)
    assert report.ok, report.first
    assert report.name == "mine"
    assert report.about == {"mine": places.given(model).model.fingerprint}
    with pytest.raises(UserError, match=r"^only=logit is no check of a model; did you mean logits"):
        check_model(model, only=["logit"])


@pytest.mark.parametrize("over", [None, "vocabulary", "continuation"])
def test_a_language_model_is_read_right(tmp_path, over):
    model = load_model(language_models.save("LlamaForCausalLM", tmp_path), task="next_token", labels=over, device="cpu")
    report = check_model(model)
    assert report.ok, report.first
    assert benchmark.check("gradient_x_input", model, only=["form", "order", "class"]).ok
