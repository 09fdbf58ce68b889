"""Short names for variants of one thing: `attattr (steps=5)`, `attattr (steps=10)` rather than two rows of one name."""

import re
from collections.abc import Hashable, Mapping, Sequence

Facts = Mapping[str, Hashable]


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Each dotted key by its last part, or whole where two keys share it; `readout._target_` is named `readout`."""
    plain = {key: key.removesuffix("._target_") for key in keys}
    last = [name.rsplit(".", 1)[-1] for name in plain.values()]
    return {
        key: (part if last.count(part) == 1 else name) for (key, name), part in zip(plain.items(), last, strict=True)
    }


def _value(key: str, value: Hashable) -> str:
    """A setting's value as a person writes it: short floats, the last part of an import path."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.rsplit(".", 1)[-1] if key.endswith("_target_") else text


def differing_keys(variants: Sequence[Facts]) -> list[str]:
    """The keys, in order of appearance, that are needed to tell the variants apart.

    A key is taken when it separates variants that the keys before it do not; two keys that vary together give one.
    """
    order = list(dict.fromkeys(key for facts in variants for key in facts))
    chosen: list[str] = []
    separated = min(len(variants), 1)
    for key in order:
        parts = len({tuple(facts.get(name) for name in (*chosen, key)) for facts in variants})
        if parts > separated:
            chosen.append(key)
            separated = parts
    return chosen


def distinguish(variants: Sequence[Facts]) -> list[str]:
    """What sets each variant apart from the others, as `key=value, key=value`; empty where nothing does.

    Args:
        variants: one mapping per variant from setting (dotted key) to value; settings most worth showing come first.
    """
    chosen = differing_keys(variants)
    names = _short_names(chosen)
    return [
        ", ".join(f"{names[key]}={_value(key, facts[key])}" for key in chosen if facts.get(key) is not None)
        for facts in variants
    ]


def named(name: str, detail: str) -> str:
    """`name (detail)`, or the name alone where there is no detail."""
    return f"{name} ({detail})" if detail else name


def natural(name: str) -> tuple[tuple[int, float, str], ...]:
    """Sorting key in which numbers inside a name count as numbers: `steps=5` comes before `steps=10`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return tuple((0, float(part), "") if place % 2 else (1, 0.0, part) for place, part in enumerate(parts) if part)
