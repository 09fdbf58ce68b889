"""Every method beside the published implementation of it: what is compared is data, and the errors are measured.

`python -m tests.methods.parity` measures them all, in float64, and writes `docs/parity.md`; the tests hold every line to the
tolerance. The published numbers lie in `golden/` of the reference data, beside the repository.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark import build, load_model
from benchmark.models import Classifier
from benchmark.types import Batch
from tests.conftest import REPOSITORY, SHARED

TOLERANCE = 1e-5
"""Largest error allowed, relative to the largest published magnitude of an input."""
DOCUMENT = REPOSITORY / "docs" / "parity.md"


@dataclass(frozen=True)
class Source:
    """A published implementation, and the file that holds what it gave."""

    code: str
    commit: str
    file: str

    @property
    def path(self) -> Path:
        return SHARED / "golden" / self.file


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of one source that one model reads, padded together.

    Attributes:
        model, batch, target: what is explained.
        names: of the inputs, as they stand in the file's keys.
        kind: what they are, in words.
    """

    model: Classifier
    batch: Batch
    target: Tensor
    names: tuple[str, ...]
    kind: str

    def length(self, row: int) -> int:
        """Tokens of an input, without the padding that this batch added."""
        return int(self.batch.attention_mask[row].sum())


Read = Callable[[Any, Inputs], Tensor]
"""(method, inputs) -> [B, ...] of ours, in the layout of the published array."""


@dataclass(frozen=True)
class Comparison:
    """One published array of every input of a source, and the method that must give it.

    Attributes:
        method: name of its YAML.
        what: is compared, in words.
        source: where from.
        key: of the array, with `{}` for the input's name; without it the array is one of all inputs together.
        read: ours.
        settings: overrides of the YAML.
        places: dimensions of one input's array that run over its tokens.
        content: tokens of units only (the published script treats [CLS] in ways of its own).
        unpadded: inputs that came with padding of their own are left out; `note` says why.
        note: what a reader must know.
    """

    method: str
    what: str
    source: Source
    key: str
    read: Read
    settings: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    content: bool = False
    unpadded: bool = False
    note: str = ""

    def __str__(self) -> str:
        return "-".join([self.method, *self.settings, Path(self.source.file).stem, self.key.format("")])

    def errors(self) -> dict[str, list[float]]:
        """Errors of each input, by the kind of inputs, relative to the largest published magnitude of that input."""
        arrays = np.load(self.source.path)
        found: dict[str, list[float]] = {}
        for inputs in inputs_of(self.source):
            pairs = self._pairs(inputs, arrays)
            if pairs:
                found[inputs.kind] = [
                    float(np.abs(ours - published).max() / np.abs(published).max()) for ours, published in pairs
                ]
        return found

    def _pairs(self, inputs: Inputs, arrays: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        ours = self.read(build(f"methods/{self.method}", *self.settings), inputs).detach().numpy()
        if "{}" not in self.key:
            return [same_shape(ours, arrays[self.key])]
        found = []
        for row, name in enumerate(inputs.names):
            if (key := self.key.format(name)) not in arrays:
                continue
            if self.unpadded and arrays[key].shape[self.places[0]] != inputs.length(row):
                continue
            found.append(same_shape(*self._cut(inputs, row, ours[row], arrays[key])))
        return found

    def _cut(self, inputs: Inputs, row: int, ours: np.ndarray, published: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both without padding, and without special tokens where these are not compared."""
        keep = inputs.batch.attention_mask[row]
        if self.content:
            keep = inputs.batch.units[row] >= 0
        index = keep.nonzero()[:, 0].numpy()
        for axis in self.places:
            ours, published = ours.take(index, axis), published.take(index, axis)
        return ours, published


def same_shape(ours: np.ndarray, published: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    assert ours.shape == published.shape, (ours.shape, published.shape)
    return ours, published


@cache
def inputs_of(source: Source) -> tuple[Inputs, ...]:
    """The inputs of a source: those of the golden files, or those that its keys name."""
    if source.file == "chefer_vit.npz":
        return (_images(),)
    if not source.file.startswith("published/"):
        listed = json.loads((SHARED / "golden" / "bert_inputs.json").read_text())
        return (_ids(listed, [str(i) for i in range(len(listed))]),)
    names = sorted({"/".join(key.split("/")[:2]) for key in np.load(source.path)})
    tiny = [name for name in names if name.startswith("tiny/")]
    given = json.loads((SHARED / "golden" / "published" / "tiny_inputs.json").read_text())
    found = [_ids([given[int(name.split("/")[1])] for name in tiny], tiny)] if tiny else []
    rows = [name for name in names if name.startswith("sst2/")]
    return tuple(found + ([_reviews(rows)] if rows else []))


def _ids(items: Sequence[dict[str, Any]], names: Sequence[str]) -> Inputs:
    model = _model("golden/bert")
    batch = model.encode([{name: value for name, value in item.items() if name != "target"} for item in items])
    return Inputs(model, batch, torch.tensor([item["target"] for item in items]), tuple(names), "tiny BERT")


def _images() -> Inputs:
    model, arrays = _model("golden/vit"), np.load(SHARED / "golden" / "vit_inputs.npz")
    batch = model.encode([{"pixel_values": image} for image in arrays["images_3ch"]])
    names = tuple(str(i) for i in range(len(batch)))
    return Inputs(model, batch, torch.as_tensor(arrays["targets"]), names, "tiny ViT")


def _reviews(names: Sequence[str]) -> Inputs:
    """`sst2/<r>`: row r of the development set; the annotated class is explained."""
    model = _model("models/minilm-sst2")
    lines = (SHARED / "data" / "glue" / "SST-2" / "dev.tsv").read_text().splitlines()[1:]
    texts, labels = zip(*(lines[int(name.split("/")[1])].split("\t") for name in names), strict=True)
    batch = model.encode([text.strip() for text in texts])
    return Inputs(model, batch, torch.tensor([int(label) for label in labels]), tuple(names), "MiniLM, SST-2")


@cache
def _model(folder: str) -> Classifier:
    return load_model(SHARED / folder, dtype="float64", device="cpu")


def line(comparison: Comparison, errors: dict[str, list[float]]) -> str:
    """One row of the table."""
    counts = "; ".join(f"{kind} ({len(found)})" for kind, found in errors.items())
    what = comparison.what + (f" ({comparison.note})" if comparison.note else "")
    worst = max(max(found) for found in errors.values())
    return f"{stem(comparison)} {what} | {counts} | {worst:.0e} |"


def stem(comparison: Comparison) -> str:
    """The cells of a row that say which comparison it is."""
    settings = ", ".join(f"`{setting.removeprefix('+')}`" for setting in comparison.settings)
    source = comparison.source
    key = comparison.key.replace("{}", "*")
    return f"| `{comparison.method}` | {settings} | {source.code} {source.commit} | `{source.file}`: `{key}` |"


def document() -> str:
    """`docs/parity.md`, measured now."""
    from tests.methods.comparisons import COMPARISONS, NOT_COMPARED

    rows = [line(comparison, comparison.errors()) for comparison in COMPARISONS]
    reasons = [f"| {', '.join(f'`{name}`' for name in names)} | {why} |" for why, names in NOT_COMPARED.items()]
    return "\n".join([_HEAD, *rows, _MIDDLE, *reasons, ""])


_HEAD = f"""# What is compared with published code, and to which error

Made by `python -m tests.methods.parity`; every figure of the first table is measured. The authors' own code was run
elsewhere, in float64, on one input at a time; here the inputs are padded together. An error is the largest difference
within an input, divided by the largest published magnitude of it; the column holds the worst input.
`tests/methods/test_parity.py` allows {TOLERANCE:.0e}.
Settings are those of the method's YAML but for what the second column says. In keys, `*` is the name of an input.

| method | settings | code and commit | array | compared | inputs | worst error |
|---|---|---|---|---|---|---|"""

_MIDDLE = """
Attribution graphs are the same edge by edge (`tests/results/test_graph.py`, YRdddream/attattr f5a7396).

What the figures do not say, with errors that were measured once and not by the command: on texts of 256 tokens `lrp`
differed by up to 3e-3 of its maximum, since the published code
takes the mask of attention through its rule for sums; with `mask: sum` (second line of `lrp`) by 1e-6. `attnlrp` is compared
at ε = 0; at ε = 1e-6, the default here and there, it differed by up to 3e-3. `attention_gradcam` leaves padding out of its
mean. `generic_attention` keeps the score of the token that is read, which the published code sets to 0.

## Not compared with published numbers

What holds them instead is said beside them; transcriptions of equations are in `tests/replicas`.

| methods | why, and what instead |
|---|---|"""


def main() -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(
        description="Measure all methods against the published numbers; write docs/parity.md."
    )
    parser.parse_args()
    DOCUMENT.write_text(document())


if __name__ == "__main__":
    main()
