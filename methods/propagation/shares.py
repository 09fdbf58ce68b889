"""Where relevance flows in a block: through the attention, through the feed-forward layers, or past both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.models.parts import Block, blocks_parts
from benchmark.models.precision import Precision, batch_for, precise
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.propagation.mode import propagating
from methods.propagation.relevance_mode import RelevancePropagation
from methods.propagation.rule_sets import RuleName, RuleSet, rule_set
from methods.propagation.rules import Rule


@configurable
class RelevanceShares:
    """`(attention, feed_forward, residual)` of each layer: shares of the relevance that leaves through a block's top.

    A block makes two residual additions: `x' = x + a`, a the attention's output, and `x'' = x' + f`, f that of the
    feed-forward layers. With R the relevance of their operands, seeded with 1 at the target's logit, and Σ over tokens
    and hidden units:

        feed_forward = Σ|R_f| / Z,    attention = Σ|R_x'| · |R_a| / (|R_a| + |R_x|) / Z,
        residual = Σ|R_x'| · |R_x| / (|R_a| + |R_x|) / Z,    Z = Σ|R_f| + Σ|R_x'|

    So `feed_forward` is what takes the feed-forward layers, `attention` what goes past them and takes the attention, and
    `residual` what goes past both. They sum to 1. R_x' is what the second addition hands past the feed-forward layers. At
    the first addition an element of it is split like all relevance that arrives there. For rules that share in proportion
    to the operands this is exact. An element that no relevance leaves counts as residual.

    The attention's share is all that enters the sublayer. Where the rule for products halves (`chefer2021`, `lrp`), one
    half of it goes on through the values and one half through the probabilities to queries and keys.

    Magnitudes are summed because signed relevance cancels. Units: share in [0, 1]; NaN where no relevance reaches the
    block. The propagation is Chefer 2021a's; no published method reports these shares.

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`.
        precision: "float64" or "model", as in `methods.lrp.Lrp`.

    Source: rules of Chefer et al. 2021a, section 3.1; the shares are ours.
    Cost: 1 forward pass, 1 backward pass.
    """

    rules: RuleName = "chefer2021"
    precision: Precision = "float64"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        self._rule_set()

    def _rule_set(self) -> RuleSet:
        rules = rule_set(self.rules)
        if not isinstance(rules, RuleSet):
            raise UserError(f"rules={self.rules} has no rule for additions; use another rule set")
        return rules

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L 3"]:
        """Shares of B examples, in chunks that keep the relevance pass within the memory budget.

        Raises:
            NotApplicable: the model uses an operation without a rule, or its blocks' parts cannot be told apart.
        """
        blocks = blocks_parts(model, batch)
        twin = precise(model, self.precision)
        parts = twin.parts(batch_for(twin, batch))
        shares = torch.cat([self._shares(twin, part, target[rows], blocks) for part, rows in parts])
        return shares.to(model.scores_dtype)

    def _shares(
        self, model: Classifier, batch: Batch, target: Target, blocks: tuple[Block, ...]
    ) -> Float[Tensor, "B L 3"]:
        additions = relevance_of_operands(model, batch, target, self._rule_set())
        if len(additions) != 2 * len(blocks):
            raise NotApplicable(
                f"relevance propagation saw {len(additions)} residual additions in {len(blocks)} blocks, not two in each"
            )
        layers = zip(additions[::2], additions[1::2], blocks, strict=True)
        return torch.stack([block_shares(first, second, block.branches) for first, second, block in layers], dim=1)


Operands = tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]


def relevance_of_operands(model: Classifier, batch: Batch, target: Target, rules: RuleSet) -> tuple[Operands, ...]:
    """Relevance of both operands of every addition of two hidden states, in the order of the forward pass."""
    operands: list[tuple[Tensor, Tensor]] = []
    mode = RelevancePropagation(replace(rules, add=RecordedAdd(rules.add, operands)))
    with propagating(model.model, mode):
        trace = model.run(batch, record=("hidden",), grad=True)
    shape = trace.hidden[0].shape
    flat = [operand for pair in operands if pair[0].shape == shape == pair[1].shape for operand in pair]
    relevances = model.gradients(trace.logits, flat, weights=target.seed(trace.logits))
    return tuple(zip(relevances[::2], relevances[1::2], strict=True))


def block_shares(first: Operands, second: Operands, branches: tuple[int, int]) -> Float[Tensor, "B 3"]:
    """Shares of one block from the relevances of the operands of its two additions [B T D]; see `RelevanceShares`."""
    attention, past_attention = first[branches[0]].abs(), first[1 - branches[0]].abs()
    feed_forward, past_feed_forward = second[branches[1]].abs(), second[1 - branches[1]].abs()
    arriving = attention + past_attention
    share = torch.where(arriving > 0, attention / arriving.clamp(min=torch.finfo(arriving.dtype).tiny), 0.0)
    parts = (past_feed_forward * share, feed_forward, past_feed_forward * (1 - share))
    sums = torch.stack([part.flatten(1).sum(1) for part in parts], dim=1)
    return sums / sums.sum(1, keepdim=True)


@dataclass(frozen=True)
class RecordedAdd:
    """The rule for additions. It records the operands of each, as views whose relevance can be asked for."""

    rule: Rule
    operands: list[tuple[Tensor, Tensor]]

    def __call__(self, operation: Callable[..., Tensor], *operands: Any) -> Tensor:
        """The addition."""
        a, b = operands
        views = a.view_as(a), b.view_as(b)
        self.operands.append(views)
        return self.rule(operation, *views)
