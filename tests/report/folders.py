"""Run folders of the documented form with invented figures, for the tests of report and tracking."""

import hashlib
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmark.results import commits, store
from benchmark.results.digests import sealed
from benchmark.results.record import (
    About,
    CostRecord,
    Derivation,
    EvaluationRecord,
    Figure,
    MethodRecord,
    Metric,
    ModelRecord,
    Record,
    TaskRecord,
)
from benchmark.results.rows import NO_ROWS, TYPES, StoredRows
from benchmark.results.statistics import Interval, f1_of_means, interval
from tests.records import evaluation_record, rows_bytes

CSV_COLUMNS = [
    "task", "model", "method", "evaluation", "metric", "value", "low", "high", "n", "constant", "half_constant", "tied",
]  # fmt: skip
"""What `leaderboard.csv` holds, as it is documented."""

FRACTIONS = tuple(round(0.1 * step, 1) for step in range(1, 10))
SKILL = {
    "oracle": 1.0, "random": 0.0, "inverted": -1.0, "position": 0.03, "frequency": 0.3, "transformer_attribution": 0.8,
    "attattr": 0.7, "gradient_x_input": 0.5, "rollout": 0.01, "raw_attention": 0.3, "partial_lrp": 0.35, "lrp": -0.4,
    "attention_gradcam": 0.6,
}  # fmt: skip
METRICS: dict[str, dict[str, Metric]] = {
    "perturbation": {
        "positive_auc": Metric(higher_is_better=False, bounds=(0.0, 1.0), headline=True),
        "negative_auc": Metric(higher_is_better=True, bounds=(0.0, 1.0), headline=True),
        "positive_accuracy": Metric(higher_is_better=False, bounds=(0.0, 1.0), x="share_removed"),
    },
    "rationale": {
        "auprc": Metric(higher_is_better=True, bounds=(0.0, 1.0), headline=True),
        "iou_f1": Metric(higher_is_better=True, bounds=(0.0, 1.0)),
        "micro_f1": Metric(higher_is_better=True, bounds=(0.0, 1.0)),
    },
    "agreement": {"kendall_gradient": Metric(higher_is_better=None, bounds=(-1.0, 1.0))},
}

DERIVED = {
    "rationale": {
        "iou_f1": Derivation("f1_of_means", (("iou_precision", None), ("iou_recall", None))),
        "micro_f1": Derivation("a statistic of a later version", (("hits", None),)),
    }
}


@dataclass(frozen=True)
class Plan:
    """What to invent: a method with its settings on a task and a model."""

    method: str
    skill: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    n: int = 60
    dash: str | None = None
    dashes: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    nan: tuple[str, ...] = ()
    without: tuple[int, ...] = ()
    """Examples that the method has no value for."""
    evaluations: tuple[str, ...] = tuple(METRICS)
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of the examples in place of invented ones, by `test.metric`."""
    constant: Mapping[str, float] = field(default_factory=dict)
    """By test, the share of the examples on which the map is constant."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """By test, what it asks."""

    @property
    def digest(self) -> str:
        facts = [self.method, dict(self.settings), dict(self.task), dict(self.model), self.n]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _values(plan: Plan) -> dict[tuple[str, str, float | None], np.ndarray]:
    """Per-example values; `iou_f1` is the F1 of two means, `micro_f1` has no values here."""
    common = np.random.default_rng(0).normal(size=plan.n)  # what makes an example easy is shared by the methods
    generator = np.random.default_rng(int(plan.digest[:8], 16))
    skill = SKILL.get(plan.method, 0.2) if plan.skill is None else plan.skill
    noisy = skill + 0.4 * common + 0.15 * generator.normal(size=plan.n)
    found: dict[tuple[str, str, float | None], np.ndarray] = {
        ("perturbation", "positive_auc", None): 0.6 - 0.2 * noisy,
        ("perturbation", "negative_auc", None): 0.6 + 0.2 * noisy,
        ("rationale", "auprc", None): 0.4 + 0.2 * noisy,
        ("rationale", "iou_precision", None): np.clip(0.5 + 0.2 * noisy, 0, 1),
        ("rationale", "iou_recall", None): np.clip(0.4 + 0.2 * noisy, 0, 1),
        ("agreement", "kendall_gradient", None): 0.1 * noisy,
    }
    for x in FRACTIONS:
        found["perturbation", "positive_accuracy", x] = 0.97 - x * (0.45 + 0.25 * noisy)
    found |= {(name.split(".")[0], name.split(".")[1], None): np.array(own, float) for name, own in plan.values.items()}
    return {key: np.delete(own, plan.without) for key, own in found.items()}


def _figure(plan: Plan, metric: str, x: float | None, found: Interval) -> Figure:
    value = Interval(math.nan, math.nan, math.nan, found.n) if metric in plan.nan else found
    return Figure(metric, math.nan if x is None else x, value.value, value.low, value.high, value.n)


def _figures(plan: Plan, name: str, values: Mapping[tuple[str, str, float | None], np.ndarray]) -> list[Figure]:
    figures = [_figure(plan, m, x, interval(v)) for (e, m, x), v in values.items() if e == name and m in METRICS[name]]
    if name == "rationale":
        parts = np.stack([values[name, part, None] for part in ("iou_precision", "iou_recall")], axis=1)
        figures.append(_figure(plan, "iou_f1", None, interval(parts, f1_of_means, bounds=(0.0, 1.0))))
        figures.append(_figure(plan, "micro_f1", None, Interval(0.5, 0.45, 0.55, plan.n - len(plan.without))))
    return figures


def _evaluation(
    plan: Plan, name: str, values: Mapping[tuple[str, str, float | None], np.ndarray], rows: pd.DataFrame
) -> EvaluationRecord:
    dash = plan.dashes.get(name)
    return evaluation_record(
        name=name,
        digest=hashlib.sha256(name.encode()).hexdigest(),
        metrics=METRICS[name],
        figures=() if dash else tuple(_figures(plan, name, values)),
        dash=dash,
        remark=plan.remarks.get(name),
        derived={} if dash else DERIVED.get(name, {}),
        rows=StoredRows.of(rows).digest(name),
        constant=plan.constant.get(name),
        tied=plan.constant.get(name),
        about=About(plan.kinds.get(name, "")),
    )


def _heatmap(plan: Plan) -> list[dict[str, Any]]:
    words = ["a", "truly", "<b>fine</b>", "film", "&", "more"]
    sign = -1.0 if plan.method == "inverted" else 1.0
    scores = [0.1 * sign, -0.2 * sign, 0.9 * sign, 0.3 * sign, 0.0, None]
    entry = {"uid": "test-0", "words": words, "scores": scores, "label": "positive", "predicted": "negative"}
    return [entry | {"probability": 0.75, "target": "negative", "rationale": [False, True, True, False, False, False]}]


def _rows(plan: Plan, values: Mapping[tuple[str, str, float | None], np.ndarray]) -> pd.DataFrame:
    uids = [f"test-{i}" for i in range(plan.n) if i not in plan.without]
    parts = [
        pd.DataFrame({"uid": uids, "evaluation": evaluation, "metric": metric, "x": x, "value": value, "draw": 0})
        for (evaluation, metric, x), value in values.items()
        if plan.dash is None
        and evaluation in plan.evaluations
        and evaluation not in plan.dashes
        and metric not in plan.nan
    ]
    return pd.concat([NO_ROWS, *(part.astype(TYPES) for part in parts)], ignore_index=True).astype(TYPES)


_CONTENTS = dict[bytes, dict[str, bytes]]()
"""The files of each run folder that this process has invented: hundreds of tests write the same ones."""


def write_cell(out: Path, plan: Plan) -> Path:
    """Write one run folder below `out` and return it."""
    key = pickle.dumps(plan)
    if key not in _CONTENTS:
        folder = _invented(out, plan)
        _CONTENTS[key] = {path.name: path.read_bytes() for path in folder.iterdir()}
        return folder
    folder = _folder(out, plan)
    for name, content in _CONTENTS[key].items():
        (folder / name).write_bytes(content)
    return folder


def _folder(out: Path, plan: Plan) -> Path:
    """The folder of a plan, which is made."""
    task, model = plan.task.get("name", "planted"), plan.model.get("name", "tiny")
    folder = out / task / model / f"{plan.method}-{plan.digest[:8]}"
    folder.mkdir(parents=True)
    return folder


def _invented(out: Path, plan: Plan) -> Path:
    """The run folder of a plan, with figures that are computed from its rows."""
    task = {"name": "planted", "version": 1, "split": "test", "limit": None, "seed": 0, "n": plan.n}
    task = {**task, "fingerprint": "d" * 16, "units": 100, "lost_units": 0, **plan.task}
    model = {"name": "tiny", "fingerprint": "m" * 16, "dtype": "float32", "n_layers": 4, "n_heads": 4}
    model = {**model, "labels": ("negative", "positive"), **plan.model}
    folder = _folder(out, plan)
    values = _values(plan)
    rows = _rows(plan, values)
    record = Record(
        hash=plan.digest,
        task=TaskRecord(**task),
        model=ModelRecord(**model),
        method=MethodRecord(plan.method, [plan.method, 1, {}], 1, class_specific=True),
        versions={"torch": "2.13.0"},
        git_commit=None,
        dash=plan.dash,
        cost=CostRecord(1000, 1.5, 60, 60),
        evaluations={} if plan.dash else {name: _evaluation(plan, name, values, rows) for name in plan.evaluations},
    )
    config = {"method": {"_target_": f"methods.{plan.method}", **plan.settings}, "task": task}
    contents = {
        "rows.parquet": rows_bytes(rows),
        "config.yaml": yaml.safe_dump(json.loads(json.dumps(config))).encode(),
    }
    if plan.dash is None:
        contents["heatmap.json"] = json.dumps(_heatmap(plan)).encode()
    commits.commit(folder, contents, record)
    return folder


def resealed(folder: Path) -> Path:
    """The folder with digests of what it holds now, as somebody who forges one would leave it."""
    path = folder / "record.json"
    try:
        record = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return folder
    if isinstance(record, dict) and "files" in record:
        names = [one.name for one in folder.iterdir() if one.is_file() and one != path]
        record["files"] = {name: store.hash_of(folder / name) for name in names}
        path.write_text(json.dumps(sealed(record)))
    return folder


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The folder with another record, resealed."""
    path = folder / "record.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return resealed(folder)


def replaced_rows(folder: Path, rows: pd.DataFrame) -> Path:
    """The folder with other rows, which its record says its figures come from."""
    store.write_bytes(folder / "rows.parquet", rows_bytes(rows))

    def change(record: dict[str, Any]) -> None:
        for name, evaluation in record["evaluations"].items():
            evaluation["rows"] = StoredRows.of(rows).digest(name)

    return changed(folder, change)


def write_cells(out: Path, plans: Sequence[Plan]) -> list[Path]:
    """Write several run folders."""
    return [write_cell(out, plan) for plan in plans]
