"""Commands that take settings: a comparison, a plan of one, and fine-tuning.

Settings are looked at before Hydra sees them, a mistake is one line, and only then what is slow is imported.
"""

import gc
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override, ValueType
from omegaconf import DictConfig, OmegaConf

from benchmark.commands import together
from benchmark.commands.arguments import parsed, read_arguments
from benchmark.errors import UserError, printable
from benchmark.exits import Kept, in_one_line, kept_in, on_termination
from benchmark.progress import step
from benchmark.settings.checking import check, check_parts
from benchmark.settings.configuration import ALL, GROUPS, KEYED, held_to_choice, options, settled
from benchmark.settings.early import Checkpoint, Surroundings
from benchmark.settings.report_settings import ReportSettings
from benchmark.settings.ways_out import not_set
from benchmark.working_folder import own_classes_importable, own_modules_first

if TYPE_CHECKING:
    from rich.console import Console

    from benchmark.comparison import Comparison

_MANY = 20  # values of one setting, beyond which the first and the last are looked at

Look = Callable[[Sequence[str]], tuple[list[str], DictConfig | None]]


def looked_at(words: Sequence[str]) -> tuple[list[str], DictConfig | None]:
    """What `prepare` gives, after a look for mistakes in all that will be run: before any work and any slow import.

    Raises:
        UserError: the first mistake.
    """
    overrides, config = prepare(words, "config")
    if config is not None:
        check(config)
    arguments = read_arguments(words)
    if arguments.sweep:
        for combination in _combinations(_parsed(arguments.overrides, arguments.directory)):
            check(settled_as_typed("config", combination, arguments.directory, sweep=False)[1])
    return overrides, config


def plan_looked_at(words: Sequence[str]) -> tuple[list[str], DictConfig | None]:
    """What `looked_at` gives for a plan of one comparison.

    Raises:
        UserError: the first mistake.
    """
    if read_arguments(words).sweep:
        raise UserError("-m: a plan is of one comparison; leave out -m, and give each setting one value")
    return looked_at(words)


def training_looked_at(words: Sequence[str]) -> tuple[list[str], DictConfig | None]:
    """What `prepare` gives for fine-tuning, after a look for mistakes.

    Raises:
        UserError: the first mistake.
    """
    overrides, config = prepare(words, "train")
    if config is not None:
        for key in ("model.path", "out"):
            if OmegaConf.is_missing(config, key) or OmegaConf.select(config, key) is None:
                raise UserError(not_set(key))
        if problem := Checkpoint().mistake("model.path", str(config.model.path), Surroundings()):
            raise UserError(problem)
        check_parts(config, ("task", "recipe"))
    return overrides, config


def _parsed(overrides: Sequence[str], directory: str | None) -> list[tuple[str, Override]]:
    return [parsed(text, directory, overrides) for text in overrides]


def _combinations(overrides: Sequence[tuple[str, Override]]) -> Iterator[list[str]]:
    """Settings of a sweep in which each of its values occurs: one of them changed, the others the first of theirs."""
    values = [_values(text, override) for text, override in overrides]
    first = [each[0] for each in values]
    yield first
    for place, each in enumerate(values):
        for value in each[1:]:
            yield [*first[:place], value, *first[place + 1 :]]


def _values(text: str, override: Override) -> list[str]:
    """The settings that a setting with several values stands for."""
    if not override.is_sweep_override():
        return [text]
    key = text.partition("=")[0]
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        return [f"{key}={ALL}" if override.key_or_group in KEYED else f"{key}={options(override.key_or_group)[0]}"]
    values = [f"{key}={value}" for value in override.sweep_string_iterator()]
    return values if len(values) <= _MANY else [values[0], values[-1]]


def prepare(words: Sequence[str], config_name: str) -> tuple[list[str], DictConfig | None]:
    """The command line as Hydra takes it, and its configuration.

    The configuration is None where a flag asks Hydra for more than to compose it.

    Raises:
        UserError: an option, key, value or folder does not exist.
    """
    arguments = read_arguments(words)
    overrides, config = settled_as_typed(config_name, arguments.overrides, arguments.directory, sweep=arguments.sweep)
    return [*arguments.flags, *overrides], config if arguments.runs else None


def settled_as_typed(
    config_name: str, overrides: Sequence[str], directory: str | None, *, sweep: bool
) -> tuple[list[str], DictConfig]:
    """The overrides as Hydra takes them, and what they compose to (`settled`), with null for the values of a sweep.

    Raises:
        UserError: an option, key or value does not exist.
    """
    originals: dict[str, str] = {}  # what is composed -> the override that it stands for
    swept: list[str] = []
    typed = _parsed(overrides, directory)
    for text, override in typed:
        if not override.is_sweep_override():
            originals[text] = text
        elif not sweep:
            key, _, values = text.partition("=")
            raise UserError(
                f"{text} gives several values: -m runs one comparison for each; one list is {key}=[{values}]"
            )
        elif override.key_or_group == "experiment":  # whose settings other words may be about
            originals[_values(text, override)[0]] = text
        elif override.key_or_group in GROUPS:
            swept.append(text)
        else:
            originals[f"{text.partition('=')[0]}=null"] = text
    completed, config = settled(config_name, list(originals), directory)
    originals |= {f"++{text}": f"++{original}" for text, original in originals.items()}
    if any(override.is_sweep_override() and override.key_or_group == "experiment" for _, override in typed):
        plain = {text for text, one in typed if one.key_or_group not in GROUPS and not text.startswith(("+", "~"))}
        # Hydra composes without any of the experiments, which alone may have these settings
        completed = [f"++{text}" if originals.get(text, "") in plain else text for text in completed]
    return [*swept, *(originals.get(text, text) for text in completed)], config


def log_to_standard_error() -> None:
    """What the harness says, without what libraries say of themselves."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # the runner says once what every batch would say of lost words
    libraries = ("transformers", "datasets", "httpx", "httpcore", "matplotlib", "fontTools", "absl")
    for noisy in ("benchmark.models.encoding", *libraries):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def start(main: Callable[..., Any], look: Look, words: Sequence[str]) -> None:
    """Run a command from its first line to its last; whatever ends it early is one line, except a bug.

    Args:
        main: what `hydra.main` made; it takes a configuration that is composed, and composes one without.
        look: makes overrides and a configuration of the words, or finds a mistake in them.
        words: of the command line, without the program's name.
    """
    log_to_standard_error()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # a bug keeps its traceback; a user's mistake never gets there
    on_termination()

    with in_one_line(Kept("nothing had begun")):
        sys.argv[1:], config = look(words)
        if main is not compare or not read_arguments(words).sweep:
            main(config)
            return
        shared = _shared(words)
        out = None if shared.get("out") is None else Path(str(shared.out))  # None: the jobs have several
        with together.named(words) as sweep:
            if out is not None:
                together.forget(out, sweep)
            main(config)
        if out is not None:
            _report_sweep(sweep, out, shared.get("report"))


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]  # untyped in hydra
def compare(config: DictConfig) -> None:
    """Run one comparison and print its leaderboard."""
    run_guarded(config)


def run_guarded(config: DictConfig) -> None:
    """Run the comparison of a composed configuration and print its table and where everything lies."""
    own_modules_first()
    own_classes_importable()  # a job of a sweep may be a process of its own
    if HydraConfig.initialized():  # Hydra composed it: a job of a sweep
        hydra_config = HydraConfig.get()
        folders = [source.path for source in hydra_config.runtime.config_sources if source.schema == "file"]
        config = held_to_choice(config, hydra_config.overrides.task, next(iter(folders), None))
    out = Path(str(config.get("out")))
    sentence = f"finished methods, and parts of others, are kept in {out}; the same command goes on where it was"
    with kept_in(sentence, out) as kept, in_one_line(kept):
        from benchmark.progress.bar import shown

        with shown():
            with starting():
                from benchmark.comparison import run_comparison
            comparison = run_comparison(config, _typed())
            if comparison.loaded:
                together.note(out, comparison.folder)
        _print(comparison, trust=ReportSettings.read(config.get("report")).trust)


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]  # untyped in hydra
def plan(config: DictConfig) -> None:
    """Plan one comparison and print the table."""
    with in_one_line(Kept("no plan is kept", Path(str(config.get("out"))))):
        _plan(config)


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="train")  # type: ignore[untyped-decorator]  # untyped in hydra
def fine_tune(config: DictConfig) -> None:
    """Fine-tune and say where the checkpoint lies."""
    out = Path(str(config.get("out")))
    sentence = f"the last checkpoint is kept beside {out}; the same command goes on from it"
    with in_one_line(Kept(sentence, out.absolute().parent)):
        _fine_tune(config)


@contextmanager
def starting() -> Iterator[None]:
    """The step in which torch and transformers are imported, which takes seconds.

    All that is imported stays. So the garbage collector is off meanwhile, which saves a fifth of the time, and does not look
    at it later either.
    """
    gc.disable()
    try:
        with step("starting"):
            yield
    finally:
        gc.freeze()
        gc.enable()


def _typed() -> str:
    """The command line as it was typed, without the folder that Python lies in."""
    program, *rest = sys.orig_argv
    return shlex.join([Path(program).name, *rest])


def _shared(words: Sequence[str]) -> DictConfig:
    """What the jobs of a sweep share; null where they differ."""
    arguments = read_arguments(words)
    return settled_as_typed("config", arguments.overrides, arguments.directory, sweep=True)[1]


def _report_sweep(name: str, out: Path, look: Any) -> None:
    """One report over all values of a sweep, whose jobs are done, and where it lies."""
    with kept_in("each job of the sweep has its own report", out) as kept, in_one_line(kept):
        page = together.report(out, name, look)
    if page is not None:
        drawn = any(page.parent.glob("table-sweep_*.csv"))
        why = "" if drawn else " (three or more numbers of a method's setting have them)"
        said = f"All values of the sweep together, {'with' if drawn else 'without'} curves of the figures{why}: {page}"
        _console().print(printable(said), soft_wrap=True, markup=False, emoji=False)


def _print(comparison: "Comparison", *, trust: bool) -> None:
    """Print the leaderboard and where everything lies; of a step before `reduce` what comes next."""
    from benchmark.report import terminal_table
    from benchmark.report.analysis_tables import read_tables

    console = _console()
    if not comparison.loaded:
        step, following = ("explained", "test") if comparison.step == "explain" else ("tested", "reduce")
        place = f"Everything is {step}; the same command with stage={following} goes on: {comparison.folder}"
    else:
        console.print(terminal_table(comparison.loaded, read_tables(comparison.folder) if trust else ()))
        place = f"Leaderboard, curves and heatmaps, as a page: {comparison.folder / 'index.html'}"
    console.print(printable(place), soft_wrap=True, markup=False, emoji=False)


def _plan(config: DictConfig) -> None:
    from benchmark.progress.bar import shown

    with shown():
        with starting():
            from benchmark.planning.planner import make_plan
            from benchmark.planning.printed_plan import printed_plan
        made = make_plan(config)
    _console().print(printed_plan(made))


def _fine_tune(config: DictConfig) -> None:
    from benchmark.progress.bar import shown

    with shown():
        with starting():
            from benchmark.training.finetune import run_training
        run_training(config)


def _console() -> "Console":
    """Where tables are printed: as wide as the terminal; in a file or a pipe as wide as most tables."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140)
