"""Every edge score with every readout: which is best, and which of the two parts matters.

Defined in docs/protocols.md, section 14.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import pandas as pd
from omegaconf import DictConfig, OmegaConf

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.layouts import Layout, Measure, best, layout, read
from benchmark.analyses.measured import figure_line, tested
from benchmark.analyses.remembered import Remembered
from benchmark.analyses.variance import OF_MEANS, SOURCES, Decomposition, decompose
from benchmark.errors import NotApplicable, UserError
from benchmark.results.tables import Drawing, Table, line
from benchmark.results.wording import bounds, number, slug
from benchmark.run.cell import Cell
from benchmark.run.steps import finish
from benchmark.run.workbench import Setting
from benchmark.settings.configuration import compose, missing_keys, options
from benchmark.settings.declared import Count, configurable
from benchmark.settings.identity import digests_of
from benchmark.settings.making import make
from benchmark.types import Evaluation, Method

logger = logging.getLogger(__name__)

Settings = Mapping[str, Any]
_READ = ("tokens", "classes")
_BUDGETS = 8  # memory budgets of the model that remembered edge scores may take
_NAMES = {"first": "edge score", "second": "readout", "examples": "example", "residual": "combination × example"}


@configurable
class EdgesByReadouts(Analysis):
    """The product of edge scores and readouts under every test of the comparison that reads token scores.

    For each headline metric a table of edge scores × readouts; and for all of them the shares of variance that the edge
    score, the readout and their interaction explain (`decompose`, over the examples that have a value everywhere).

    Each combination is a cell like any other. Where a YAML of the comparison or of conf/methods describes it, it takes that
    name and those settings, so that its run folder is the published method's. The others are called `EDGES-READOUT`. The
    edge scores of a batch are computed once for all readouts, as far as eight times the model's memory budget goes.

    A combination that cannot serve leaves the layout unbalanced. The edge score or the readout that lacks the largest share
    of its values is then left out of the shares of variance, until nothing is missing; the sentences say why.

    Attributes:
        explainer: settings of the explainer that takes `edges` and `readout`.
        edges: settings of each edge score, by the name that the tables show; None leaves out one that a YAML names.
        readouts: settings of each readout likewise.
        limit: how many of the scored examples; None for all.
        explainers: what is compared, by name of the edge score and of the readout.
    """

    explainer: Settings
    edges: Mapping[str, Settings | None]
    readouts: Mapping[str, Settings | None]
    limit: Count | None = 30
    explainers: Mapping[str, Mapping[str, Method]] = field(init=False, repr=False)
    version: ClassVar[int] = 3  # 3: nothing rests on constant explanations

    def __post_init__(self) -> None:
        for name, parts in (("edges", self.edges), ("readouts", self.readouts)):
            if sum(settings is not None for settings in parts.values()) < 2:
                raise UserError(f"analyses.edges_by_readouts.{name} names fewer than two; give at least two")
        explainers: dict[str, dict[str, Method]] = {edge: {} for edge, _, _ in self._combinations()}
        for edge, readout, settings in self._combinations():
            explainers[edge][readout] = make(settings)
        object.__setattr__(self, "explainers", explainers)

    def __call__(self, context: Context) -> Sequence[Table]:
        """A table per headline metric, and the shares of variance.

        Raises:
            NotApplicable: no test of the comparison reads token scores and has a headline metric.
        """
        evaluations = {name: test for name, test in context.evaluations.items() if test.reads in _READ}
        measures = [
            Measure(name, metric, declared.higher_is_better)
            for name, test in evaluations.items()
            for metric, declared in test.metrics.items()
            if declared.headline and declared.x is None
        ]
        if not measures:
            raise NotApplicable("no test of the comparison reads token scores")
        cells = self._cells(context.setting.limited(self.limit), evaluations)
        tests = digests_of(evaluations)
        read_cells = {place: tested(cell, tests) for place, cell in cells.items()}
        layouts = {measure: layout(read(read_cells, measure)) for measure in measures}
        heats = [self._heat(measure, combinations) for measure, combinations in layouts.items()]
        return [self._shares(layouts), *heats]

    def _combinations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for edge, edges in self.edges.items():
            for readout, settings in self.readouts.items():
                if edges is not None and settings is not None:
                    yield edge, readout, {**self.explainer, "edges": dict(edges), "readout": dict(settings)}

    def _cells(self, setting: Setting, tests: Mapping[str, Evaluation]) -> dict[tuple[str, str], Cell]:
        """The finished cell of each combination."""
        named = _named_explainers(setting.config, str(self.explainer["_target_"]))
        total = sum(map(len, self.explainers.values()))
        cells: dict[tuple[str, str], Cell] = {}
        memory: dict[str, Remembered] = {}
        for edge, readout, settings in self._combinations():
            method: Any = self.explainers[edge][readout]
            if edge not in memory:
                memory = {edge: Remembered(method.edges, _BUDGETS * setting.model.memory_budget)}
            same = ((name, its_settings) for name, its_settings, explainer in named if explainer == method)
            name, settings = next(same, (f"{edge}-{readout}", settings))
            cell = setting.cell(name, method, settings)
            # the folder is that of the method itself: what is remembered changes no number
            cell = replace(cell, compared=replace(method, edges=memory[edge]))
            with progress.scope("cell", name):
                finished = finish(cell, tests)
            cells[edge, readout] = cell
            logger.info("%s: %s (combination %d of %d)", name, finished, len(cells), total)
        return cells

    @staticmethod
    def _heat(measure: Measure, combinations: Layout) -> Table:
        lines = [
            line({"edge score": edge}, readout, note=value)
            if isinstance(value, str)
            else figure_line({"edge score": edge}, readout, value)
            for (edge, readout), value in combinations.shown.items()
        ]
        direction = {True: "higher is better", False: "lower is better", None: "descriptive"}
        sentences = [f"The best is {sentence}." for sentence in best(measure, combinations)]
        return Table(
            name=f"edges_by_readouts_{slug(str(measure))}",
            title=f"{measure}: every edge score with every readout ({direction[measure.higher_is_better]})",
            labels=("edge score",),
            rows=pd.DataFrame(lines),
            sentences=tuple(sentences),
            drawing=Drawing("heat", x="metric", y=("edge score",)),
        )

    @staticmethod
    def _shares(layouts: Mapping[Measure, Layout]) -> Table:
        lines: list[dict[str, Any]] = []
        sentences: list[str] = []
        left_out: dict[str, list[str]] = {}
        for measure, combinations in layouts.items():
            for text in combinations.left_out:
                left_out.setdefault(text, []).append(str(measure))
            if combinations.values is None:
                lines.append(line({"measure": str(measure), "source": "all"}, _OF_ALL, note=combinations.reason))
                continue
            decomposition = decompose(combinations.values)
            for name in SOURCES:
                labels = {"measure": str(measure), "source": _NAMES.get(name, name)}
                for metric, shares in ((_OF_ALL, decomposition.of_all), (_OF_MEANS, decomposition.of_means)):
                    if (share := shares.get(name)) is not None:
                        lines.append(figure_line(labels, metric, share))
            sentences.append(_verdict(measure, combinations, decomposition))
        sentences += [f"{text} ({', '.join(measures)})." for text, measures in left_out.items()]
        return Table(
            name="edges_by_readouts",
            title="Which part matters, the edge score or the readout: shares of variance (η²)",
            labels=("measure", "source"),
            rows=pd.DataFrame(lines),
            sentences=tuple(sentences),
            drawing=Drawing("bars", x="measure", y=(_OF_MEANS,), series="source"),
        )


_OF_ALL = "share of all variance"
_OF_MEANS = "share among combinations"


def _verdict(measure: Measure, combinations: Layout, decomposition: Decomposition) -> str:
    shares = [
        f"the {_NAMES.get(name, name)} {number(share.value)} {bounds(share.low, share.high)}".rstrip()
        for name, share in ((name, decomposition.of_means[name]) for name in OF_MEANS)
    ]
    gap = decomposition.difference
    answer = (
        "the interval of their difference is above 0: the edge score has more" if gap.low > 0
        else "the interval of their difference is below 0: the readout has more" if gap.high < 0
        else "the interval of their difference holds 0"
    )  # fmt: skip
    size = f"{len(combinations.edges)} edge scores × {len(combinations.readouts)} readouts, {gap.n} examples"
    return f"{measure} ({size}): of the variance among combinations {', '.join(shares)}; {answer}."


def _named_explainers(config: DictConfig, target: str) -> list[tuple[str, dict[str, Any], Method]]:
    """Methods of the comparison and of conf/methods that are this explainer: name, settings, and what they make."""
    published = compose(None, [f"+methods=[{','.join(options('methods'))}]"]).methods
    explainers: list[tuple[str, dict[str, Any], Method]] = []
    for source in (config.methods, published):
        for name, settings in source.items():
            if settings.get("_target_") == target and not missing_keys(settings):
                plain: Any = OmegaConf.to_container(settings, resolve=True)
                explainers.append((str(name), plain, make(settings)))
    return explainers
