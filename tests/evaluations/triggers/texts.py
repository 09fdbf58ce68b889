"""Source texts of the tests of triggers; the tiny model is set so that it has both classes among them."""

from dataclasses import replace

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
