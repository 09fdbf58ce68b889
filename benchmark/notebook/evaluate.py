"""`benchmark.evaluate`: the tests of a comparison, on texts and scores that are at hand.

What it gives are figures with intervals, reasons where there is none, and the value of each text.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from benchmark.errors import NotApplicable, UserError, printable
from benchmark.models import Classifier
from benchmark.models.next_token import CONTINUATION, VOCABULARY
from benchmark.notebook.asked import next_tokens
from benchmark.notebook.choices import Given, OfExplanation, choose
from benchmark.notebook.explanation import Explanation, repeatable
from benchmark.notebook.given import Inputs, batch_size_of, checked_model, classes, marks, numbers, per_text
from benchmark.report.cells import named_cells
from benchmark.report.leaderboard import NO_FIGURE, frame
from benchmark.report.run_folders import read_stored
from benchmark.results.digests import digest
from benchmark.results.record import TaskRecord
from benchmark.results.tables import no_interval_of
from benchmark.results.wording import arrow, bounds, number
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.run.encoded import Encoded
from benchmark.run.steps import finish
from benchmark.targets import ClassTarget
from benchmark.types import Batch, Evaluation

DEFAULTS = ("perturbation", "aopc")
_SPLIT = "given"
_NOTHING = ("no example has a value", NO_FIGURE)
"""Reasons that say nothing of what was not given."""


@dataclass(frozen=True, repr=False, eq=False)
class EvaluationResult:
    """Figures of several explanations under several tests.

    Attributes:
        figures: one row per method, evaluation, metric and x, with interval, n, direction, dash and remark.
        rows: the value of each text: uid, method, evaluation, metric, x, value, draw.
        n: how many texts there are.
        missing: what was not given and tests may need.
    """

    figures: pd.DataFrame
    rows: pd.DataFrame
    n: int
    missing: tuple[str, ...]

    def table(self) -> pd.DataFrame:
        """One row per method and scalar metric: value, 95 % interval, n, direction, and the reason where one is missing."""
        scalars = self.figures[self.figures["x"].isna()].drop(columns=["x", "headline"])
        table = scalars.rename(columns={"dash": "reason"}).reset_index(drop=True)
        reasons = [self._reason(row["reason"]) or no_interval_of(row) or None for row in table.to_dict("records")]
        table["reason"] = pd.Series(reasons, dtype=object)
        return table

    def curves(self) -> pd.DataFrame:
        """One row per method, metric with an x axis, and x, with the reason where there is no interval."""
        columns = ["method", "evaluation", "metric", "x", "value", "low", "high", "n"]
        points = self.figures.loc[self.figures["x"].notna(), columns].reset_index(drop=True)
        reasons = [no_interval_of(row) or None for row in points.to_dict("records")]
        return points.assign(reason=pd.Series(reasons, dtype=object))

    def _reason(self, reason: Any) -> str | None:
        if reason is None or not isinstance(reason, str):
            return None
        given = f"no {' and no '.join(self.missing)} given" if self.missing and reason in _NOTHING else ""
        return f"{reason}; {given}" if given else reason

    @property
    def _texts(self) -> str:
        return f"{self.n} text{'' if self.n == 1 else 's'}"

    @property
    def _overview(self) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
        """Methods, a line for each headline metric, and the reasons that marks refer to."""
        table, reasons = self.table(), list[str]()
        headline = self.figures.loc[self.figures["x"].isna(), "headline"].reset_index(drop=True)
        shown = table[headline] if headline.any() else table
        methods = [str(method) for method in dict.fromkeys(table["method"])]
        lines = []
        for (evaluation, metric), part in shown.groupby(["evaluation", "metric"], sort=False):
            by_method = {str(row["method"]): row for row in part.to_dict("records")}
            direction = next(arrow(row["higher_is_better"]) for row in by_method.values())
            cells = [_cell(by_method.get(method), reasons) for method in methods]
            lines.append((f"{evaluation} {metric} {direction}".strip(), cells))
        return methods, lines, reasons

    def __repr__(self) -> str:
        methods, lines, reasons = self._overview
        table = pd.DataFrame([cells for _, cells in lines], columns=methods, index=[name for name, _ in lines])
        notes = [printable(f"[{place}] {reason}") for place, reason in enumerate(reasons, start=1)]
        title = f"{self._texts}, mean [95 % interval]; .table() has all figures"
        return "\n".join([title, table.to_string(), *notes])

    def _repr_html_(self) -> str:
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        methods, lines, reasons = self._overview
        yield f"<p>{self._texts}, mean [95 % interval]; <code>.table()</code> has all figures.</p>"
        yield "<table><thead><tr><th></th>"
        yield "".join(f'<th scope="col">{escape(method)}</th>' for method in methods) + "</tr></thead><tbody>"
        for name, cells in lines:
            values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            yield f'<tr><th scope="row">{escape(name)}</th>{values}</tr>'
        notes = "<br>".join(f"[{place}] {escape(reason)}" for place, reason in enumerate(reasons, start=1))
        yield f"</tbody></table><p>{notes}</p>" if notes else "</tbody></table>"


def evaluate(
    model: Classifier,
    texts: Any,
    scores: Mapping[str, Sequence[Any]] | Explanation | None = None,
    evaluations: Any = DEFAULTS,
    *,
    methods: Any = (),
    rationales: Sequence[Any] | None = None,
    labels: Any = None,
    uids: Sequence[str] | None = None,
    batch_size: int = 16,
) -> EvaluationResult:
    """Test explanations of texts: the same tests, statistics and intervals as in a comparison, without folders.

    Args:
        model: what `benchmark.load_model` returns.
        texts: as `benchmark.explain` takes them.
        scores: scores made anywhere: a name, and for each text one number per word; or what `benchmark.explain` gave for
            the same texts and their predicted classes.
        evaluations: names (`benchmark.evaluations()` lists them), settings of them such as
            "evaluations.aopc.fractions=[0.1,0.5]", objects, or a mapping of names of your own to those.
        methods: beside the scores, explainers as `benchmark.explain` takes them; `random` shows what chance gives.
        rationales: for each text one 0 or 1 per word, phrases that occur in it (`["fine film"]`), spans of characters
            (`[[2, 11]]`), or None.
        labels: for each text its class, as a name or an index.
        uids: for each text a name, which all random numbers follow; without, texts are "0", "1", ..., the random numbers of
            a method follow the text itself, and those of a test the number.
        batch_size: texts at once; changes no result beyond rounding.

    Returns:
        Figures with 95 % intervals and the number of texts. What a test lacks (labels, rationales, heads, edges) is a dash
        with the reason.

    Raises:
        UserError: not one finite score, mark or class where one is needed, or a name that does not exist.

    Example:
        >>> texts, marks = ["a fine film", "the plot was dull"], [[0, 1, 0], [0, 0, 0, 1]]
        >>> mine = {"mine": [[0.1, 0.9, 0.0], [0, 0, 0.2, 0.5]]}
        >>> result = benchmark.evaluate(model, texts, mine, evaluations=["rationale"], rationales=marks)
        >>> result.table().set_index("metric").loc[["average_precision", "iou_f1"], ["method", "value", "n"]]
                          method  value  n
        metric
        average_precision   mine    1.0  2
        iou_f1              mine    1.0  2
    """
    model = checked_model(model)
    if model.encoder.over == CONTINUATION:
        raise UserError(
            "continuations are tested in a comparison: python -m benchmark task=prompts model=lm model.labels=continuation"
        )
    inputs = Inputs.of(texts, images=model.encoder.patch is not None)
    names = [str(number) for number in range(len(inputs.values))] if uids is None else [str(uid) for uid in uids]
    if len(set(names)) != len(names) or len(names) != len(inputs.values):
        raise UserError(f"uids must be {len(inputs.values)} different names, one for each text")
    marked = per_text(rationales, single=inputs.single)
    data = _data(model, inputs.values, names, marked, labels, batch_size_of(batch_size), named=uids is not None)
    words = {uid: own for batch in data.batches for uid, own in zip(batch.uids, batch.words, strict=True)}
    compared: dict[str, Any] = {**_given(model, scores, words, names, single=inputs.single)}
    if not compared and not methods:
        raise UserError("there is nothing to test; give scores={'mine': [[...], ...]}, or methods=[...]")
    if methods:
        for name, method in choose("methods", methods, dict(zip(names, inputs.values, strict=True))).items():
            if name in compared:
                raise UserError(f"'{name}' is the name of scores and of a method; rename one of the two")
            compared[name] = method
    missing = [name for name, given in (("labels", labels), ("rationales", rationales)) if given is None]
    return _tested(model, data, compared, choose("evaluations", evaluations, {}), missing)


def _given(
    model: Classifier,
    scores: Mapping[str, Any] | Explanation | None,
    words: Mapping[str, Sequence[str]],
    names: Sequence[str],
    *,
    single: bool,
) -> dict[str, Given]:
    """The ready scores as methods."""
    if isinstance(scores, Explanation):
        return _explained(scores, model, [words[name] for name in names], names)
    if scores is not None and not isinstance(scores, Mapping):
        raise UserError(
            "scores must map a name to one list of numbers per text: {'mine': [[...], ...]}; explainers are methods=[...]"
        )
    found = {}
    for name, given in (scores or {}).items():
        rows = per_text(given, single=single)
        if not isinstance(rows, Sequence | np.ndarray) or len(rows) != len(names):
            count = f"{len(rows)} lists" if isinstance(rows, Sequence | np.ndarray) else type(rows).__name__
            raise UserError(f"scores['{name}'] is {count}; give a list of numbers for each text ({len(names)})")
        arrays = [
            numbers(row, words[uid], f"scores['{name}'][{place}]")
            for place, (uid, row) in enumerate(zip(names, rows, strict=True))
        ]
        found[str(name)] = Given(str(name), dict(zip(names, arrays, strict=True)))
    return found


def _data(
    model: Classifier,
    inputs: Sequence[Any],
    names: Sequence[str],
    rationales: Any,
    labels: Any,
    batch_size: int,
    *,
    named: bool,
) -> Data:
    """The examples as a comparison holds them, in batches of similar length."""
    words, n_units, lost = _units(model, inputs, batch_size)
    if labels is None:
        classes_of = [-1] * len(inputs)
    elif model.encoder.over == VOCABULARY:
        classes_of = next_tokens(model, inputs, labels, "labels")
    else:
        classes_of = classes(model, labels, len(inputs), "labels").tolist()
    annotated = marks(rationales, words, inputs)
    order = sorted(range(len(inputs)), key=lambda place: (n_units[place], names[place]))

    def encoded(rows: Sequence[int]) -> Batch:
        return model.encoder(
            [inputs[i] for i in rows],
            uids=[names[i] for i in rows],
            labels=[classes_of[i] for i in rows],
            rationale=[annotated[i] for i in rows],
            query_units=[0] * len(rows),
            meta=[{}] * len(rows),
            named=named,
        )

    batches = Encoded(encoded, [order[start : start + batch_size] for start in range(0, len(order), batch_size)])
    facts = TaskRecord(
        name="texts",
        version=1,
        split=_SPLIT,
        limit=None,
        seed=None,
        n=len(inputs),
        fingerprint=digest([list(names), [list(own) for own in words]]),
        units=sum(n_units),
        lost_units=lost,
    )
    return Data(model, batches=batches, calibration=_no_calibration, facts=facts, labels=model.labels)


def _units(model: Classifier, inputs: Sequence[Any], batch_size: int) -> tuple[list[tuple[str, ...]], list[int], int]:
    """The words of each example, how many units it has, and how many of all lie beyond the window; batch by batch."""
    words: list[tuple[str, ...]] = []
    n_units: list[int] = []
    lost = 0
    for start in range(0, len(inputs), batch_size):
        rows = range(start, min(start + batch_size, len(inputs)))
        batch = model.encoder(
            [inputs[row] for row in rows],
            uids=[str(row) for row in rows],
            labels=[-1] * len(rows),
            rationale=[None] * len(rows),
            query_units=[0] * len(rows),
            meta=[{}] * len(rows),
        )
        words += batch.words
        n_units += batch.n_units.tolist()
        lost += int(batch.lost_units.sum())
    return words, n_units, lost


def _no_calibration(split: str, limit: int) -> Sequence[Batch]:
    raise NotApplicable(
        f"it takes its importance from the {split} split, and only texts were given; set calibration=same or each"
    )


def _tested(
    model: Classifier,
    data: Data,
    methods: Mapping[str, Any],
    evaluations: Mapping[str, Evaluation],
    missing: Sequence[str],
) -> EvaluationResult:
    """Finish a cell for each method in a folder that is gone afterwards, and read the figures."""
    with TemporaryDirectory(prefix="attention-benchmark-") as folder, repeatable(model):
        stored = []
        for place, (name, method) in enumerate(methods.items()):
            cell = Cell(
                folder=Path(folder, f"cell-{place}"),
                name=name,
                compared=method,
                model=model,
                data=data,
                identity={"hash": digest([place, name]), "method": [type(method).__qualname__, method.version, {}]},
                config={},
                checkpoint_seconds=float("inf"),
            )
            finish(cell, evaluations)
            stored.append(read_stored(cell.folder))
        cells = named_cells(stored)
    figures = frame(cells)
    place_of = {name: place for place, name in enumerate(methods)}
    figures = figures.sort_values("method", key=lambda names: names.map(place_of), kind="stable", ignore_index=True)
    rows = pd.concat([cell.rows.frame().assign(method=cell.method) for cell in cells], ignore_index=True)
    return EvaluationResult(figures.drop(columns=["task", "model"]), rows, data.facts.n, tuple(missing))


def _explained(
    explanation: Explanation, model: Classifier, words: Sequence[Sequence[str]], names: Sequence[str]
) -> dict[str, Given]:
    """The scores of an explanation; UserError where they are of other texts, or of classes that the tests do not look at."""
    if [list(own) for own in explanation.batch.words] != [list(own) for own in words]:
        raise UserError(
            "the explanation is of other texts than those that are tested; give the same texts in the same order"
        )
    if bool(explanation.target.differs(ClassTarget(explanation.probabilities.argmax(-1))).any()):
        raise UserError(
            "the explanation is of something else than the predicted class, which most tests look at; explain without "
            "target and against"
        )
    same_model = explanation.module is not None and explanation.module() is model.model
    found = dict[str, Given]()
    for name, rows in explanation.scores().items():
        heads = explanation.attributions[name].heads
        of_heads = {} if heads is None else dict(zip(names, heads, strict=True))
        explainer = explanation.explainers.get(name)
        found[name] = OfExplanation(name, dict(zip(names, rows, strict=True)), explainer, of_heads, same_model)
    return found


def _cell(row: dict[Any, Any] | None, reasons: list[str]) -> str:
    """Value and interval, or a dash; with the mark of the reason of what is missing, which is added to `reasons`."""
    reason = NO_FIGURE if row is None else row["reason"]
    figure = "–" if row is None or math.isnan(row["value"]) else number(row["value"])
    if row is not None and reason is None:
        return f"{figure} {bounds(row['low'], row['high'])}".strip()
    if reason not in reasons:
        reasons.append(str(reason))
    return f"{figure} [{reasons.index(str(reason)) + 1}]"
