"""Which methods are controls: they test the tests, and are never ranked (docs/protocols.md, section 11)."""

import re

CONTROLS = (
    "oracle", "random", "inverted", "constant", "position", "frequency", "first_word", "last_word", "recency",
    "random_components",
)  # fmt: skip
"""In the order in which tables show them."""


def control_order(kind: str) -> int:
    """0 for real methods, then the controls in their order; `random_3` is the control `random` with a seed of its own."""
    base = re.sub(r"_\d+$", "", kind)
    return CONTROLS.index(base) + 1 if base in CONTROLS else 0
