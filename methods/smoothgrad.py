"""SmoothGrad: the mean gradient of noisy inputs (Smilkov 2017)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.randomness import generator
from benchmark.settings.declared import Above, Count, Natural, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import (
    Output,
    Reduce,
    embeddings_of,
    reduce_dimensions,
    summed_gradients,
    token_attribution,
)
from methods.shared.properties import MULTIPLIES_EMBEDDINGS

Scale = Literal["range", "std"]


@configurable
class SmoothGrad(Method):
    """`g = (1/m) Σ_k ∂F(e + ε_k)/∂e` with `ε_k ~ N(0, σ²)`; a token's score is g[j] or g[j] ⊙ e[j] reduced over d.

    `σ = noise · (max e − min e)` over all dimensions of the example's own tokens, as the paper scales its noise by the
    range of a picture. `scale: std` takes their standard deviation instead, which a single outlying dimension moves less.
    Noise is drawn from a generator of the example's own and added to every token that is not padding, special ones
    included. The paper smooths a map of pixels and leaves embeddings open. Here the vectors are averaged first and reduced
    then, so that noise cancels. With `times_input` the mean gradient is multiplied by the embedding without noise.

    Attributes:
        samples: number m of noisy inputs (the paper: little gain beyond 50, in pictures). With 25 the ranks of words under
            two seeds correlate by .51 only (docs/methods.md).
        noise: the noise level σ/scale; the paper finds 0.1 to 0.2 best.
        scale: "range" or "std" of the example's embeddings.
        times_input: multiply the mean gradient by the embedding.
        reduce: over the dimensions of the product: "dot", "absolute", "l1" or "l2".
        output: "logit" y_t, or "probability" p_t.
        seed: of the noise.

    Source: Smilkov et al. 2017.
    Cost: m + 1 forward passes, m backward passes.
    """

    samples: Count = 25
    noise: Annotated[float | int, Above(0)] = 0.15
    scale: Scale = "range"
    times_input: bool = False
    reduce: Reduce = "l2"
    output: Output = "logit"
    seed: Natural = 0
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = {
        **MULTIPLIES_EMBEDDINGS,
        "sign": "the mean gradient is not multiplied by the embedding, and the norms of a linear model's are equal",
    }
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores."""
        embeddings = embeddings_of(model, batch.tensors)
        masks = batch.attention_mask[:, batch.units.shape[1] - embeddings.shape[1] :]
        deviations = [self._deviation(vectors[mask]) for vectors, mask in zip(embeddings, masks, strict=True)]

        def noisy(k: Tensor, b: Tensor) -> Tensor:
            points = embeddings[b]
            for row, (sample, example) in enumerate(zip(k.tolist(), b.tolist(), strict=True)):
                mask = masks[example]
                shape = (int(mask.sum()), embeddings.shape[2])
                drawn = generator(self.seed, "noise", batch.draw_keys[example], str(sample)).standard_normal(shape)
                points[row, mask] += torch.from_numpy(drawn * deviations[example]).to(points)
            return points

        weights = embeddings.new_full((self.samples,), 1 / self.samples)
        gradients = summed_gradients(model, batch, target, noisy, weights, self.output)
        values = gradients * embeddings if self.times_input else gradients
        return token_attribution(batch, target, reduce_dimensions(values, self.reduce))

    def _deviation(self, vectors: Float[Tensor, "P D"]) -> float:
        """σ for an example with these embeddings."""
        values = vectors.double()
        return self.noise * float(values.max() - values.min() if self.scale == "range" else values.std(correction=0))
