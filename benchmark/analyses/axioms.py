"""Which axioms of attribution does a method satisfy on attention edges?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses import axiom_gaps as gaps
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.twins import INVARIANT, Twins, equal_heads
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.precision import batch_for
from benchmark.results import statistics
from benchmark.results.tables import Table, frame, line
from benchmark.settings.declared import AtLeast, Count, Natural, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Batch, Method

COMPLETENESS, SENSITIVITY, DUMMY, SYMMETRY = "completeness", "sensitivity(a)", "dummy", "symmetry"
INVARIANCE = "implementation invariance: "
AXIOMS = (COMPLETENESS, SENSITIVITY, DUMMY, *(INVARIANCE + name for name in INVARIANT), SYMMETRY)


@dataclass(frozen=True)
class Outcome:
    """One axiom and one method.

    Attributes:
        axiom: one of `AXIOMS`.
        gap: how far off, with its interval over examples; n = 0 where it was not tested.
        worst: largest gap that is held against the tolerance.
        tolerance: largest gap of a pass.
        reason: why it was not tested, or empty.
    """

    axiom: str
    gap: statistics.Interval
    worst: float
    tolerance: float | int
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`pass`, `fail`, or `not tested, because ...`."""
        if self.reason:
            return f"not tested, because {self.reason}"
        return "pass" if self.worst <= self.tolerance else "fail"


Pairs = dict[str, list[NDArray[np.float64]]]


@configurable
class Axioms(Analysis):
    """A table of pass, fail and gap for every method of the comparison that scores edges.

    With E the edge scores, F the softmax probability of the target, A_l the attention of layer l. Everything is computed
    on a float64 copy of the model, so that a gap is the method's and not rounding's; the user's model is left alone.

    - completeness (Sundararajan 2017, section 3; efficiency of Shapley values): `Σ E_l = F(A_l) − F(0·A_l)` in
      every layer. Gap: mean over layers and examples of the difference over that of |F(A_l) − F(0·A_l)|. A pass is at most
      `completeness_tolerance`, since approximations of an integral are off by their quadrature error.
    - sensitivity(a) (Sundararajan 2017, section 2.1): an edge whose removal alone, A[l,h,i,j] ← 0, changes F has a score
      other than 0. Gap: share of the sampled edges with |ΔF| > `influence` whose |score| is at most 1e-12 of the layer's
      largest. The paper speaks of inputs that differ from the baseline in one feature; here the other edges keep their
      values and the edge goes to the baseline 0. A pass misses none.
    - dummy (Sundararajan & Najmi 2020; sensitivity(b) in Sundararajan 2017, section 4): edges that provably cannot change F
      have the score 0. These are edges with attention of exactly 0 (masked keys), and in the last layer the rows that the
      classifier does not read. Gap: largest |score| of such an edge over the layer's largest, in the worst layer. Not
      tested where no example has such an edge, as in models that read every token.
    - implementation invariance (Sundararajan 2017, section 2.2): equal functions, equal scores. The twins have values and
      output layer rescaled per head (factors of either sign), or queries and keys likewise, or feed-forward units
      permuted. It is checked that a twin's logits are the same to 1e-10. Gap: `max |E − E'| / max |E|`.
    - symmetry (Sundararajan & Najmi 2020; symmetry-preserving in Sundararajan 2017, section 4): equal players, equal scores.
      In a twin, head 1 of every layer has head 0's parameters; it is checked that the two attend equally. Gap:
      `max |E_0 − E_1|` over the layer's largest, in the worst layer.

    The sources speak of features of an input. It is Hao 2021's view that edges of attention are the players, and that the
    baseline sets their probabilities to 0. Dummy, invariance and symmetry fail where one example exceeds `tolerance`.

    Attributes:
        limit: how many of the scored examples are used, the first ones.
        edges: sampled per example for sensitivity(a).
        influence: least |ΔF| of an edge that counts as influential.
        completeness_tolerance, tolerance: largest gaps of a pass.
        seed: of the sampled edges and of the twins.
        target: class that is explained.

    Source: Sundararajan et al. 2017, sections 2 to 4; Sundararajan & Najmi 2020.
    Cost: 5 times the method, and edges + L + 12 forward passes.
    Memory: two copies of the model in float64, and the edge scores of a chunk of examples.
    """

    version: ClassVar[int] = 4

    limit: Count = 10
    edges: Count = 40
    influence: Annotated[float | int, AtLeast(0)] = 1e-6
    completeness_tolerance: Annotated[float | int, AtLeast(0)] = 0.05
    tolerance: Annotated[float | int, AtLeast(0)] = 1e-6
    seed: Natural = 0
    target: TargetName = "predicted"

    def __call__(self, context: Context) -> Sequence[Table]:
        """One table: a gap and a verdict per method and axiom."""
        methods = {
            n: cell.method
            for n, cell in context.cells.items()
            if isinstance(cell.method, Method) and cell.method.scores_edges
        }
        rows: list[dict[str, Any]] = []
        if methods:
            twins = Twins.of(context.setting.model)
            chosen = list(context.first_examples(self.limit, self.target))
            for name, method in methods.items():
                for outcome in self.outcomes(twins, method, chosen):
                    rows += _outcome_lines(name, outcome)
        return [self._table(rows, sorted(set(context.cells) - set(methods)))]

    def outcomes(self, twins: Twins, method: Method, chosen: Sequence[tuple[Batch, Target]]) -> list[Outcome]:
        """Every axiom for one method on the chosen examples."""
        values: Pairs = {}
        reasons: dict[str, str] = {}
        for batch, target in chosen:
            for part, rows in twins.base.parts(batch):
                for axiom, test in self._tests(twins, method, batch_for(twins.base, part), target[rows]).items():
                    try:
                        values.setdefault(axiom, []).append(test().double().cpu().numpy())
                    except NotApplicable as answer:
                        reasons[axiom] = str(answer)
        return [self._outcome(axiom, values, reasons) for axiom in AXIOMS]

    def _tests(self, twins: Twins, method: Method, batch: Batch, target: Target) -> Mapping[str, Callable[[], Tensor]]:
        """By axiom: what measures it, one row of numbers per example."""
        base = twins.base
        memory: list[Tensor] = []

        def score(model: Classifier) -> Tensor:
            torch.manual_seed(0)  # for methods that draw from the global generator
            return gaps.own_edges(method.edge_scores(model, batch, target).detach(), batch)

        def scores() -> Tensor:
            if not memory:
                memory.append(score(base))
            return memory[0]

        def complete() -> Tensor:
            return torch.stack(gaps.completeness(base, batch, target, scores()), dim=1)

        def sensitive() -> Tensor:
            attentions = base.run(batch, record=("attentions",)).attentions
            edges = gaps.sample_edges(attentions, base.read_weights(batch), batch, self.edges, self.seed)
            effects = gaps.removal_effects(base, batch, target, edges, all_heads=scores().shape[2] == 1)
            return torch.stack(gaps.unscored(scores(), edges, effects, self.influence), dim=1)

        def invariant(name: str) -> Tensor:
            twin = twins.change(name, INVARIANT[name], batch, self.seed)
            gaps.require_equal(base.run(batch).logits, twin.run(batch).logits, "the twin")
            return gaps.difference(scores(), score(twin))

        def symmetric() -> Tensor:
            if scores().shape[2] == 1:
                raise NotApplicable("the method scores the heads of a layer together")
            twin = twins.change("equal heads", equal_heads, batch)
            gaps.require_equal_heads(twin.run(batch, record=("attentions",)).attentions)
            return gaps.head_difference(score(twin), 0, 1)

        return {
            COMPLETENESS: complete,
            SENSITIVITY: sensitive,
            DUMMY: lambda: torch.stack(gaps.dummy(scores(), gaps.null_edges(base, batch), batch), dim=1),
            **{INVARIANCE + name: partial(invariant, name) for name in INVARIANT},
            SYMMETRY: symmetric,
        }

    def _outcome(self, axiom: str, values: Pairs, reasons: Mapping[str, str]) -> Outcome:
        undefined = statistics.Interval(float("nan"), float("nan"), float("nan"), 0)
        if axiom in reasons:
            return Outcome(axiom, undefined, float("nan"), 0, reasons[axiom])
        gaps_of_examples = np.concatenate(values[axiom])
        if axiom == COMPLETENESS:
            gap = statistics.interval(gaps_of_examples, statistics.ratio, bounds=(0.0, np.inf))
            return Outcome(axiom, gap, gap.value, self.completeness_tolerance)
        if axiom == SENSITIVITY:
            gaps_of_examples = gaps_of_examples[gaps_of_examples[:, 1] > 0]
            if not len(gaps_of_examples):
                reason = f"no sampled edge alone changes the probability by more than {self.influence:g}"
                return Outcome(axiom, undefined, float("nan"), 0, reason)
            gap = statistics.interval(gaps_of_examples, statistics.ratio, bounds=(0.0, 1.0))
            return Outcome(axiom, gap, gap.value, 0.0)
        if axiom == DUMMY:
            gaps_of_examples = gaps_of_examples[gaps_of_examples[:, 1] > 0, 0]
            if not len(gaps_of_examples):
                reason = "every edge of the examples may change the prediction"
                return Outcome(axiom, undefined, float("nan"), 0, reason)
        worst = float("inf") if np.isnan(gaps_of_examples).any() else float(gaps_of_examples.max())
        return Outcome(axiom, statistics.interval(gaps_of_examples, bounds=(0.0, np.inf)), worst, self.tolerance)

    def _table(self, rows: list[dict[str, Any]], others: Sequence[str]) -> Table:
        labels = ("method", "axiom")
        sentences: tuple[str, ...] = (
            f"A pass: completeness to {self.completeness_tolerance:g} of the mean contribution of a layer; no influential "
            f"edge scored 0; the others to {self.tolerance:g} of the largest score on every example.",
            "Gaps are means over n examples with 95 % intervals, on a float64 copy of the model. A verdict holds for "
            "these examples; an interval says what others would give.",
        )
        if others:
            sentences += (f"Methods that do not score edges: {', '.join(others)}.",)
        title = "Which axioms of attribution hold on attention edges"
        return Table("axioms", title, labels, frame(rows, labels), sentences)


def _outcome_lines(method: str, outcome: Outcome) -> list[dict[str, Any]]:
    """The gap, where there is one, and the verdict."""
    labels = {"method": method, "axiom": outcome.axiom}
    verdict = line(labels, "verdict", note=outcome.verdict)
    return [verdict] if outcome.reason else [figure_line(labels, "gap", outcome.gap), verdict]
