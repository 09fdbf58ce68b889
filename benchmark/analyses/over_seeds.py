"""Do a comparison's figures hold for other seeds of the training? (docs/protocols.md, section 17)."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from benchmark import progress
from benchmark.analyses.base import Analysis, as_analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line, tested
from benchmark.analyses.opening import composed, has_seed, own_seed, seeds_from, trained_with
from benchmark.analyses.seeds_and_examples import of_seeds
from benchmark.analyses.universality import Universality
from benchmark.errors import NotApplicable, UserError
from benchmark.results.statistics import UNBOUNDED, Range, deviation_over_seeds, mean_over_seeds
from benchmark.results.tables import NO_INTERVAL, P_KEY, Table, line, reach_of
from benchmark.run.steps import finish
from benchmark.settings.declared import AtLeast, configurable
from benchmark.settings.early import OfComparison
from benchmark.settings.making import make

MEAN, BETWEEN, BETWEEN_SOME, ERROR = "mean", "between", "between_some", "error"
"""Keys of what is known of a figure over seeds: of the spread, whether all seeds have the figure, or some."""
IN_HOW_MANY = "words, in how many seeds"
_Z = 1.959963984540054


@dataclass
class _Table:
    """A table of the comparison with what stands in it under each seed.

    Attributes:
        title: of the table.
        labels: columns that name its lines.
        figures: lines that have a figure.
        said: lines of columns that hold words in place of figures, such as what a figure says.
    """

    title: str
    labels: tuple[str, ...]
    figures: list[dict[Hashable, Any]] = field(default_factory=list)
    said: list[dict[Hashable, Any]] = field(default_factory=list)


@configurable
class OverSeeds(Analysis):
    """The tables of a comparison's analyses and the figures of its tests, as means over seeds of the training.

    For each of `trainings` seeds, the comparison's own and those that follow, the model is trained with this seed, the same
    examples are explained, and analyses and tests are run again. A table `…_over_seeds` for each of their tables, and
    `tests_over_seeds` for the tests, have for every figure its mean over seeds, with an interval that holds for other seeds
    and other examples (`statistics.mean_over_seeds`); how much it differs between seeds (standard deviation); and how surely
    these examples tell it for one seed (standard error, by the intervals' mean square). A figure that some seeds lack, such
    as a pattern that was not found, is the mean of the others; how many have it stands beside their spread.

    Left out are tables of single heads, of which two seeds have no two in common, pictures, curves and p-values.

    Attributes:
        analyses: of the comparison; None: all of them, but those that go over seeds themselves, and those that read other
            tables or other models. `universality` trains the models of its `settings` with the seed, where they have one.
        trainings: how many seeds.

    Raises:
        NotApplicable: the model has no seed, as a checkpoint has not.
        UserError: `analyses` names one that goes over seeds itself, or reads other tables or other models.

    Source: this project.
    Cost: for every seed but the first a training, which is cached, and all explanations, tests and analyses again.
    """

    version: ClassVar[int] = 1
    reads_tables: ClassVar[bool] = True
    reads_their_tables: ClassVar[bool] = True

    analyses: Annotated[Sequence[str], OfComparison("analyses")] | None = None
    trainings: Annotated[int, AtLeast(2)] = 3

    def __call__(self, context: Context) -> Sequence[Table]:
        """Train, explain and ask again; put together."""
        if not has_seed(context.setting.config.model):
            raise NotApplicable("the model has no seed: it is one checkpoint, whose training nobody can repeat here")
        found: dict[str, _Table] = {}
        needed, shown = self._chosen(context)
        with progress.step("models of other seeds", self.trainings - 1, unit="models") as advance:
            for seed in seeds_from(context.setting, self.trainings):
                other = seed != own_seed(context.setting)
                trained = _trained(context, seed) if other else context
                for name in needed if other else ():
                    trained = replace(trained, tables={**trained.tables, name: _asked(trained, name, seed)})
                for name in shown:
                    _take(found, trained.tables[name])
                _take(found, _tests(trained))
                advance(int(other))
        tables = [_table(name, one, self.trainings) for name, one in found.items()]
        if not tables:
            raise NotApplicable("no test and no analysis of the comparison has figures that seeds have in common")
        return tables

    def _chosen(self, context: Context) -> tuple[list[str], list[str]]:
        """The analyses to ask of each seed, in the order in which they can be, and those of them whose tables are shown."""
        configs = context.setting.config.analyses
        made = {name: as_analysis(make(configs[name])) for name in context.tables}
        asked = [name for name, analysis in made.items() if _can_be_asked(analysis)]
        if other := [name for name in self.analyses or () if name not in asked]:
            raise UserError(
                f"analyses.over_seeds.analyses cannot have {', '.join(other)}; it can have: {', '.join(asked)}"
            )
        shown = [name for name in asked if self.analyses is None or name in self.analyses]
        return asked if any(made[name].reads_tables for name in shown) else shown, shown


def _can_be_asked(analysis: Analysis) -> bool:
    """Whether an analysis tells another seed's model from the comparison's, and leaves seeds to others."""
    if analysis.trainings is not None:
        return False
    return isinstance(analysis, Universality) or not analysis.reads_elsewhere


def _trained(context: Context, seed: int) -> Context:
    """The comparison with the model of another seed, its tests done."""
    setting = trained_with(context.setting, seed)
    cells = {name: setting.cell(name) for name in context.cells}
    for cell in cells.values():
        finish(cell, context.evaluations)
    return replace(context, setting=setting, cells=cells, folder=None, tables={})


def _asked(context: Context, name: str, seed: int) -> Sequence[Table]:
    """The tables of an analysis under another seed; none where it is not applicable."""
    config = OmegaConf.to_container(context.setting.config.analyses[name], resolve=True)
    analysis = as_analysis(make(config))
    if isinstance(analysis, Universality):
        settings = {task: overrides and with_seed(overrides, seed) for task, overrides in analysis.settings.items()}
        analysis = replace(analysis, settings=settings)
    try:
        return analysis(context)
    except NotApplicable:
        return []


def with_seed(overrides: Sequence[str], seed: int) -> list[str]:
    """Overrides that open the same task with a model of this seed, where it has one."""
    has_one = has_seed(composed(overrides, "analyses.universality.settings").model)
    return [*overrides, *([f"++model.seed={seed}"] if has_one else [])]


def _tests(context: Context) -> Sequence[Table]:
    """The figures of all tests as a table; curves are left out."""
    rows = [
        figure_line({"explainer": name, "test": test}, figure.metric, figure, "", record.metric(figure.metric).bounds)
        for name, cell in context.cells.items()
        for test, record in tested(cell, context.tests)[0].evaluations.items()
        for figure in record.figures
        if figure.scalar
    ]
    return [Table("tests", "The tests", ("explainer", "test"), pd.DataFrame(rows))] if rows else []


def _take(found: dict[str, _Table], tables: Sequence[Table]) -> None:
    """Keep what one seed's tables hold."""
    for table in tables:
        probable, has = table.keys == P_KEY, table.rows["value"].notna()
        words = ~table.rows["metric"].isin(table.rows["metric"][has])
        figures = table.rows[has & ~probable]
        if table.printed and "head" not in table.labels and len(figures):
            kept = found.setdefault(table.name, _Table(table.title, table.labels))
            kept.figures += figures.to_dict("records")
            kept.said += table.rows[words].to_dict("records")


def _table(name: str, found: _Table, trainings: int) -> Table:
    """One of the tables over seeds: a line per figure; per line of the table where it has one figure and words beside it."""
    alone = bool(found.said) and len({figure["metric"] for figure in found.figures}) == 1
    rows = [
        row
        for key, figures in _alike(found.figures, found.labels).items()
        for row in _lines(_named(found.labels, key, alone=alone), figures, trainings)
    ]
    for key, said in _alike(found.said, found.labels).items():
        counts = "; ".join(
            f"{words}: {count}" for words, count in Counter(str(one["note"]) for one in said).most_common()
        )
        metric = f"{key[-1]}, in how many seeds" if alone else IN_HOW_MANY
        rows.append(
            line(_named(found.labels, key, alone=alone), metric, n=min(int(one["n"]) for one in said), note=counts)
        )
    return Table(
        name=f"{name}_over_seeds",
        title=f"{found.title}: over seeds",
        labels=found.labels if alone else (*found.labels, "figure"),
        rows=pd.DataFrame(rows),
        sentences=(of_seeds(trainings),),
    )


def _alike(
    lines: Sequence[dict[Hashable, Any]], labels: Sequence[str]
) -> dict[tuple[Any, ...], list[dict[Hashable, Any]]]:
    """The lines of all seeds by their labels and their metric."""
    found: dict[tuple[Any, ...], list[dict[Hashable, Any]]] = {}
    for one in lines:
        found.setdefault((*(one[label] for label in labels), one["metric"]), []).append(one)
    return found


def _named(labels: Sequence[str], key: Sequence[Any], *, alone: bool) -> dict[str, Any]:
    """What names a line; its metric as well, unless the table has but one."""
    return dict(zip(labels if alone else (*labels, "figure"), key, strict=False))


def _lines(
    labels: Mapping[str, Any], rows: Sequence[Mapping[Hashable, Any]], trainings: int
) -> Iterator[dict[str, Any]]:
    """One figure: its mean, and how much seeds and examples have in it."""
    values, lows, highs = (np.array([row[end] for row in rows], dtype=float) for end in ("value", "low", "high"))
    n, have = min(int(row["n"]) for row in rows), f"{len(rows)} of {trainings} seeds"
    known = bool(np.isfinite([lows, highs]).all())
    of_what = {(False, True): "", (False, False): "over seeds alone", (True, True): "over examples alone"}
    note = of_what.get((len(rows) == 1, known), f"{NO_INTERVAL}of one seed")
    if not known and len(rows) > 1 and np.ptp(values) == 0:
        note = f"{NO_INTERVAL}seeds agree"
    mean = mean_over_seeds(values, lows, highs, n, _bounds(rows))
    yield figure_line(labels, "mean over seeds", mean, note, key=MEAN)
    note = f"{NO_INTERVAL}{have}" if len(rows) > 1 else f"in {have}"
    key = BETWEEN if len(rows) == trainings else BETWEEN_SOME
    yield line(labels, "SD between seeds", deviation_over_seeds(values).value, n=n, note=note, key=key)
    error = math.sqrt(float(np.mean(((highs - lows) / (2 * _Z)) ** 2))) if known else math.nan
    note = f"{NO_INTERVAL}an error" if known else "not known"
    yield line(labels, "standard error over examples", error, n=n, note=note, key=ERROR)


def _bounds(rows: Sequence[Mapping[Hashable, Any]]) -> Range:
    """The least and the largest possible value of a figure, as far as one seed's table tells; stored ones do not."""
    return next((ends for ends in map(reach_of, rows) if np.isfinite(ends).any()), UNBOUNDED)
