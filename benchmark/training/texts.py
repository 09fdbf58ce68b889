"""The texts of examples that a model is trained on."""

from benchmark.errors import UserError
from benchmark.types import Example


def texts_of(example: Example) -> tuple[str, ...]:
    """The text of an example, or the two of a pair, words joined by spaces; UserError where it holds anything else."""
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    texts = tuple(part if isinstance(part, str) else " ".join(part) for part in parts if isinstance(part, str | list))
    if len(texts) != len(parts):
        raise UserError(
            f"example '{example.uid}' holds no text to train on; use model=hf with a finished model.path=..."
        )
    return texts
