"""No false alarm: every method and every control passes all checks on four families, or says its property."""

import pytest

import benchmark
from benchmark.checking.methods import CHECKS, check
from benchmark.errors import UserError
from benchmark.types import Attribution, Method
from tests.checking.cheap import COSTLY, METHODS, NAMES_OF_COMPONENTS, built, place
from tests.checking.seeded import BUGS
from tests.covering import covering
from tests.methods.test_contract import CANNOT, WHOLLY_ASKED

NOISY = ("kernel_shap", "lime", "shapley_sampling", "smoothgrad")
"""Methods that have to draw as often as by default, so that an order is more than noise."""
APPROXIMATE = ("attattr", "attattr_fast", "integrated_gradients")
"""Methods whose sums come near what is declared with many steps."""

ORDERS = ("sign", "read", "randomised", "causes")
SHOWN = {
    "deterministic: another seed": ("captum", "bert"),
    "heads": ("attcat", "bert"),
    "randomised": ("rollout", "gpt2"),
    "read": ("attention_gradient", "bert"),
    "sign": ("attention_gradcam", "bert"),
    "twins: bias of values moved to the output": ("attattr", "bert"),
    "twins: heads permuted": ("random", "bert"),
    "twins: queries and keys rescaled": ("transformer_attribution", "bert"),
    "twins: values rescaled": ("transformer_attribution", "bert"),
    "twins: word embeddings + c, position embeddings − c": ("gradient_x_input", "bert"),
}
"""Every property that some class declares, with a method and a family that show it."""


LEFT_OUT = {
    "bert": (),
    "gpt2": ("causes",),
    "llama": ("causes", "words", "read", "sign", "randomised"),
    "vit": ("causes", "randomised"),
}


FAMILIES = {
    name: [
        family
        for family in (WHOLLY_ASKED[:1] if name in NAMES_OF_COMPONENTS else WHOLLY_ASKED)
        if (name, family) not in CANNOT
    ]
    for name in METHODS
}
"""By method those of whose models all is asked."""


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *covering({name: own for name, own in FAMILIES.items() if name not in COSTLY}, len(WHOLLY_ASKED), rows=2),
        *(pytest.param(name, family, marks=pytest.mark.thorough) for name in COSTLY for family in FAMILIES[name]),
    ],
)
def test_no_false_alarm(name, family):
    """What asks for an order is asked of as many draws as by default, mechanisms in one family, and what is written for
    GPT-2 in place of Llama once.
    """
    left_out = (*(ORDERS if name in NOISY else ()), *LEFT_OUT[family])
    method = built(name, cheaply=name not in APPROXIMATE)
    report = check(method, place(family), [one for one in CHECKS if one not in left_out], name=name)
    assert report.ok, report.first
    assert all(one.seconds < 20 for one in report.outcomes)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOISY)
def test_no_false_alarm_of_an_order(name):
    report = check(built(name, cheaply=False), place("bert"), ORDERS, name=name)
    assert report.ok, report.first


def test_every_property_is_one():
    declared = {key for name in METHODS for key in built(name).properties}
    assert declared == set(SHOWN)
    for key, (name, family) in SHOWN.items():
        report = check(built(name), place(family), [key.partition(":")[0]])
        shown = {
            text
            for one in report.outcomes
            if one.status == "property"
            for text in (one.check, f"{one.check}: {one.where}")
        }
        assert key in shown, key


def test_checks_are_chosen_by_name():
    report = benchmark.check("rollout", only=["class", "form"])
    assert [one.check for one in report.outcomes] == ["form", "class"]
    assert [one.check for one in benchmark.check("rollout", only="form").outcomes] == ["form"]
    with pytest.raises(UserError, match=r"^only=clas is no check; did you mean class"):
        benchmark.check("rollout", only=["clas"])
    with pytest.raises(UserError, match=r"^model=brt: there is no small model of that name; did you mean bert"):
        benchmark.check("rollout", model="brt")
    with pytest.raises(UserError, match=r"model=int is neither"):
        benchmark.check("rollout", model=3)
    with pytest.raises(UserError, match=r"explains no single examples"):
        benchmark.check("universal_trigger")


def test_the_model_that_is_given_is_not_touched():
    model = place("bert").model
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    assert not benchmark.check(BUGS["hook left"][0], model, only=["form", "untouched"]).ok
    assert all((value == before[name]).all() for name, value in model.model.state_dict().items())
    assert not any(module._forward_hooks for module in model.model.modules())


class Raises(Method):
    """Fails."""

    def explain(self, model, batch, target):
        raise KeyError("attention_weights")


class Wrong(Method):
    """One score for each example."""

    def explain(self, model, batch, target):
        return Attribution(target, tokens=batch.units[:, :1].double())


class NotNumbers(Method):
    """Divides by 0."""

    def explain(self, model, batch, target):
        scores = batch.units.double()
        return Attribution(target, tokens=scores / scores.clamp(max=0))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Raises(), "it raised KeyError: 'attention_weights' (test_methods.py:"),
        (Wrong(), "expected is a torch tensor of floating-point numbers of shape [3, 9]"),
        (NotNumbers(), "example 1: tokens are not finite numbers"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_asked_is_said_and_nothing_else_is_asked(method, words):
    report = benchmark.check(method)
    assert report.first.check == "form"
    assert words in str(report.first)
    assert [one.check for one in report.outcomes] == list(CHECKS)
    assert {one.status for one in report.outcomes[1:]} == {"not tested"}


def test_a_function_is_a_method():
    def position(model, batch, target):
        return Attribution(target, tokens=-batch.units.double() * (batch.units >= 0))

    position.class_specific = False
    position.properties = {"read": "it looks at no model", "randomised": "it looks at no model"}
    report = benchmark.check(position)
    assert report.ok, report.first
    assert report.name == "position"
    assert {one.check for one in report.outcomes if one.status == "property"} == {"read", "randomised"}


def test_a_replica_is_compared():
    class Half(type(benchmark.build("methods/rollout"))):
        replicates = "rollout"

        def explain(self, model, batch, target):
            from dataclasses import replace

            own = super().explain(model, batch, target)
            return replace(own, tokens=own.tokens * self.factor)

    rollout = benchmark.build("methods/rollout")
    for factor, status in ((1.0, "pass"), (0.5, "fail")):
        Half.factor = factor
        (outcome,) = benchmark.check(Half(rollout.edges, rollout.readout), only=["replica"]).outcomes
        assert outcome.status == status


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("transformer_attribution", "; declared: 1 forward pass, 2 backward passes"),
        ("random", "0 forward and 0 backward passes per example; none is declared"),
        (
            "lrp",
            "1 forward and 1 backward passes per example; declared: 1 forward pass, 1 backward pass; with precision=float64",
        ),
    ],
)
def test_passes_are_told_beside_what_is_declared(name, declared):
    (outcome,) = check(built(name), place("bert"), ["speed"]).outcomes
    assert declared in outcome.words
