"""The task's classes among the model's: matched by name without regard to case; what the model calls them may be told."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from benchmark.errors import UserError, check_characters
from benchmark.settings.ways_out import typed

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

_SHOWN = 20  # names in a message


def with_labels(model: "Classifier", labels: Sequence[str | int | float | bool] | None) -> "Classifier":
    """The model whose outputs have these names in place of its configuration's (`model.labels`).

    Names enter the fingerprint where they differ from the model's own, since the annotated classes follow from them.

    Args:
        model: the classifier; it shares weights and counters with the result.
        labels: one name for each class, in the order of the logits; None for the model's own.

    Raises:
        UserError: there are not as many names as classes, one occurs twice, or one is the model's own for another class.
    """
    if labels is None:
        return model
    names = () if isinstance(labels, str) else tuple(map(str, labels))
    if len(names) != len(model.labels) or len({name.casefold() for name in names}) != len(names):
        given = labels if isinstance(labels, str) else list(names)
        raise UserError(
            f"model.labels={given}: the model '{model.name}' has {len(model.labels)} classes, which it calls "
            f"{', '.join(model.labels)}; give a list of {len(model.labels)} different names in this order"
        )
    for name in names:
        check_characters(name, f"the name {name!a} of model.labels")
    if names == model.labels:
        return model
    own = _places(map(_key, model.labels))
    if moved := next((name for place, name in enumerate(names) if place not in own.get(_key(name), [place])), None):
        raise UserError(
            f"model.labels={list(names)} calls class {names.index(moved)} {moved}, which is the name of class "
            f"{own[_key(moved)][0]} of the model '{model.name}': its classes are {', '.join(model.labels)}, in this order; "
            "leave out model.labels, or mend id2label in the checkpoint's config.json where its names are wrong"
        )
    told = json.dumps([model.fingerprint, "labels", names])
    return replace(model, labels=names, fingerprint=sha256(told.encode()).hexdigest())


def label_map(model_labels: Sequence[str], task_labels: Sequence[str], model: str) -> list[int]:
    """The model's class for each of a task's labels, matched by name without regard to case; 1.0 is 1.

    A name of several, as synsets have ("goldfish, Carassius auratus"), is matched in whole where the model has it, else by
    its first; where both have further names, one of these must agree too. Classes of one name ("crane" twice) are matched in
    their order where both have as many of them.

    Args:
        model_labels: the model's names in the order of its logits.
        task_labels: the task's names.
        model: its name, for the error.

    Raises:
        UserError: a label is unknown to the model, or names several of its classes; with the settings that say which it is.
    """
    in_whole, by_first = _places(map(_key, model_labels)), _places(map(_first, model_labels))
    found = [
        in_whole.get(_key(label))
        or [place for place in by_first.get(_first(label), []) if _agree(label, model_labels[place])]
        for label in task_labels
    ]
    if missing := [label for label, places in zip(task_labels, found, strict=True) if not places]:
        raise UserError(
            f"label {_listed(missing)} of the task is unknown to the model '{model}': the task has "
            f"[{_listed(map(repr, task_labels))}], the model [{_listed(map(repr, model_labels))}]; "
            f"{_way_out(model_labels, task_labels)}"
        )
    wanted = Counter(map(tuple, found))
    for label, places in zip(task_labels, found, strict=True):
        if len(places) != wanted[tuple(places)]:
            raise UserError(
                f"label {label} of the task names {wanted[tuple(places)]} of its classes and {len(places)} of the model "
                f"'{model}': {_listed(model_labels[place] for place in places)}; tell these apart with model.labels"
            )
    left = {places: iter(places) for places in wanted}
    return [next(left[tuple(places)]) for places in found]


def _places(keys: Iterable[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


def _agree(one: str, other: str) -> bool:
    """Whether further names of two synsets that begin alike have one in common; a name alone leaves it open."""
    first, second = ({_key(name.strip()) for name in label.split(",")[1:]} for label in (one, other))
    return not first or not second or bool(first & second)


def _first(label: str) -> str:
    return _key(label.partition(",")[0].strip())


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")


def _key(label: str) -> str:
    return label.casefold().removesuffix(".0")


def _way_out(model_labels: Sequence[str], task_labels: Sequence[str]) -> str:
    """What to type: names for a table's numbers, or the task's names for the model's classes where both are as many."""
    if list(task_labels) == [str(index) for index in range(len(model_labels))]:
        return (
            f"if {', '.join(task_labels)} mean the model's {', '.join(model_labels)}, in this order, "
            f"add {typed('task.label_names', model_labels)}; else name them in the right order, or use another model.path"
        )
    if len(model_labels) == len(task_labels):
        names = _paired(model_labels, task_labels)
        return (
            f"if the model's {', '.join(model_labels)} mean {', '.join(names)}, in this order, "
            f"add {typed('model.labels', names)}; else name them in the right order, or use another model.path"
        )
    return (
        f"the model has {len(model_labels)} classes: name each in their order with model.labels=[...], the task's labels "
        "among them, or use another model.path"
    )


def _paired(model_labels: Sequence[str], task_labels: Sequence[str]) -> list[str]:
    """The task's label for each of the model's: one that abbreviates the other where all do so, else in the given order."""
    keys = [_key(label) for label in task_labels]
    alike = [
        [task_labels[index] for index, key in enumerate(keys) if key.startswith(name) or name.startswith(key)]
        for name in map(_key, model_labels)
    ]
    found = [names[0] for names in alike if len(names) == 1]
    return found if len(set(found)) == len(model_labels) else list(task_labels)
