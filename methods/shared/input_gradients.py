"""What methods on token (or patch) embeddings share: points around them, gradients there, and the way back to tokens.

P is the number of embeddings: T for a text; the number of patches for an image, whose embedding module knows no CLS token.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.models.attention_interface import AttentionEdit
from benchmark.targets import Target
from benchmark.types import Attribution, Batch

Output = Literal["logit", "probability"]
"""What is explained: the target's logit y_t, or its probability p_t (`Target.value`, `Target.probability`)."""

Change = Literal[Output, "total_variation"]
"""What of an output changes: y_t, p_t, or the distribution over all classes, ½ Σ_c |p_c − p'_c|."""

Baseline = Literal["zero", "pad", "mask"]
"""What stands for the absence of a token: the zero vector, the padding token's embedding, or the mask token's."""

Reduce = Literal["dot", "absolute", "l1", "l2"]
"""From a product per dimension to a token: Σ_d v, |Σ_d v|, Σ_d |v|, or (Σ_d v²)^½."""

_NOT_CALLED = "the model's embedding module is not called in its forward pass"


def target_output(
    model: Classifier, logits: Float[Tensor, "*n B C"], target: Target, output: Output
) -> Float[Tensor, "*n B"]:
    """`y_t` or `p_t` of each row; where a log-probability is explained, that."""
    return target.value(logits) if output == "logit" else model.likelihood(logits, target)


def output_drops(
    model: Classifier, logits: Float[Tensor, "N B C"], target: Target, output: Change
) -> Float[Tensor, "K B"]:
    """`F(x) − F(x_k)`, or the total variation, for the K = N − 1 inputs x_1, ... that follow x.

    Computed in float64, on the CPU, where every device's logits can be: the difference of two float32 probabilities near 1
    has few digits.

    Raises:
        NotApplicable: total variation of labels that have a probability each.
    """
    exact = logits.detach().cpu().double()
    if output == "total_variation":
        model.needs_distribution("total variation")
        probabilities = exact.softmax(-1)
        return (0.5 * (probabilities[0] - probabilities[1:]).abs().sum(-1)).to(logits)
    values = target_output(model, exact, target, output)
    return (values[0] - values[1:]).to(logits)


def embeddings_of(model: Classifier, tensors: Mapping[str, Tensor]) -> Float[Tensor, "B P D"]:
    """The output of the embedding module, from one forward pass."""
    embeddings = model.run(tensors, record=("embeddings",)).embeddings
    if embeddings is None:
        raise NotApplicable(_NOT_CALLED)
    return embeddings


def special_or_padding(batch: Batch, n_embeddings: int) -> Bool[Tensor, "B P"]:
    """Which embeddings belong to no unit."""
    return batch.units[:, batch.units.shape[1] - n_embeddings :] < 0


def baseline_embeddings(
    model: Classifier, batch: Batch, embeddings: Float[Tensor, "B P D"], baseline: Baseline
) -> Float[Tensor, "B P D"]:
    """The embeddings with those of all units replaced by the baseline; special tokens and padding stay as they are.

    Raises:
        UserError: the model has no such token.
    """
    if baseline == "zero":
        absent = torch.zeros_like(embeddings)
    else:
        token = _baseline_token(model, batch, baseline)
        ids = torch.where(batch.units >= 0, token, batch.tensors["input_ids"])
        absent = embeddings_of(model, {**batch.tensors, "input_ids": ids})
    return torch.where(special_or_padding(batch, embeddings.shape[1])[:, :, None], embeddings, absent)


def output_change(
    model: Classifier, batch: Batch, target: Target, baseline: Baseline, output: Output
) -> Float[Tensor, "B"]:
    """`F(e) − F(e')`: by how much the output falls from the embeddings of the text to the baseline's."""
    embeddings = embeddings_of(model, batch.tensors)
    start = baseline_embeddings(model, batch, embeddings, baseline)
    logits = [model.run(batch, embedding_edit=lambda _, e=e: e).logits for e in (embeddings, start)]  # type: ignore[misc]  # a lambda with a default
    there, here = (target_output(model, each, target, output) for each in logits)
    return there - here


def _baseline_token(model: Classifier, batch: Batch, baseline: Baseline) -> int:
    if "input_ids" not in batch.tensors:
        raise UserError(f"baseline={baseline} replaces tokens, and images have none; use baseline=zero")
    if baseline == "pad":
        return model.pad_token_id
    if model.mask_token_id is None:
        raise UserError(f"baseline=mask needs a mask token and '{model.name}' has none; use baseline=pad or zero")
    return model.mask_token_id


def summed_gradients(
    model: Classifier,
    batch: Batch,
    target: Target,
    points: Callable[[Int[Tensor, "R"], Int[Tensor, "R"]], Float[Tensor, "R P D"]],
    weights: Float[Tensor, "K"],
    output: Output,
) -> Float[Tensor, "B P D"]:
    """`Σ_k w_k ∂F/∂e` at K points for each example, in chunks that keep attention within the memory budget.

    Args:
        model: the classifier.
        batch: B examples.
        target: the class whose output F is differentiated.
        points: `(k [R], b [R]) -> embeddings [R P D]`: point k of example b.
        weights: one per point.
        output: what F is.
    """
    total: Tensor | None = None
    for k, b in _chunks(model, batch, len(weights)):
        point = points(k, b).detach().requires_grad_()
        tensors = {name: tensor[b] for name, tensor in batch.tensors.items()}
        trace = model.run(tensors, embedding_edit=_constant(point), grad=True)
        (gradient,) = model.gradients(target_output(model, trace.logits, target[b], output), [point])
        weighted = gradient * weights.to(gradient)[k][:, None, None]
        total = gradient.new_zeros(len(batch), *gradient.shape[1:]) if total is None else total
        total.index_add_(0, b, weighted)
    assert total is not None
    return total


def gradient_at_input(
    model: Classifier, batch: Batch, target: Target, output: Output, edits: Sequence[AttentionEdit] = ()
) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P D"]]:
    """(e, ∂F/∂e) with these edits of the attention, from one forward and one backward pass."""
    parts = []
    for part, rows in model.parts(batch):
        trace = model.run(part, edits=edits, record=("embeddings",), grad=True)
        if trace.embeddings is None:
            raise NotApplicable(_NOT_CALLED)
        value = target_output(model, trace.logits, target[rows], output)
        parts.append((trace.embeddings.detach(), *model.gradients(value, [trace.embeddings])))
    embeddings, gradients = zip(*parts, strict=True)
    return torch.cat(embeddings), torch.cat(gradients)


def _chunks(model: Classifier, batch: Batch, n_points: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(point, example) of each row of each forward pass; all points of an example stand together."""
    rows = torch.arange(n_points * len(batch), device=batch.units.device)
    for chunk in torch.split(rows, model.rows_per_chunk(batch.units.shape[1])):
        yield chunk % n_points, chunk // n_points


def _constant(embeddings: Tensor) -> Callable[[Tensor], Tensor]:
    """An embedding edit that puts these embeddings in place of the model's own."""
    return lambda _: embeddings


def reduce_dimensions(values: Float[Tensor, "B P D"], how: Reduce) -> Float[Tensor, "B P"]:
    """From a value per embedding dimension to one per token."""
    if how in ("l1", "l2"):
        norm: Tensor = torch.linalg.vector_norm(values, ord=1 if how == "l1" else 2, dim=-1)
        return norm
    return values.sum(-1) if how == "dot" else values.sum(-1).abs()


def token_attribution(batch: Batch, target: Target, scores: Float[Tensor, "B P"]) -> Attribution:
    """Scores of the embeddings as scores of the tokens: 0 at padding, and at an image's tokens that are no patch."""
    missing = batch.units.shape[1] - scores.shape[1]  # they stand first
    tokens = torch.cat([scores.new_zeros(len(batch), missing), scores], dim=1)
    return Attribution(target=target, tokens=tokens.masked_fill(~batch.attention_mask, 0))
