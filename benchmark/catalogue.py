"""The list of explainers, and of what is compared with them, from the YAMLs of `conf/methods` and docstrings.

`python -m benchmark.catalogue` prints it; `docs/methods.md` holds it between two comments, and a test keeps it current.
"""

import argparse
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hydra.utils import get_object
from omegaconf import OmegaConf

from benchmark.errors import UserError
from benchmark.exits import Kept, guarded
from benchmark.settings.configuration import compose, options
from benchmark.settings.defaults import whole
from benchmark.settings.docstrings import Docstring
from benchmark.working_folder import own_classes_importable, own_modules_first

_FACT = re.compile(r"^\s*(Source|Cost): (.+?)\.?\s*$", re.MULTILINE)
_NO_PASS = "no pass"
_NO_PASS_BUT = re.compile(r"^no pass \((.+)\)$")


@dataclass(frozen=True)
class Entry:
    """One explainer of the list.

    Attributes:
        name: of its YAML.
        family: what it scores, and of what kind it is.
        definition: what its docstring says first, or those of edge score and readout.
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
    """All explainers, by family and name; with those of one more folder of YAMLs."""
    names = ",".join(options("methods", directory))
    methods = OmegaConf.to_container(compose(None, [f"+methods=[{names}]"], directory).methods, resolve=True)
    listed = [entry(name, whole(config)) for name, config in cast(dict[str, Any], methods).items()]
    return sorted(listed, key=lambda item: (item.family, item.name))


def entry(name: str, config: Any) -> Entry:
    """The entry of one configuration.

    Raises:
        UserError: a class says neither what it costs nor where it is from.
    """
    parts = list(_parts(config))
    facts = [_facts(part) for part in parts]
    stated_costs = [_facts(top)["Cost"] for top in _tops(config)]
    costs = [_NO_PASS_BUT.sub(r"\1", cost) for cost in stated_costs if cost != _NO_PASS]
    return Entry(
        name=name,
        family=_family(parts[0]["_target_"], edges="readout" in config),
        definition=" · ".join(said["Definition"] + _settings(part) for part, said in zip(parts, facts, strict=True)),
        needs=_needs(costs),
        cost="; ".join(dict.fromkeys(costs)) or _NO_PASS,
        source="; ".join(dict.fromkeys(said["Source"] for said in facts)),
    )


def _facts(part: Any) -> dict[str, str]:
    """Definition (the first line), source and cost, as the docstring of a part's class or function says them.

    Where a setting has the value of a block `With layer=mean:`, those of the block.

    Raises:
        UserError: the docstring lacks source or cost.
    """
    target = get_object(part["_target_"])
    said = Docstring.of(inspect.getdoc(target) or "")
    facts: dict[str, str] = {}
    for lines in (said.text, *said.holding(part)):
        facts |= {"Definition": lines.strip().partition("\n")[0].rstrip("."), **dict(_FACT.findall(lines))}
    if missing := {"Source", "Cost"} - set(facts):
        raise UserError(
            f"the docstring of {target.__module__}.{target.__name__} lacks a line '{sorted(missing)[0]}: ...'"
        )
    return facts


def _tops(config: Any) -> list[Any]:
    """What has a cost: a method itself, or its edge score and readout. Rule sets are part of one of them."""
    return [config["edges"], config["readout"]] if "readout" in config else [config]


def _parts(config: Any) -> Iterator[Any]:
    """What a method is made of: itself, or its edge score and readout; then the parts that these are made of."""
    for top in _tops(config):
        yield top
        yield from (value for value in top.values() if isinstance(value, dict) and "_target_" in value)


def _family(target: str, *, edges: bool) -> str:
    if edges:
        return "edge score × readout"
    if target.startswith("benchmark."):
        return "search"
    if target.startswith("methods.circuits."):
        return "control" if target.endswith(".RandomComponents") else "components"
    return "control" if ".controls." in target else "direct"


def _settings(config: Any) -> str:
    """The settings in brackets."""
    shown = {
        key: f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value for key, value in config.items()
    }
    listed = [
        f"{key}={value}" for key, value in shown.items() if key != "_target_" and isinstance(value, str | int | float)
    ]
    return f" ({', '.join(listed)})" if listed else ""


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
    own_modules_first()
    own_classes_importable()
    main()
