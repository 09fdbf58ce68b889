"""What a method or a test may offer beside what it must (`benchmark.types`): protocols that a comparison asks for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from benchmark.results.record import Derivation
from benchmark.types import Aggregate, Attribution, Batch, Compared, EdgeMethod, Evaluation, Example, Method

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier


@runtime_checkable
class CheckedMethod(Method, Protocol):
    """An explainer that knows before any work whether it can explain."""

    def check(self, batches: Sequence[Batch]) -> None:
        """UserError where it cannot explain one of the scored examples; no model is run."""


@runtime_checkable
class JointMethod(EdgeMethod, Protocol):
    """An explainer of edges that gives its attributions and its edge scores from one pass over the edges."""

    def with_edges(self, model: "Classifier", batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """What `__call__` gives, with `edges`: those of `edge_scores` summed over heads, 0 at padding."""


@runtime_checkable
class FittedMethod(Method, Protocol):
    """An explainer that first looks at examples of the training split."""

    def fit(self, examples: Sequence[Example]) -> Method:
        """A copy that has seen them, which explains."""


@runtime_checkable
class AggregatingMethod(Method, Protocol):
    """An explainer of heads whose importance over several examples is not the mean of their scores."""

    def aggregate_heads(self, heads: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Importance from the head scores of N examples."""


@runtime_checkable
class RandomHeadsMethod(Method, Protocol):
    """An explainer whose head scores are drawn once for all examples."""

    def head_orders(self, n_layers: int, n_heads: int) -> Float[Tensor, "K L H"]:
        """K draws of equal standing, the first that of its explanations."""


@runtime_checkable
class ScopedEvaluation(Evaluation, Protocol):
    """An evaluation whose rows depend on something of all scored examples (no explanation, no model)."""

    def over(self, batches: Sequence[Batch]) -> Evaluation:
        """A copy that knows it of these batches; raises NotApplicable with a reason where there is none."""


@runtime_checkable
class DerivedEvaluation(Evaluation, Protocol):
    """An evaluation with scalars that are no means over examples; reports compute them again from `parts`."""

    @property
    def parts(self) -> Mapping[str, Derivation]:
        """How each of them is computed from rows."""


@runtime_checkable
class ImageEvaluation(Evaluation, Protocol):
    """An evaluation that can serve images alone. Among other tests of texts it is left out, as if it had not been named."""

    of_images: ClassVar[Literal[True]]


@runtime_checkable
class DivisibleEvaluation(Evaluation, Protocol):
    """An evaluation whose `reduce` gives the same figures for the rows of some metrics at a time."""

    def divided(self, metrics: Sequence[str]) -> Sequence[Sequence[str]]:
        """Names of rows in groups, each of which is reduced by itself; every name in one of them."""


@runtime_checkable
class TwinEvaluation(Evaluation, Protocol):
    """An evaluation of token scores whose rows of an example hang on the explained class through the attribution alone.

    Where the annotated class is the predicted one, its rows are those of its twin for the predicted class.
    """

    @property
    def for_predicted(self) -> Evaluation:
        """The same evaluation of explanations for the predicted class."""


@runtime_checkable
class CalibratedEvaluation(Evaluation, Protocol):
    """An evaluation that takes something of a method from examples that need not be scored.

    `calibration` has `split` and `limit`: the first examples of that split which are not scored. Where the evaluation reads
    heads it may also be `same` (importance over the scored examples) or `each` (every example's own).
    """

    calibration: Any


@runtime_checkable
class ResamplingEvaluation(CalibratedEvaluation, Protocol):
    """An evaluation of heads that asks how far its figures hang on the calibration examples."""

    def resampled(self, scores: Float[Tensor, "N L H"], aggregate: Aggregate) -> Float[Tensor, "R L H"] | None:
        """Importance from R bootstrap resamples of the N calibration examples; None where it cannot be."""


@runtime_checkable
class PreparedEvaluation(CalibratedEvaluation, Protocol):
    """An evaluation that first takes something from what is compared and a split that is not scored (`reads = "method"`).

    What it takes is data: it is written to the run folder and read back, and testing needs nothing else.
    """

    def extract(self, model: "Classifier", method: Compared, batches: Sequence[Batch]) -> dict[str, Any]:
        """What the rows need, serialisable as JSON; raises NotApplicable with a reason where there is none."""

    def restored(self, artifact: Mapping[str, Any]) -> Evaluation:
        """A copy of the evaluation that holds what `extract` returned."""
