"""Explain some examples of a bundle again: the only place where the code of a submission is run, in a process of its own.

`python -m benchmark.bundles.recomputing REQUEST OUT` reads a request and writes the explanations as a safetensors file.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from benchmark.bundles.bundle import Bundle
from benchmark.bundles.opening import settings_of
from benchmark.errors import NotApplicable, UserError
from benchmark.results import bounded, store
from benchmark.results.annotated import as_dataclass, as_json
from benchmark.results.store import Ragged
from benchmark.run.explaining import Checked, Explain
from benchmark.run.workbench import open_setting
from benchmark.settings.making import make
from benchmark.settings.sources import NoSuchTarget, outline_of
from benchmark.types import Method, as_compared
from benchmark.working_folder import own_classes_importable, own_modules_first

REFUSED, ABSENT = 3, 4
"""Exit statuses: the method or the bundle was refused; the class of the method is not installed here."""


@dataclass(frozen=True)
class Request:
    """What is explained again.

    Attributes:
        bundle: folder of the bundle.
        overrides: folders of this machine that it asks for.
        name: of the method, and `settings` that make it.
        uids: of the examples.
        whole: whether the whole batches of these examples are explained, as they were the first time.
    """

    bundle: str
    overrides: tuple[str, ...]
    name: str
    settings: Mapping[str, Any]
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


def explain(request: Request) -> Ragged:
    """The explanations of the examples for their predicted classes.

    Raises:
        UserError: the bundle cannot be opened, or the method cannot be made.
        NotApplicable: the method cannot explain here.
    """
    folder = Path(request.bundle)
    setting = open_setting(settings_of(Bundle.read(folder), folder, request.overrides))
    method = as_compared(make(OmegaConf.create({request.name: dict(request.settings)})[request.name]))
    if not isinstance(method, Method):
        raise UserError(f"{request.name} explains no single examples")
    fitted = setting.cell(request.name, method, dict(request.settings)).method
    assert isinstance(fitted, Method)
    ask, parts = Explain(Checked(request.name, fitted)), []
    for index, batch in enumerate(setting.data.batches):
        rows = [row for row, uid in enumerate(batch.uids) if uid in set(request.uids)]
        if not rows:
            continue
        target = setting.data.target(index, "predicted")
        part = (
            ask(setting.model, batch, target) if request.whole else ask(setting.model, batch.select(rows), target[rows])
        )
        parts.append(part)
    return Ragged.merge(parts)


def main(words: Sequence[str]) -> int:
    """Status 0; `REFUSED` with one line where the method or the bundle is refused, `ABSENT` where the class is not there."""
    own_modules_first()
    own_classes_importable()
    request, out = Request.read(Path(words[0])), Path(words[1])
    torch.set_num_threads(1)
    try:
        outline_of(str(request.settings["_target_"]))
    except NoSuchTarget:
        return ABSENT
    try:
        explain(request).write(out)
    except (UserError, NotApplicable) as error:
        print(error)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
