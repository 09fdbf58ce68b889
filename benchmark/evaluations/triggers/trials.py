"""Try triggers on labelled examples: the attacks that they stand for, what is still classified correctly, and figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.evaluations.base import SIGNED, Rows, correctness, described, higher
from benchmark.evaluations.triggers.insertion import Encoded, Inserted, encode, insert
from benchmark.evaluations.triggers.patterns import Trigger, Variations
from benchmark.evaluations.triggers.script import encode_pieces, insert_pieces
from benchmark.models import Classifier
from benchmark.models.variants import chunks, take
from benchmark.results.graph import Construction
from benchmark.results.record import Metric
from benchmark.types import Batch

_FALL = "fall of accuracy when a method's triggers are inserted into texts"
_drop = partial(described, bounds=SIGNED)
_CURVES = {
    "position": _drop("accuracy drop by position", f"{_FALL}, all at this position", x="relative position"),
    "tau": _drop("accuracy drop by threshold", f"{_FALL}, with triggers of this threshold", x="threshold"),
    "pairs": _drop("accuracy drop by edges", f"{_FALL}, with triggers of so many attention edges", x="inserted pairs"),
}


@dataclass(frozen=True)
class Attack:
    """One kind of insertion: the metric that it is counted in, what is inserted, and where on the metric's x axis."""

    metric: str
    inserted: Sequence[Trigger]
    x: float | None = None


def attacks_of(triggers: Sequence[Trigger], positions: Sequence[float | int], variations: Variations) -> list[Attack]:
    """The triggers themselves, their controls, the triggers at each position, and those of other rules."""
    attacks = [Attack("accuracy_drop", tuple(triggers))]
    for name in ("random", "matched"):
        inserted = tuple(trigger.saying(words) for trigger in triggers for words in getattr(trigger, name))
        attacks.append(Attack(f"{name}_drop", inserted))
    attacks += [Attack("drop_at_position", tuple(t.at(p) for t in triggers), x=float(p)) for p in positions]
    return attacks + [Attack(metric, others, x=x) for metric, curve in variations.items() for x, others in curve]


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


def drop_metrics(curves: Sequence[str], *, of_source: bool) -> Mapping[str, Metric]:
    """What is declared of the figures of `rows_of_drops`.

    Args:
        curves: which of `position`, `tau` and `pairs` are varied.
        of_source: whether triggers attack texts of the class that they come from, too.
    """
    metrics = {
        "accuracy_drop": higher("accuracy drop by triggers", _FALL, short="trigger drop", bounds=SIGNED, headline=True),
        "success": higher(
            "success of triggers",
            "share of the correctly classified examples that the triggers turn",
            short="trigger succ.",
        ),
        "advantage": higher(
            "accuracy drop over random words",
            "accuracy drop by triggers less that by random words at the same places",
            short="over random",
            bounds=(-2.0, 2.0),
        ),
        "random_drop": _drop(
            "accuracy drop by random words",
            "fall of accuracy when random words are inserted at the same places",
            short="random drop",
        ),
        "matched_drop": _drop(
            "accuracy drop by words of equal frequency",
            "fall of accuracy when words of similar frequency are inserted at the same places",
            short="matched drop",
        ),
        "accuracy_drop_class": _drop(
            "accuracy drop by class", f"{_FALL} of this class", x="class of the attacked examples", scale="class"
        ),
        "drop_of_trigger": _drop("accuracy drop by trigger", f"{_FALL}, each by itself", x="trigger", scale="nominal"),
        **{f"drop_{'of' if name == 'pairs' else 'at'}_{name}": _CURVES[name] for name in curves},
    }
    if of_source:
        for name, whose in (("own_class_drop", "the trigger's own class"), ("other_class_drop", "the other classes")):
            metrics[name] = _drop(f"accuracy drop, {whose}", f"{_FALL} of {whose}")
    return metrics


def rows_of_drops(
    batch: Batch,
    attacks: Sequence[Attack],
    drops: Float[Tensor, "B P"],
    attacked: Bool[Tensor, "B P"],
    before: Float[Tensor, "B"],
    of_source: Bool[Tensor, "B K"] | None,
) -> pd.DataFrame:
    """One row per example and figure.

    Args:
        batch: the attacked examples.
        attacks: what was inserted; the first is the K triggers themselves.
        drops: of each insertion, in the order of the attacks.
        attacked: whether the insertion attacks the example.
        before: 1 where the example is classified correctly without an insertion, else 0.
        of_source: whether the example is of the class that the trigger comes from; None where no trigger attacks that.
    """
    rows, start = Rows(batch.uids), 0
    means: dict[str, tuple[Tensor, Tensor]] = {}
    for attack in attacks:
        at = slice(start, start + len(attack.inserted))
        start = at.stop
        mean, defined = _mean(drops[:, at], attacked[:, at])
        rows.add(attack.metric, mean, x=None if attack.x is None else [attack.x], defined=defined)
        means.setdefault(attack.metric, (mean, defined))
    real, defined = means["accuracy_drop"]
    rows.add("success", real, defined=defined & (before != 0))
    random, has_random = means["random_drop"]
    rows.add("advantage", real - random, defined=defined & has_random)
    count = len(attacks[0].inserted)
    rows.add("drop_of_trigger", drops[:, :count], x=range(count), defined=attacked[:, :count])
    if of_source is not None:
        for metric, chosen in (("own_class_drop", of_source), ("other_class_drop", ~of_source)):
            mean, defined_of_class = _mean(drops[:, :count], attacked[:, :count] & chosen)
            rows.add(metric, mean, defined=defined_of_class)
    rows.add("accuracy_drop_class", real, defined=defined)
    frame = rows.frame()
    classes = dict(zip(batch.uids, batch.label.tolist(), strict=True))
    by_class = frame["metric"] == "accuracy_drop_class"
    return frame.assign(x=frame["x"].where(~by_class, frame["uid"].map(classes).astype(float)))


def _mean(drops: Float[Tensor, "B P"], attacked: Bool[Tensor, "B P"]) -> tuple[Float[Tensor, "B"], Bool[Tensor, "B"]]:
    """The mean over the triggers that attack, and whether there is any."""
    total = torch.where(attacked, drops, 0.0).sum(1)
    return total / attacked.sum(1).clamp(min=1), attacked.any(1)
