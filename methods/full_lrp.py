"""Relevance propagated down to the pixels of an image, "full LRP" in vision (docs/protocols.md, section 5)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.embeddings import embedding_modules
from benchmark.models.precision import Precision
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.propagation.relevance import RelevancePart, relevance_parts
from methods.propagation.rule_sets import RuleName, Rules, rule_set
from methods.propagation.rules import divide
from methods.shared.properties import MOVES_BIAS, SIGNS_OF_WEIGHTS


@configurable
class FullLrp(Method):
    """`R_x = x ⊙ (S∗W) − l (S∗W⁺) − h (S∗W⁻)`, S = R_e / (x∗W − l∗W⁺ − h∗W⁻): the zᴮ-rule of the patch convolution W.

    x holds the image's pixels, l and h its lowest and highest value, and R_e is the relevance of the patch embeddings e:
    that of the first block's input e + p, of which the positions p keep their share, `R_e = e ⊙ R / (e + p)`. `pixels` is
    the sum of R_x over channels, in shares of the logit, and the score of a patch the sum over its pixels. Down to the first
    block's input it is `lrp`.

    Attributes:
        rules: name of a rule set of `methods.propagation.rule_sets`, or one made with settings of its own.
        precision: see `methods.lrp.Lrp`.

    Raises:
        NotApplicable: the inputs are texts, or no single convolution makes the patches.

    The rule is that of Montavon 2017, whose bounds hold for all images; those of one image are the published code's.

    Source: Chefer et al. 2021a, section 4, the baseline LRP of the vision experiments, as its code has it.
    Cost: 1 forward pass, 1 backward pass; with precision=float64 both in float64.
    """

    rules: RuleName | Rules = "lrp"
    precision: Precision = "float64"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = {**SIGNS_OF_WEIGHTS, **MOVES_BIAS}
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores of pixels and patches, from one forward and one relevance pass."""
        if batch.grid is None or batch.patch is None:
            raise NotApplicable("the method scores the pixels of images")
        parts = relevance_parts(model, batch, target, rule_set(self.rules), "hidden", self.precision)
        pixels = torch.cat([_of_pixels(part) for part in parts]).to(model.scores_dtype)
        height, width = (count * side for count, side in zip(batch.grid, batch.patch, strict=True))
        of_patches = batch.patch[0] * batch.patch[1] * F.avg_pool2d(pixels[:, :height, :width], batch.patch)
        patches = of_patches.flatten(1)
        tokens = patches.new_zeros(batch.units.shape)
        tokens[:, batch.units.shape[1] - patches.shape[1] :] = patches
        return Attribution(target=target, tokens=tokens, pixels=pixels)


def _of_pixels(part: RelevancePart) -> Float[Tensor, "B Y X"]:
    """The relevance of each pixel from that of the first block's input."""
    convolution = _patch_convolution(part.model)
    x, weight, stride = part.batch.tensors["pixel_values"], convolution.weight.detach(), convolution.stride
    embeddings = F.conv2d(x, weight, convolution.bias, stride=stride).flatten(2).transpose(1, 2)
    n_patches = embeddings.shape[1]
    states, relevance = (values[0].detach()[:, -n_patches:] for values in (part.trace.hidden, part.layers))
    of_states = states * divide(relevance, states)  # the two copies that enter the first block, stabilised as published
    of_embeddings = embeddings.detach() * divide(of_states, states)
    shape = (len(x), -1, *(size // side for size, side in zip(x.shape[-2:], stride, strict=True)))
    return z_box(x, weight, of_embeddings.transpose(1, 2).reshape(shape)).sum(1)


def z_box(
    x: Float[Tensor, "B C Y X"], weight: Float[Tensor, "D C y x"], relevance: Float[Tensor, "B D R K"]
) -> Float[Tensor, "B C Y X"]:
    """The zᴮ-rule of a convolution whose stride is its kernel's size; a margin that no kernel reaches has no relevance."""
    stride = weight.shape[-2:]
    low, high = (extreme.expand_as(x) for extreme in (x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)))
    terms = (x, weight, 1), (low, weight.clamp(min=0), -1), (high, weight.clamp(max=0), -1)
    total = sum(sign * F.conv2d(values, kernel, stride=stride) for values, kernel, sign in terms)
    shares = divide(relevance, torch.as_tensor(total))
    margin = (0, x.shape[-1] - shares.shape[-1] * stride[1], 0, x.shape[-2] - shares.shape[-2] * stride[0])

    def back(values: Tensor, kernel: Tensor) -> Tensor:
        return values * F.pad(F.conv_transpose2d(shares, kernel, stride=stride), margin)

    return sum((sign * back(values, kernel) for values, kernel, sign in terms), torch.zeros_like(x))


def _patch_convolution(model: Classifier) -> nn.Conv2d:
    modules: list[Any] = embedding_modules(model.model, model.family, model.name)
    found = [part for module in modules for part in module.modules() if isinstance(part, nn.Conv2d)]
    if len(found) != 1 or found[0].stride != found[0].kernel_size or found[0].padding not in ((0, 0), 0, "valid"):
        raise NotApplicable("the method needs patches that one convolution makes, whose stride is its kernel's size")
    return found[0]
