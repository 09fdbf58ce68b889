"""Every explainer on every mechanism that is written by hand, or learnt: what it finds, misses, and is fooled by.

Defined in docs/protocols.md, section 14; docs/mechanisms.md explains the mechanisms.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.differences import Difference, difference_lines
from benchmark.analyses.means import CHANGE_OF_SHARE, CORRELATION, SHARE, mean_line
from benchmark.analyses.opening import of_task, setting_of
from benchmark.analyses.resumed import Arrays
from benchmark.errors import NotApplicable, UserError, near
from benchmark.evaluations.known import Known, KnownEdges, KnownHeads, KnownWords, Scores, Truth, outcome
from benchmark.evaluations.ranks import kendall
from benchmark.models import Classifier
from benchmark.models.written.families import FAMILIES
from benchmark.models.written.mechanisms import NAMES, SHARES, mechanism
from benchmark.models.written.truth import effects, known_edges, known_heads
from benchmark.results.statistics import spread_interval
from benchmark.results.tables import Drawing, Table
from benchmark.run.explaining import Checked, edge_sums
from benchmark.run.workbench import Setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import Count, Distinct, configurable
from benchmark.settings.making import make
from benchmark.targets import ClassTarget, Target
from benchmark.training.softened import LEARNERS
from benchmark.types import Attribution, Batch, Evaluation, Method

TRUTH, CHANCE, BRUTE = "what is known", "chance", "brute force"
"""Lines of the tables: the scores 1 and 0 of what counts and what does not, the expectation over all orders, and of softened
models what brute force finds in them.
"""

WRITTEN, SOFTENED = "written", "softened"
"""Where a model comes from (`model=`): its weights are written by hand, or learnt from random ones."""

_FIGURES = ("average precision", "found", "missed", "fooled")
_PARTS: Mapping[str, Known] = {"words": KnownWords(), "heads": KnownHeads(), "edges": KnownEdges()}


@dataclass(frozen=True)
class _Place:
    """One model of a mechanism."""

    family: str
    mechanism: str
    strength: str
    source: str = WRITTEN

    def __str__(self) -> str:
        return f"{self.family} {self.mechanism} {self.strength}" + (f" {SOFTENED}" if self.is_softened else "")

    @property
    def is_softened(self) -> bool:
        """Whether it is learnt from random weights, and not written by hand."""
        return self.source == SOFTENED

    @property
    def model(self) -> str:
        """What the tables call it."""
        return f"{self.family}, {self.strength}" + (f", {SOFTENED}" if self.is_softened else "")

    @property
    def overrides(self) -> list[str]:
        """The overrides that open it."""
        return [
            "task=mechanism",
            f"task.mechanism={self.mechanism}",
            f"task.strength={self.strength}",
            f"task.form={FAMILIES[self.family].form}",
            f"model={self.source}",
            f"model.family={self.family}",
        ]


@configurable
class Mechanisms(Analysis):
    """Do explainers name the words, heads and attention edges that cause the answer of models that are written by hand?

    For every family, mechanism and strength the model is written and the comparison's explainers explain its answer to
    `limit` inputs. Three tables have the average precision of the words (signed), of the heads and of the attention edges
    (by size) that are known to count, by explainer and mechanism; a fourth has the shares of inputs in which all words that
    count were found above all others, in which another word was above all of them (fooled), and in which neither holds
    (missed). Two scores are equal, and have the expectation over their orders, that differ by less than a thousandth of what
    the explainer gives to the parts that count on `copy` in the same family and strength: what is left where large numbers
    cancel is no score, and the scores of some explainers are small.

    A fifth asks the same of `tests`: in how many inputs does no explanation that is wrong (whose average precision is below
    1) have a better figure than what is known, the scores 1 and 0 of the words or heads that count and do not? A test that
    prefers a wrong explanation to the true one does not rank explanations by their truth there.

    Two lines stand beside the explainers: what is known itself, which has 1 everywhere, and chance, the expectation over all
    orders, so that an explainer whose interval holds it says nothing. Random orders of heads have that expectation, too.

    With `softened` the same stands beside it of models that learn the mechanism from random weights (`model=softened`), as
    families of their own. Whether what is known of the written model holds in them is asked by brute force, whose line has
    the average precision of exact Shapley values of the words, and of the largest change of the answer without a head or an
    edge. A sixth table compares explainers in both: means over the mechanisms, their paired difference over the inputs, and
    the rank correlation τ_b of the means. A mechanism enters it where brute force has at least 0.95 in the softened model.

    Attributes:
        mechanisms: names of `benchmark.models.written.mechanisms.NAMES`, or dotted paths of functions of your own.
        families: what they are written into.
        strengths: of the mechanisms.
        softened: whether models are learnt, too; about a minute each, once.
        limit: inputs of each.
        tests: names of tests of words or of heads of each example, with their default settings; none ask nothing.
    """

    version: ClassVar[int] = 1

    mechanisms: Annotated[Sequence[str], Distinct()] = NAMES
    families: Annotated[Sequence[str], Distinct()] = ("bert", "gpt2")
    strengths: Annotated[Sequence[str], Distinct()] = ("medium",)
    softened: bool = False
    limit: Count | None = 24
    tests: Annotated[Sequence[str], Distinct(empty=True)] = (
        "perturbation", "aopc", "context_attribution", "agreement", "head_pruning_each"
    )  # fmt: skip

    def __post_init__(self) -> None:
        for setting, allowed in (("families", tuple(FAMILIES)), ("strengths", tuple(SHARES))):
            if wrong := [name for name in getattr(self, setting) if name not in allowed]:
                raise UserError(f"analyses.mechanisms.{setting}: there is no {wrong[0]}; {near(wrong[0], allowed)}")
        if self.softened and (wrong := [name for name in self.families if name not in LEARNERS]):
            raise UserError(
                f"analyses.mechanisms.softened: {wrong[0]} is written by hand alone; {' and '.join(LEARNERS)} are learnt"
            )
        for name in self.mechanisms:
            mechanism(name, SHARES["medium"])
        for name, test in self.asked.items():
            if test.reads not in ("tokens", "heads"):
                raise UserError(
                    f"analyses.mechanisms.tests: {name} reads {test.reads}; tests of tokens or heads are asked"
                )

    def _noise(self, context: Context, simplest: _Place, explainers: Mapping[str, Checked]) -> Mapping[str, float]:
        """By explainer and part, below what two scores are equal: a thousandth of its signal on the simplest mechanism."""
        setting = of_task(context.setting, simplest.overrides, _OF_COPY, setting_of(self, "mechanisms"))
        found = self.by_example(context, setting, _Signal(setting.model, explainers), f"signal of {simplest}")
        signals = {name: float(np.nan_to_num(values).mean()) for name, values in found.arrays.items()}
        return {name: _SHARE * signal for name, signal in signals.items() if signal > _NO_SIGNAL}

    @cached_property
    def asked(self) -> Mapping[str, Evaluation]:
        """The tests by name."""
        configured = compose("config", [f"evaluations=[{','.join(self.tests)}]"]).evaluations if self.tests else {}
        return {name: make(configured[name], Evaluation) for name in self.tests}

    @property
    def places(self) -> list[_Place]:
        """Every model that there is."""
        sources = (WRITTEN, SOFTENED) if self.softened else (WRITTEN,)
        return [
            _Place(family, name, strength, source)
            for family, strength, source, name in product(self.families, self.strengths, sources, self.mechanisms)
            if FAMILIES[family].form != "image" or mechanism(name, SHARES[strength]).of_patches
        ]

    def opened(self, context: Context) -> dict[str, Setting]:
        """Every model with its inputs."""
        where = setting_of(self, "mechanisms")
        return {str(place): of_task(context.setting, place.overrides, self.limit, where) for place in self.places}

    def __call__(self, context: Context) -> Sequence[Table]:
        """Average precisions of words, heads and edges, and outcomes."""
        explainers = {
            name: Checked(name, cell.method) for name, cell in context.cells.items() if isinstance(cell.method, Method)
        }
        if not explainers:
            raise NotApplicable("the comparison has no explainer of single examples")
        settings = self.opened(context)
        noise_on = cache(partial(self._noise, context, explainers=explainers))  # measured where a model is explained
        found: dict[_Place, Mapping[str, NDArray[np.float64]]] = {}
        reasons: dict[str, dict[str, str]] = {}
        with progress.step("mechanisms", len(settings), unit="models") as advance:
            for place in self.places:
                setting = settings[str(place)]
                noise = partial(noise_on, replace(place, mechanism="copy"))
                work = _Work(setting.model, explainers, self.asked, noise, by_brute_force=place.is_softened)
                found[place] = self.by_example(context, setting, work, f"mechanism {place}", keep="each").arrays
                advance(1)
        first = settings[str(self.places[0])]
        for name, part in product(explainers, _PARTS):
            if all(np.isnan(arrays[f"{name} {part}"]).all() for arrays in found.values()):
                reasons.setdefault(name, {})[part] = _reason(first, explainers[name], part)
        names = [TRUTH, CHANCE, *explainers]
        tables = [_outcomes(found, names), *(_precisions(found, names, part, reasons) for part in _PARTS)]
        tables += [_tests(found, self.asked)] if self.asked else []
        return [*tables, *([_beside_softened(found, list(explainers))] if self.softened else [])]


_OF_COPY = 8
"""Inputs of `copy` from which the size of an explainer's scores is taken."""

_SHARE, _NO_SIGNAL = 1e-3, 1e-6


@dataclass(frozen=True)
class _Signal:
    """The largest score, by its size, of the parts that count in each input, by explainer and part; NaN where there is none.

    Attributes:
        model: the written one.
        explainers: by name.
    """

    model: Classifier
    explainers: Mapping[str, Checked]

    def __call__(self, batch: Batch) -> Arrays:
        """Arrays [B]."""
        arrays = {f"{name} {part}": np.full(len(batch), np.nan) for name in self.explainers for part in _PARTS}
        target = self.model.target(batch, "predicted")
        for name, explainer in self.explainers.items():
            for part, _, pairs in _compared(explainer, self.model, batch, target):
                arrays[f"{name} {part}"] = np.array([np.abs(scores[truth]).max() for truth, scores in pairs])
        return arrays


@dataclass(frozen=True)
class _Work:
    """The four figures of each input of a batch, by explainer and part; NaN where the explainer has no such scores.

    Attributes:
        model: the written one.
        explainers: by name.
        tests: by name.
        noise: says by explainer and part below what two scores are equal, where that is known.
        by_brute_force: whether the line of brute force is computed.
    """

    model: Classifier
    explainers: Mapping[str, Checked]
    tests: Mapping[str, Evaluation]
    noise: Callable[[], Mapping[str, float]]
    by_brute_force: bool = False

    def __call__(self, batch: Batch) -> Arrays:
        """Arrays [B 4]."""
        arrays: dict[str, NDArray[np.float64]] = {}
        target = self.model.target(batch, "predicted")
        for part, test in _PARTS.items():
            known = [truth for truth, _ in _known(test, self.model, batch)]
            arrays[f"{TRUTH} {part}"] = np.array([outcome(truth, truth.astype(float)) for truth in known])
            arrays[f"{CHANCE} {part}"] = np.array([outcome(truth, np.zeros(len(truth))) for truth in known])
        if self.by_brute_force:
            arrays |= _found_by_brute_force(self.model, batch)
        noise, explanations = self.noise(), dict[str, Attribution]()
        for name, explainer in self.explainers.items():
            for part in _PARTS:
                arrays[f"{name} {part}"] = np.full((len(batch), len(_FIGURES)), np.nan)
            for part, attribution, pairs in _compared(explainer, self.model, batch, target):
                if part != "edges":
                    explanations.setdefault(name, attribution)
                key = f"{name} {part}"
                arrays[key] = np.array([outcome(*pair, noise.get(key)) for pair in pairs])
        truth = _truth(self.model, batch, target)
        for name, asked in self.tests.items():
            part = "heads" if asked.reads == "heads" else "words"
            # where there is no score it is False
            wrong = {one: arrays[f"{one} {part}"][:, 0] < 1 for one in explanations}
            of_truth = _figures(asked, self.model, batch, truth)
            of_others = [
                (wrong[one], _figures(asked, self.model, batch, attribution))
                for one, attribution in explanations.items()
                if wrong[one].any()
            ]
            for (metric, best), own in of_truth.items():
                beaten = np.zeros(len(batch), dtype=bool)
                for mistaken, figures in of_others:
                    beaten |= mistaken & (best * figures.get((metric, best), own) > best * own + _EQUAL)
                arrays[f"{name} {metric}"] = np.where(np.isnan(own), np.nan, 1.0 - beaten)
        return arrays


def _found_by_brute_force(model: Classifier, batch: Batch) -> Arrays:
    """The four figures of what brute force says of a model whose truth is not written into it."""
    heads, edges = known_heads(model, batch), known_edges(model, batch)
    figures: dict[str, list[tuple[float, ...]]] = {part: [] for part in _PARTS}
    for b, effect in enumerate(effects(model, batch)):
        rated = ~np.isnan(effect.shapley)
        rationale = batch.rationale[b]
        marks = np.zeros(len(rated), dtype=bool) if rationale is None else rationale.astype(bool)
        known = {
            "words": (marks[rated], effect.shapley[rated]),
            "heads": _pair(heads[b], effect.heads),
            "edges": _pair(edges[b], effect.edges),
        }
        for part, pair in known.items():
            figures[part].append(outcome(*pair))
    return {f"{BRUTE} {part}": np.array(rows) for part, rows in figures.items()}


def _pair(truth: Tensor, changes: Mapping[tuple[int, ...], float]) -> tuple[Truth, Scores]:
    return np.array([bool(truth[place]) for place in changes]), np.array(list(changes.values()))


_EQUAL = 1e-5
"""By less than this two figures of a test do not differ."""


def _truth(model: Classifier, batch: Batch, target: Target) -> Attribution:
    """1 for words and heads that count, 0 for others."""
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    for b, rationale in enumerate(batch.rationale):
        if rationale is not None:
            marks = torch.as_tensor(np.append(rationale, values=False), dtype=torch.float64)  # −1: no word
            tokens[b] = marks[batch.units[b].cpu()]
    return Attribution(target=target, tokens=tokens, heads=known_heads(model, batch).double())


def _figures(
    test: Evaluation, model: Classifier, batch: Batch, attribution: Attribution
) -> dict[tuple[str, float], NDArray[np.float64]]:
    """Values [B] of the headline figures of a test, by metric and whether high (1) or low (−1) ones are better."""
    if test.reads == "heads" and attribution.heads is not None:
        attribution = replace(attribution, heads=attribution.heads.abs(), orders=None)
    try:
        rows = test.rows(model, batch, attribution)
    except NotApplicable:
        return {}
    found = {}
    for name, metric in test.metrics.items():
        if not metric.headline or metric.x is not None:
            continue
        own = rows[(rows["metric"] == name) & rows["x"].isna()].set_index("uid")["value"]
        better = -1.0 if metric.higher_is_better is False else 1.0
        if len(own):
            found[name, better] = own.reindex(list(batch.uids)).to_numpy(dtype=np.float64)
    return found


def _known(test: Known, model: Classifier, batch: Batch) -> list[tuple[Truth, Scores]]:
    """Which parts of each input count; their scores are 0."""
    shape = batch.units.shape
    nothing = Attribution(
        target=ClassTarget(batch.label),
        tokens=torch.zeros(shape, dtype=torch.float64),
        heads=torch.zeros(shape[0], model.n_layers, model.n_heads),
        edges=torch.zeros(shape[0], model.n_layers, shape[1], shape[1]),
    )
    return [pair for pair in test.compared(model, batch, nothing) if pair is not None]


def _explained(
    explainer: Checked, model: Classifier, batch: Batch, target: Target
) -> Iterator[tuple[str, Attribution]]:
    """What an explainer says of words and heads, and of edges, each where it can."""
    torch.manual_seed(0)
    with suppress(NotApplicable, UserError):
        attribution = explainer(model, batch, target).cpu()
        yield "words", attribution
        if explainer.method.head_orders(model.n_layers, model.n_heads) is not None and attribution.heads is not None:
            attribution = replace(attribution, heads=torch.zeros_like(attribution.heads))  # any order: what is expected
        yield "heads", attribution
    if explainer.method.scores_edges:
        with suppress(NotApplicable, UserError):
            yield "edges", edge_sums(explainer, model, batch, target).cpu()


def _compared(
    explainer: Checked, model: Classifier, batch: Batch, target: Target
) -> Iterator[tuple[str, Attribution, Sequence[tuple[Truth, Scores]]]]:
    """The parts that an explainer scores, its explanation, and of each input which of these parts count and their scores."""
    for part, attribution in _explained(explainer, model, batch, target):
        with suppress(NotApplicable):
            pairs = [pair for pair in _PARTS[part].compared(model, batch, attribution) if pair is not None]
            yield part, attribution, pairs


def _reason(setting: Setting, explainer: Checked, part: str) -> str:
    """Why an explainer has no scores of these parts."""
    batch = setting.data.batches[0].select([0])
    target = setting.model.target(batch, "predicted")
    try:
        if part == "edges":
            if not explainer.method.scores_edges:
                raise NotApplicable("the method does not score edges")
            edge_sums(explainer, setting.model, batch, target)
        list(_PARTS[part].compared(setting.model, batch, explainer(setting.model, batch, target).cpu()))
    except (NotApplicable, UserError) as reason:
        return str(reason)
    return "no scores"


def _precisions(
    found: Mapping[_Place, Mapping[str, NDArray[np.float64]]],
    names: Sequence[str],
    part: str,
    reasons: Mapping[str, Mapping[str, str]],
) -> Table:
    shown = [name for name in names if part == "words" or part not in reasons.get(name, {})]
    silent = [name for name in names if name not in shown]
    brute = [BRUTE] if any(place.is_softened for place in found) else []
    lines = [
        mean_line(
            {"model": place.model, "explainer": name},
            place.mechanism,
            arrays[f"{name} {part}"][:, 0],
            SHARE,
            reasons.get(name, {}).get(part, "it has no scores here"),
        )
        for place, arrays in found.items()
        for name in (*brute, *shown)
        if f"{name} {part}" in arrays
    ]
    told = f"No scores of {part}: {', '.join(silent)}." if silent else ""
    return Table(
        name=f"mechanisms_{part}",
        title=f"Average precision of the {part} that cause the answer, by mechanism",
        labels=("model", "explainer"),
        rows=pd.DataFrame(lines),
        sentences=tuple(filter(None, (_LINES, told))),
        drawing=Drawing("heat", x="metric", y=("explainer",), panels=("model",)),
    )


_LINES = (
    f"The line '{TRUTH}' has the scores 1 and 0 of what counts and what does not, and '{CHANCE}' the expectation over all "
    "orders."
)


def _outcomes(found: Mapping[_Place, Mapping[str, NDArray[np.float64]]], names: Sequence[str]) -> Table:
    lines, sentences = [], []
    for place, arrays in found.items():
        kinds: dict[str, list[str]] = {figure: [] for figure in _FIGURES[1:]}
        for name in names:
            values = arrays[f"{name} words"]
            if np.isnan(values).all():
                continue
            labels = {"model": place.model, "mechanism": place.mechanism, "explainer": name}
            lines += [
                mean_line(labels, figure, values[:, column], SHARE, "it has no scores here")
                for column, figure in enumerate(_FIGURES)
                if column
            ]
            for column, figure in enumerate(_FIGURES):
                if column and np.nanmean(values[:, column]) > _MOST:
                    kinds[figure].append(name)
        sentences.append(_sentence(place, kinds))
    return Table(
        name="mechanisms",
        title="In how many inputs the words that cause the answer are found, missed, or others are taken for them",
        labels=("model", "mechanism", "explainer"),
        rows=pd.DataFrame(lines),
        sentences=tuple(sentences),
        printed=False,
    )


def _tests(found: Mapping[_Place, Mapping[str, NDArray[np.float64]]], tests: Mapping[str, Evaluation]) -> Table:
    lines = []
    for place, arrays in found.items():
        for name, test in tests.items():
            for metric, about in test.metrics.items():
                if f"{name} {metric}" in arrays:
                    labels = {"model": place.model, "test": f"{name}: {about.title}"}
                    values = arrays[f"{name} {metric}"]
                    lines.append(mean_line(labels, place.mechanism, values, SHARE, "no input has a value"))
    return Table(
        name="mechanisms_tests",
        title="In how many inputs no wrong explanation has a better figure than what is known, by test and mechanism",
        labels=("model", "test"),
        rows=pd.DataFrame(lines),
        sentences=(_OF_TESTS,),
        drawing=Drawing("heat", x="metric", y=("test",), panels=("model",)),
    )


_OF_TESTS = (
    "Where the share is low, the test prefers an explanation that is wrong to the one that is true: being first there is no "
    "sign of being right. Explanations are those of the comparison, and wrong where their average precision is below 1."
)

_HOLDS = 0.95
"""Average precision of brute force from which a softened model has what is known of the written one."""


def _beside_softened(found: Mapping[_Place, Mapping[str, NDArray[np.float64]]], explainers: Sequence[str]) -> Table:
    """Explainers in written and in softened models: means over mechanisms, and whether their order is the same."""
    lines: list[dict[str, Any]] = []
    questions: list[Difference] = []
    sentences: list[str] = []
    models = dict.fromkeys(replace(place, mechanism="", source=WRITTEN) for place in found)
    for model, part in product(models, _PARTS):
        learnt = {
            place.mechanism: arrays
            for place, arrays in found.items()
            if place == replace(model, mechanism=place.mechanism, source=SOFTENED)
        }
        by_force = {name: arrays[f"{BRUTE} {part}"][:, 0] for name, arrays in learnt.items()}
        kept = [name for name, values in by_force.items() if values.mean() >= _HOLDS]
        of_force = np.mean(list(by_force.values()), axis=0)
        lines.append(mean_line({"model": model.model, "part": part, "explainer": BRUTE}, SOFTENED, of_force, SHARE, ""))
        if not kept:
            sentences.append(f"{model.model}, {part}: no softened model has what is known of the written one.")
            continue
        values: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        both = [found[replace(model, mechanism=one)] for one in kept], [learnt[one] for one in kept]
        for name in explainers:
            written, softened = (
                np.mean([arrays[f"{name} {part}"][:, 0] for arrays in models_of], axis=0) for models_of in both
            )
            if not (np.isnan(written) | np.isnan(softened)).any():
                values[name] = written, softened
        for name, (written, softened) in values.items():
            labels = {"model": model.model, "part": part, "explainer": name}
            lines += [mean_line(labels, WRITTEN, written, SHARE, ""), mean_line(labels, SOFTENED, softened, SHARE, "")]
            questions.append(Difference(labels, softened - written, reach=CHANGE_OF_SHARE))
        sentences.append(_order(model.model, part, kept, len(learnt), list(values.values())))
    lines += difference_lines(questions)[0]
    return Table(
        name="mechanisms_softened",
        title="Average precision in models that learnt the mechanisms, less that in the written ones, mean over mechanisms",
        labels=("model", "part", "explainer"),
        rows=pd.DataFrame(lines),
        sentences=tuple(sentences),
    )


def _order(
    model: str,
    part: str,
    kept: Sequence[str],
    count: int,
    values: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> str:
    """In words, how far the order of explainers in written models is that in softened ones."""
    left_out = "" if len(kept) == count else f" (in the others brute force has less than {_HOLDS})"
    which = f"{model}, {part}, {len(kept)} of {count} mechanisms{left_out}"
    if len(values) < 2:
        return f"{which}: fewer than two explainers have such scores."
    written, softened = (np.stack(columns, axis=1) for columns in zip(*values, strict=True))  # inputs by explainers

    def tau(rows: NDArray[np.int64]) -> float:
        return kendall(written[rows].mean(0), softened[rows].mean(0)).tau

    generator = np.random.default_rng(0)
    resampled = [tau(generator.integers(0, len(written), size=len(written))) for _ in range(_RESAMPLES)]
    order = spread_interval(tau(np.arange(len(written))), resampled, len(written), CORRELATION)
    ends = "no interval, as the resamples do not vary" if np.isnan(order.low) else f"{order.low:.3f}, {order.high:.3f}"
    said = f"{order.value:.3f} [{ends}] over {order.n} inputs of each mechanism"
    return f"{which}: the order of {len(values)} explainers has τ_b = {said}."


_RESAMPLES = 1000

_MOST = 0.5


def _sentence(place: _Place, kinds: Mapping[str, Sequence[str]]) -> str:
    """Who is fooled by a mechanism, and who misses its words, in more than half of the inputs."""
    said = [
        f"{what} {', '.join(kinds[figure])}"
        for figure, what in (("fooled", "it fools"), ("missed", "its words are told from no others by"))
        if any(name not in (TRUTH, CHANCE) for name in kinds[figure])
    ]
    known = [name for name in kinds["found"] if name not in (TRUTH, CHANCE)]
    said.append(f"they are found by {len(known)} explainers" if known else "no explainer finds them")
    return f"{place.mechanism} ({place.model}): in more than half of the inputs {'; '.join(said)}."
