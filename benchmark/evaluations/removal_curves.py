"""What tests share that remove growing fractions of an input: their curves, the areas below, and the words for both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import Averaged, Rows, correctness, higher, lower
from benchmark.models.classifier import Classifier
from benchmark.results.record import Metric
from benchmark.targets import Target, TargetName
from benchmark.types import Batch

_SHORT = {"accuracy": "acc.", "probability": "prob.", "logit": "logit", "log_probability": "ln p"}


class RemovalCurves(Averaged):
    """Accuracy, probability and logit (or log-probability) while the most (positive) or least relevant part (negative) goes.

    What a part is, how it is ranked and removed, is the subclass's.

    Attributes:
        named: the test's name in conf/evaluations, for the predicted class.
        removed: what is removed, as metrics say it.
        apart: tells titles from those of other tests of this kind; `apart_in_short` does in narrow columns.
        target: the class that is explained, and whose probability and logit are followed.
        fractions: increasing, within [0, 1].
        area: `mean` or `published`.
    """

    named: ClassVar[str]
    removed: ClassVar[str]
    apart: ClassVar[str] = ""
    apart_in_short: ClassVar[str] = " first"

    target: TargetName
    fractions: Sequence[float | int]
    area: curves.Area

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Curves and areas of both directions."""
        metrics = {}
        ranges = {"accuracy": (0.0, 1.0), "probability": (0.0, 1.0), self.watched: self._watched_bounds}
        area = "mean" if self.area == "mean" else "area, times 100, of the"
        share = f"growing fractions of the {self.removed}"
        annotated = " (annot.)" if self._of_class else ""
        for direction, better, first in (("positive", lower, "most relevant"), ("negative", higher, "least relevant")):
            order = f"{first}{self.apart} first{self._of_class}"
            for name, bounds in ranges.items():
                said = name.replace("_", "-")
                measured = said if name == "accuracy" else f"{said} of the explained class"
                metrics[self._area_name(direction, name)] = better(
                    f"{said} AUC, {order}",
                    f"{area} {measured} while {share} are removed, the {first} first",
                    short=f"{_SHORT[name]} AUC {first.partition(' ')[0]} rel.{self.apart_in_short}{annotated}",
                    bounds=self._area_bounds(bounds),
                    headline=name == "accuracy",
                )
            for name, bounds in ranges.items():
                said = name.replace("_", "-")
                metrics[f"{direction}_{name}"] = better(
                    f"{said}, {order}",
                    f"{said} after this fraction of the {self.removed} is removed, the {first} first",
                    bounds=bounds,
                    x="fraction removed",
                    headline=name == "accuracy",
                )
        return metrics

    @property
    def watched(self) -> str:
        """What the curve of the explained number is called: the logit of a class, or the logarithm of its probability."""
        return "log_probability" if self.target == "log_probability" else "logit"

    @property
    def _watched_bounds(self) -> tuple[float, float]:
        return -float("inf"), 0.0 if self.target == "log_probability" else float("inf")

    @property
    def for_predicted(self) -> "RemovalCurves":
        """The same test of explanations for the predicted class: rows of an example for one class are those for it."""
        evaluation: Any = self  # subclasses are data classes
        return cast(RemovalCurves, replace(evaluation, target="predicted"))

    def setting(self, field: str) -> str:
        """What messages call one of the settings."""
        return f"evaluations.{self.named}{'_target' if self.target == 'label' else ''}.{field}"

    @property
    def _of_class(self) -> str:
        return ", annotated class" if self.target == "label" else ""

    @property
    def points(self) -> tuple[float, ...]:
        """The fractions of the curves: 0, then those of the setting."""
        return curves.with_zero(self.fractions)

    def alternatives(self, metric: str) -> Mapping[str, tuple[str, bool]]:
        """What else an area could have followed: probability, the logit, and the first half of the shares (`which_test`)."""
        direction = metric.partition("_")[0]
        others = {name: (self._area_name(direction, name), False) for name in ("probability", self.watched)}
        return others | {"the first half of the shares": (f"{direction}_accuracy", True)}

    def _area_name(self, direction: str, curve: str) -> str:
        middle = "" if curve == "accuracy" else f"{curve}_"
        return f"{direction}_{middle}auc_{self.area}"

    def _area_bounds(self, bounds: tuple[float, float]) -> tuple[float, float]:
        if self.area == "mean":
            return bounds
        low, high = (100 * self.points[-1] * bound if bound else 0.0 for bound in bounds)
        return low, high

    def _area(self, curve: Float[Tensor, "B K"]) -> Float[Tensor, "B"]:
        """From a curve over `points`."""
        if self.area == "published":
            return curves.published_area(curve, self.points)
        return curves.area(curve[:, len(self.points) - len(self.fractions) :], self.fractions)

    def removals(self, ranked: Tensor, n: Tensor) -> Bool[Tensor, "K B N"]:
        """What is removed at each of `points`, most relevant first, then likewise least relevant first.

        Args:
            ranked: ranks [B, N] of the parts of each example, see `ranks.descending_ranks`.
            n: how many parts of each example are ranked.
        """
        count = curves.counts(n, self.points)
        return torch.cat([ranks.best(ranked, count), ranks.worst(ranked, count)])

    def curve_rows(
        self, model: Classifier, batch: Batch, logits: Float[Tensor, "K B C"], target: Target, rated: Bool[Tensor, "B"]
    ) -> pd.DataFrame:
        """Curves and areas of each example from the logits after `removals`.

        Args:
            model: the classifier.
            batch: the examples.
            logits: after each removal.
            target: the explained class of each example.
            rated: which examples have anything to remove; others get no row.
        """
        positive, negative = logits.transpose(0, 1).tensor_split(2, dim=1)
        rows = Rows(batch.uids)
        for direction, values in (("positive", positive), ("negative", negative)):
            self._add_direction(rows, batch, direction, values, model, target.to(logits.device), rated)
        return rows.frame()

    def _add_direction(
        self,
        rows: Rows,
        batch: Batch,
        direction: str,
        logits: Float[Tensor, "B K C"],
        model: Classifier,
        target: Target,
        rated: Tensor,
    ) -> None:
        labelled, targeted = rated & (batch.label >= 0), rated & target.known
        by_point = logits.transpose(0, 1)
        for name, values, defined in (
            ("accuracy", correctness(logits, batch.label[:, None]), labelled),
            ("probability", model.probability(by_point, target).T.contiguous(), targeted),
            (self.watched, target.value(by_point).T.contiguous(), targeted),
        ):
            curve, area = values.double(), self._area(values.double())
            rows.add(f"{direction}_{name}", curve, x=self.points, defined=defined)
            rows.add(self._area_name(direction, name), area, defined=defined)
