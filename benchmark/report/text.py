"""How numbers, directions and file names are written, the same in every table."""

import math
import re

ABOVE, BELOW = "↑", "↓"


def number(value: float) -> str:
    """Three decimals; fewer where the number is large, powers of ten where it would be rounded to nothing."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("-∞" if value < 0 else "∞")
    size = abs(value)
    if 0 < size < 0.0005:
        return f"{value:.1e}"
    if size >= 10_000:
        return f"{value:.3g}"
    value += 0.0  # no "-0.000"
    return f"{value:.{3 if size < 10 else 2 if size < 100 else 1}f}"


def bounds(low: float, high: float) -> str:
    """`[low, high]`, or nothing where there is no interval."""
    return f"[{number(low)}, {number(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def arrow(higher_is_better: bool | None) -> str:  # noqa: FBT001 - the metric's own declaration
    """↑ where higher is better, ↓ where lower is, nothing for a descriptive metric."""
    return {True: ABOVE, False: BELOW, None: ""}[higher_is_better]


def slug(name: str) -> str:
    """A name as part of a file name: letters, digits, dots and underscores, hyphens for the rest."""
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-")
