"""What an analysis computes for every example, kept in parts while it goes on, so that a killed run loses little."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from benchmark.analyses.context import Context
from benchmark.results.digests import digest
from benchmark.results.store import Ragged
from benchmark.run.data import Data
from benchmark.run.encoded import sizes_of, uids_of
from benchmark.run.resumable import Resumable
from benchmark.settings.identity import digest_of
from benchmark.targets import Target, TargetName
from benchmark.types import Batch

Arrays = Mapping[str, NDArray[Any]]
"""What is computed for a batch, by name; the first dimension goes over the examples, or over what they hold."""

_SECONDS = 30.0


def by_example(
    context: Context,
    analysis: Any,
    batches: Sequence[Batch],
    compute: Callable[[Batch], Arrays],
    label: str,
    *,
    keep: bool = False,
) -> Ragged:
    """What `compute` gives for each batch, joined.

    In a comparison's folder, batches that an earlier, killed run had finished are read again. Parts belong to the settings
    of the analysis and to the way in which the batches are cut; they go when all is done.

    Args:
        context: names the folder.
        analysis: whose settings the parts belong to.
        batches: the examples.
        compute: arrays of one batch, of the same names for all.
        label: what is computed, for whoever watches.
        keep: leave the arrays in `kept_file`, from which they are read where it is there already.
    """
    kept = kept_file(context.folder, analysis) if keep and context.folder is not None else None
    if kept is not None and kept.exists():
        return Ragged.read(kept)
    resumable = Resumable[Ragged](
        folder=_place(context, analysis, batches),
        suffix=".safetensors",
        write=Ragged.write,
        read=Ragged.read,
        merge=Ragged.merge,
        seconds=float("inf") if context.folder is None else _seconds(context),
    )
    found = resumable.run(
        sizes_of(batches),
        lambda index: Ragged(batches[index].uids, dict(compute(batches[index])), {}),
        "analysis",
        label,
    )
    if kept is not None:
        found.write(kept)
    resumable.clear()
    return found


def explained_of(data: Data, which: TargetName) -> Callable[[Batch], Target]:
    """What is explained of some of the scored examples, for what is computed batch by batch."""
    targets, places = data.targets(which), {uid: place for place, uid in enumerate(data.uids)}
    return lambda batch: targets[[places[uid] for uid in batch.uids]].to(batch.units.device)


def kept_file(folder: Path, analysis: Any) -> Path:
    """Where an analysis keeps arrays beside its tables, named by its class and its settings."""
    return folder / "analyses" / f"{_name(analysis)}-{digest_of(analysis)[:8]}.safetensors"


def _place(context: Context, analysis: Any, batches: Sequence[Batch]) -> Path:
    """The folder of the parts; without a comparison's folder there are none."""
    if context.folder is None:
        return Path("nowhere")
    key = digest([digest_of(analysis), context.setting.model.fingerprint, _uids_by_batch(batches)])
    return context.folder / "analyses" / f".{_name(analysis)}-{key[:12]}"


def _uids_by_batch(batches: Sequence[Batch]) -> list[tuple[str, ...]]:
    uids = iter(uids_of(batches))
    return [tuple(islice(uids, size)) for size in sizes_of(batches)]


def _seconds(context: Context) -> float:
    return float(context.setting.config.get("checkpoint_seconds", _SECONDS))


def _name(analysis: Any) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(analysis).__name__).lower()
