"""How a checkpoint was trained, where `training.json` beside its weights says so."""

import json
from pathlib import Path
from typing import Any

from benchmark.models.classifier import Classifier


def mask_share(model: Classifier) -> float | None:
    """The largest share of a text's tokens that was hidden in training; None where nobody knows."""
    record = _record(model)
    for settings in (record.get("settings"), record.get("recipe")):
        if isinstance(settings, dict):
            share = settings.get("mask_share", 0.0)
            return float(share) if isinstance(share, int | float) and 0 <= share <= 1 else None
    return None


def seconds_of_training(model: Classifier) -> float | None:
    """What its training took; None where nobody knows."""
    seconds = _record(model).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def told(share: float | None) -> str:
    """In words."""
    if share is None:
        return "nobody knows whether the model met masks in training"
    if not share:
        return "the model met no masks in training"
    return f"the model was trained with masks on up to {100 * share:.0f} % of an example"


def _record(model: Classifier) -> dict[str, Any]:
    """What `training.json` holds; nothing where there is none, or it holds something else."""
    folder = Path(str(getattr(model.config, "_name_or_path", "") or model.name))
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
