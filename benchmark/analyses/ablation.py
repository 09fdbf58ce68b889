"""What a prediction loses when a part of one layer, or of all layers, is taken out."""

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.models.edits import make_uniform
from benchmark.models.parts import Block, Part, editing_branches
from benchmark.models.variants import run_variants
from benchmark.types import Batch

Ablation = Literal["attention zero", "feed-forward zero", "attention uniform", "attention identity"]
ABLATIONS: tuple[Ablation, ...] = get_args(Ablation)


def ablation_plan(n_layers: int) -> Bool[Tensor, "K 4 L"]:
    """Which ablation touches which layer in each of K = 1 + 4·(L + 1) runs.

    The first run touches nothing. Each of `ABLATIONS` follows with one run per layer and one of all layers.
    """
    layers = torch.cat([torch.eye(n_layers, dtype=torch.bool), torch.ones(1, n_layers, dtype=torch.bool)])
    plan = torch.zeros(1 + len(ABLATIONS) * len(layers), len(ABLATIONS), n_layers, dtype=torch.bool)
    for index in range(len(ABLATIONS)):
        start = 1 + index * len(layers)
        plan[start : start + len(layers), index] = layers
    return plan


def ablated_attention(
    probabilities: Float[Tensor, "B H T T"],
    zero: Bool[Tensor, "B"],
    uniform: Bool[Tensor, "B"],
    identity: Bool[Tensor, "B"],
) -> Float[Tensor, "B H T T"]:
    """Probabilities × 0, uniform over the keys that a query may attend to, or 1 from each query to itself.

    A query may attend to the keys of a probability above 0: padding and masked keys have exactly 0. A key whose
    probability underflows to 0 counts as masked.
    """
    if not bool((zero | uniform | identity).any()):
        return probabilities
    rows = {name: flag[:, None, None, None] for name, flag in (("0", zero), ("u", uniform), ("i", identity))}
    itself = torch.eye(probabilities.shape[-1], dtype=probabilities.dtype, device=probabilities.device)
    edited = torch.where(rows["u"], make_uniform(0, probabilities), probabilities)
    edited = torch.where(rows["i"], itself, edited)
    return edited.masked_fill(rows["0"], 0)


def ablated_logits(
    model: Classifier,
    batch: Batch,
    blocks: tuple[Block, ...],
    plan: Bool[Tensor, "K 4 L"],
) -> Float[Tensor, "K B C"]:
    """Logits of every example in every run of the plan.

    "zero" of the attention multiplies its probabilities by 0, which leaves the bias of its output layer; "zero" of the
    feed-forward layers replaces their output, bias included, by 0 in the residual addition.

    Args:
        model: the classifier.
        batch: B examples.
        blocks: the model's parts, from `blocks_parts`.
        plan: as of `ablation_plan`.
    """
    shape = plan.shape[1:]

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        zero, feed_forward, uniform, identity = mask.reshape(-1, *shape).unbind(1)

        def attention(layer: int, probabilities: Tensor) -> Tensor:
            return ablated_attention(probabilities, zero[:, layer], uniform[:, layer], identity[:, layer])

        def branch(layer: int, part: Part, output: Tensor) -> Tensor:
            if part == "attention":
                return output
            return output.masked_fill(feed_forward[:, layer, None, None], 0)

        with editing_branches(model, blocks, branch):
            return model.run(tensors, edits=[attention]).logits

    masks = plan.flatten(1).to(batch.units.device)[:, None].expand(-1, len(batch), -1)
    return run_variants(model, batch, masks, run)
