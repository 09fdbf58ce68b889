"""How methods are called and how they look: what people read in place of code names, and one colour and marker for each.

Files for programs keep the code names. Colours are the same in all figures of all comparisons and legible to the
colour-blind; controls are grey.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from benchmark.report.arrangement import control_place
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import known_metrics
from benchmark.results.control_names import CONTROLS
from benchmark.results.tables import Table

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

_WORDS = {
    "attattr": "ATTATTR", "attcat": "AttCAT", "attnlrp": "AttnLRP", "alti": "ALTI", "lrp": "LRP", "lime": "LIME",
    "shap": "SHAP", "gradcam": "Grad-CAM", "deeplift": "DeepLIFT", "decompx": "DecompX", "globenc": "GlobEnc",
    "smoothgrad": "SmoothGrad", "taylor": "Taylor", "shapley": "Shapley", "captum": "Captum", "sam": "SAM", "x": "×",
    "l2": "L2", "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε",
}  # fmt: skip
_WHOLE = {"grad_cam": "Grad-CAM", "gauss_legendre": "Gauss–Legendre", "leave_one_out": "Leave-one-out"}

_CODED = ("method", "explainer", "importance", "edge score", "readout", "rule")
"""Label columns of analyses' tables whose values are names of methods or of their parts."""

_TEXTS = ("word", "example")
"""Label columns that hold texts of examples and identifiers: never names, whatever they are spelled like."""

_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def method_title(shown: str) -> str:
    """A method's shown name in words; what stands in brackets behind it stays as it is."""
    name, _, detail = shown.partition(" (")
    words = [_WORDS.get(word, word) for word in re.split(r"[_\s]+", name)]
    title = _WHOLE.get(name) or " ".join(words)
    if title[:1].islower():
        title = title[:1].upper() + title[1:]
    return f"{title} ({detail}" if detail else title


@dataclass(frozen=True)
class Names:
    """Code names and what people read in their place.

    Attributes:
        methods: a method's shown name -> its title.
        metrics: test and metric, as `perturbation: positive_auc_mean` -> the metric's title.
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cells: Sequence[NamedCell], called: Mapping[str, str] | None = None) -> "Names":
        """The names of a comparison's methods and metrics.

        Args:
            cells: of the comparison.
            called: what a person calls some methods.
        """
        methods: dict[str, str] = {}
        for shown in dict.fromkeys(cell.method for cell in cells):
            title = (called or {}).get(shown) or method_title(shown)
            methods[shown] = f"{title} ({shown})" if title in methods.values() else title
        metrics = {
            f"{test}: {name}": metric.title
            for test, declared in known_metrics(cells).items()
            for name, metric in declared.items()
            if metric.title and metric.x is None
        }
        repeated = [title for title in metrics.values() if [*metrics.values()].count(title) > 1]
        told = {
            code: f"{title} ({code.partition(':')[0]})" if title in repeated else title
            for code, title in metrics.items()
        }
        return Names(methods, told)

    def method(self, shown: str) -> str:
        """A method's title."""
        return self.methods.get(shown) or method_title(shown)

    def label(self, column: str, value: object) -> str:
        """A value of a label column: names of methods, of their parts and of metrics in words, all else as it is."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if column in _TEXTS:
            return text
        if known := self.methods.get(text) or self.metrics.get(text):
            return known
        ours = text in KNOWN and _is_code(text)
        return method_title(text) if ours or (column in _CODED and _CODE.fullmatch(text)) else text

    def heading(self, table: Table, metric: str) -> str:
        """What stands above a column of figures; of a heat map whose columns are its metrics, those are names too."""
        if table.drawing is not None and table.drawing.x == "metric" and _CODE.fullmatch(metric):
            return self.methods.get(metric) or method_title(metric)
        return self.metrics.get(metric) or (metric.replace("_", " ") if _CODE.fullmatch(metric) else metric)

    def text(self, text: str, table: Table | None = None) -> str:
        """A sentence in which code names stand: those that no English word is spelled like are put in words."""
        known = dict(self.metrics) | {code: title for code, title in self.methods.items() if _is_code(code)}
        if table is not None:
            coded = {str(value) for column in table.labels if column in _CODED for value in table.rows[column]}
            coded |= {str(metric) for metric in table.rows["metric"]}
            known = {code: method_title(code) for code in coded if _CODE.fullmatch(code) and _is_code(code)} | known
        if not known:
            return text
        longest_first = sorted(known, key=len, reverse=True)
        pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
        return re.sub(pattern, lambda found: known[found[0]], text)

    def worded(self, table: Table) -> Table:
        """The table with its title and sentences in words; its rows keep their code names."""
        sentences = tuple(self.text(sentence, table) for sentence in table.sentences)
        return replace(table, title=self.text(table.title, table), sentences=sentences)


OURS = Names()
"""Titles of our own, of whatever methods there are."""


def _is_code(name: str) -> bool:
    """Whether a name cannot be read as an English word: `random` can, `raw_attention` and `attattr` cannot."""
    return "_" in name or name in _WORDS


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
