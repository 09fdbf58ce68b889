"""Is a model that never saw what an explanation puts first any worse? (docs/protocols.md, section 14)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import seeds_from
from benchmark.analyses.retraining.leak import leak
from benchmark.analyses.retraining.masked_task import Hidden
from benchmark.analyses.retraining.students import TRAIN, Order, Students, hidden_at
from benchmark.analyses.seeds_and_examples import SeedValues, of_seeds
from benchmark.errors import NoSplit, NotApplicable
from benchmark.models.history import seconds_of_training
from benchmark.progress.spent import Spent
from benchmark.randomness import generator
from benchmark.results.control_names import control_order
from benchmark.results.statistics import Interval, crossed_interval, crossed_p, holm, interval
from benchmark.results.store import Ragged
from benchmark.results.tables import P_KEY, PROBABILITY, Drawing, Table, frame, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, SettingError, Shares, configurable
from benchmark.settings.early import OfComparison
from benchmark.settings.making import make
from benchmark.training.sources import LearnsHidden
from benchmark.types import KnowsEvidence, Method
from benchmark.units import Pool

RANDOM, ORACLE, EVIDENCE = "random", "oracle", "evidence of both sides"
CONTROLS = (RANDOM, ORACLE, EVIDENCE)
NO_CLASS, ONE_SIDE, BOTH_SIDES = "no class", "one side", "both sides"
"""What an order looks at: no class, what speaks for one alone, or what speaks for any."""

AREA, AREA_P, ACCURACY, LEAK, LOOKS = "relative area", "p of the area", "accuracy", "leak", "looks at"
HIDDEN, REST = "evidence hidden", "accuracy without evidence"
_OFTEN = 0.9
_SHARE, _ANY = (0.0, 1.0), (-float("inf"), float("inf"))


@dataclass(frozen=True)
class Explained:
    """What came of an order of units.

    Attributes:
        looks: what the order looks at.
        correct: by share, whether the models of each seed predict each tested example.
        leaks: by share, whether the places of what is hidden tell its label.
        evidence: at the middle share, the share of the words that speak for any class that is hidden, by seed and by
            example that has some; None where nobody knows these words.
        rest: at the middle share, whether models that see none of these words predict each tested example by what else is
            left; None likewise.
    """

    looks: str
    correct: Mapping[float, SeedValues]
    leaks: Mapping[float, SeedValues]
    evidence: SeedValues | None = None
    rest: SeedValues | None = None


@dataclass(frozen=True)
class Chain:
    """What came of an order of units and one seed of the training.

    Attributes:
        correct: by share, whether the model predicts each tested example.
        leaks: by share, whether the places of what is hidden tell its label.
        middle: by split, what is hidden at the middle share.
    """

    correct: Mapping[float, Float[NDArray[np.float64], " N"]]
    leaks: Mapping[float, Float[NDArray[np.float64], " N"]]
    middle: Mapping[str, Hidden]


def relative_area(gain: SeedValues, room: SeedValues) -> Interval:
    """`r = Σ g / Σ h` over seeds and examples, with the interval of the mean of `r + (g − r h) / h̄` (first order).

    Args:
        gain: g, of each seed and example the area between its random curve and that of an explainer.
        room: h, the area between its random curve and its answer when all is hidden: what there is to lose.
    """
    there = float(room.mean()) if room.size else 0.0
    if there <= 0:
        return Interval(float("nan"), float("nan"), float("nan"), room.shape[1], _ANY)
    ratio = float(gain.mean()) / there
    return crossed_interval(ratio + (gain - ratio * room) / there, bounds=_ANY).mean


@configurable
class Roar(Analysis):
    """Remove and retrain: models are trained again without the words that an explanation puts first.

    For a method m and a share f every example of the training, the validation and the tested split loses its ⌊f · n⌋ best
    words by the comparison's model: each of their tokens is the mask token, in training and when the model is asked. A new
    model of the same recipe is trained on what is left; a_m(f) is its accuracy on what is left of the tested examples. The
    figure is `∫ (a_rand − a_m) df / ∫ (a_rand − a_rand(1)) df` over shares from 0 to 1 by trapezoids (as `racu`), where
    words of a_rand are drawn once for each example. With `recursive`, the words at a share are those of the model that was
    trained at the share before, on the examples as they were then, and what is hidden stays so.

    Units are ranked by |s|: a signed order would hide the evidence of one class, and what is left would tell the other; no
    setting asks for one. `looks at` says whose evidence an order holds: *no class* (the scores are the same for all
    classes), *both sides* (scores of either sign in nine examples of ten or more, or magnitudes that order units for the
    next class as for the predicted one, ρ ≥ .9), else *one side*, which may not be ranked with the others. Beside each
    accuracy stands `leak`, that of a logistic regression that sees nothing but how many words are hidden, which share, and
    where (ten bins). Where the task knows the words that speak for any class, two more figures are of the middle share: how
    much of them an order hides, and the accuracy of models that see none of them. What these find above the same figure of
    random words is told by which other words an explanation hides.

    Controls: random words; the oracle (the marked words); where the task knows them, the words that speak for any class.

    What it cannot say: it judges models that were trained again, not the one that is explained. A method that finds what
    this model uses has a low figure where another model does as well with other words.

    Attributes:
        shares: of the units that are hidden, between 0 and 1.
        methods: of the comparison; None for all that are no controls and score words or patches.
        recursive: whether models that were trained again are asked what to hide next.
        trainings: how many seeds; the scores are of the comparison's model.
        examples: training examples that are used, drawn; None for all.
        limit: tested examples of the comparison's split, drawn; None for all.
        pool: from the scores of a unit's tokens to its own.
        seed: of random words and of tied units.

    Raises:
        NotApplicable: nobody can train the model again, or it learns from other examples than the task's; the task has no
            training split, or the comparison is of it; no method scores units.

    Source: Hooker et al. 2019; the recursive form Madsen et al. 2022; the leak of masks Rong et al. 2022.
    Cost: explanations of all splits, once for each method; trainings · (2 + shares · (methods + controls)) models, of which
    nothing stays but the answers; trainings · (methods + controls) more where the task knows what speaks for a class; with
    `recursive` explanations of all splits for each model, too.
    """

    version: ClassVar[int] = 2

    shares: Shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    methods: Annotated[Sequence[str], OfComparison("methods")] | None = None
    recursive: bool = False
    trainings: Count = 3
    examples: Count | None = None
    limit: Count | None = None
    pool: Pool = "max"
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not self._inner:
            raise SettingError("shares", list(self.shares), "at least one between 0 and 1, without its ends")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Explain, hide, train and ask; a killed run goes on from the last model that answered."""
        own = context.setting
        _check(own)
        students = self._students(context)
        try:
            _check_texts(own, students)
        except NoSplit as error:
            raise NotApplicable(f"models are trained again, and {error}") from error
        orders, refused = self._orders(context, students)
        if not any(name not in CONTROLS for name in orders):
            raise NotApplicable(
                "; ".join(f"{name}: {reason}" for name, reason in refused.items()) or "no method is asked"
            )
        seeds = seeds_from(own, self.trainings)
        known = _known(students)
        total = left = self._models(len(orders), known=bool(known))
        with progress.step("models without the best words", total, unit="models") as advance:

            def correct(hidden: Mapping[str, Any], seed: int, *, keep: bool = False) -> NDArray[np.float64]:
                nonlocal left
                found = students.correct(hidden, seed, keep_model=keep)
                left -= 1
                advance(1)
                return found

            everything = students.everything
            ends = [np.stack([correct(hidden_at(everything, end), seed) for seed in seeds]) for end in (0.0, 1.0)]
            found = {}
            for name, (order, looks) in orders.items():
                left = self._models(1, known=bool(known)) - self._models(0, known=bool(known))
                try:
                    told: dict[float, NDArray[np.float64]] = {}
                    chains = [self._chain(context, students, name, order, seed, correct, told) for seed in seeds]
                except NotApplicable as reason:  # of a model that was trained again
                    refused[name] = str(reason)
                    advance(left)
                    continue
                answers = {share: np.stack([one.correct[share] for one in chains]) for share in self._inner}
                leaks = {share: np.stack([one.leaks[share] for one in chains]) for share in self._inner}
                evidence = rest = None
                if known:
                    evidence = np.stack([_gone(one.middle, known, students) for one in chains])
                    without = (_without(one.middle, known) for one in chains)
                    rest = np.stack([correct(hidden, seed) for hidden, seed in zip(without, seeds, strict=True)])
                found[name] = Explained(looks, answers, leaks, evidence, rest)
        return [self._areas(found, ends, refused), self._curves(found, ends)]

    def foretold(self, spent: Spent, context: Context) -> float | None:
        """Explanations of all splits, and the trainings; None where nobody knows how long one of them takes."""
        _check(context.setting)
        seconds = seconds_of_training(context.setting.model)
        if seconds is None:
            return None
        methods = [name for name in self.methods or context.cells if control_order(name) == 0]
        sizes = [
            (len(context.setting.task.split(split)), most) for split, most in self._students(context).limits.items()
        ]
        examples = sum(size if most is None else min(most, size) for size, most in sizes)
        asked = 1 + self.recursive * self.trainings * (len(self._inner) - 1)
        known = bool(_known(self._students(context)))
        models = self._models(len(methods) + len(CONTROLS) - (not known), known=known)
        return asked * examples * spent.explained(methods) + models * seconds

    def _models(self, orders: int, *, known: bool) -> int:
        """How many are trained; one more of each order and seed where it is known what speaks for a class."""
        return self.trainings * (2 + (len(self._inner) + known) * orders)

    def _students(self, context: Context) -> Students:
        return Students(context.setting, self.examples, self.limit, context.folder, self.pool, self.seed)

    @property
    def _inner(self) -> tuple[float, ...]:
        """Shares between the ends, which are the same for all."""
        return tuple(share for share in self.shares if 0 < share < 1)

    def _compute(self, context: Context, setting: Setting, compute: Any, label: str) -> Ragged:
        return self.by_example(context, setting, compute, f"explaining {label}", part=label)

    def _orders(self, context: Context, students: Students) -> tuple[dict[str, tuple[Order, str]], dict[str, str]]:
        """By name the order of the units and what it looks at, controls last; and why a method has none."""
        found: dict[str, tuple[Order, str]] = {}
        refused: dict[str, str] = {}
        for name, cell in context.cells.items():
            if control_order(name) or (self.methods is not None and name not in self.methods):
                continue
            method = cell.method
            try:
                if not isinstance(method, Method) or not method.explains_others:
                    raise NotApplicable("its scores are given for one model and its examples")
                if cell.refusal is not None:
                    raise NotApplicable(cell.refusal)
                order, negative = students.order(name, method, partial(self._compute, context))
                found[name] = order, _looks(students, name, method, negative)
            except NotApplicable as reason:
                refused[name] = str(reason)
        return {**found, **dict(self._controls(students))}, refused

    def _controls(self, students: Students) -> Iterator[tuple[str, tuple[Order, str]]]:
        everything = students.everything
        yield RANDOM, (self._preferring(everything, {}), NO_CLASS)
        marked = {split: _rationales(setting) for split, setting in students.splits.items()}
        if all(marked.values()):
            yield ORACLE, (self._preferring(everything, marked), ONE_SIDE)
        if known := _known(students):
            yield EVIDENCE, (self._preferring(everything, known), BOTH_SIDES)

    def _preferring(self, everything: Order, first: Mapping[str, Mapping[str, NDArray[np.bool_]]]) -> Order:
        """A random order in which marked units come first."""
        found: dict[str, dict[str, NDArray[np.int64]]] = {}
        for split, of in everything.items():
            found[split] = {}
            for uid, own in of.items():
                keys = generator(self.seed, "random removal", uid).random(len(own))
                marks = first.get(split, {}).get(uid, np.zeros(len(own), dtype=bool))
                places = np.flatnonzero(own >= 0)
                order = places[np.lexsort((keys[places], ~marks[places]))]
                row = np.full(len(own), -1, dtype=np.int64)
                row[order] = np.arange(len(order))
                found[split][uid] = row
        return found

    def _chain(
        self,
        context: Context,
        students: Students,
        name: str,
        order: Order,
        seed: int,
        correct: Any,
        told: dict[float, NDArray[np.float64]],
    ) -> Chain:
        """Models that are trained share by share.

        What the places of hidden units tell is kept in `told` for the next seed, where the order is the same.
        """
        asked = self._is_asked(name)
        answers, leaks, middle = {}, {}, {}
        for place, share in enumerate(self._inner):
            hidden = hidden_at(order, share)
            if asked or share not in told:
                told[share] = leak(hidden[TRAIN], hidden[students.tested], students.labels, students.uids)
            goes_on = asked and place + 1 < len(self._inner)
            answers[share], leaks[share] = correct(hidden, seed, keep=goes_on), told[share]
            if share == self._middle:
                middle = hidden
            if goes_on:
                method = cast(Method, context.cells[name].method)
                order, _ = students.order(name, method, partial(self._compute, context), hidden, seed)
        return Chain(answers, leaks, middle)

    @property
    def _middle(self) -> float:
        return self._inner[len(self._inner) // 2]

    def _areas(self, found: Mapping[str, Explained], ends: Sequence[SeedValues], refused: Mapping[str, str]) -> Table:
        random = self._area(found[RANDOM], ends)
        gains = {name: random - self._area(one, ends) for name, one in found.items() if name != RANDOM}
        adjusted = holm({name: crossed_p(gain) for name, gain in gains.items()})
        figures = {name: relative_area(gain, random - ends[1]) for name, gain in gains.items()}
        middle = self._middle
        lines: list[dict[str, Any]] = []
        for name in sorted(found, key=lambda one: _place(one, found[one].looks, figures)):
            labels, one = {"explainer": name}, found[name]
            lines.append(line(labels, LOOKS, note=one.looks, key=f"{name}.looks"))
            if name in figures:
                nothing = "" if np.isfinite(figures[name].value) else "there is nothing to lose"
                lines.append(figure_line(labels, AREA, figures[name], nothing))
                lines.append(line(labels, AREA_P, adjusted[name], n=figures[name].n, note=PROBABILITY, key=P_KEY))
            else:
                lines.append(line(labels, AREA, note="what the others are held to"))
            lines += [
                figure_line(labels, f"{metric} at {middle}", crossed_interval(values[middle], bounds=_SHARE).mean)
                for metric, values in ((ACCURACY, one.correct), (LEAK, one.leaks))
            ]
            if one.evidence is not None and one.rest is not None:
                gone = self._share_hidden(one.evidence, asked=self._is_asked(name))
                lines.append(figure_line(labels, f"{HIDDEN} at {middle}", gone))
                rest = crossed_interval(one.rest, bounds=_SHARE).mean
                lines.append(figure_line(labels, f"{REST} at {middle}", rest))
        lines += [line({"explainer": name}, AREA, note=reason) for name, reason in refused.items()]
        alone = [name for name, one in found.items() if one.looks == ONE_SIDE]
        whole, none = (crossed_interval(end, bounds=_SHARE).mean for end in ends)
        return Table(
            name="roar",
            title="Models trained again without the best words" + (", asked at every share" if self.recursive else ""),
            labels=("explainer",),
            rows=frame(lines, ("explainer",)),
            sentences=(
                "Relative area: how much sooner than without random words a model that is trained again loses its accuracy; "
                f"0 is random. Accuracy is {whole.value:.3f} with all words and {none.value:.3f} without any; p-values "
                "are of the area between an explainer's curve and the random one, corrected together (Holm).",
                *(
                    [
                        f"Not to be ranked with the others: {', '.join(alone)}. Their words may be of one class alone, and "
                        "a model that is trained again can learn that what is left is of the other."
                    ]
                    if alone
                    else []
                ),
                "Leak: accuracy of a logistic regression that sees nothing but how many words are hidden, and where.",
                *(
                    [
                        "Accuracy without evidence: all words that speak for any class are hidden besides. What models find "
                        "above the same figure of random words is told by which other words an explanation hides."
                    ]
                    if any(one.rest is not None for one in found.values())
                    else []
                ),
                "The figures judge models that were trained again, not the one that is explained.",
                of_seeds(self.trainings),
            ),
        )

    def _is_asked(self, name: str) -> bool:
        """Whether models that were trained again are asked what to hide next; else every seed hides the same."""
        return self.recursive and name not in CONTROLS

    def _share_hidden(self, evidence: SeedValues, *, asked: bool) -> Interval:
        """The share of the evidence that is hidden; its interval is over seeds, too, where each hides its own."""
        return crossed_interval(evidence, bounds=_SHARE).mean if asked else interval(evidence[0], bounds=_SHARE)

    def _area(self, one: Explained, ends: Sequence[SeedValues]) -> Float[NDArray[np.float64], "S N"]:
        values = np.stack([ends[0], *(one.correct[share] for share in self._inner), ends[1]])
        return np.asarray(np.trapezoid(values, (0.0, *self._inner, 1.0), axis=0))

    def _curves(self, found: Mapping[str, Explained], ends: Sequence[SeedValues]) -> Table:
        lines, labels = [], ("explainer", "share")
        for name, one in found.items():
            points = {0.0: ends[0], **one.correct, 1.0: ends[1]}
            for share, values in points.items():
                where = {"explainer": name, "share": share}
                lines.append(figure_line(where, ACCURACY, crossed_interval(values, bounds=_SHARE).mean))
                if share in one.leaks:
                    lines.append(figure_line(where, LEAK, crossed_interval(one.leaks[share], bounds=_SHARE).mean))
        return Table(
            name="roar_curves",
            title="Accuracy of models that are trained again without a share of the words",
            labels=labels,
            rows=frame(lines, labels),
            drawing=Drawing("curves", x="share", y=(ACCURACY, LEAK), series="explainer", alike=((ACCURACY, LEAK),)),
            printed=False,
        )


def _check(own: Setting) -> None:
    """NotApplicable where nobody can train the comparison's model again on the comparison's examples."""
    model = own.config.model
    if not isinstance(make(model), LearnsHidden):
        raise NotApplicable(
            "nobody can train this model again; model=tiny, model=tiny_vit and model=finetuned are trained"
        )
    if own.model.encoder.patch is None and own.model.mask_token_id is None:
        raise NotApplicable("the model has no mask token to put in the place of hidden words")
    if model.get("task") is not None or getattr(own.task, "learned_from", own.task) is not own.task:
        raise NotApplicable(
            "the model learns from another task than is explained (where that is for its counterparts, set "
            "task.corrupted=false)"
        )
    if str(own.config.split) == TRAIN:
        raise NotApplicable(
            "models that are trained again would be tested with what they learned from; choose split=test"
        )


def _check_texts(own: Setting, students: Students) -> None:
    """NotApplicable where models would learn from what the comparison's window cuts off, or nothing can be told right."""
    lost = [split for split, setting in students.splits.items() if setting.data.facts.lost_units]
    if own.config.model.get("window") is not None and lost:
        raise NotApplicable(
            f"model.window={own.config.model.window} cuts examples of {', '.join(lost)} that models are trained on whole"
        )
    if not students.uids:
        raise NotApplicable("no tested example has a label")


def _looks(students: Students, name: str, method: Method, negative: float) -> str:
    """What a method's order looks at; `negative` is how often a score is below 0."""
    if not method.class_specific:
        return NO_CLASS
    return BOTH_SIDES if negative >= _OFTEN or students.alike(name, method) >= _OFTEN else ONE_SIDE


def _known(students: Students) -> dict[str, Mapping[str, NDArray[np.bool_]]]:
    """By split the words of each example that speak for any class; empty where nobody knows them."""
    task = students.setting.task
    if not isinstance(task, KnowsEvidence):
        return {}
    known = {split: task.evidence(split) for split in students.limits}
    return known if all(known.values()) else {}


def _gone(
    hidden: Mapping[str, Hidden], known: Mapping[str, Hidden], students: Students
) -> Float[NDArray[np.float64], " N"]:
    """The share of what speaks for any class that is hidden, of each tested example that has some."""
    own, marks = hidden[students.tested], known[students.tested]
    return np.array([own[uid][marks[uid]].mean() for uid in students.uids if marks[uid].any()])


def _without(hidden: Mapping[str, Hidden], known: Mapping[str, Hidden]) -> dict[str, Hidden]:
    """What is hidden where all that speaks for any class is hidden besides."""
    return {split: {uid: own | known[split][uid] for uid, own in of.items()} for split, of in hidden.items()}


def _rationales(setting: Setting) -> dict[str, NDArray[np.bool_]]:
    """The marked units of each example; empty where any example has no marks."""
    found: dict[str, NDArray[np.bool_]] = {}
    for batch in setting.data.batches:
        for uid, marks in zip(batch.uids, batch.rationale, strict=True):
            if marks is None:
                return {}
            found[uid] = np.asarray(marks, dtype=bool)
    return found


def _place(name: str, looks: str, figures: Mapping[str, Interval]) -> tuple[int, int, float]:
    """Controls last, what looks at one side behind what does not, then by the figure."""
    control = 1 + CONTROLS.index(name) if name in CONTROLS else 0
    value = figures[name].value if name in figures else 0.0
    return control, int(looks == ONE_SIDE), -value if np.isfinite(value) else float("inf")
