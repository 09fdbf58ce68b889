"""From the scores of patches to those of pixels (docs/protocols.md, section 1)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.types import Attribution, Batch
from benchmark.units import Pool, pool


def pixel_map(batch: Batch, attribution: Attribution, how: Pool = "max") -> Float[Tensor, "B Y X"]:
    """One score per pixel of the model's input: the method's own, or those of its patches enlarged bilinearly.

    The centre of a patch has the patch's score and pixels between four centres are interpolated; beyond the outermost
    centres the score stays (`align_corners=False`, as the code of Chefer 2021a has it). A margin of pixels narrower than a
    patch, which the model does not read, goes on as the pixels beside it.

    Args:
        batch: images.
        attribution: scores of their patches, or of their pixels.
        how: from the scores of a patch's tokens to its own.

    Raises:
        NotApplicable: the batch holds no images, or the method scores neither patches nor pixels.
    """
    if batch.grid is None or batch.patch is None or batch.size is None:
        raise NotApplicable("the examples are no images")
    if attribution.pixels is not None:
        return attribution.pixels.to(batch.units.device)
    if attribution.tokens is None:
        raise NotApplicable("the method gives no token scores")
    scores, _ = pool(attribution.tokens.to(batch.units.device), batch.units, how)
    rows, columns = batch.grid
    pixels = F.interpolate(
        scores.reshape(-1, 1, rows, columns), scale_factor=batch.patch, mode="bilinear", align_corners=False
    )
    margin = (0, batch.size[1] - pixels.shape[-1], 0, batch.size[0] - pixels.shape[-2])
    return F.pad(pixels, margin, mode="replicate")[:, 0]
