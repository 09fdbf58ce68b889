"""Try triggers on labelled examples: which examples each attacks, and which are still classified correctly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.evaluations.base import correctness
from benchmark.evaluations.triggers.insertion import Encoded, Inserted, encode, insert
from benchmark.evaluations.triggers.patterns import Trigger
from benchmark.evaluations.triggers.script_insertion import encode_pieces, insert_pieces
from benchmark.models import Classifier
from benchmark.models.variants import chunks, take
from benchmark.results.graph import Construction
from benchmark.types import Batch


@dataclass(frozen=True)
class Insertion:
    """How triggers are spelled in a model's tokens, and put into texts."""

    encode: Callable[[Classifier, Sequence[Trigger]], Encoded]
    insert: Callable[[Classifier, Mapping[str, Tensor], Tensor, Encoded], Inserted]


INSERTIONS: Mapping[Construction, Insertion] = {
    "paper": Insertion(encode, insert),
    "script": Insertion(encode_pieces, insert_pieces),
}
"""Whole words at relative positions, or word pieces inserted as the published script does."""


def check_classes(model: Classifier, triggers: Sequence[Trigger], setting: str) -> None:
    """UserError naming `setting` where the model does not have a class that a trigger attacks."""
    for label in sorted({label for trigger in triggers for label in trigger.attacks}):
        if label.casefold() not in _index_of_class(model):
            raise UserError(f"{setting}: class {label} is unknown to the model, which has {list(model.labels)}")


def _index_of_class(model: Classifier) -> dict[str, int]:
    """The model's index of each class, in lower case."""
    return {label.casefold(): index for index, label in enumerate(model.labels)}


def attacked(model: Classifier, triggers: Sequence[Trigger], batch: Batch) -> Bool[Tensor, "B P"]:
    """Which labelled examples each trigger attacks; UserError where the model does not have the triggers' classes."""
    check_classes(model, triggers, "the stored file of triggers")
    return _labelled_as(model, [trigger.attacks for trigger in triggers], batch)


def of_source_class(model: Classifier, triggers: Sequence[Trigger], batch: Batch) -> Bool[Tensor, "B P"]:
    """Which labelled examples are of the class that each trigger comes from."""
    return _labelled_as(model, [(trigger.source,) for trigger in triggers], batch)


def _labelled_as(model: Classifier, labels: Sequence[Sequence[str]], batch: Batch) -> Bool[Tensor, "B P"]:
    """Which labelled examples are of a class in each of P lists; classes that the model does not have are left out."""
    index_of_class = _index_of_class(model)
    of_lists = torch.zeros(len(model.labels), len(labels), dtype=torch.bool, device=batch.label.device)
    for index, names in enumerate(labels):
        of_lists[[index_of_class[name.casefold()] for name in names if name.casefold() in index_of_class], index] = True
    return of_lists[batch.label.clamp(min=0)] & (batch.label >= 0)[:, None]


def correct_with(
    model: Classifier,
    batch: Batch,
    triggers: Sequence[Trigger],
    is_attacked: Bool[Tensor, "B P"],
    construction: Construction,
) -> Float[Tensor, "B Q"]:
    """1 where an example is classified correctly, else 0: with each of P triggers, and last with none.

    NaN where a trigger does not attack the example.
    """
    insertion = INSERTIONS[construction]
    correct = torch.full((len(batch), len(triggers) + 1), torch.nan, dtype=torch.float64, device=is_attacked.device)
    encoded = _with_nothing(insertion.encode(model, triggers))
    no_insertion = torch.ones_like(is_attacked[:, :1])
    example, place = torch.cat([is_attacked, no_insertion], dim=1).nonzero(as_tuple=True)
    lengths = batch.attention_mask.sum(1)[example] + encoded.present.sum(1)[place]
    for rows in chunks(lengths.clamp(max=model.window), model):
        tensors, units = take(batch, example[rows])
        logits = model.run(insertion.insert(model, tensors, units, encoded[place[rows]]).tensors).logits
        correct[example[rows], place[rows]] = correctness(logits, batch.label[example[rows]])
    return correct


def _with_nothing(encoded: Encoded) -> Encoded:
    """The triggers and, last, an insertion of nothing."""
    columns = {name: torch.cat([value, torch.zeros_like(value[:1])]) for name, value in vars(encoded).items()}
    return Encoded(**columns)
