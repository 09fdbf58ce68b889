"""How methods are called and how they look: what people read in place of code names, and one colour and marker for each.

Files for programs keep the code names. Colours are the same in all figures of all comparisons and legible to the
colour-blind; controls are grey.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from benchmark.report.arrangement import control_place
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import known_metrics
from benchmark.results.control_names import CONTROLS
from benchmark.results.record import EvaluationRecord
from benchmark.results.tables import Table
from benchmark.results.wording import without_fingerprint
from benchmark.settings.report_settings import NO_NAMES, GivenNames, without_detail

KNOWN = (
    "attattr", "transformer_attribution", "rollout", "raw_attention", "lrp", "partial_lrp", "gradient_x_input",
    "attention_gradcam", "generic_attention", "integrated_gradients", "alti", "attnlrp", "leave_one_out", "lime",
    "attattr_fast", "attention_flow", "globenc", "decompx", "kernel_shap", "occlusion", "smoothgrad",
    "accuracy_difference", "attcat", "attention_gradient", "attention_masking", "attention_norm",
    "attention_norm_residual", "attention_x_input_norm", "attention_x_relevance", "captum", "conservative_lrp", "deeplift",
    "grad_sam", "gradient_norm", "gradient_x_input_l2", "lrp_alpha_beta", "lrp_epsilon", "lrp_gamma", "max_attention",
    "shapley_sampling", "taylor", "universal_trigger", "value_zeroing", "scores", "full_lrp",
    "transformer_attribution_last", "sinkless_attention", "sinkless_rollout", "alti_logit",
    "direct_logit_attribution", "information_flow", "eap", "eap_ig", "eap_ig_activations", "eap_clean_corrupted", "relp",
    "component_flow", "activation_patching", "importances",
)  # fmt: skip
"""Methods in the order in which they take colours and markers: a new one is added at the end, so that no other changes."""

_WORDS = {
    "attattr": "ATTATTR", "attcat": "AttCAT", "attnlrp": "AttnLRP", "alti": "ALTI", "lrp": "LRP", "lime": "LIME",
    "shap": "SHAP", "gradcam": "Grad-CAM", "deeplift": "DeepLIFT", "decompx": "DecompX", "globenc": "GlobEnc",
    "smoothgrad": "SmoothGrad", "taylor": "Taylor", "shapley": "Shapley", "captum": "Captum", "sam": "SAM", "x": "×",
    "l2": "L2", "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε",
}  # fmt: skip
_WHOLE = {
    "grad_cam": "Grad-CAM",
    "gauss_legendre": "Gauss–Legendre",
    "leave_one_out": "Leave-one-out",
    "alti_logit": "ALTI-Logit",
    "eap": "EAP",
    "eap_ig": "EAP-IG (inputs)",
    "eap_ig_activations": "EAP-IG (activations)",
    "eap_clean_corrupted": "EAP, clean and corrupted",
    "relp": "RelP",
}

_CODED = ("method", "explainer", "importance", "edge score", "readout", "rule")
"""Label columns of analyses' tables whose values are names of methods or of their parts."""

_TEXTS = ("word", "example")
"""Label columns that hold texts of examples and identifiers: never names, whatever they are spelled like."""

_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def method_title(shown: str) -> str:
    """A method's shown name in words; what stands in brackets behind it stays as it is."""
    name = without_detail(shown)
    words = [_WORDS.get(word, word) for word in re.split(r"[_\s]+", name)]
    title = _WHOLE.get(name) or " ".join(words)
    if title[:1].islower():
        title = title[:1].upper() + title[1:]
    return title + shown.removeprefix(name)


@dataclass(frozen=True)
class Names:
    """Code names and what people read in their place.

    Attributes:
        methods: a method's shown name -> its title.
        metrics: test and metric, as `perturbation: positive_auc_mean` -> the metric's title.
        tasks: a task's shown name -> what a person calls it.
        models: likewise of a model.
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cells: Sequence[NamedCell], given: GivenNames = NO_NAMES) -> "Names":
        """The names of a comparison's methods, metrics, tasks and models.

        Args:
            cells: of the comparison, their metrics with the titles that a person gave (`with_titles`).
            given: what a person calls things.
        """
        methods: dict[str, str] = {}
        for shown in dict.fromkeys(cell.method for cell in cells):
            title = _called(shown, given.methods) or method_title(shown)
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
        tasks = {cell.task: _called(cell.task, given.tasks) or cell.task for cell in cells}
        models = {cell.model: _called(cell.model, given.models) or without_fingerprint(cell.model) for cell in cells}
        kinds = {cell.kind: _called(cell.kind, given.methods) or method_title(cell.kind) for cell in cells}
        return Names(kinds | methods, told, tasks, models)

    def place(self, task: str, model: str) -> str:
        """Task and model, as the head of a table or of a figure."""
        return f"{self.task(task)} · {self.model(model)}"

    def task(self, shown: str) -> str:
        """What a task is called."""
        return self.tasks.get(shown, shown)

    def model(self, shown: str) -> str:
        """What a model is called."""
        return self.models.get(shown) or without_fingerprint(shown)

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


def _called(shown: str, given: Mapping[str, str]) -> str | None:
    """What a person calls something; what tells variants apart stays behind it: `name (limit=4)`."""
    name = without_detail(shown)
    if shown in given:
        return given[shown]
    return given[name] + shown.removeprefix(name) if name in given else None


def with_titles(cells: Sequence[NamedCell], given: Mapping[str, str]) -> list[NamedCell]:
    """The cells, with what a person calls metrics as the titles of those metrics."""
    if not given:
        return list(cells)

    def renamed(name: str, test: EvaluationRecord) -> EvaluationRecord:
        titles = {metric: title for metric in test.metrics if (title := given.get(f"{name}.{metric}"))}
        metrics = {name: replace(test.metrics[name], title=title, short=title) for name, title in titles.items()}
        return replace(test, metrics={**test.metrics, **metrics})

    def of_cell(cell: NamedCell) -> NamedCell:
        tests = {key: renamed(test.name, test) for key, test in cell.record.evaluations.items()}
        return replace(cell, stored=replace(cell.stored, record=replace(cell.record, evaluations=tests)))

    return [of_cell(cell) for cell in cells]


OURS = Names()
"""Titles of our own, of whatever methods there are."""


def _is_code(name: str) -> bool:
    """Whether a name cannot be read as an English word: `random` can, `raw_attention` and `attattr` cannot."""
    return "_" in name or name in _WORDS


# Okabe and Ito's colours; dark purple in place of black (too near the controls' greys), no yellow (too light on white);
# then brown, olive, crimson, teal, pink and others
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4B2E83", "#8C510A", "#808000", "#A50F15", "#00726D",
    "#F768A1", "#8E63C7", "#66A61E", "#1B3A6B", "#C49A6C",
)  # fmt: skip
"""Of methods."""
SERIES_COLOURS = ("#332288", "#88CCEE", "#117733", "#CC6677", "#999933", "#882255", "#44AA99", "#AA4499", "#DDCC77")
"""Of what is no method, such as classes and models: none is a method's (Tol's muted scheme)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
_GREYS = {
    "oracle": ("#3a3a3a", "-", "2"),
    "random": ("#6b6b6b", (0, (5, 1.5)), "x"),
    "inverted": ("#3a3a3a", (0, (1, 1.2)), "1"),
    "constant": ("#6b6b6b", (0, (1, 2.5)), "+"),
    "position": ("#9a9a9a", (0, (5, 1.5, 1, 1.5)), "3"),
    "frequency": ("#9a9a9a", (0, (1, 2.5)), "4"),
    "first_word": ("#b4b4b4", "-", "<"),
    "last_word": ("#b4b4b4", (0, (5, 1.5)), ">"),
    "recency": ("#b4b4b4", (0, (5, 1.5, 1, 1.5)), "|"),
    "random_components": ("#6b6b6b", (0, (3, 1.2)), "_"),
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
    """The look of the method at a place: 112 pairs of colour and marker before one repeats."""
    return _at(place, COLOURS)


def _at(place: int, colours: Sequence[str]) -> Style:
    turn, colour = divmod(place, len(colours))
    return Style(colours[colour], _LINES[turn % len(_LINES)], MARKERS[(turn + colour) % len(MARKERS)], front=3)


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

    The first 16 of `KNOWN` have the same colour in every figure. Where others have the same by themselves (`style_of`), the
    one that stands first in `KNOWN` keeps it, in whatever order the methods are given; the other takes one that is left.
    Beyond 16 methods colours repeat, and markers tell them apart.
    """

    def place(method: str) -> tuple[int, str]:
        return KNOWN.index(method) if method in KNOWN else len(KNOWN), method

    look = {method: style_of(method) for method in methods}
    taken: set[str] = set()
    for method in sorted((method for method in look if not control_place(method)), key=place):
        own = look[method].colour
        colour = own if own not in taken else next((c for c in COLOURS if c not in taken), own)
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


def series_look(names: Sequence[str], methods: Collection[str] = ()) -> dict[str, Style]:
    """The look of the series of an analysis: methods have their own, others colours that no method has.

    Args:
        names: of the series.
        methods: names that are methods' beside those of this project.
    """
    of_methods = looks_of([name for name in names if name in KNOWN or name in methods or control_place(name)])
    others = [name for name in names if name not in of_methods]
    left = {name: _at(place, SERIES_COLOURS) for place, name in enumerate(others)}
    return {name: of_methods.get(name) or left[name] for name in names}
