"""Source texts and edge scores of the tests of triggers; the tiny model is set so that it has both classes among them."""

from dataclasses import replace

import torch

from benchmark.types import Batch

TEXTS = [
    "the untoldly film was a plot", "a story was the dull film", "good plot , the fine film was good", "bad",
    "the story was untoldly a film", "a dull dull plot was the story",
]  # fmt: skip


def labelled(model, wrong=()) -> Batch:
    """The texts with the labels that the model gives them, but for those in `wrong`."""
    batch = model.encode(TEXTS)
    label = model.predict(batch)
    assert set(label.tolist()) == {0, 1}
    label[list(wrong)] = 1 - label[list(wrong)]
    return replace(batch, label=label)


def edges(batch, cells):
    """Zero but for `(row, layer, head, query, key): score`; two layers of two heads."""
    width = batch.units.shape[1]
    found = torch.zeros(len(batch), 2, 2, width, width, dtype=torch.float64)
    for cell, score in cells.items():
        found[cell] = score
    return found
