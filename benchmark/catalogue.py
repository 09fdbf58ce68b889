"""The list of explainers, made from the YAMLs of `conf/methods` and the docstrings of what they name.

`python -m benchmark.catalogue` prints it; the README holds it between two comments, and a test keeps it current.
"""

import argparse
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import OmegaConf

from benchmark.exits import Kept, guarded
from benchmark.settings.configuration import compose, options
from benchmark.settings.defaults import whole

_FACT = re.compile(r"^\s*(Source|Cost): (.+?)\.?\s*$", re.MULTILINE)
_NO_PASS = "no pass"
_NO_PASS_BUT = re.compile(r"^no pass \((.+)\)$")


@dataclass(frozen=True)
class Entry:
    """One explainer of the list.

    Attributes:
        name: of its YAML.
        family: what it scores, and of what kind it is.
        definition: the first line of its docstring, or edge score and readout.
        needs: `gradients`, `forward passes` or `no model`.
        cost: passes per example.
        source: where it is from.
    """

    name: str
    family: str
    definition: str
    needs: str
    cost: str
    source: str


def entries(directory: str | None = None) -> list[Entry]:
    """All explainers by name; with those of one more folder of YAMLs."""
    return sorted(_entries(directory), key=lambda entry: (entry.family, entry.name))


def _entries(directory: str | None) -> Iterator[Entry]:
    names = set(options("methods"))
    if directory is not None:
        names |= {path.stem for path in Path(directory, "methods").glob("*.yaml")}
    for name in names:
        config = compose(None, [f"+methods=[{name}]"], directory).methods[name]
        yield entry(name, whole(OmegaConf.to_container(config, resolve=True)))


def entry(name: str, config: Any) -> Entry:
    """The entry of one configuration.

    Raises:
        ValueError: a class says neither what it costs nor where it is from.
    """
    parts = list(_parts(config))
    found = [(get_object(part["_target_"]), part) for part in parts]
    facts = [dict(_FACT.findall(inspect.getdoc(made) or "")) for made, _ in found]
    for (made, _), own in zip(found, facts, strict=True):
        if missing := {"Source", "Cost"} - set(own):
            raise ValueError(f"the docstring of {made.__name__} lacks a line '{sorted(missing)[0]}: ...'")
    tops = _tops(config)
    own_costs = [own["Cost"] for part, own in zip(parts, facts, strict=True) if any(part is top for top in tops)]
    costs = [_NO_PASS_BUT.sub(r"\1", cost) for cost in own_costs if cost != _NO_PASS]
    return Entry(
        name=name,
        family=_family(parts[0]["_target_"], edges="edges" in config),
        definition=" · ".join(_first_line(made, part) for made, part in found),
        needs=_needs(costs),
        cost="; ".join(dict.fromkeys(costs)) or _NO_PASS,
        source="; ".join(dict.fromkeys(own["Source"] for own in facts)),
    )


def _tops(config: Any) -> list[Any]:
    """A method itself, or its edge score and readout: what has a cost; rule sets are part of one."""
    return [config] if "edges" not in config else [config["edges"], config["readout"]]


def _parts(config: Any) -> Iterator[Any]:
    """What a method is made of: itself, or its edge score and readout; then the parts that these are made of."""
    for part in _tops(config):
        yield part
        yield from (value for value in part.values() if isinstance(value, dict) and "_target_" in value)


def _family(target: str, *, edges: bool) -> str:
    if edges:
        return "edge score × readout"
    return "control" if ".controls." in target else "direct"


def _first_line(made: Any, config: Any) -> str:
    """The docstring's first line, with the settings that the YAML gives."""
    settings = ", ".join(
        f"{key}={value}" for key, value in config.items() if key != "_target_" and isinstance(value, str | int | float)
    )
    first = (inspect.getdoc(made) or "").splitlines()[0].rstrip(".")
    return f"{first} ({settings})" if settings else first


def _needs(costs: Sequence[str]) -> str:
    if any("backward" in cost for cost in costs):
        return "gradients"
    return "forward passes" if costs else "no model"


def markdown(listed: Sequence[Entry]) -> str:
    """The list as a Markdown table, one per family."""
    lines: list[str] = []
    for family in dict.fromkeys(entry.family for entry in listed):
        lines += [
            f"**{family.capitalize()}**",
            "",
            "| name | definition | needs | cost per example | source |",
            "|---" * 5 + "|",
        ]
        for item in listed:
            if item.family == family:
                cells = (f"`{item.name}`", item.definition, item.needs, item.cost, item.source)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description="List all explainers: definition, needs, cost in passes, source.")
    parser.add_argument("--config-dir", help="one more folder of YAMLs, such as DIR/methods/NAME.yaml")
    arguments = parser.parse_args()
    print(markdown(guarded(lambda: entries(arguments.config_dir), Kept("nothing is written"))), end="")


if __name__ == "__main__":
    main()
