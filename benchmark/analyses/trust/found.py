"""What is found of tests by asking them again about explanations that no method of the comparison gave."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark import progress
from benchmark.analyses.context import Context
from benchmark.analyses.debate.word_scores import explained
from benchmark.analyses.resumed import Arrays, ByExample
from benchmark.analyses.trust import questions
from benchmark.analyses.trust.again import Again, Figures
from benchmark.analyses.trust.columns import ORACLE, RANDOM, Column, within
from benchmark.analyses.trust.ladder import climbed, given, order_of_rungs
from benchmark.analyses.trust.randomised import drawn_seed, explanation
from benchmark.analyses.trust.shift import removals
from benchmark.analyses.trust.strange import TRAINING, Strange, told_apart
from benchmark.analyses.trust.winners import SEARCHED, searched
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.base import token_scores
from benchmark.models.classifier import Classifier
from benchmark.models.fresh_weights import Stage, freshly, stages_of
from benchmark.models.removal import OPERATORS, OperatorName, operator_for
from benchmark.results.control_names import control_order
from benchmark.results.statistics import Interval, crossed_interval, interval
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.targets import Target, TargetName
from benchmark.types import Batch, Evaluation, Method

Told = Mapping[str, Mapping[str, Interval | None]]
"""By a column's key some of the figures of its `Found`, by name."""

logger = logging.getLogger(__name__)

_UNBOUNDED = (-float("inf"), float("inf"))
REFERENCE = 600


@dataclass(frozen=True)
class Found:
    """What is found of a test by asking it again; None where it was not asked.

    Attributes:
        ladder: −ρ of how much of an explanation was lost and the test's figure, mean over examples.
        ends: how often the test prefers the explanation to one of which everything is lost.
        fresh: how much better than random scores it finds explanations of models whose weights were drawn anew.
        fresh_truth: how much better than random scores these explanations are in truth, where that is known.
        beaten: how much better than the oracle (or `winners.ORDERED`, where the test likes that better) it finds the best of
            three explanations that a search finds.
        winner: how true this one is.
        shift: how often an example is stranger to the model after the test's removals, in a random order, than before.
        under: τ_b of the methods' order with that under another way to remove.
    """

    ladder: Interval | None = None
    ends: Interval | None = None
    fresh: Interval | None = None
    fresh_truth: Interval | None = None
    beaten: Interval | None = None
    winner: Interval | None = None
    shift: Interval | None = None
    under: Interval | None = None


NOT_ASKED = Found()


@dataclass(frozen=True)
class Asked:
    """What is asked again, and how.

    Attributes:
        ladder, winners, shift: whether these are asked.
        fresh: for how many models of fresh weights.
        limit: on how many examples.
        units: the most units of an example for which orders are searched.
        seed: of all draws.
        operator: another way to remove; None where it is not asked.
    """

    ladder: bool
    winners: bool
    fresh: int
    limit: int | None
    units: int
    seed: int
    shift: bool = False
    operator: OperatorName | None = None

    @property
    def anything(self) -> bool:
        """Whether any question is asked."""
        return self.ladder or self.winners or self.shift or self.fresh > 0 or self.operator is not None


def found_again(
    asked: Asked, context: Context, columns: Sequence[Column], truth: Column | None, run: ByExample
) -> tuple[Mapping[str, Found], str]:
    """By a column's key what is found of it, and whose explanations the ladder degrades; what cannot be asked is none."""
    if not asked.anything:
        return {}, ""
    again = Again.of(context, columns if truth is None else [*columns, truth], asked.limit)
    if not again.columns:
        return {}, ""
    base, attributions = _base(context, again, truth) if asked.ladder else ("", None)
    parts: list[Told] = [
        {} if attributions is None else _or_nothing(partial(_ladders, asked, again, context, attributions, run)),
        _or_nothing(partial(_of_fresh, asked, again, context, run)) if asked.fresh else {},
        _or_nothing(partial(_winners, asked, again, truth, run)) if asked.winners else {},
        _or_nothing(partial(_shifts, asked, again, run)) if asked.shift else {},
        _or_nothing(partial(_under, asked.operator, asked.seed, again, context, run)) if asked.operator else {},
    ]
    found = {}
    true = None if truth is None else parts[1].get(truth.key, {}).get("fresh")
    for column in again.columns:
        told = {name: figure for part in parts for name, figure in part.get(column.key, {}).items()}
        found[column.key] = replace(NOT_ASKED, fresh_truth=true, **told)
    return found, base


def _or_nothing(
    question: Callable[[], Told],
) -> Told:
    """What a question finds; nothing where it cannot be asked of this model or task, which spoils no other."""
    try:
        return question()
    except (NotApplicable, UserError) as reason:
        logger.info("which_test: a question is not asked, as %s", reason)
        return {}


def _base(context: Context, again: Again, truth: Column | None) -> tuple[str, Ragged | None]:
    """Whose explanations are degraded, and these: the oracle's where it is the truth, else of the method that most tests
    put first.
    """
    stored = explained(context.cells, "predicted")
    if truth is not None and ORACLE in stored:
        return ORACLE, stored[ORACLE]
    first = [column.methods[int(column.values.mean(0).argmax())] for column in again.columns if column is not truth]
    first = [name for name in first if name in stored]
    if not first:
        return "", None
    base = max(dict.fromkeys(first), key=first.count)
    return base, stored[base]


def _ladders(asked: Asked, again: Again, context: Context, attributions: Ragged, run: ByExample) -> Told:
    tokens = _by_uid(context, attributions)
    arrays = run(
        again.setting, lambda batch: climbed(again, batch, _of(tokens, batch), asked.seed), "ladder of explanations"
    )
    rungs = {column.key: arrays[column.key] for column in again.columns if column.key in arrays}
    return {
        key: {"ladder": order_of_rungs(own), "ends": questions.separation(own[:, 0], own[:, -1])}
        for key, own in rungs.items()
    }


def _by_uid(context: Context, attributions: Ragged) -> dict[str, Tensor]:
    """The scores of each example's tokens."""
    data, tokens = context.setting.data, dict[str, Tensor]()
    for index, batch in enumerate(data.batches):
        scores = padded(attributions, data.start(index), batch).tokens
        assert scores is not None, "the method scores words"
        tokens |= dict(zip(batch.uids, scores, strict=True))
    return tokens


def _of(tokens: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, "B T"]:
    """The scores of a batch that may be padded to another length."""
    width = batch.units.shape[1]
    rows = [torch.nn.functional.pad(tokens[uid], (0, max(0, width - len(tokens[uid]))))[:width] for uid in batch.uids]
    return torch.stack(rows).to(batch.units.device)


def _of_fresh(asked: Asked, again: Again, context: Context, run: ByExample) -> Told:
    methods = {
        name: cell.method
        for name, cell in context.cells.items()
        if isinstance(cell.method, Method) and cell.method.class_specific and control_order(name) == 0
    }
    columns = [column for column in again.columns if RANDOM in column.controls]
    if not methods or not columns:
        return {}
    stages, parts = stages_of(again.setting.model), []
    with progress.step("models of fresh weights", asked.fresh, unit="models") as advance:
        for draw in range(asked.fresh):
            parts.append(_of_draw(asked, again, methods, stages, draw, run))
            advance(1)
    found = {}
    uids = again.setting.data.uids
    for column in columns:
        if column.key in parts[0]:
            random = dict(zip(column.uids, column.controls[RANDOM], strict=True))
            gains = np.stack([part[column.key] for part in parts]) - [random.get(uid, np.nan) for uid in uids]
            known = np.isfinite(gains).all(0)
            if known.any():
                found[column.key] = {"fresh": crossed_interval(gains[:, known], bounds=_UNBOUNDED).mean}
    return found


def _of_draw(
    asked: Asked, again: Again, methods: Mapping[str, Method], stages: Sequence[Stage], draw: int, run: ByExample
) -> Arrays:
    """Of one model of fresh weights, which is gone before the next is drawn."""
    fresh = freshly(again.setting.model, stages, drawn_seed(asked.seed, draw))
    return run(
        again.setting, partial(_mean, again, methods, fresh, draw), f"explanations of fresh weights, draw {draw}"
    )


def _mean(
    again: Again, methods: Mapping[str, Method], fresh: Classifier, draw: int, batch: Batch
) -> Mapping[str, NDArray[np.float64]]:
    """By column the mean over methods of what the test says of their explanations of another model."""
    figures: dict[str, list[NDArray[np.float64]]] = {}
    for name, method in methods.items():

        def explain(target: Target, name: str = name, method: Method = method) -> Tensor:
            return token_scores(batch, explanation(name, method, fresh, batch, target, draw))

        try:
            own = again.figures(batch, explain)
        except NotApplicable:
            continue
        for key, values in own.items():
            figures.setdefault(key, []).append(values)
    return {key: mean_of_known(np.stack(values)) for key, values in figures.items()}


def mean_of_known(values: Float[NDArray[np.float64], "M B"]) -> Float[NDArray[np.float64], " B"]:
    """The mean over the methods that have a figure; NaN where none has."""
    known = np.isfinite(values)
    count = known.sum(0)
    means: NDArray[np.float64] = np.divide(
        np.where(known, values, 0).sum(0), count, out=np.full(values.shape[1], np.nan), where=count > 0
    )
    return means


def removal_of(test: Evaluation) -> tuple[OperatorName, tuple[float, ...]] | None:
    """The operator and the shares of a test that removes shares of the units; None of another."""
    operator, shares = getattr(test, "operator", None), getattr(test, "fractions", None)
    return (operator, tuple(shares)) if operator in ("auto", *OPERATORS) and shares else None


def _shifts(asked: Asked, again: Again, run: ByExample) -> Told:
    """Of tests that remove shares of the units by an operator: mean over the shares, in a random order."""
    kind_of = {name: kind for name, test in again.tests.items() if (kind := removal_of(test)) is not None}
    if not kind_of:
        return {}
    strange = Strange.of(again.setting, REFERENCE, None, asked.seed)
    kinds = {kind: name for name, kind in kind_of.items()}

    def compute(batch: Batch) -> Arrays:
        found = {"whole": strange.whole(batch)[0][TRAINING].T}
        for (operator, fractions), name in kinds.items():
            made = operator_for(operator, again.setting.model, batch, f"evaluations.{name}.operator")
            masks = removals(batch, fractions, asked.seed, marked=False)[RANDOM]
            found[name] = strange.removed(batch, masks, made)[0][TRAINING].T
        return found

    arrays = run(again.setting, compute, "shift of removals")
    if np.ptp(arrays["whole"]) == 0:  # as where states are so discrete that every example is as strange as can be
        return {}
    of_kinds = {
        kind: told_apart(arrays["whole"][:, 0], list(arrays[name].T), asked.seed, name) for kind, name in kinds.items()
    }
    return {column.key: {"shift": of_kinds[kind_of[column.test]]} for column in again.columns if column.test in kind_of}


def _searches(again: Again, columns: Sequence[Column]) -> Mapping[tuple[TargetName, OperatorName], list[str]]:
    """The tests of these figures by what they explain and how they remove, since a search asks the model as they do."""
    found: dict[tuple[TargetName, OperatorName], list[str]] = {}
    for name in dict.fromkeys(column.test for column in columns):
        test = again.tests[name]
        removal = removal_of(test)
        found.setdefault((test.target, "auto" if removal is None else removal[0]), []).append(name)
    return found


def _under(operator: OperatorName, seed: int, again: Again, context: Context, run: ByExample) -> Told:
    """τ_b of the methods' means with those of the same tests that remove in another way, on the same examples."""
    tests = {
        name: replace(test, operator=operator)  # type: ignore[type-var]  # a dataclass behind a protocol
        for name, test in again.tests.items()
        if (removal := removal_of(test)) is not None and removal[0] != operator
    }
    columns = [column for column in again.columns if column.test in tests]
    if not columns:
        return {}
    other = replace(again, tests=tests, columns=columns)
    scores = {
        (target, name): _by_uid(context, stored)
        for target in {test.target for test in tests.values()}
        for name, stored in explained(context.cells, target).items()
        if any(name in column.methods for column in columns)
    }

    def compute(batch: Batch) -> Arrays:
        found: dict[str, NDArray[np.float64]] = {}
        for (target, name), tokens in scores.items():
            asked = [test for test, own in tests.items() if own.target == target]
            figures = other.figures(batch, partial(given, _of(tokens, batch)), asked)
            found |= {f"{name} {key}": values for key, values in figures.items()}
        return found

    arrays, uids = run(again.setting, compute, f"tests that remove by {operator}"), again.setting.data.uids
    told: dict[str, Mapping[str, Interval | None]] = {}
    for column in columns:
        methods = sorted(name for name in column.methods if f"{name} {column.key}" in arrays)
        values = np.stack([arrays[f"{name} {column.key}"] for name in methods], axis=1)
        known = [place for place, uid in enumerate(uids) if np.isfinite(values[place]).all() and uid in column.uids]
        known.sort(key=lambda place: uids[place])
        own = within(column, methods, [uids[place] for place in known])
        agreement = questions.order_agreement(own, values[known], seed, f"{column.key} {operator}")
        told[column.key] = {"under": agreement if np.isfinite(agreement.value) else None}
    return told


def _winners(asked: Asked, again: Again, truth: Column | None, run: ByExample) -> Told:
    columns = [column for column in again.columns if ORACLE in column.controls and column is not truth]
    if not columns:
        return {}
    searches = _searches(again, columns)
    true_tests = () if truth is None else (truth.test,)

    def compute(batch: Batch) -> Arrays:
        units = [len(places) for _, places, _ in again.units(batch, torch.zeros(batch.units.shape))]
        short = [b for b, count in enumerate(units) if 0 < count <= asked.units]
        part = batch.select(short)
        found: dict[str, NDArray[np.float64]] = {}
        for place, ((_, name), tests) in enumerate(searches.items()):
            own: list[Figures] = []
            if short:
                operator = operator_for(name, again.setting.model, batch, f"evaluations.{tests[0]}.operator")
                orders = searched(again, part, again.explained[tests[0]](part), operator)
                own = [again.figures(part, partial(given, tokens), (*tests, *true_tests)) for tokens in orders.values()]
            for column in again.columns:
                if column.test in (*tests, *true_tests):
                    values = np.full((len(batch), len(SEARCHED) + 1), np.nan)
                    if short:
                        values[short] = np.stack([figures[column.key] for figures in own], axis=1)
                    found[f"{place} {column.key}"] = values
        return found

    arrays = run(again.setting, compute, f"searches for {len(SEARCHED)} explanations")
    found: dict[str, Mapping[str, Interval | None]] = {}
    place_of = {test: place for place, tests in enumerate(searches.values()) for test in tests}
    for column in columns:
        place = place_of[column.test]
        values = arrays[f"{place} {column.key}"]
        oracle = dict(zip(column.uids, column.controls[ORACLE], strict=True))
        known = np.isfinite(values).all(1)
        values, ordered = values[:, : len(SEARCHED)], values[:, len(SEARCHED)]
        best = np.argmax(np.where(np.isfinite(values), values, -np.inf), axis=1)
        each = np.arange(len(values))
        marks = np.array([oracle.get(uid, np.nan) for uid in again.setting.data.uids])
        gains = values[each, best] - np.maximum(marks, ordered)
        true = None if truth is None else arrays[f"{place} {truth.key}"][each, best]
        winner = None if true is None else interval(true[known & np.isfinite(true)], bounds=(0.0, 1.0))
        if not (known & np.isfinite(gains)).any():
            continue
        beaten = interval(gains[known & np.isfinite(gains)], bounds=_UNBOUNDED)
        found[column.key] = {"beaten": beaten, "winner": winner}
    return found
