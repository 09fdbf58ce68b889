"""Data sets of the Hugging Face hub, with one line for whatever goes wrong on the way."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from benchmark.errors import UserError
from tasks.tables import Row

Source = tuple[str, str | None, str | None]
"""Id, configuration, revision."""


def hub_rows(source: Source, split: str) -> list[Row]:
    """Rows of a split; whole-number labels of named classes are replaced by the names."""
    data = _load(source, split)
    named = {name: feature.names for name, feature in data.features.items() if hasattr(feature, "names")}
    rows: list[Row] = []
    for index, values in enumerate(data):
        row = dict(values)
        for name, names in named.items():
            if isinstance(row[name], int) and 0 <= row[name] < len(names):
                row[name] = names[row[name]]
        rows.append((f"{source[0]} {split}[{index}]", row))
    return rows


def hub_class_names(source: Source, split: str, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Class names that the data set gives to its label column, or None."""
    features = _load(source, split).features
    named = (features[name] for name in columns if name in features)
    return next((tuple(feature.names) for feature in named if hasattr(feature, "names")), None)


def hub_fingerprint(source: Source, split: str) -> str:
    """The library's fingerprint of a split: a digest of the data files' versions and of the configuration."""
    return str(_load(source, split)._fingerprint)


@lru_cache(maxsize=8)
def _load(source: Source, split: str) -> Any:
    import datasets  # takes a second

    path, config, revision = source
    try:
        return datasets.load_dataset(path, config, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"task.path={path} (config={config}, split={split}) cannot be loaded: {reason}; check id, task.config, "
            "task.splits and the network, or use local tables with task.root or task.files"
        ) from error
