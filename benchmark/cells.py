"""One cell of a comparison: explain with one method, test, and keep everything in its run folder."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark import store
from benchmark.checkpoints import Stage
from benchmark.errors import NotApplicable
from benchmark.explaining import class_order, edge_sums, for_classes, for_target
from benchmark.models import Classifier
from benchmark.store import Ragged
from benchmark.stored import flat, padded
from benchmark.types import Attribution, Batch, EdgeMethod, Evaluation, Method, PreparedEvaluation, Reads, Target, over

logger = logging.getLogger(__name__)


@dataclass
class Data:
    """The encoded examples of one task and model, and what all methods share.

    Attributes:
        batches: the scored examples.
        calibration: encodes the first n examples of another split, for head importance.
        facts: what `record.json` says of task, split, limit and seed.
        labels: class names as the task spells them.
    """

    batches: Sequence[Batch]
    calibration: Callable[[str, int], Sequence[Batch]]
    facts: Mapping[str, Any]
    labels: tuple[str, ...]
    _logits: dict[int, Tensor] = field(default_factory=dict)

    def start(self, index: int) -> int:
        """Number of examples before a batch."""
        return sum(len(batch) for batch in self.batches[:index])

    def target(self, model: Classifier, index: int, which: Target) -> Int[Tensor, "B"]:
        """The predicted or the annotated class of each example of a batch."""
        batch = self.batches[index]
        if which == "label":
            if bool((batch.label < 0).any()):
                raise NotApplicable("some examples have no label")
            return batch.label
        return self.logits(model, index).argmax(-1)

    def logits(self, model: Classifier, index: int) -> Float[Tensor, "B C"]:
        """Logits of a batch, computed once for all methods."""
        if index not in self._logits:
            self._logits[index] = model.run(self.batches[index]).logits
        return self._logits[index]


def versions(value: Any) -> Any:
    """Class names and versions of an object and of the dataclasses it is made of; they enter the hash."""
    if isinstance(value, Mapping):
        inside = {str(name): part for name, item in value.items() if (part := versions(item)) is not None}
        return inside or None
    if not is_dataclass(value):
        return None
    parts = {f.name: versions(getattr(value, f.name)) for f in fields(value)}
    own = f"{type(value).__module__}.{type(value).__qualname__}@{getattr(value, 'version', 0)}"
    return [own, {name: part for name, part in parts.items() if part is not None}]


@dataclass(frozen=True)
class Cell:
    """Computes and stores one method's attributions and test rows.

    Attributes:
        folder: the run folder; its name ends in the hash of everything that the attributions depend on.
        name: the method's name.
        method: the explainer.
        model: the classifier.
        data: the examples.
        identity: what the hash covers, for the record.
        config: the method's configuration, for `config.yaml`.
        checkpoint_seconds: least time between two parts of an unfinished stage.
    """

    folder: Path
    name: str
    method: Method
    model: Classifier
    data: Data
    identity: Mapping[str, Any]
    config: Mapping[str, Any]
    checkpoint_seconds: float

    def explain(self, which: Target) -> Ragged:
        """Attributions of all scored examples for the predicted or the annotated class; reused where they are stored."""
        base = self.explain("predicted") if which == "label" else None

        def compute(index: int) -> Ragged:
            batch, target = self.data.batches[index], self.data.target(self.model, index, which)
            known = None if base is None else padded(base, self.data.start(index), batch)
            return self._attribute(batch, target, known)

        return self._attributions(f"attributions-{which}", self.data.batches, compute)

    def head_importance(self, calibration: Any, which: Target) -> Tensor:
        """Importance of each head [L H]: the mean over the calibration examples, explained for their labels.

        A method that combines examples in another way says so with `aggregate_heads([N L H]) -> [L H]`.
        """
        return self.aggregate(self.head_scores(calibration, which))

    def head_scores(self, calibration: Any, which: Target) -> Float[Tensor, "N L H"]:
        """Head scores of each calibration example (`same`: of each scored one).

        Raises:
            NotApplicable: the method does not score heads.
        """
        if calibration == "same":
            stored = self.explain(which)
        else:
            batches = self.data.calibration(calibration.split, calibration.examples)
            name = f"attributions-calibration-{calibration.split}-{calibration.examples}"
            stored = self._attributions(name, batches, lambda i: self._attribute(batches[i], batches[i].label))
        if "heads" not in stored.arrays:
            raise NotApplicable("the method does not score heads")
        return torch.as_tensor(stored.arrays["heads"])

    def aggregate(self, scores: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Importance from the scores of several examples: their mean, or what the method says."""
        rule = getattr(self.method, "aggregate_heads", lambda heads: heads.mean(0))
        importance: Tensor = rule(scores)
        return importance

    def edges(self, which: Target) -> Ragged:
        """Edge scores of all scored examples, summed over heads; reused where they are stored.

        Raises:
            NotApplicable: the method does not score edges.
        """
        method = self.method
        if not isinstance(method, EdgeMethod):
            raise NotApplicable("the method does not score edges")

        def compute(index: int) -> Ragged:
            batch, target = self.data.batches[index], self.data.target(self.model, index, which)
            return self._measured(batch, lambda: edge_sums(method, self.model, batch, target))

        return self._attributions(f"edges-{which}", self.data.batches, compute)

    def classes(self) -> Ragged:
        """Token scores of all scored examples for the most probable classes (`class_order`); reused where stored.

        Raises:
            NotApplicable: the method gives no token scores, or the model has a single class.
        """
        base = self.explain("predicted")

        def compute(index: int) -> Ragged:
            batch, order = self.data.batches[index], class_order(self.data.logits(self.model, index))
            known = padded(base, self.data.start(index), batch)
            return self._measured(batch, lambda: for_classes(self.method, self.model, batch, order, known))

        return self._attributions("classes", self.data.batches, compute)

    def test(self, evaluation: Evaluation) -> pd.DataFrame:
        """Rows of one evaluation; raises NotApplicable where it cannot serve.

        They are kept among the parts until the whole cell is finished.
        """
        identity = evaluation_digest(evaluation)[:16]
        path = self.folder / "parts" / f"rows-{identity}.parquet"
        columns = ("uid", "metric", "x", "value")
        if path.exists():
            return store.read_table(path, columns)
        rows_of = self._readers[evaluation.reads](over(evaluation, self.data.batches))
        stage = Stage[pd.DataFrame](
            folder=self._parts(f"rows-{identity}", self.data.batches),
            suffix=".parquet",
            write=lambda rows, part: store.write_table(part, rows),
            read=lambda part: store.read_table(part, columns),
            merge=lambda parts: pd.concat(parts, ignore_index=True),
            seconds=self.checkpoint_seconds,
        )
        rows = stage.run(len(self.data.batches), rows_of, f"{self.name}: {type(evaluation).__name__}")
        store.write_table(path, rows)
        return rows

    @property
    def _readers(self) -> Mapping[Reads, Callable[[Any], Callable[[int], pd.DataFrame]]]:
        return {
            "tokens": lambda evaluation: self._rows_of_stored(evaluation, self.explain(evaluation.target)),
            "classes": lambda evaluation: self._rows_of_stored(evaluation, self.classes()),
            "edges": lambda evaluation: self._rows_of_stored(evaluation, self.edges(evaluation.target)),
            "heads": self._rows_of_heads,
            "method": self._rows_of_prepared,
        }

    def _rows_of_stored(self, evaluation: Evaluation, stored: Ragged) -> Callable[[int], pd.DataFrame]:
        def compute(index: int) -> pd.DataFrame:
            batch = self.data.batches[index]
            return evaluation.rows(self.model, batch, padded(stored, self.data.start(index), batch))

        return compute

    def _rows_of_prepared(self, evaluation: PreparedEvaluation) -> Callable[[int], pd.DataFrame]:
        """The artifact that the evaluation takes from the method is made once, and kept beside the attributions."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(evaluation).__name__).lower()
        path = self.folder / f"{name}-{evaluation_digest(evaluation)[:8]}.json"
        if not path.exists():
            batches = self.data.calibration(evaluation.calibration.split, evaluation.calibration.examples)
            store.write_json(path, evaluation.extract(self.model, self.method, batches))
        prepared = evaluation.restored(store.read_json(path))

        def compute(index: int) -> pd.DataFrame:
            target = self.data.target(self.model, index, evaluation.target)
            return prepared.rows(self.model, self.data.batches[index], Attribution(target=target))

        return compute

    def _rows_of_heads(self, evaluation: Evaluation) -> Callable[[int], pd.DataFrame]:
        calibration = getattr(evaluation, "calibration", "same")
        own = calibration == "each"
        if own:
            importance = torch.stack([self.aggregate(row[None]) for row in self.head_scores("same", evaluation.target)])
        else:
            importance = self.head_importance(calibration, evaluation.target)

        def compute(index: int) -> pd.DataFrame:
            batch = self.data.batches[index]
            target = self.data.target(self.model, index, evaluation.target)
            start = self.data.start(index)
            heads = importance[start : start + len(batch)] if own else importance.expand(len(batch), -1, -1)
            heads = heads.to(batch.units.device)
            return evaluation.rows(self.model, batch, Attribution(target=target, heads=heads))

        return compute

    def _attributions(self, name: str, batches: Sequence[Batch], compute: Callable[[int], Ragged]) -> Ragged:
        path = self.folder / f"{name}.safetensors"
        if path.exists():
            stored = Ragged.read(path)
            if stored.uids != tuple(uid for batch in batches for uid in batch.uids):
                raise store.corrupt(path, "it holds other examples than this comparison asks for")
            return stored
        stage = Stage[Ragged](
            folder=self._parts(name, batches),
            suffix=".safetensors",
            write=lambda ragged, part: ragged.write(part),
            read=Ragged.read,
            merge=Ragged.merge,
            seconds=self.checkpoint_seconds,
        )
        result = stage.run(len(batches), compute, f"{self.name}: explain")
        result.write(path)
        stage.clear()
        return result

    def _parts(self, stage: str, batches: Sequence[Batch]) -> Path:
        cut = store.digest([len(batch) for batch in batches])[:8]
        return self.folder / "parts" / f"{stage}-{cut}"

    def _attribute(self, batch: Batch, target: Tensor, known: Attribution | None = None) -> Ragged:
        if known is None:
            return self._measured(batch, lambda: self.method(self.model, batch, target))
        return self._measured(batch, lambda: for_target(self.method, self.model, batch, target, known))

    def _measured(self, batch: Batch, compute: Callable[[], Attribution]) -> Ragged:
        """What `compute` gives, with its cost."""
        torch.manual_seed(0)  # for methods that draw from the global generator: the same after a restart
        before, start = replace(self.model.cost), time.perf_counter()
        attribution = compute().cpu()
        cost = {
            "seconds": time.perf_counter() - start + self.model.cost.remembered_seconds - before.remembered_seconds,
            "forward_passes": self.model.cost.forward_passes - before.forward_passes,
            "backward_passes": self.model.cost.backward_passes - before.backward_passes,
        }
        return flat(batch, attribution, cost)


def evaluation_digest(evaluation: Evaluation) -> str:
    """Digest of an evaluation's class, version and settings; stored figures with another digest are computed again."""
    settings = asdict(evaluation) if is_dataclass(evaluation) else vars(evaluation)
    return store.digest([type(evaluation).__qualname__, evaluation.version, settings])
