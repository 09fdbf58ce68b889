"""Circuits of each method against random orders, against what is known, and against brute force; and the best one drawn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmark.analyses.base import Analysis
from benchmark.analyses.circuits.importances import write_importances
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.errors import NotApplicable, UserError, near
from benchmark.evaluations.circuit import NOTHING_TO_KEEP_UP, Circuit, trapezoid_weights
from benchmark.models.components import Components, Graph
from benchmark.models.components.selection import best, best_edges, ends, orders_nothing
from benchmark.models.written.program import Program
from benchmark.models.written.wiring import wiring
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.control_names import control_order
from benchmark.results.digests import digest
from benchmark.results.statistics import Interval, holm, resampled_means, spread_interval
from benchmark.results.tables import P_KEY, Drawing, Table, frame, line
from benchmark.results.wording import slug
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.identity import digest_of
from benchmark.types import Batch

Values = NDArray[np.float64]

EXACT = "activation_patching"
AREA, RANDOM_ORDERS = "CPR", "random orders"
_SEEN = 1e-3  # of the largest score, below which an edge is not drawn
_SIGNED, _SHARE = (-1.0, 1.0), (0.0, 1.0)


@configurable
class Circuits(Analysis):
    """What the circuits of a comparison are worth beside random ones, beside what is known, and beside brute force.

    `circuits`: for each test of circuits (`evaluations.circuit`) and each method its CPR on the first `limit` examples, and
    the share of `orders` random orders that reach it, `p = (1 + #{CPR_random ≥ CPR}) / (1 + orders)`, corrected over the
    methods of a test by Holm. The areas of random orders have a line of their own: half of the components of a small model
    keep up a good part of an answer whichever they are, so that their CPR is above the .25 of a large one.

    `circuits_known`: of a model that was written by hand the area under the ROC curve of |score| for the edges that its
    program wires (`benchmark.models.written.wiring`); chance is ½. `circuits_exact`: Pearson's r of edges' scores and their
    effects by brute force, where `activation_patching` is among the methods. Both are of means over the calibration
    examples, whose resamples give the interval.

    `circuit`: the `drawn` best edges of one method, greedily from the logits, drawn with layers upwards.

    In the folder `importances/` of the comparison lies a file of each method that scores edges, in the form that MIB's
    evaluation code reads.

    Attributes:
        orders: random orders.
        limit: examples on which they are tested.
        method: whose circuit is drawn; None: brute force where it was computed, else the first method that scores edges.
        drawn: edges of the picture.
        seed: of the orders and the resamples.

    Source: CPR and importance files: Mueller et al. 2025; the comparison with random orders is ours.
    Cost: for each test (orders + methods) × shares runs of a circuit, on `limit` examples.
    """

    version: ClassVar[int] = 1

    orders: Count = 300
    limit: Count | None = 10
    method: str | None = None
    drawn: Count = 40
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Tables of those questions that can be asked here."""
        tests = {name: test for name, test in context.evaluations.items() if isinstance(test, Circuit)}
        if not tests:
            raise NotApplicable("the comparison has no test of circuits (evaluations=[circuit])")
        if self.method is not None and self.method not in context.cells:
            raise UserError(
                f"analyses.circuits.method={self.method} is no method here; {near(self.method, list(context.cells))}"
            )
        scored = {name: Scored.of(context, test) for name, test in tests.items()}
        if not any(one.methods for one in scored.values()):
            raise NotApplicable("no method scores the components that its tests ask for")
        tables = [self._against_random(context, scored)]
        edges = next((one for one in scored.values() if one.test.level == "edges" and one.methods), None)
        if edges is not None:
            tables += [table for table in (self._known(context, edges), self._exact(edges)) if table is not None]
            tables.append(self._drawn(edges))
            self._write(context, edges)
        return tables

    def _against_random(self, context: Context, scored: Mapping[str, "Scored"]) -> Table:
        levels = [one.test.level for one in scored.values()]
        rows: list[dict[str, Any]] = []
        for name, one in scored.items():
            if one.methods:
                label = one.test.level if levels.count(one.test.level) == 1 else f"{one.test.level} ({name})"
                rows += self._lines(one, label, name, self._measured(context, one))
        return Table(
            name="circuits",
            title="Are circuits better than those of random orders?",
            labels=("components", "explainer"),
            rows=frame(rows, ("components", "explainer")),
            sentences=(
                f"{AREA}: area under the share of the answer that circuits keep up, on at most "
                f"{self.limit or 'all'} examples. p: share of {self.orders} random orders whose circuits keep up as much, "
                "corrected over the methods (Holm).",
                "Random orders: the mean of their areas, and the area below which 97.5 % of them lie.",
            ),
        )

    def _measured(self, context: Context, one: "Scored") -> Values:
        """m of all and none, then of each method's circuits, then of those of random orders: [n, 2 + (M + R) K]."""
        setting = context.setting.limited(self.limit)
        explained = explained_of(context.setting.data, one.test.target)
        methods = list(one.means.values())
        draws = [self._random(methods[0], number) for number in range(self.orders)]

        def compute(batch: Batch) -> Arrays:
            components = Components.of(setting.model, batch)
            graph, level, order = components.graph, one.test.level, one.test.orders[0]
            counts = one.test.counts(graph)
            each = [best(graph, level, scores, counts, order, self.seed).keep for scores in (*methods, *draws)]
            keep = torch.cat([ends(graph, level), *each])
            return {"values": one.test.values_of(components, batch, explained(batch), keep).T.copy()}

        told = digest([digest_of(one.test), *(f"{name} {one.content(name)}" for name in one.means)])
        label = f"circuits of {one.test.level} by random orders"
        return self.by_example(context, setting, compute, label, part=told).arrays["values"]

    def _random(self, like: torch.Tensor, number: int) -> torch.Tensor:
        draw = generator(self.seed, "random orders of components", str(number))
        return torch.from_numpy(draw.random(like.shape))

    def _lines(self, one: "Scored", label: str, test: str, values: Values) -> Iterator[dict[str, Any]]:
        """Areas of methods and of random orders, and how many of these are as large."""
        weights = trapezoid_weights(one.test.fractions)
        room, circuits = values[:, 0] - values[:, 1], values[:, 2:] - values[:, 1:2]
        if not room.mean() > 0:
            yield line({"components": label, "explainer": "all"}, AREA, note=NOTHING_TO_KEEP_UP)
            return
        gains = circuits.reshape(len(values), -1, len(weights)) @ weights  # [n, M + R]
        names = list(one.means)
        areas = gains.mean(0) / room.mean()
        random = areas[len(names) :]
        p = {
            name: (1 + int((random >= area).sum())) / (1 + len(random))
            for name, area in zip(names, areas, strict=False)
            if control_order(name) == 0
        }
        corrected = holm(p)
        for place, name in enumerate(names):
            labels = {"components": label, "explainer": name}
            area = statistics.interval(np.stack([gains[:, place], room], axis=1), statistics.ratio)
            yield figure_line(labels, AREA, area, key=f"{test}.{name}.cpr")
            if name in corrected:
                yield line(labels, "p, against random orders", corrected[name], n=len(values), key=P_KEY)
            else:
                yield line(labels, "p, against random orders", note="a control")
        labels = {"components": label, "explainer": RANDOM_ORDERS}
        yield figure_line(labels, AREA, statistics.interval(random), key=f"{test}.random.cpr")
        told = f"97.5 % of {len(random)} are below {np.quantile(random, 0.975):.3f}"
        yield line(labels, "p, against random orders", note=told)

    def _known(self, context: Context, edges: "Scored") -> Table | None:
        """Whether the edges that a program wires are found; None where the model is not written by one."""
        program, graph = getattr(context.setting.task, "program", None), edges.graph
        written = str(context.setting.config.model.get("_target_", "")).endswith(".written.Written")
        if not isinstance(program, Program) or not written:
            return None
        truth = wiring(program, graph)[graph.edges].numpy()
        rows = []
        for name in edges.methods:
            found = edges.resampled(name, self.seed)
            auc = _with_interval(found, lambda scores: float(roc_auc_score(truth, np.abs(scores))), edges.n, _SHARE)
            rows.append(figure_line({"explainer": name}, "AUROC", auc, _note(auc), key=f"{name}.auroc"))
        draws = [
            self._random(edges.means[edges.methods[0]], number)[graph.edges].numpy() for number in range(self.orders)
        ]
        chance = statistics.interval(np.array([roc_auc_score(truth, draw) for draw in draws]), bounds=_SHARE)
        rows.append(figure_line({"explainer": RANDOM_ORDERS}, "AUROC", chance, key="random.auroc"))
        return Table(
            name="circuits_known",
            title="Are the edges found that the program wires?",
            labels=("explainer",),
            rows=frame(rows, ("explainer",)),
            sentences=(
                f"Area under the ROC curve of the magnitude of scores; {int(truth.sum())} of {len(truth)} edges are wired. "
                "It is ½ where scores say nothing. n: calibration examples, whose resamples give the interval; of random "
                "orders their number.",
            ),
        )

    def _exact(self, edges: "Scored") -> Table | None:
        """Agreement with brute force; None where nobody computed it."""
        if EXACT not in edges.scores:
            return None
        exact = edges.resampled(EXACT, self.seed)
        rows = []
        for name in edges.methods:
            if name == EXACT:
                continue
            both = [np.stack(pair) for pair in zip(edges.resampled(name, self.seed), exact, strict=True)]
            r = _with_interval(both, lambda pair: _correlation(*pair), edges.n, _SIGNED)
            rows.append(figure_line({"explainer": name}, "r with brute force", r, _note(r), key=f"{name}.exact"))
        return Table(
            name="circuits_exact",
            title="Do scores of edges agree with what taking each of them away does?",
            labels=("explainer",),
            rows=frame(rows, ("explainer",)),
            sentences=(
                "Pearson's correlation over all edges, of means over the calibration examples (n), whose resamples give the "
                "interval.",
            ),
        )

    def _drawn(self, edges: "Scored") -> Table:
        """The best edges of one method."""
        best_known = EXACT if EXACT in edges.methods else edges.methods[0]
        name = self.method if self.method in edges.scores else best_known
        assert name is not None
        scores, graph = edges.scores[name], edges.graph
        mean = edges.means[name]
        keep = best_edges(graph, mean, min(self.drawn, int(graph.edges.sum())), "greedy", self.seed)
        keep &= mean.abs().cpu() >= _SEEN * mean.abs().max().cpu()
        rows = []
        for s, d in keep.nonzero().tolist():
            score = statistics.interval(scores[:, s, d].double().numpy())
            rows.append(figure_line({"node": graph.nodes[s], "slot": graph.slots[d]}, "score", score))
        return Table(
            name="circuit",
            title=f"The best edges by {name}",
            labels=("node", "slot"),
            rows=frame(rows, ("node", "slot")),
            sentences=(
                f"The {int(keep.sum())} best edges by the magnitude of {name}'s scores, from the logits on always the best "
                "one to a node that is there already. A positive score: the answer loses where the edge carries what it "
                "carries for the corrupted input. n: calibration examples.",
            ),
            drawing=Drawing(kind="circuit", x="node", y=("score",), series="slot"),
        )

    def _write(self, context: Context, edges: "Scored") -> None:
        if context.folder is None:
            return
        width = int(context.setting.model.config.get_text_config().hidden_size)
        for name, mean in edges.means.items():
            path = context.folder / "importances" / f"{slug(name)}.json"
            write_importances(path, edges.graph, mean.double().numpy(), width=width)


@dataclass(frozen=True)
class Scored:
    """What the methods of a comparison say of the components that a test asks for.

    Attributes:
        test: the test.
        graph: of the model.
        scores: by method, of each calibration example.
    """

    test: Circuit
    graph: Graph
    scores: Mapping[str, Float[torch.Tensor, "N ..."]]

    @staticmethod
    def of(context: Context, test: Circuit) -> "Scored":
        """Of those methods that score such components, and not all of them alike."""
        model, found = context.setting.model, {}
        graph = Graph(model.n_layers, model.n_heads)
        calibration = "same" if test.calibration == "each" else test.calibration
        for name, cell in context.cells.items():
            try:
                scores = cell.part_scores(test.part, calibration, test.target)
            except NotApplicable:
                continue
            if not orders_nothing(graph, test.level, scores):
                found[name] = scores
        return Scored(test, graph, found)

    @property
    def n(self) -> int:
        """Calibration examples."""
        return min(map(len, self.scores.values()))

    @cached_property
    def means(self) -> Mapping[str, Float[torch.Tensor, "..."]]:
        """The mean over the examples."""
        return {name: scores.mean(0) for name, scores in self.scores.items()}

    @property
    def methods(self) -> list[str]:
        """Those that are no controls."""
        return [name for name in self.scores if control_order(name) == 0]

    def content(self, name: str) -> str:
        """What tells a method's scores from others."""
        return sha256(self.means[name].double().cpu().numpy().tobytes()).hexdigest()

    def resampled(self, name: str, seed: int) -> list[Values]:
        """The mean scores of a method's edges over the examples, then over resamples of them."""
        flat = self.scores[name][:, self.graph.edges].double().numpy()
        return [flat.mean(0), *resampled_means(flat, seed)]


def _with_interval(
    found: Sequence[Any], statistic: Callable[[Any], float], n: int, bounds: tuple[float, float]
) -> Interval:
    """A statistic of the first, with an interval from the others, which are of resamples of n examples."""
    value, *resampled = [statistic(one) for one in found]
    return spread_interval(value, resampled, n, bounds)


def _note(figure: Interval) -> str:
    """Why a figure of resamples has no interval."""
    return "" if np.isfinite(figure.high - figure.low) else "no interval: the same in every resample"


def _correlation(a: Values, b: Values) -> float:
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")
