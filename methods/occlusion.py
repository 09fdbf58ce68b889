"""Occlusion by sliding windows (Zeiler 2014); with windows of one unit, leave-one-out (Li 2016b)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.settings.declared import Count, SettingError, configurable
from benchmark.settings.early import AtMostSetting
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import Change
from methods.shared.properties import REMOVES_NEIGHBOURS
from methods.shared.unit_scores import drops_of_each, patch_grid, unit_attribution, visible_units


@configurable
class Occlusion(Method):
    """`s_u = mean_{w ∋ u} [F(x) − F(x without the units of w)]` over sliding windows w; every token has its unit's score.

    In a text a window is `window` units in a row, in an image a square of `window` × `window` patches, moved by `stride`
    in both directions. The first window starts at the first unit; the last one reaches the end and may be cut by it. The
    sources slide a grey square over a picture and erase one word at a time. How a unit's score follows from several windows
    is open, and we take the mean. With window = 1 this is leave-one-out (erasure). In the place of the difference
    Jain & Wallace 2019 put the total variation between the two distributions over the classes, which is never negative.

    Attributes:
        window: units (patches along a side) removed together.
        stride: from one window to the next, at most `window`.
        operator: how units are removed: `auto`, or a name in `benchmark.models.removal.OPERATORS`.
        output: "probability" p_t, "logit" y_t, or "total_variation": ½ Σ_c |p_c(x) − p_c(x without w)|.

    Source: Zeiler & Fergus 2014, section 4.2; Li et al. 2016b (representation erasure).
    Cost: U/stride + 1 forward passes.
    """

    window: Count = 1
    stride: Annotated[Count, AtMostSetting("window")] = 1
    operator: OperatorName = "auto"
    output: Change = "probability"
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = REMOVES_NEIGHBOURS

    @property
    def class_specific(self) -> bool:
        """The total variation is that of all classes."""
        return self.output != "total_variation"

    def __post_init__(self) -> None:
        if self.stride > self.window:  # units would be left out
            raise SettingError("stride", self.stride, f"whole numbers from 1 to window={self.window}")

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores; raises UserError for an operator that cannot serve the model."""
        operator = operator_for(self.operator, model, batch, "operator")
        windows = self.windows(model, batch)

        def run(one: Batch, absent: Bool[Tensor, "N 1 U"]) -> Float[Tensor, "N 1 C"]:
            return logits_without(model, one, absent, operator)

        drops = drops_of_each(model, batch, target, windows, run, self.output)[:, :, None] * windows
        return unit_attribution(batch, target, drops.sum(0) / windows.sum(0).clamp(min=1))

    def windows(self, model: Classifier, batch: Batch) -> Bool[Tensor, "K B U"]:
        """The units of each window; windows beyond the end of a shorter text hold none."""
        visible = visible_units(batch)
        grid = patch_grid(model, batch)
        if grid is not None:
            rows, columns = (self._line(torch.tensor([n])) for n in grid)
            square = rows[:, None, 0, :, None] & columns[None, :, 0, None, :]
            return square.flatten(2).flatten(0, 1)[:, None].expand(-1, len(batch), -1).to(visible.device)
        place = (visible.cumsum(1) - 1).clamp(min=0)
        line = self._line(visible.sum(1).cpu()).to(visible.device)
        if line.shape[2] == 0:
            return visible.new_zeros(1, *visible.shape)
        return line.gather(2, place.expand(len(line), -1, -1)) & visible

    def _line(self, lengths: Int[Tensor, "B"]) -> Bool[Tensor, "K B N"]:
        """The places of each window in rows of these lengths."""
        longest = int(lengths.max())
        n_windows = -(-(lengths - self.window).clamp(min=0) // self.stride) + 1
        index = torch.arange(int(n_windows.max()))
        place = torch.arange(longest)
        start = (index * self.stride)[:, None, None]
        inside = (place >= start) & (place < start + self.window) & (place < lengths[:, None])
        return inside & (index[:, None] < n_windows)[:, :, None]
