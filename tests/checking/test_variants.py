"""Mistakes made in other ways, and methods of others that make none."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import benchmark
from benchmark.errors import UserError
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.gradient_x_input import GradientXInput
from methods.lrp import Lrp
from methods.propagation.rule_sets import epsilon
from methods.propagation.rules import Proportional
from methods.readouts.rollout import Rollout
from tests.checking.cheap import place
from tests.checking.seeded import RowOne


@dataclass(frozen=True)
class ShareAdded:
    """A linear layer's inputs get R, and the bias's share of it once more."""

    def __call__(self, operation: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        own = Proportional(1e-6).of(lambda x: F.linear(x, weight), lambda x: F.linear(x, weight), x)
        if bias is None:
            return own
        share = Proportional(1e-6)(F.linear, x, weight, bias)
        return own + (own - share) + bias


class HookOnce(GradientXInput):
    """A hook is left behind at the first call, and at no other."""

    seen: ClassVar[set] = set()

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "asked", [])

    def explain(self, model, batch, target):
        if not self.asked:
            self.asked.append(1)
            model.attention_modules[0].register_forward_hook(lambda *_: None)
        return super().explain(model, batch, target)


class LastClass(GradientXInput):
    """Class 2 is explained as class 1."""

    def explain(self, model, batch, target):
        own = super().explain(model, batch, ClassTarget(target.classes.clamp(max=1)))
        return replace(own, target=target)


class FlippedForZero(GradientXInput):
    """The sign is turned for class 0 alone."""

    def explain(self, model, batch, target):
        own = super().explain(model, batch, target)
        signs = torch.where(target.classes == 0, -1.0, 1.0)[:, None]
        return replace(own, tokens=own.tokens * signs)


class QuietDropout(GradientXInput):
    """Dropout is on, with a seed of its own."""

    def explain(self, model, batch, target):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model.model.train()
            own = super().explain(model, batch, target)
            model.model.eval()
        return own


class Seeds(GradientXInput):
    """The seed of the process is set."""

    def explain(self, model, batch, target):
        torch.manual_seed(0)
        return super().explain(model, batch, target)


GRADIENT = FactorProduct(factors=("attention", "gradient"))
RELEVANCE = FactorProduct(factors=("gradient", "relevance"), part="positive")


@dataclass(frozen=True)
class RolloutOfRowOne(Rollout):
    """Rollout that begins at row 1."""

    def combine(self, layers, read):
        return super().combine(layers, F.one_hot(torch.ones(len(read), dtype=torch.long), read.shape[1]).to(read))


@pytest.mark.parametrize(
    ("method", "check", "words"),
    [
        (Lrp(rules=replace(epsilon(), linear=ShareAdded())), "conserved", "leaves it"),
        (HookOnce(), "untouched", "a hook"),
        (LastClass(), "class", "class 1 and for class 2"),
        (FlippedForZero(), "sign", "class no: ρ = −1"),
        (QuietDropout(), "deterministic", "dropout"),
        (Seeds(), "untouched", "the seed of torch's random state"),
        (AttentionExplainer(GRADIENT, RowOne()), "read", "row 0"),
        (AttentionExplainer(RELEVANCE, RolloutOfRowOne()), "read", "row 1; the model reads row 0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Method) else None,
)
def test_a_mistake_made_otherwise_is_named(method, check, words):
    first = benchmark.check(method, place("bert")).first
    assert first is not None
    assert first.check == check, first
    assert words in str(first)


def outputs(model, batch, target):
    """As in a notebook: attention of the last layer, as transformers gives it."""
    given = model.model(**batch.tensors, output_attentions=True, output_hidden_states=True)
    assert given.logits is not None
    attention = model.run(batch, record=("attentions",)).attentions[-1].mean(1)
    return Attribution(target, tokens=(model.read_weights(batch)[:, :, None] * attention).sum(1) * batch.attention_mask)


outputs.class_specific = False


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_hooks_of_transformers_are_not_the_methods(family):
    report = benchmark.check(outputs, place(family), only=["form", "untouched", "order"])
    assert report.ok, report.first


def test_a_method_of_one_family_is_asked_what_it_can_be():
    def roberta(model, batch, target):
        table = model.model.roberta.embeddings.word_embeddings.weight
        return Attribution(target, tokens=table[batch.tensors["input_ids"]].norm(dim=-1) * batch.attention_mask)

    roberta.class_specific = False
    report = benchmark.check(roberta, place("roberta"), only=["form", "order", "words", "read"])
    assert report.ok, report.first
    assert [one.status for one in report.outcomes] == ["pass", "pass", "not applicable", "not applicable"]
    assert "cannot run on" in report.of("read")[0].words


def test_scores_that_need_gradients_and_draws_of_its_own(recwarn):
    def plain(model, batch, target):
        trace = model.run(batch, record=("embeddings",), grad=True)
        (slope,) = torch.autograd.grad(
            trace.logits.gather(1, target[:, None]).sum(), trace.embeddings, create_graph=True
        )
        return Attribution(target, tokens=(slope * trace.embeddings).sum(-1) * batch.attention_mask)

    plain.properties = benchmark.build("methods/gradient_x_input").properties
    before = torch.get_rng_state()
    report = benchmark.check(plain, place("bert"))
    assert report.ok, report.first
    assert torch.equal(torch.get_rng_state(), before), "the caller's random state is as it was"


def test_nothing_that_could_be_asked_is_not_well():
    assert not benchmark.check("full_lrp", place("bert"), only=["form"]).ok
    with pytest.raises(UserError, match="is neither a loaded model"):
        benchmark.check("rollout", [])
    with pytest.raises(UserError, match=r"golden=a\.npz is not read"):
        benchmark.check("rollout", place("bert"), ["form"], golden_file="a.npz")


def test_a_bug_of_the_class_in_what_it_declares_is_its_own_line():
    class Sums(GradientXInput):
        replicates = outputs

        def sum_of_scores(self, model, batch, target):
            return "all of it"

    report = benchmark.check(Sums(), place("bert"), only=["form", "sums", "replica"])
    assert [one.status for one in report.outcomes] == ["pass", "fail", "fail"]
    assert "the check could not be made: AttributeError" in report.of("sums")[0].words
    assert "from those of outputs" in report.of("replica")[0].words


def test_words_that_score_alike_name_no_row():
    def norms(model, batch, target):
        embeddings = model.run(batch, record=("embeddings",)).embeddings
        return Attribution(target, tokens=embeddings.norm(dim=-1) * batch.attention_mask)

    norms.class_specific = False
    (outcome,) = benchmark.check(norms, place("bert"), only=["read"]).outcomes
    assert outcome.words == "'red', which cannot change the answer, scores as high as 'oak', which does"
