"""What checks found: an outcome for each check and model, and the whole as a table, as JSON and as a page."""

import inspect
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from benchmark.errors import printable

Status = Literal["pass", "fail", "property", "not applicable", "not tested"]
"""A *property* is a failure that the class of the method declares (`Method.properties`): it belongs to the method."""

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        words: what was seen, in one sentence.
        gap: how far off it is; None where nothing is measured.
        tolerance: the largest gap of a pass.
        where: the example, layer, head or module that shows it first; empty where nothing is off.
        ok: whether it passes; None: where the gap is at most the tolerance.
        tested: whether there was anything to be seen; without, the outcome is "not tested".
    """

    words: str
    gap: float | None = None
    tolerance: float | None = None
    where: str = ""
    ok: bool | None = None
    tested: bool = True

    @property
    def passes(self) -> bool:
        """Whether the check passes; a gap that is no number does not."""
        if self.ok is not None:
            return self.ok
        return self.gap is None or (self.tolerance is not None and self.gap <= self.tolerance)


@dataclass(frozen=True)
class Outcome:
    """One check on one model.

    Attributes:
        check: its name, as `only=` takes it.
        model: what the method was checked on.
        status: see `Status`.
        words: what was seen; of a property, what the class says of it; else why there is nothing to be seen.
        gap, tolerance, where: of `Finding`.
        seconds: that the check took.
    """

    check: str
    model: str
    status: Status
    words: str
    gap: float | None = None
    tolerance: float | None = None
    where: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """One line: what was checked, on which model, how it ended and why."""
        place = f"{self.where}: " if self.where else ""
        status = "FAIL" if self.status == "fail" else self.status
        return f"{self.check} ({self.model}): {status}: {place}{self.words}"


@dataclass(frozen=True)
class Report:
    """Every outcome of one method, or of one model.

    Attributes:
        name: of what was checked.
        kind: "method" or "model".
        about: its class and the digest of its source; of a model its fingerprint.
        outcomes: in the order in which the checks were made.

    Example:
        >>> report = benchmark.check("gradient_x_input", only=["form", "class"])
        >>> report.ok, [outcome.status for outcome in report.outcomes]
        (True, ['pass', 'pass'])
    """

    name: str
    kind: Literal["method", "model"]
    about: Mapping[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed, and one passed: where nothing could be asked, nothing is known."""
        return self.first is None and any(outcome.status == "pass" for outcome in self.outcomes)

    @property
    def first(self) -> Outcome | None:
        """The first outcome that failed: what stands before it holds, so that it is the place to look at."""
        return next((outcome for outcome in self.outcomes if outcome.status == "fail"), None)

    def of(self, check: str) -> tuple[Outcome, ...]:
        """The outcomes of one check, a model each."""
        return tuple(outcome for outcome in self.outcomes if outcome.check == check)

    def table(self) -> str:
        """A line for each check and model, and what was counted."""
        rows = [("check", "model", "", "gap", "at most", "")]
        rows += [
            (one.check, one.model, one.status, _number(one.gap), _number(one.tolerance), _told(one))
            for one in self.outcomes
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]) for row in rows]
        return "\n".join([f"{self.name}: {self.summary}", "", *(line.rstrip() for line in lines)])

    @property
    def summary(self) -> str:
        """How many outcomes there are of each status, and the first failure."""
        counts = {status: sum(one.status == status for one in self.outcomes) for status in _ORDER}
        said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        return said if self.first is None else f"{said}; first: {self.first}"

    def as_json(self) -> str:
        """The report as `check.schema.json` describes it."""
        return json.dumps(
            {
                "schema": SCHEMA_VERSION,
                "name": self.name,
                "kind": self.kind,
                "about": dict(self.about),
                "versions": versions(),
                "ok": self.ok,
                "checks": [{name: _plain(value) for name, value in asdict(one).items()} for one in self.outcomes],
            },
            indent=2,
            allow_nan=False,
        )

    def as_markdown(self) -> str:
        """The report as a page."""
        lines = [f"# Check of {self.name}", "", f"{self.summary}.", ""]
        lines += [f"- {name}: `{value}`" for name, value in {**self.about, **versions()}.items()]
        lines += ["", "| check | model | outcome | gap | at most | seconds | what was seen |", "|" + "---|" * 7]
        for one in self.outcomes:
            cells = (one.check, one.model, one.status, _number(one.gap), _number(one.tolerance), f"{one.seconds:.1f}")
            told = _told(one).replace("|", "\\|")
            lines.append(f"| {' | '.join(cells)} | {told} |")
        return "\n".join([*lines, ""])

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `check.json` and `check.md` into a folder, which is made where it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / "check.json", folder / "check.md"
        for path, text in zip(written, (self.as_json() + "\n", self.as_markdown()), strict=True):
            path.write_text(text, encoding="utf-8")
        return written

    def __str__(self) -> str:
        """The table."""
        return self.table()


_ORDER: Sequence[Status] = ("pass", "fail", "property", "not applicable", "not tested")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that computed the numbers."""
    named = {name: version(name) for name in ("attention-explainer-benchmark", "torch", "transformers", "numpy")}
    return {"python": platform.python_version(), **named}


def about(value: Any) -> dict[str, str]:
    """The class (or function) of a method and the digest of its source, as far as Python can read it."""
    kind = value if inspect.isfunction(value) else type(value)
    told = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    try:
        told["source_sha256"] = sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        told["source_sha256"] = "unknown: the source cannot be read"
    return told


def _told(one: Outcome) -> str:
    return printable(f"{one.where}: {one.words}" if one.where else one.words)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}" if value else "0"


def _plain(value: Any) -> Any:
    """A value that JSON has; a gap that is no number is told as text."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    return value
