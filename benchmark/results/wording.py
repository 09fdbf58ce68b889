"""How numbers, names, directions and file names are written, the same in every table."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

ABOVE, BELOW = "↑", "↓"
_FINGERPRINT = re.compile(r"-[0-9a-f]{12,}$")
_STEM = 100  # characters; file systems allow 255 bytes, and two names may stand in one


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


def span(values: Iterable[float], told: Callable[[float], str] = str) -> str:
    """`60`, or `58–60` where values differ as they are told; nothing without one."""
    ends = sorted(set(values))
    return "–".join(dict.fromkeys(map(told, ends[:1] + ends[-1:])))


def slug(name: str) -> str:
    """A name as part of a file name: letters, digits, dots and underscores, hyphens for the rest."""
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-")[:_STEM].rstrip("-")


def without_fingerprint(model: str) -> str:
    """A model's name without the digits that tell its weights: `tiny-c99fb17447543bba` is tiny."""
    return _FINGERPRINT.sub("", model)


def unique_stems(stems: Iterable[str]) -> Iterator[str]:
    """Each stem of a file name, with hyphens after it where it is taken; cases that a file system may mix are one."""
    taken: set[str] = set()
    for stem in stems:
        while stem.casefold() in taken:
            stem += "-"
        taken.add(stem.casefold())
        yield stem


def shortened(name: str, letters: int) -> str:
    """A name for a picture, which has no room for a long one."""
    return name if len(name) <= letters else name[: letters - 1] + "…"


_INTERVAL = re.compile(r"\[[-−+.\deNa∞]+, [-−+.\deNa∞]+\](?![\[(:]|\Z)")
_MARKUP = re.compile(
    r"""[\\|*<>`~$#\[\]]       # emphasis, tables, tags, code, strikes, formulas, headings, links
    | &(?=\#?\w+;)               # an entity
    | (?<![^\W_])_ | _(?![^\W_])  # emphasis, but not within a name such as positive_auc
    | (?<=\w):(?=//) | (?<=www)\.(?=\w) | (?<=\w)@(?=\w)  # addresses, which some pages turn into links
    | ^(?:[-+=]+(?=\s|\Z)|\d+(?=[.)](?:\s|\Z)))  # lists and rules, where the text begins a line
    """,
    re.VERBOSE | re.IGNORECASE,
)


def escape_markdown(text: str) -> str:
    """Text that Markdown (and the HTML it allows) shows as it is, also inside a table; intervals stay legible."""
    flat = " ".join(text.split())
    intervals = list(_INTERVAL.finditer(flat))
    ends = [0, *(edge for match in intervals for edge in match.span()), len(flat)]
    pieces = [flat[start:end] for start, end in pairwise(ends)]
    return "".join(piece if place % 2 else _MARKUP.sub(_escaped, piece) for place, piece in enumerate(pieces))


def _escaped(match: re.Match[str]) -> str:
    symbols = match[0]
    return f"&#{ord(symbols[0])};{symbols[1:]}" if symbols[0].isdigit() else "\\" + symbols
