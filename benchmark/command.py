"""What the commands share: settings checked before Hydra sees them, one line for a mistake, logging, the final table."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig

from benchmark.errors import UserError, near, printable
from benchmark.exits import Kept, guarded, on_termination
from benchmark.settings.configuration import ALL, KEYED, check, offer_all, options, settled

GROUPS = ("task", "model", "methods", "evaluations", "analyses", "tracking", "experiment")
_VALUED = ("--cfg", "-c", "--package", "-p")
"""Flags of Hydra whose value is a word of its own, beside that of the folder."""


def prepare(arguments: Sequence[str], config_name: str) -> tuple[list[str], DictConfig | None]:
    """The command line as Hydra takes it, and its configuration.

    The configuration is None where a flag asks Hydra for more than to compose it. A mistake in an override is one line, and
    not Hydra's page.

    Raises:
        UserError: an option, key, value or folder does not exist.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # the runner says once what every batch would say of lost words
    libraries = ("transformers", "datasets", "httpx", "httpcore", "matplotlib", "fontTools", "absl")
    for noisy in ("benchmark.models.encoding", *libraries):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    named_directory = _config_directory(arguments)
    directory = None if named_directory is None else str(Path(named_directory).absolute())
    if directory is not None and not Path(directory).is_dir():
        raise UserError(f"--config-dir={directory} is no folder; give one that holds YAMLs such as methods/NAME.yaml")
    if any(argument in ("--help", "-h", "--version", "--hydra-help") for argument in arguments):
        offer_all(directory)  # which composing does for itself
        return list(arguments), None
    values = {named_directory, *(value for flag, value in pairwise(arguments) if flag in _VALUED)}
    overrides = [argument for argument in arguments if not argument.startswith("-") and argument not in values]
    flags = [argument for argument in arguments if argument not in overrides]
    chosen, config = checked(config_name, overrides, directory, sweep=bool({"-m", "--multirun"} & {*arguments}))
    composed_alone = all(flag == named_directory or flag.partition("=")[0] in ("--config-dir", "-cd") for flag in flags)
    return [*flags, *chosen], config if composed_alone else None


def _config_directory(arguments: Sequence[str]) -> str | None:
    """The folder that `--config-dir` or `-cd` names, if any."""
    for flag in ("--config-dir", "-cd"):
        for index, argument in enumerate(arguments):
            if argument.startswith(f"{flag}="):
                return argument.partition("=")[2]
            if argument == flag and index + 1 < len(arguments):
                return arguments[index + 1]
    return None


def checked(
    config_name: str, overrides: Sequence[str], directory: str | None, *, sweep: bool
) -> tuple[list[str], DictConfig]:
    """The overrides as Hydra takes them, and what they compose to (`settled`), with null for the values of a sweep.

    Raises:
        UserError: an option, key or value does not exist.
    """
    parser = OverridesParser.create()
    originals: dict[str, str] = {}  # what is composed -> the override that it stands for
    swept: list[str] = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            raise UserError(f"'{text}' is no setting; write name=value ({str(error).splitlines()[0]})") from error
        if sweep and override.is_sweep_override():
            if override.key_or_group in GROUPS:
                swept.append(text)
            else:
                originals[f"{text.partition('=')[0]}=null"] = text
            continue
        _check_group(override, directory)
        originals[text] = text
    completed, config = settled(config_name, list(originals), directory)
    originals |= {f"++{text}": f"++{original}" for text, original in originals.items()}
    return [*swept, *(originals.get(text, text) for text in completed)], config


def _check_group(override: Override, directory: str | None) -> None:
    """UserError where an override chooses an option that a group does not have."""
    group = override.key_or_group
    if group not in GROUPS or override.is_sweep_override():
        return
    allowed = [*options(group, directory), *([ALL] if group in KEYED else [])]
    for name in override.value() if isinstance(override.value(), list) else [override.value()]:
        if str(name) not in allowed:
            raise UserError(f"{group}={name} does not exist; {near(str(name), allowed)}")


def start(main: Callable[..., Any], config_name: str) -> None:
    """Run a command from its first line to its last; whatever ends it early is one line, except a bug.

    Args:
        main: what `hydra.main` made; it takes a configuration that is composed, and composes one without.
        config_name: the YAML that its settings are in.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # a bug keeps its traceback; a user's mistake never gets there
    on_termination()

    def run() -> None:
        sys.argv[1:], config = prepare(sys.argv[1:], config_name)
        main(config)

    guarded(run, Kept("nothing had begun"))


def run_guarded(config: DictConfig) -> None:
    """Run the comparison of a composed configuration and print its table and where everything lies."""
    out = Path(str(config.get("out")))
    guarded(
        lambda: _run(config),
        Kept(f"finished methods, and parts of others, are kept in {out}; the same command goes on where it was", out),
    )


def _typed() -> str:
    """The command line as it was typed, without the folder that Python lies in."""
    program, *rest = sys.orig_argv
    return shlex.join([Path(program).name, *rest])


def _run(config: DictConfig) -> None:
    check(config)  # before torch is imported: an answer to a slip of the pen should not take seconds
    from benchmark.comparison import run_comparison
    from benchmark.report import terminal_table

    comparison = run_comparison(config, _typed())
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(terminal_table(comparison.loaded))
    place = printable(f"Leaderboard, curves and heatmaps: {comparison.folder}")
    console.print(place, soft_wrap=True, markup=False, emoji=False)
