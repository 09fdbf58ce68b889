"""`benchmark.explain`: texts in, scores of their words by several methods out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.guard import Look, forget
from benchmark.notebook.choices import choose
from benchmark.notebook.explanation import Explanation, labelled, pictures_of
from benchmark.notebook.given import Inputs, batch_size_of, checked_model, classes
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.explaining import Checked, Explain
from benchmark.types import Attribution, Batch, Method

DEFAULTS = ("attattr", "rollout", "gradient_x_input")


def explain(
    model: Classifier, texts: Any, methods: Any = DEFAULTS, target: Any = None, *, batch_size: int = 16
) -> Explanation:
    """Explain texts with several methods, as a comparison does, without folders.

    Args:
        model: what `benchmark.load_model` returns.
        texts: a text, a pair of texts as a tuple, a mapping of ready ids, an image (PIL, an array, or of a
            model of images the path of a file), or a list of them. The words of a text
            that is split already are a list within the list: `[["a", "fine", "film"]]`.
        methods: names (`benchmark.methods()` lists them), settings of them such as "methods.attattr.edges.steps=5",
            objects that `benchmark.build` makes, functions; or a mapping of names of your own to those. A function takes a
            text and gives one score per word, or takes `(model, batch, target)` and gives an `Attribution`.
        target: the class that is explained: a name, an index, or a list of one for each text. None: the predicted one.
        batch_size: texts explained at once; changes no result beyond rounding.

    Returns:
        The scores, with what cannot be said and why: a method that cannot serve is a dash with the reason.

    Raises:
        UserError: a name, a setting or a class that does not exist, or a function that gives something else than scores.

    Example:
        >>> def letters(text):
        ...     return [len(word) for word in text.split()]
        >>> explanation = benchmark.explain(model, "a fine film", methods=["position", letters, "oracle"])
        >>> explanation.table().round(2)
              position  letters  oracle
        word
        a         0.00      1.0     NaN
        fine     -0.33      4.0     NaN
        film     -0.67      4.0     NaN
        >>> explanation.reasons
        {'oracle': 'the task has no rationales'}
    """
    model, size = checked_model(model), batch_size_of(batch_size)
    inputs = Inputs.of(texts, images=model.encoder.patch is not None)
    batch = model.encode(inputs.values)
    given = None if target is None else classes(model, target, len(batch), "target")
    chosen = choose("methods", methods, dict(zip(batch.uids, inputs.values, strict=True)))
    attributions: dict[str, Attribution] = {}
    reasons: dict[str, str] = {}
    rows = range(len(batch))
    parts = [batch.select(rows[start : start + size]) for start in rows[::size]]
    with repeatable(model):
        logits = torch.cat([model.run(part).logits for part in parts])
        explained = logits.argmax(-1) if given is None else given
        for name, method in chosen.items():
            try:
                attributions[name] = _explained(model, name, method, batch, parts, explained)
            except NotApplicable as answer:
                reasons[name] = str(answer)
    return Explanation(
        batch=batch,
        words=labelled(model, batch),
        classes=model.labels,
        probabilities=model.probabilities(logits.detach().double()).cpu(),
        target=explained.cpu(),
        methods=tuple(chosen),
        attributions=attributions,
        reasons=reasons,
        single=inputs.single,
        pictures=pictures_of(model, batch),
    )


def _explained(
    model: Classifier, name: str, method: Method, batch: Batch, parts: list[Batch], target: Int[Tensor, "B"]
) -> Attribution:
    """The attribution of the whole batch, explained part by part; ModelChangedError where the method changed the model."""
    stored, start, before, explain_part = list[Ragged](), 0, Look(model), Explain(Checked(name, method))
    for part in parts:
        stored.append(explain_part(model, part, target[start : start + len(part)].clone()))
        start += len(part)
    before.check(f"methods.{name}")
    return padded(Ragged.merge(stored), 0, batch)


@contextmanager
def repeatable(model: Classifier) -> Iterator[None]:
    """Methods draw as in a comparison, and the caller's random numbers go on as if nothing had been drawn."""
    forget(model)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield
