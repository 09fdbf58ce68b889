"""Run folders of the documented form with invented figures, for the tests of report and tracking."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmark.results.statistics import f1_of_means, interval

FRACTIONS = tuple(round(0.1 * step, 1) for step in range(1, 10))
SKILL = {
    "oracle": 1.0, "random": 0.0, "inverted": -1.0, "position": 0.03, "frequency": 0.3, "transformer_attribution": 0.8,
    "attattr": 0.7, "gradient_x_input": 0.5, "rollout": 0.01, "raw_attention": 0.3, "partial_lrp": 0.35, "lrp": -0.4,
    "attention_gradcam": 0.6,
}  # fmt: skip
METRICS: dict[str, dict[str, dict[str, Any]]] = {
    "perturbation": {
        "positive_auc": {"higher_is_better": False, "bounds": [0, 1], "x": None, "headline": True},
        "negative_auc": {"higher_is_better": True, "bounds": [0, 1], "x": None, "headline": True},
        "positive_accuracy": {"higher_is_better": False, "bounds": [0, 1], "x": "share_removed", "headline": False},
    },
    "rationale": {
        "auprc": {"higher_is_better": True, "bounds": [0, 1], "x": None, "headline": True},
        "iou_f1": {"higher_is_better": True, "bounds": [0, 1], "x": None, "headline": False},
        "micro_f1": {"higher_is_better": True, "bounds": [0, 1], "x": None, "headline": False},
    },
    "agreement": {"kendall_gradient": {"higher_is_better": None, "bounds": [-1, 1], "x": None, "headline": False}},
}


DERIVED = {
    "rationale": {
        "iou_f1": {"statistic": "f1_of_means", "columns": [["iou_precision", None], ["iou_recall", None]]},
        "micro_f1": {"statistic": "a statistic of a later version", "columns": [["hits", None]]},
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
    return {key: np.delete(own, plan.without) for key, own in found.items()}


def _figure(metric: str, x: float | None, values: np.ndarray) -> dict[str, Any]:
    found = interval(values)
    return {"metric": metric, "x": x, "value": found.value, "low": found.low, "high": found.high, "n": found.n}


def _evaluation(plan: Plan, name: str, values: Mapping[tuple[str, str, float | None], np.ndarray]) -> dict[str, Any]:
    dash = plan.dashes.get(name)
    entry = {"version": 1, "target": "predicted", "dash": dash, "seconds": 0.5, "metrics": METRICS[name], "figures": []}
    if name in plan.remarks:  # records of an earlier version have none
        entry["remark"] = plan.remarks[name]
    if dash is None:
        entry["derived"] = DERIVED.get(name, {})
        figures = [_figure(m, x, v) for (e, m, x), v in values.items() if e == name and m in METRICS[name]]
        if name == "rationale":
            parts = np.stack([values[name, part, None] for part in ("iou_precision", "iou_recall")], axis=1)
            found = interval(parts, f1_of_means, bounds=(0.0, 1.0))
            figures.append({"metric": "iou_f1", "x": None, **asdict(found)})
            n = plan.n - len(plan.without)
            figures.append({"metric": "micro_f1", "x": None, "value": 0.5, "low": 0.45, "high": 0.55, "n": n})
        for figure in figures:
            if figure["metric"] in plan.nan:
                figure |= {"value": None, "low": None, "high": None}
        entry["figures"] = figures
    return entry


def _heatmap(plan: Plan) -> list[dict[str, Any]]:
    words = ["a", "truly", "<b>fine</b>", "film", "&", "more"]
    sign = -1.0 if plan.method == "inverted" else 1.0
    scores = [0.1 * sign, -0.2 * sign, 0.9 * sign, 0.3 * sign, 0.0, None]
    entry = {"uid": "test-0", "words": words, "scores": scores, "label": "positive", "predicted": "negative"}
    return [entry | {"probability": 0.75, "target": "negative", "rationale": [False, True, True, False, False, False]}]


def write_cell(out: Path, plan: Plan) -> Path:
    """Write one run folder below `out` and return it."""
    task = {
        "name": "planted",
        "version": 1,
        "split": "test",
        "limit": None,
        "seed": 0,
        "n": plan.n,
        "fingerprint": "d" * 16,
    }
    model = {
        "name": "tiny",
        "fingerprint": "m" * 16,
        "dtype": "float32",
        "n_layers": 4,
        "n_heads": 4,
        "labels": ["negative", "positive"],
    }
    task, model = task | dict(plan.task), model | dict(plan.model)
    folder = out / task["name"] / model["name"] / f"{plan.method}-{plan.digest[:8]}"
    folder.mkdir(parents=True)
    values = _values(plan)
    served = {name: None if plan.dash else _evaluation(plan, name, values) for name in plan.evaluations}
    record = {
        "schema": 1, "hash": plan.digest, "task": task, "model": model,
        "method": {"name": plan.method, "version": 1, "class_specific": True}, "versions": {"torch": "2.13.0"},
        "git_commit": None, "dash": plan.dash,
        "cost": {"seconds": 1.5, "forward_passes": 60, "backward_passes": 60, "peak_memory_bytes": 1000},
        "evaluations": {name: entry for name, entry in served.items() if entry is not None},
    }  # fmt: skip
    rows = [
        pd.DataFrame(
            {
                "uid": [f"test-{i}" for i in range(plan.n) if i not in plan.without],
                "evaluation": evaluation,
                "metric": metric,
                "x": np.nan if x is None else x,
                "value": value,
            }
        )
        for (evaluation, metric, x), value in values.items()
        if evaluation in record["evaluations"] and evaluation not in plan.dashes and metric not in plan.nan
    ]
    empty = pd.DataFrame({"uid": [], "evaluation": [], "metric": [], "x": [], "value": []})
    pd.concat(rows or [empty]).to_parquet(folder / "rows.parquet", index=False)
    config = {"method": {"_target_": f"methods.{plan.method}", **plan.settings}, "task": task}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    if plan.dash is None:
        (folder / "heatmap.json").write_text(json.dumps(_heatmap(plan)))
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def write_cells(out: Path, plans: Sequence[Plan]) -> list[Path]:
    """Write several run folders."""
    return [write_cell(out, plan) for plan in plans]
