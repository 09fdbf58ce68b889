"""A comparison from the command line: settings checked before Hydra sees them, one line for a mistake, the final table."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig

from benchmark.commands.arguments import parsed, read_arguments
from benchmark.errors import UserError, printable
from benchmark.exits import Kept, guarded, on_termination
from benchmark.settings.checking import check
from benchmark.settings.configuration import GROUPS, settled


def prepare(words: Sequence[str], config_name: str) -> tuple[list[str], DictConfig | None]:
    """The command line as Hydra takes it, and its configuration.

    The configuration is None where a flag asks Hydra for more than to compose it.

    Raises:
        UserError: an option, key, value or folder does not exist.
    """
    arguments = read_arguments(words)
    overrides, config = checked(config_name, arguments.overrides, arguments.directory, sweep=arguments.sweep)
    return [*arguments.flags, *overrides], config if arguments.runs else None


def checked(
    config_name: str, overrides: Sequence[str], directory: str | None, *, sweep: bool
) -> tuple[list[str], DictConfig]:
    """The overrides as Hydra takes them, and what they compose to (`settled`), with null for the values of a sweep.

    Raises:
        UserError: an option, key or value does not exist.
    """
    originals: dict[str, str] = {}  # what is composed -> the override that it stands for
    swept: list[str] = []
    for typed in overrides:
        text, override = parsed(typed, directory)
        if not override.is_sweep_override():
            originals[text] = text
        elif not sweep:
            key, _, values = text.partition("=")
            raise UserError(
                f"{text} gives several values: -m runs one comparison for each; one list is {key}=[{values}]"
            )
        elif override.key_or_group in GROUPS:
            swept.append(text)
        else:
            originals[f"{text.partition('=')[0]}=null"] = text
    completed, config = settled(config_name, list(originals), directory)
    originals |= {f"++{text}": f"++{original}" for text, original in originals.items()}
    return [*swept, *(originals.get(text, text) for text in completed)], config


def log_to_standard_error() -> None:
    """What the harness says, without what libraries say of themselves."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # the runner says once what every batch would say of lost words
    libraries = ("transformers", "datasets", "httpx", "httpcore", "matplotlib", "fontTools", "absl")
    for noisy in ("benchmark.models.encoding", *libraries):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def start(main: Callable[..., Any], config_name: str, words: Sequence[str]) -> None:
    """Run a command from its first line to its last; whatever ends it early is one line, except a bug.

    Args:
        main: what `hydra.main` made; it takes a configuration that is composed, and composes one without.
        config_name: the YAML that its settings are in.
        words: of the command line, without the program's name.
    """
    log_to_standard_error()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # a bug keeps its traceback; a user's mistake never gets there
    on_termination()

    def run() -> None:
        sys.argv[1:], config = prepare(words, config_name)
        main(config)

    guarded(run, Kept("nothing had begun"))


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]
def compare(config: DictConfig) -> None:
    """Run one comparison and print its leaderboard."""
    run_guarded(config)


def run_guarded(config: DictConfig) -> None:
    """Run the comparison of a composed configuration and print its table and where everything lies."""
    out = Path(str(config.get("out")))
    guarded(
        lambda: _run(config),
        Kept(f"finished methods, and parts of others, are kept in {out}; the same command goes on where it was", out),
    )


def _run(config: DictConfig) -> None:
    check(config)  # before torch is imported: an answer to a slip of the pen should not take seconds
    from benchmark.comparison import run_comparison
    from benchmark.report import terminal_table

    comparison = run_comparison(config)
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(terminal_table(comparison.loaded))
    place = printable(f"Leaderboard, curves and heatmaps: {comparison.folder}")
    console.print(place, soft_wrap=True, markup=False, emoji=False)
