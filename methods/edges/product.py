"""Products of attention, its gradient and its relevance (docs/protocols.md, sections 2 and 5)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.precision import Precision, precise
from benchmark.models.read_rows import everywhere, spread
from benchmark.models.recomputing import attention_gradients, is_long
from benchmark.settings.declared import Distinct, configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.edges.base import (
    LayerVisitor,
    LayerwiseScore,
    Signs,
    attention_and_gradient,
    take,
    visit_attention,
    visit_attention_and_gradient,
)
from methods.propagation.relevance import relevances, visit_relevances
from methods.propagation.rule_sets import RuleName, Rules, RuleSet, rule_set
from methods.shared.properties import MOVES_BIAS, SIGNS_OF_WEIGHTS

Factor = Literal["attention", "gradient", "relevance"]


@configurable
class FactorProduct(LayerwiseScore):
    """`E = A^a ⊙ (∂y_t/∂A)^g ⊙ R^r` or its positive part; exponents are 1 for the factors and 0 for the others.

    With relevance, A is that of the relevance pass, in its precision; the gradient is always that of the model itself, and
    where that is the precision of relevance too, one graph serves both (of a long input each has its own, a block at a time;
    see `benchmark.models.recomputing`). Of the last layer only the rows that the classifier
    reads are computed where a gradient or relevance is a factor: all others are 0. R is read after the halving of the
    product A·V and before the softmax. Passes that no factor needs are not made.

    Attributes:
        factors: which are multiplied, in any order.
        part: "signed" or "positive"; the published methods are "positive", but for attention and its gradient alone.
        rules: of relevance: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own.
        precision: of relevance, and of A beside it: "float64", in which shares of sums that cancel keep their digits, or
            "model", the model's own: for a device without float64, or where its error (see `relevances`) is no matter.

    Source: this project (all three factors).
    Cost: 1 forward pass, 2 backward passes; with precision=float64 2 forward passes, one of either kind in float64.

    With factors=attention:
        `E[l,h,i,j] = A[l,h,i,j]`, in [0, 1]; the same for every class.
        Source: Bahdanau et al. 2015, section 3.1; Vaswani et al. 2017, section 3.2.
        Cost: 1 forward pass.

    With factors=gradient:
        `E[l,h,i,j] = ∂y_t/∂A[l,h,i,j]`, in logits per unit of probability.
        The source ranks the weights of one attention layer and leaves open how several heads and layers are reduced; the
        readout chooses (`attention_gradient`: mean over heads, last layer).
        Source: Serrano & Smith 2019, section 4.
        Cost: 1 forward pass, 1 backward pass.

    With factors=attention, gradient:
        `E[l,h,i,j] = A[l,h,i,j] · ∂y_t/∂A[l,h,i,j]`, in logits; since A ≥ 0 its positive part is A ⊙ (∂y_t/∂A)⁺.
        Source: Barkan et al. 2021 (Grad-SAM), section 3; Chefer et al. 2021b, section 3.2, eq. 5.
        Cost: 1 forward pass, 1 backward pass.

    With factors=relevance:
        `E[l,h,i,j] = R[l,h,i,j]`, the relevance that reaches A.
        Source: Voita et al. 2019, section 4.
        Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.

    With factors=gradient, relevance:
        `E[l,h,i,j] = ∂y_t/∂A[l,h,i,j] · R[l,h,i,j]`.
        The source has three ablations, and counts blocks from the output. Without the gradient: see below. Block 1, the last
        one alone: the readout `ReadRow(layer=-1)`. Block B − 1, its code's `blocks[1]`, which is the second from the input:
        `ReadRow(layer=1)`.
        Source: Chefer et al. 2021a, section 3.2, eq. 13.
        Cost: 1 forward pass, 2 backward passes; with precision=float64 2 forward passes, one of either kind in float64.

    With factors=attention, relevance:
        `E[l,h,i,j] = A[l,h,i,j] · R[l,h,i,j]`: equation 13 with A in the place of its gradient.
        The published code's method "rollout" of relevance alone is the mean of R⁺ over heads, without A.
        Source: Chefer et al. 2021a, section 4 (ablation "without the gradient").
        Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.
    """

    factors: Annotated[Sequence[Factor], Distinct()] = ("attention",)
    part: Signs = "signed"
    rules: RuleName | Rules = "chefer2021"
    precision: Precision = "float64"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(sorted(self.factors)))

    @property
    def class_specific(self) -> bool:
        """Attention alone knows no class."""
        return self.factors != ("attention",)

    @property
    def properties(self) -> Mapping[str, str]:
        """What its factors bring with them."""
        found = dict(MOVES_BIAS) if self.class_specific else {}
        if "relevance" in self.factors:
            found |= SIGNS_OF_WEIGHTS
        if "attention" not in self.factors and "relevance" not in self.factors:
            found["read"] = "the gradient of an edge says what attention would do there, not what it does"
        return found

    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Products of the L layers, from the passes that the factors need."""

        def part(layer: int, scores: Tensor) -> None:
            visit(layer, take(self.part, scores))

        if "relevance" in self.factors:
            self._with_relevance(model, batch, target, part)
        elif "gradient" not in self.factors:
            visit_attention(model, batch, part)
        else:
            self._with_gradient(model, batch, target, part)

    def _with_gradient(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        index = model.read_rows(batch.tensors)

        def multiply(layer: int, attention: Tensor, gradient: Tensor) -> None:
            product = attention * gradient if "attention" in self.factors else gradient
            visit(layer, spread(index, product))

        visit_attention_and_gradient(model, batch, target, multiply, rows="read")

    def _with_relevance(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        rules, twin = rule_set(self.rules), precise(model, self.precision)
        by_gradient = "gradient" in self.factors
        if is_long(twin, batch.units.shape[1]):
            self._block_by_block(model, batch, target, visit)
            return
        one_graph = by_gradient and isinstance(rules, RuleSet) and twin is model
        scores = relevances(
            model,
            batch,
            target,
            rules,
            "attentions",
            precision=self.precision,
            reduce=self._product,
            gradient=one_graph,
        )
        if by_gradient and not one_graph:
            _, gradients = attention_and_gradient(model, batch, target, rows="read")
            whole = everywhere(model.read_rows(batch.tensors), gradients)
            scores = tuple(gradient * score for gradient, score in zip(whole, scores, strict=True))
        for layer, product in enumerate(scores):
            visit(layer, product)

    def _block_by_block(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """The same for a long input; a layer's gradient is computed when its relevance is there."""
        index, gradient_of = model.read_rows(batch.tensors), None
        if "gradient" in self.factors:
            gradient_of = attention_gradients(model, batch, target.seed, "read")

        def multiply(layer: int, attention: Tensor, relevance: Tensor) -> None:
            product = self._product(attention, relevance, None).to(model.scores_dtype)
            visit(layer, spread(index, product if gradient_of is None else gradient_of(layer) * product))

        rules = rule_set(self.rules)
        visit_relevances(precise(model, self.precision), batch, target, rules, "attentions", multiply)

    def _product(self, attention: Tensor, relevance: Tensor, gradient: Tensor | None) -> Tensor:
        product = attention * relevance if "attention" in self.factors else relevance
        return product if gradient is None else gradient * product
