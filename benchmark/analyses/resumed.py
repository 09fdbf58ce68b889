"""What an analysis computes for every example, kept in parts while it goes on, so that a killed run loses little."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from benchmark.results.digests import digest
from benchmark.results.store import Ragged
from benchmark.run.data import Data
from benchmark.run.encoded import sizes_of, uids_of
from benchmark.run.resumable import Resumable
from benchmark.run.workbench import Setting
from benchmark.settings.identity import digest_of
from benchmark.targets import Target, TargetName
from benchmark.types import Batch

Arrays = Mapping[str, NDArray[Any]]
"""What is computed for a batch, by name; the first dimension goes over the examples, or over what they hold."""

ByExample = Callable[[Setting, Callable[[Batch], Arrays], str], Arrays]
"""Arrays of all batches of a setting, joined: computed, or read where they were kept under this label already."""

_SECONDS = 30.0


def by_example(
    folder: Path | None,
    analysis: Any,
    setting: Setting,
    compute: Callable[[Batch], Arrays],
    label: str,
    *,
    keep: bool | Literal["each"] = False,
    part: str = "",
) -> Ragged:
    """What `compute` gives for each batch of a setting, joined.

    In a comparison's folder, batches that an earlier, killed run had finished are read again. Parts belong to the settings
    of the analysis, to the model and to the way in which the batches are cut; they go when all is done.

    Args:
        folder: the comparison's; None: nothing is kept.
        analysis: whose settings the parts belong to.
        setting: the model and the examples.
        compute: arrays of one batch, of the same names for all.
        label: what is computed, for whoever watches.
        keep: leave the arrays in `kept_file`, from which they are read where it is there already; "each" for an analysis
            that computes something of each of several settings, in a file of the setting's.
        part: tells several things apart that an analysis computes of one setting.
    """
    batches = setting.data.batches
    kept = None
    if keep and folder is not None:
        kept = kept_file(folder, analysis, setting if keep == "each" else None, part)
    if kept is not None and kept.exists():
        return Ragged.read(kept)
    resumable = Resumable[Ragged](
        folder=Path("nowhere") if folder is None else _place(folder, analysis, setting, part),
        suffix=".safetensors",
        write=Ragged.write,
        read=Ragged.read,
        merge=Ragged.merge,
        seconds=float("inf") if folder is None else float(setting.config.get("checkpoint_seconds", _SECONDS)),
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


def kept_file(folder: Path, analysis: Any, setting: Setting | None = None, part: str = "") -> Path:
    """Where an analysis keeps arrays beside its tables, named by its class and its settings, and by a setting of several."""
    own = f"-{_digest(analysis, setting)[:8]}" if setting is not None else ""
    own += f"-{digest(part)[:8]}" if part else ""
    return folder / "analyses" / f"{name_of(analysis)}-{digest_of(analysis)[:8]}{own}.safetensors"


def forget(folder: Path, analysis: Any) -> None:
    """Remove what an analysis keeps of each of several settings or parts, and the parts of what did not end."""
    stem = kept_file(folder, analysis).stem
    for path in folder.glob(f"analyses/{stem}-*.safetensors"):
        path.unlink()
    for path in folder.glob(f"analyses/.{stem}-*"):
        shutil.rmtree(path, ignore_errors=True)


def name_of(analysis: Any) -> str:
    """What YAMLs and files call an analysis: the name of its class in small letters, `head_clusters` of `HeadClusters`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(analysis).__name__).lower()


def _place(folder: Path, analysis: Any, setting: Setting, part: str) -> Path:
    """The folder of the parts."""
    kept = kept_file(folder, analysis, setting, part)
    return kept.with_name(f".{kept.stem}")


def _digest(analysis: Any, setting: Setting) -> str:
    return digest([digest_of(analysis), setting.model.fingerprint, _uids_by_batch(setting.data.batches)])


def _uids_by_batch(batches: Sequence[Batch]) -> list[tuple[str, ...]]:
    uids = iter(uids_of(batches))
    return [tuple(islice(uids, size)) for size in sizes_of(batches)]
