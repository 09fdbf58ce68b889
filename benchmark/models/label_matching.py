"""The task's classes among the model's: matched by name without regard to case; what the model calls them may be told."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from benchmark.errors import UserError
from benchmark.settings.typed import typed

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier


def with_labels(model: "Classifier", labels: Sequence[str | int] | None) -> "Classifier":
    """The model whose outputs have these names in place of its configuration's (`model.labels`).

    Names enter the fingerprint where they differ from the model's own, since the annotated classes follow from them.

    Args:
        model: the classifier; it shares weights and counters with the result.
        labels: one name for each class, in the order of the logits; None for the model's own.

    Raises:
        UserError: there are not as many names as classes, or one occurs twice.
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
    if names == model.labels:
        return model
    told = json.dumps([model.fingerprint, "labels", names])
    return replace(model, labels=names, fingerprint=sha256(told.encode()).hexdigest())


def label_map(model_labels: Sequence[str], task_labels: Sequence[str], model: str) -> list[int]:
    """The model's class for each of a task's labels, matched by name without regard to case; 1.0 is 1.

    Args:
        model_labels: the model's names in the order of its logits.
        task_labels: the task's names.
        model: its name, for the error.

    Raises:
        UserError: a label is unknown to the model; with the settings that say which it is.
    """
    index_of_label = {_key(label): index for index, label in enumerate(model_labels)}
    if missing := [label for label in task_labels if _key(label) not in index_of_label]:
        raise UserError(
            f"label {', '.join(missing)} of the task is unknown to the model '{model}': the task has "
            f"{list(task_labels)}, the model {list(model_labels)}; {_way_out(model_labels, task_labels)}"
        )
    return [index_of_label[_key(label)] for label in task_labels]


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
