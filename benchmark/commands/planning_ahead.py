"""A plan from the command line: what a comparison would take, as a table, before anything of it runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig

from benchmark.commands.arguments import read_arguments
from benchmark.commands.running import looked_at as looked_at_comparison
from benchmark.errors import UserError
from benchmark.exits import Kept, guarded
from benchmark.progress import step

PAGE = """\
What a comparison would take, before it runs: passes, seconds, memory and disk of each method, and seconds by worker count.

usage: {program} [SETTING=VALUE ...]

The settings are those of the comparison. A few of its examples are explained and tested in a temporary folder; the plan
is kept in OUT/plans, and the comparison's folder then shows what was planned beside what was taken (plan.md).

Flags
  --config-dir DIR     a folder with YAMLs of your own, such as DIR/methods/NAME.yaml

Examples
  {program}
  {program} methods=[rollout,transformer_attribution] evaluations=[perturbation] limit=50\
"""


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]
def plan(config: DictConfig) -> None:
    """Plan one comparison and print the table."""
    guarded(lambda: _plan(config), Kept("no plan is kept", Path(str(config.get("out")))))


def looked_at(words: Sequence[str]) -> tuple[list[str], DictConfig | None]:
    """The command line as Hydra takes it, and its configuration, after the look for mistakes that a comparison gets.

    Raises:
        UserError: the first mistake.
    """
    if read_arguments(words).sweep:
        raise UserError("-m: a plan is of one comparison; leave out -m, and give each setting one value")
    return looked_at_comparison(words)


def _plan(config: DictConfig) -> None:
    from benchmark.progress.bar import shown

    with shown():
        with step("starting"):  # torch and transformers take seconds to import
            from benchmark.planning.planner import make_plan
            from benchmark.planning.printed_plan import printed_plan
        made = make_plan(config)
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140).print(printed_plan(made))
