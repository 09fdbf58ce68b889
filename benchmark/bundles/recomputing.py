"""Explain some examples of a bundle again: the only place where the code of a submission is run, in a process of its own.

`python -m benchmark.bundles.recomputing REQUEST OUT` reads a request and writes a safetensors file for each stage.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from benchmark.bundles.bundle import Bundle
from benchmark.bundles.opening import settings_of, tests_of
from benchmark.bundles.sources import source_of
from benchmark.errors import NotApplicable, UserError
from benchmark.results import bounded, store
from benchmark.results.annotated import as_dataclass, as_json
from benchmark.results.digests import digest
from benchmark.run.stages import PREDICTED, asked
from benchmark.run.workbench import open_setting
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.types import Batch, Method, as_compared
from benchmark.working_folder import own_classes_importable, own_modules_first

REFUSED = 3
"""Exit status where the method or the bundle is refused, with one line."""


@dataclass(frozen=True)
class Request:
    """What is explained again.

    Attributes:
        bundle: folder of the bundle.
        overrides: folders of this machine that it asks for.
        name: of the method, and `settings` that make it.
        identity: digest of the identity that the method has in its record.
        source: digest of the source that was submitted.
        uids: of the examples.
        whole: whether the whole batches of these examples are explained, as they were the first time.
    """

    bundle: str
    overrides: tuple[str, ...]
    name: str
    settings: Mapping[str, Any]
    identity: str
    source: str
    uids: tuple[str, ...]
    whole: bool

    def write(self, path: Path) -> None:
        """As JSON."""
        store.write_json(path, as_json(self))

    @staticmethod
    def read(path: Path) -> "Request":
        """What `write` wrote."""
        request: Request = as_dataclass(Request, bounded.parse_json(bounded.read_bytes(path)), "")
        return request


def explain(request: Request, out: Path) -> None:
    """Write what the method gives of the examples, for every stage that a test of the bundle reads.

    Raises:
        UserError: the bundle cannot be opened, the method cannot be made, or is another one than its record says.
        NotApplicable: the method cannot explain here.
    """
    folder = Path(request.bundle)
    bundle = Bundle.read(folder)
    setting = open_setting(settings_of(bundle, folder, request.overrides))
    method = as_compared(make(OmegaConf.create({request.name: dict(request.settings)})[request.name]))
    if not isinstance(method, Method):
        raise UserError(f"{request.name} explains no single examples")
    if digest(identity(method)) != request.identity:
        raise UserError(f"{request.name}: what its settings make is another method than the one in its record")
    if source_of(method, request.settings) != request.source:
        raise UserError(f"{request.name}: its source here is another than the one that was submitted")
    batches = [part for batch in setting.data.batches if (part := _asked_of(batch, request)) is not None]
    excerpt = replace(setting, data=replace(setting.data, batches=batches))
    cell = replace(excerpt.cell(request.name, method, dict(request.settings)), folder=out)
    cell.explained(PREDICTED)
    for stage in dict.fromkeys(stage for test in tests_of(bundle).values() for stage in asked(test)):
        with suppress(NotApplicable):
            cell.explained(stage)


def _asked_of(batch: Batch, request: Request) -> Batch | None:
    """What is explained of a batch; None where none of the examples are of it."""
    rows = [row for row, uid in enumerate(batch.uids) if uid in request.uids]
    return None if not rows else batch if request.whole else batch.select(rows)


def main(words: Sequence[str]) -> int:
    """Status 0, or `REFUSED` with one line."""
    own_modules_first()
    own_classes_importable()
    torch.set_num_threads(1)
    try:
        explain(Request.read(Path(words[0])), Path(words[1]))
    except (UserError, NotApplicable) as error:
        print(error)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
