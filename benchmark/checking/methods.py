"""All checks of a method, in their order: what stands first has to hold for what follows to mean anything."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmark.checking import places
from benchmark.checking.causes import causes
from benchmark.checking.conserved import conserved
from benchmark.checking.deterministic import deterministic
from benchmark.checking.direction import direction
from benchmark.checking.equal_functions import equal_functions
from benchmark.checking.form import form
from benchmark.checking.golden import golden
from benchmark.checking.heads import heads
from benchmark.checking.layers import layers
from benchmark.checking.order import order
from benchmark.checking.padding import padding
from benchmark.checking.randomised import randomised
from benchmark.checking.read_row import read_row
from benchmark.checking.replica import replica
from benchmark.checking.report import Finding, Outcome, Report, Status, about
from benchmark.checking.sign import sign
from benchmark.checking.speed import speed
from benchmark.checking.subject import MethodRaised, Subject, WrongForm, kind_of
from benchmark.checking.sums import sums
from benchmark.checking.target_class import target_class
from benchmark.checking.untouched import untouched
from benchmark.checking.words import words
from benchmark.errors import NotApplicable, UserError, near
from benchmark.settings.making import BUILT_AS, build
from benchmark.types import Method, as_compared

Check = Callable[[Subject], Finding | list[Finding]]

CHECKS: Mapping[str, Check] = {
    "form": form,
    "deterministic": deterministic,
    "untouched": untouched,
    "padding": padding,
    "order": order,
    "words": words,
    "class": target_class,
    "conserved": conserved,
    "read": read_row,
    "sign": sign,
    "layers": layers,
    "heads": heads,
    "direction": direction,
    "sums": sums,
    "twins": equal_functions,
    "randomised": randomised,
    "replica": replica,
    "golden": partial(golden, file=None),
    "causes": causes,
    "speed": speed,
}
"""By the name that `only` takes."""

NEEDED = ("form",)
"""Where one of these fails, nothing else can be asked."""


def check(
    method: Any, model: Any = None, only: Sequence[str] = (), *, golden_file: str | Path | None = None, name: str = ""
) -> Report:
    """Check an explainer: form, determinism, padding, class, sign, conservation and more (docs/check.md has them all).

    Everything is computed on copies in float64, so that a gap is the method's own.

    Args:
        method: an explainer, any callable `f(model, batch, target)`, or the name of one of the benchmark's.
        model: what it is checked on: a loaded model (`benchmark.load_model`), or names of small models with random weights
            (`bert`, `gpt2`, `llama`, `vit`, and those of all families that the benchmark knows); None for `bert`.
        only: names of checks; none for all.
        golden_file: arrays that the scores have to equal (`benchmark.checking.golden`).
        name: of the method in the report; empty for that of its class.

    Returns:
        A `Report`: `.ok`, `.first` (the first failure), `.table()`, `.write(folder)`.

    Raises:
        UserError: there is no such check or model, or the method is none.

    Example:
        >>> benchmark.check("rollout", only=["form", "order", "class"]).ok
        True
    """
    made = build(f"methods/{method}") if isinstance(method, str) else method
    compared = as_compared(made)
    if not isinstance(compared, Method):
        raise UserError(f"{type(made).__name__} explains no single examples: checks are of methods that do")
    own = kind_of(compared)
    called = name or getattr(made, BUILT_AS, "") or getattr(own, "__name__", type(own).__name__)
    asked = {one: CHECKS[one] for one in chosen(only, list(CHECKS), "check")}
    if golden_file is not None and "golden" not in asked:
        raise UserError(f"golden={golden_file} is not read: only={','.join(asked)} leaves the check golden out")
    if "golden" in asked and golden_file is not None:
        asked["golden"] = partial(golden, file=Path(golden_file))
    outcomes: list[Outcome] = []
    with torch.random.fork_rng(devices=[]):  # what is drawn meanwhile is no business of the caller's
        for place in places.of(model):
            outcomes += _outcomes(Subject(compared, called, place), asked)
    return Report(called, "method", about(own), tuple(outcomes))


def chosen(only: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """Those of some names that `only` names, or all where it names none; UserError for one that there is not."""
    typed = [only] if isinstance(only, str) else list(only)
    if wrong := [name for name in typed if name not in names]:
        raise UserError(f"only={wrong[0]} is no {what}; {near(wrong[0], names)}")
    return [name for name in names if not typed or name in typed]


def _outcomes(subject: Subject, asked: Mapping[str, Check]) -> list[Outcome]:
    """Of each check on one model; nothing after a failure of what is needed."""
    found: list[Outcome] = []
    for name, ask in asked.items():
        broken = next((one.check for one in found if one.check in NEEDED and one.status != "pass"), None)
        if broken is not None:
            reason = f"{broken} did not pass, without which nothing else can be asked"
            found.append(Outcome(name, subject.place.name, "not tested", reason))
            continue
        found += outcome_of(subject.place.name, name, partial(ask, subject), subject.method.properties)
    return found


def outcome_of(
    model: str, name: str, ask: Callable[[], Finding | list[Finding]], properties: Mapping[str, str]
) -> list[Outcome]:
    """What one check finds, timed; a failure that is declared is a property."""
    start = time.perf_counter()

    def outcome(status: Any, words: str, finding: Finding | None = None) -> Outcome:
        seconds = time.perf_counter() - start
        if finding is None:
            return Outcome(name, model, status, words, seconds=seconds)
        return Outcome(name, model, status, words, finding.gap, finding.tolerance, finding.where, seconds)

    try:
        findings = ask()
    except NotApplicable as answer:
        return [outcome("not applicable", str(answer))]
    except (WrongForm, MethodRaised) as error:
        return [outcome("fail", str(error))]
    except UserError:  # a mistake in what is given to a check
        raise
    except Exception as error:  # of what a class declares, such as sums of another shape
        return [outcome("fail", f"the check could not be made: {type(error).__name__}: {error}")]
    told = []
    for finding in findings if isinstance(findings, list) else [findings]:
        status, words = _judged(name, finding, properties)
        told.append(outcome(status, words, finding))
    return told or [outcome("not applicable", "nothing to be asked")]


def _judged(name: str, finding: Finding, properties: Mapping[str, str]) -> tuple[Status, str]:
    """How a finding ends, and in which words."""
    if not finding.tested:
        return "not tested", finding.words
    if finding.passes:
        return "pass", finding.words
    if (said := properties.get(f"{name}: {finding.where}", properties.get(name))) is not None:
        return "property", f"{said} ({finding.words})"
    return "fail", finding.words
