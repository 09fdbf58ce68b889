"""Every method beside the published implementation of it: what is compared is data, and the errors are measured.

`python -m tests.methods.parity` measures them all, in float64, and writes `docs/parity.md`; the tests hold every line to the
tolerance. The published numbers lie in `golden/` of the reference data, beside the repository.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark import build, load_model
from benchmark.models import Classifier, PruneHeads
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


# ---- what is read of a method ------------------------------------------------------------------------------------------


def tokens(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method(inputs.model, inputs.batch, inputs.target).tokens
    return found


def patches(method: Any, inputs: Inputs) -> Tensor:
    return tokens(method, inputs)[:, 1:]


def share_of_sum(method: Any, inputs: Inputs) -> Tensor:
    found = tokens(method, inputs)
    return found / found.sum(1, keepdim=True)


def min_max(method: Any, inputs: Inputs) -> Tensor:
    found = patches(method, inputs)
    low, high = found.amin(1, keepdim=True), found.amax(1, keepdim=True)
    return (found - low) / (high - low)


def min_max_of_the_map(method: Any, inputs: Inputs) -> Tensor:
    """Rescaled by the extremes of the clamped map of the last layer over all its cells."""
    found = tokens(method, inputs)
    maps = method.edge_scores(inputs.model, inputs.batch, inputs.target)[:, -1].mean(1).clamp(min=0)
    for row in range(len(found)):
        own = maps[row, : inputs.length(row), : inputs.length(row)]
        found[row] = (found[row] - own.min()) / (own.max() - own.min())
    return found


def every_class(method: Any, inputs: Inputs) -> Tensor:
    """Token scores for each class, [B T C]."""
    classes = range(len(inputs.model.labels))
    chosen = [torch.full_like(inputs.target, target) for target in classes]
    return torch.stack([tokens(method, replace(inputs, target=target)) for target in chosen], dim=-1)


def every_class_without_value_bias(method: Any, inputs: Inputs) -> Tensor:
    """With the biases of all value projections at 0."""
    biases = [value for name, value in inputs.model.model.named_parameters() if name.endswith("self.value.bias")]
    kept = [bias.detach().clone() for bias in biases]
    assert biases
    try:
        for bias in biases:
            bias.data.zero_()
        return every_class(method, inputs)
    finally:
        for bias, before in zip(biases, kept, strict=True):
            bias.data.copy_(before)


def edges(method: Any, inputs: Inputs) -> Tensor:
    """[B L H T T]."""
    found: Tensor = method.edge_scores(inputs.model, inputs.batch, inputs.target)
    return found


def joint_edges(method: Any, inputs: Inputs) -> Tensor:
    """[B L T T] of edge scores that know no heads."""
    return edges(method, inputs).squeeze(2)


def per_attention(method: Any, inputs: Inputs) -> Tensor:
    """Edge scores of which attention is a factor, divided by it and read at the read row: [B L H T]."""
    attention = edges(build("methods/raw_attention"), inputs)
    return (edges(method, inputs) / attention)[:, :, :, 0]


def heads(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method(inputs.model, inputs.batch, inputs.target).heads
    return found


def sum_over_examples(method: Any, inputs: Inputs) -> Tensor:
    return heads(method, inputs).sum(0)


def mean_over_examples(method: Any, inputs: Inputs) -> Tensor:
    return heads(method, inputs).mean(0)


def pruned(ranking: str) -> Read:
    """Logits [B 11 C] as the heads that the script removed are removed, 0 … 100 %."""

    def read(_method: Any, inputs: Inputs) -> Tensor:
        masks = np.load(SHARED / "golden" / "attattr_bert.npz")[f"prune_masks_{ranking}"]
        edits = [PruneHeads(torch.as_tensor(keep)[None].bool()) for keep in masks]
        return torch.stack([inputs.model.run(inputs.batch, edits=[edit]).logits for edit in edits], dim=1)

    return read


def aggregated(method: Any, inputs: Inputs) -> Tensor:
    found: Tensor = method.aggregate_heads(heads(method, inputs))
    return found


# ---- the document ------------------------------------------------------------------------------------------------------


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
    return f"| `{comparison.method}` | {settings} | {source.code} {source.commit}, `{source.file}`: `{key}` |"


def document() -> str:
    """`docs/parity.md`, measured now."""
    from tests.methods.comparisons import COMPARISONS, NOT_COMPARED

    rows = [line(comparison, comparison.errors()) for comparison in COMPARISONS]
    reasons = [f"| {', '.join(f'`{name}`' for name in names)} | {why} |" for why, names in NOT_COMPARED.items()]
    return "\n".join([_HEAD, *rows, _MIDDLE, *reasons, ""])


_HEAD = f"""# What is compared with published code, and to which error

Made by `python -m tests.methods.parity`; every figure is measured. The authors' own code was run elsewhere, in float64, on one
input at a time; the inputs are padded together here, and padding changes nothing. An error is the largest difference
within an input, divided by the largest published magnitude of it; the column holds the worst input. `tests/methods/test_parity.py`
allows {TOLERANCE:.0e}. Settings are those of the method's YAML but for what the second column says.

| method | settings | code, file and key | compared | inputs | worst error |
|---|---|---|---|---|---|"""

_MIDDLE = """
Attribution graphs are the same edge by edge (`tests/test_attribution_graph.py`, YRdddream/attattr f5a7396).

## Not compared with numbers of published code

Each of these equals a slow transcription of its equation, or what its row says, in `tests/replicas`.

| methods | why |
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
