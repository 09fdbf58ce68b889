"""One colour and marker per method in all figures of all comparisons, legible to the colour-blind; controls are grey."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from benchmark.report.arrangement import control_place
from benchmark.results.control_names import CONTROLS

# Okabe and Ito's colours; dark purple in place of black (too near the controls' greys), no yellow (too light on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4B2E83")
MORE_COLOURS = ("#8C510A", "#808000", "#A50F15", "#00726D", "#F768A1", "#8E63C7", "#66A61E", "#1B3A6B", "#C49A6C")
"""Those of methods whose own colour another one of the same figure has: brown, olive, crimson, teal, pink and others."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
_GREYS = {
    "oracle": ("#3a3a3a", "-", "2"),
    "random": ("#6b6b6b", (0, (5, 1.5)), "x"),
    "inverted": ("#3a3a3a", (0, (1, 1.2)), "1"),
    "constant": ("#6b6b6b", (0, (1, 2.5)), "+"),
    "position": ("#9a9a9a", (0, (5, 1.5, 1, 1.5)), "3"),
    "frequency": ("#9a9a9a", (0, (1, 2.5)), "4"),
}
KNOWN = (
    "attattr", "transformer_attribution", "rollout", "raw_attention", "lrp", "partial_lrp", "gradient_x_input",
    "attention_gradcam", "generic_attention", "integrated_gradients", "alti", "attnlrp", "leave_one_out", "lime",
    "attattr_fast", "attention_flow", "globenc", "decompx", "kernel_shap", "occlusion", "smoothgrad",
    "accuracy_difference", "attcat", "attention_gradient", "attention_masking", "attention_norm",
    "attention_norm_residual", "attention_x_input_norm", "attention_x_relevance", "captum", "conservative_lrp", "deeplift",
    "grad_sam", "gradient_norm", "gradient_x_input_l2", "lrp_alpha_beta", "lrp_epsilon", "lrp_gamma", "max_attention",
    "shapley_sampling", "taylor", "universal_trigger", "value_zeroing", "scores", "full_lrp",
    "transformer_attribution_last",
)  # fmt: skip
"""Methods in the order in which they take colours and markers: a new one is added at the end, so that no other changes."""

HIGHLIGHTED = 5
_MOST = 9  # methods that are all shown in colour


@dataclass(frozen=True)
class Style:
    """How a method's line looks.

    Attributes:
        colour: of line and marker.
        line: dashes.
        marker: at the points; lines of controls have none.
        front: layer; what is higher covers what is lower.
        named: whether the legend names it; the others are drawn thin and named together.
    """

    colour: str
    line: Any
    marker: str
    front: int
    named: bool = True


Look = Mapping[str, Style]
"""Name of a series -> how it looks, in the order of the legend."""


def style_at(place: int) -> Style:
    """The look of the method at a place: 49 pairs of colour and marker before one repeats."""
    turn, colour = divmod(place, len(COLOURS))
    line = _LINES[(place // len(COLOURS)) % len(_LINES)]
    return Style(COLOURS[colour], line, MARKERS[(turn + colour) % len(MARKERS)], front=3)


def style_of(method: str) -> Style:
    """The look of a method by its shown name alone; one that is not ours, or has settings, takes it from its letters."""
    if place := control_place(method):
        return Style(*_GREYS[CONTROLS[place - 1]], front=2)
    if method in KNOWN:
        return style_at(KNOWN.index(method))
    own = re.sub(r"\s+", " ", method).encode()
    return style_at(crc32(own) % (len(COLOURS) * len(MARKERS)))


def looks_of(methods: Sequence[str]) -> dict[str, Style]:
    """The looks of methods that stand in one figure: each has a colour of its own.

    Where two have the same by themselves (`style_of`), the one that stands first in `KNOWN` keeps it, in whatever order the
    methods are given; the other takes one of `MORE_COLOURS`. Beyond 16 methods colours repeat, and markers tell them apart.
    """

    def place(method: str) -> tuple[int, str]:
        return KNOWN.index(method) if method in KNOWN else len(KNOWN), method

    look = {method: style_of(method) for method in methods}
    taken: set[str] = set()
    for method in sorted((method for method in look if not control_place(method)), key=place):
        own = look[method].colour
        colour = own if own not in taken else next((c for c in (*MORE_COLOURS, *COLOURS) if c not in taken), own)
        taken.add(colour)
        look[method] = replace(look[method], colour=colour)
    return look


def method_look(best_first: Sequence[str]) -> dict[str, Style]:
    """The look of the methods of a figure; of many the best five and the controls stand out, the rest is grey.

    Args:
        best_first: methods in the order of the tables.
    """
    real = [method for method in best_first if not control_place(method)]
    shown = {*real} if len(real) <= _MOST else {*real[:HIGHLIGHTED]}
    look = looks_of([method for method in best_first if method in shown or control_place(method)])
    return {
        method: look[method]
        if method in look
        else replace(style_of(method), colour="#cfcfcf", line="-", marker="", front=1, named=False)
        for method in best_first
    }


def series_look(names: Sequence[str]) -> dict[str, Style]:
    """The look of the series of an analysis: methods have their own, others one after the other of what is left."""
    of_methods = looks_of([name for name in names if name in KNOWN or control_place(name)])
    taken = {style.colour for style in of_methods.values()}
    others = [name for name in names if name not in of_methods]
    free = [style for place in range(4 * len(COLOURS)) if (style := style_at(place)).colour not in taken]
    free += [
        replace(style_at(place), colour=colour) for place, colour in enumerate(MORE_COLOURS) if colour not in taken
    ]
    left = {name: free[place % len(free)] for place, name in enumerate(others)}
    return {name: of_methods.get(name) or left[name] for name in names}
