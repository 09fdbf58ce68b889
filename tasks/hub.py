"""Data sets of the Hugging Face hub, with one line for whatever goes wrong on the way."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from benchmark.errors import NoSplit, UserError
from benchmark.settings.availability import check_on_hub
from tasks.local_tables import Row

HubDataSet = tuple[str, str | None, str | None]
"""Id, configuration, revision."""


def hub_rows(source: HubDataSet, split: str) -> list[Row]:
    """Rows of a split; whole-number labels of named classes are replaced by the names."""
    data = hub_split(source, split)
    named = {name: feature.names for name, feature in data.features.items() if hasattr(feature, "names")}
    rows: list[Row] = []
    for index, values in enumerate(data):
        row = dict(values)
        for name, names in named.items():
            if isinstance(row[name], int) and 0 <= row[name] < len(names):
                row[name] = names[row[name]]
        rows.append((f"{source[0]} {split}[{index}]", row))
    return rows


def hub_class_names(source: HubDataSet, split: str, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Class names that the data set gives to its label column, or None."""
    features = hub_split(source, split).features
    named = (features[name] for name in columns if name in features)
    return next((tuple(feature.names) for feature in named if hasattr(feature, "names")), None)


def hub_splits(source: HubDataSet) -> tuple[str, ...]:
    """The names of the splits."""
    return tuple(_load(source))


def hub_fingerprints(source: HubDataSet, splits: Iterable[str]) -> list[str]:
    """The library's fingerprints of those splits that exist: digests of the data files' versions and the configuration."""
    data = _load(source)
    return [str(data[split]._fingerprint) for split in splits if split in data]


def hub_split(source: HubDataSet, split: str) -> Any:
    """A split as the library gives it: its rows are read, and images decoded, one by one."""
    data = _load(source)
    if split not in data:
        raise NoSplit(
            f"task.path={source[0]} has no split '{split}'; it has {', '.join(data)}: set task.splits to these names"
        )
    return data[split]


@lru_cache(maxsize=8)
def _load(source: HubDataSet) -> Any:
    """All splits of a data set."""
    import datasets  # takes a second

    path, config, revision = source
    check_on_hub("task.path", path, "dataset")
    try:
        return datasets.load_dataset(path, config, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"task.path={path} (task.config={config}) cannot be loaded: {reason}; check both and the network, "
            "or use local tables with task.root or task.files"
        ) from error
