"""What annotations declare of settings: every kind of range and choice, in the constructor and with the user's path."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Literal

import pytest

from benchmark.errors import UserError
from benchmark.settings.declared import (
    Above,
    AtLeast,
    Count,
    Distinct,
    Natural,
    SettingError,
    Share,
    Shares,
    Within,
    configurable,
)
from benchmark.settings.making import make
from tests.conftest import REPOSITORY


@configurable
class Inner:
    """One setting of each kind."""

    n: Count = 1
    first: Natural = 0
    share: Share = 0.5
    shares: Shares = (0.1, 0.5)
    how: Literal["sum", "mean"] = "sum"
    batch: Count | None = None
    noise: Annotated[float | int, Above(0)] = 0.1
    gamma: Annotated[float | int, AtLeast(0.0)] = 0.0
    dropout: Annotated[float | int, Within(0, 1, without_high=True)] = 0.0
    names: Sequence[str] | None = None
    kinds: Annotated[Sequence[Literal["a", "b"]], Distinct()] = ("a",)
    on: bool = False
    label: str = "a"
    anything: object = None

    def __post_init__(self) -> None:
        assert self.n >= 1, "what is declared is looked at first"


@dataclass(frozen=True)
class Outer:
    """Something that has one."""

    inner: Inner


WRONG = [
    ("n", 0, "n=0: allowed are whole numbers from 1"),
    ("n", True, "n=True: allowed are whole numbers from 1"),
    ("n", 1.5, "n=1.5: allowed are whole numbers from 1"),
    ("n", "many", "n=many: allowed are whole numbers from 1"),
    ("n", None, "n=null: allowed are whole numbers from 1"),
    ("first", -1, "first=-1: allowed are whole numbers from 0"),
    ("share", 1.5, "share=1.5: allowed are numbers from 0 to 1"),
    ("share", float("nan"), "share=nan: allowed are numbers from 0 to 1"),
    ("shares", (), "shares=[]: allowed are increasing numbers from 0 to 1"),
    ("shares", (0.2, 0.1), "shares=[0.2, 0.1]: allowed are increasing numbers from 0 to 1"),
    ("shares", (0.1, 0.1), "increasing"),
    ("shares", (-0.1, 0.5), "from 0 to 1"),
    ("shares", (0.5, 1.5), "from 0 to 1"),
    ("shares", 0.5, "shares=0.5: allowed are increasing numbers"),
    ("how", "median", "how=median: allowed are sum, mean"),
    ("batch", 0, "batch=0: allowed are whole numbers from 1, and null"),
    ("noise", 0, "noise=0: allowed are numbers above 0"),
    ("gamma", -1e-9, "gamma=-1e-09: allowed are numbers from 0"),
    ("dropout", 1, "dropout=1: allowed are numbers from 0 to just below 1"),
    ("names", "one", "names=one: allowed are lists of texts, and null"),
    ("names", (1,), "names=[1]: allowed are lists of texts, and null"),
    ("kinds", ("c",), "kinds=['c']: allowed are lists of a, b: at least one, none twice"),
    ("kinds", ("b", "b"), "none twice"),
    ("kinds", (), "kinds=[]: allowed are lists of a, b: at least one"),
    ("kinds", "a", "kinds=a: allowed are lists of a, b"),
    ("on", 1, "on=1: allowed are true and false"),
    ("label", 3, "label=3: allowed are texts"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_what_is_not_allowed_is_named_with_what_is(name, value, message):
    with pytest.raises(SettingError) as caught:
        Inner(**{name: value})
    assert isinstance(caught.value, UserError)
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_from_a_yaml_the_message_has_the_whole_path(name, value, message):
    inner = {"_target_": "tests.settings.test_declared.Inner", name: list(value) if isinstance(value, tuple) else value}
    with pytest.raises(SettingError, match=rf"^inner\.{name}="):
        make({"_target_": "tests.settings.test_declared.Outer", "inner": inner})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 7),
        ("share", 0),
        ("share", 1.0),
        ("shares", [0, 0.5, 1]),
        ("batch", 3),
        ("names", ["a"]),
        ("kinds", ["b", "a"]),
        ("on", True),
    ],
)
def test_what_is_allowed_is_kept_and_lists_are_frozen(name, value):
    kept = getattr(Inner(**{name: value}), name)
    assert kept == (tuple(value) if isinstance(value, list) else value)
    hash(Inner(**{name: value}))


def test_an_object_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Inner().n = 2  # type: ignore[misc]  # frozen: the test is that this fails


BUILT = """
import benchmark
for name, override in (
    ("methods/attention_norm", "edges.heads=max"), ("methods/decompx", "bias=norm"), ("methods/lrp", "rules=chefer"),
    ("methods/attention_norm_residual", "edges.through=all"), ("methods/rollout", "edges.factors=[value]"),
    ("evaluations/triggers", "construction=neither"),
):
    try:
        benchmark.build(name, override)
    except benchmark.errors.UserError as error:
        print(error)
"""


@pytest.mark.thorough
def test_choices_of_our_own_name_the_whole_path():
    """In a process of its own, whose calls are not type-checked."""
    done = subprocess.run([sys.executable, "-c", BUILT], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "methods.attention_norm.edges.heads=max: allowed are sum, each",
        "methods.decompx.bias=norm: allowed are absdot, apart",
        "methods.lrp.rules=chefer: allowed are chefer2021, lrp, epsilon, alpha_beta, gamma, attnlrp, conservative",
        "methods.attention_norm_residual.edges.through=all: allowed are residual, layer_norm, block",
        "methods.rollout.edges.factors=['value']: allowed are lists of attention, gradient, relevance: at least one, "
        "none twice",
        "evaluations.triggers.construction=neither: allowed are paper, script",
    ]
