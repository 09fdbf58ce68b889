"""DecompX: what each token gives to the logit, carried through the whole model (Modarressi 2023)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.propagation.block_parts import refuse_cross_attention
from methods.propagation.decomposed import Decomposed, decomposed, plain, settled
from methods.propagation.mode import propagating
from methods.propagation.part_rules import Order, Parts
from methods.shared.properties import MOVES_BIAS

Bias = Literal["absdot", "apart"]


@configurable
class DecompX(Method):
    """`y_t = Σ_j s_j + bias`: the input x_j of the first block, carried to the target's logit; signed, in logits.

    All blocks, their feed-forward networks and the classification head take part. Each operation is the affine map that it
    is at the example: attention and the deviations of norms are constants, and an activation is a line through the origin,
    `x · f(x)/x` (see `methods.propagation.part_rules`). Nothing is aggregated: the parts are vectors until they are logits.

    Value bias and output bias of an attention are one bias, `W_O b_V + b_O`. Open in the source: blocks whose norms come
    before the sublayers, where the values of the first block contain the norm's β too; gated feed-forward layers, where
    either factor gets half of the product.

    Attributes:
        bias: whose the biases are. "absdot", the published setting: a bias vector b is shared by the parts that it is added
            to, and part k gets `|b·x_k| / Σ_k |b·x_k|`. What no part has a share of stays apart, which is 0 but for exact
            orthogonality. "apart" ("NoBias"): biases belong to no token. The map from the input to the logit is then linear
            in x, so that its Jacobian gives all s_j at once.
        order: which parts share the bias of an attention. "code": those of the residual sum, attention's and the residual's
            together; in the first block the values belong to their tokens whole, b_V included, also with "apart". "paper":
            those of the attention, before the residual is added (eq. 4-6), in every block.

    Source: Modarressi et al. 2023, section 3, and its code.
    Cost: T + 3 forward passes; with bias: apart 4 forward passes, 1 backward pass.

    The parts of a feed-forward layer take (T + 1)·T·4D numbers per example: long inputs may need "apart".
    """

    bias: Bias = "absdot"
    order: Order = "code"
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores."""
        return Attribution(target=target, tokens=self.contributions(model, batch, target)[0] * batch.attention_mask)

    def contributions(
        self, model: Classifier, batch: Batch, target: Target
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B"]]:
        """(s, what belongs to no token): they sum to the target's logit (of a log-probability to Σ_c ∂F/∂y_c · y_c).

        Raises:
            NotApplicable: the model has cross-attention, or uses an operation whose affine map is not known.
        """
        refuse_cross_attention(model)
        decompose = self._by_part if self.bias == "absdot" else self._by_gradient
        contributions = []
        for rows in torch.split(torch.arange(len(batch)), self._examples_per_chunk(model, batch)):
            chunk = batch.select(rows.tolist())
            hidden = model.run(chunk, record=("hidden",)).hidden[0]
            contributions.append(decompose(model, chunk, target[rows.to(batch.units.device)], hidden))
        tokens, rest = zip(*contributions, strict=True)
        return torch.cat(tokens), torch.cat(rest)

    def _examples_per_chunk(self, model: Classifier, batch: Batch) -> int:
        """As many as memory allows, the widest tensor being four times the hidden state (a feed-forward layer)."""
        n_tokens = batch.units.shape[1]
        n_parts = n_tokens + 1 if self.bias == "absdot" else 2
        per_example = 4 * n_parts * n_tokens * int(model.config.hidden_size) * torch.finfo(model.dtype).bits // 8
        return max(1, model.memory_budget // per_example)

    def _by_part(
        self, model: Classifier, batch: Batch, target: Target, hidden: Float[Tensor, "B T D"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B"]]:
        """One part per token and one for the rest, forward."""
        n_tokens = hidden.shape[1]
        rows = torch.eye(n_tokens, dtype=hidden.dtype, device=hidden.device)
        selection = torch.cat([rows, torch.zeros_like(rows[:1])])[:, None, :, None]
        mode = Parts("absdot", self.order, self._owners(rows[:, None].expand(-1, len(batch), -1)))
        parts = self._logit_parts(model, batch, target, decomposed(hidden, hidden * selection), mode)
        return parts[:-1].T, parts[-1]

    def _by_gradient(
        self, model: Classifier, batch: Batch, target: Target, hidden: Float[Tensor, "B T D"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B"]]:
        """All tokens as one part forward; its Jacobian by x_j, and by a factor 1 on the biases that belong to a token."""
        with torch.enable_grad():
            source = hidden.detach().requires_grad_()
            factor = torch.ones_like(hidden[..., 0]).requires_grad_()
            mode = Parts("apart", self.order, self._owners(factor[None]))
            start = decomposed(hidden, torch.stack([source, torch.zeros_like(source)]))
            of_tokens, rest = self._logit_parts(model, batch, target, start, mode, grad=True)
        gradient, biases = model.gradients(of_tokens, [source, factor])
        return (gradient * hidden).sum(-1) + biases, rest.detach()

    def _owners(self, parts: Float[Tensor, "N B T"]) -> Tensor | None:
        """For `Parts.owners`: which part the values of a token belong to in the first block; None in the paper's order."""
        return parts if self.order == "code" else None

    @staticmethod
    def _logit_parts(
        model: Classifier, batch: Batch, target: Target, start: Decomposed, mode: Parts, *, grad: bool = False
    ) -> Float[Tensor, "N B"]:
        """The parts of the target's logit."""
        with propagating(model.model, mode):
            logits = model.run(batch, start=(0, start), grad=grad).logits
        model.cost.forward_passes += len(batch) * len(start.parts)
        assert isinstance(logits, Decomposed)
        return target.of_parts(settled(logits).parts, plain(logits))
