"""`attention-benchmark check`: a method, or a model, is checked, and the report is printed and written."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from benchmark.commands.arguments import read_arguments
from benchmark.commands.running import log_to_standard_error, settled_as_typed, starting
from benchmark.errors import NotApplicable, UserError
from benchmark.exits import Kept, in_one_line, on_termination
from benchmark.settings.checking import check_parts
from benchmark.settings.configuration import missing_keys, options
from benchmark.settings.sources import NoSuchTarget, outline_of
from benchmark.settings.ways_out import not_set

if TYPE_CHECKING:
    from benchmark.checking.report import Report

_OWN = ("only", "golden", "write_golden", "out")


@dataclass(frozen=True)
class Asked:
    """A command line.

    Attributes:
        method: a name of `conf/methods`, or the dotted path of a class or a function; None where a model is checked.
        small: names of small models.
        config: of the method and of a model that is none of these.
        has_model: whether the configuration names the model.
        only: names of checks.
        golden: file that the scores have to equal.
        write_golden: file that the scores are written to.
        out: folder of the report.
    """

    method: str | None
    small: tuple[str, ...]
    config: DictConfig
    has_model: bool
    only: tuple[str, ...] = ()
    golden: Path | None = None
    write_golden: Path | None = None
    out: Path = field(default=Path("check"))

    @property
    def key(self) -> str:
        """What the method is called in the configuration."""
        return str(self.method).rpartition(".")[2]


def check(words: Sequence[str]) -> tuple[str, int]:
    """Check what the words name: what to print, and the status, 0 where no check fails and 1 where one does.

    A mistake ends the program with status 2.
    """
    log_to_standard_error()
    on_termination()
    with in_one_line(Kept("no report is written")):
        asked = looked_at(words)
        report = _report(asked)
        report.write(asked.out)
    return f"{report.table()}\n\nReport: {asked.out / 'check.md'} and check.json", 0 if report.ok else 1


def looked_at(words: Sequence[str]) -> Asked:
    """What is asked for, before anything slow is imported.

    Raises:
        UserError: the first mistake.
    """
    name, words = (
        (words[0], words[1:]) if words and "=" not in words[0] and not words[0].startswith("-") else (None, words)
    )
    arguments = read_arguments(words)
    own, small, overrides = {}, tuple[str, ...](), []
    for text in arguments.overrides:
        key, _, value = text.partition("=")
        if key in _OWN:
            own[key] = value
        elif key == "model" and (named := _small(value, arguments.directory)):
            small = named
        else:
            overrides.append(text if name is None else _of_method(text, name))
    if name is None and not small and not any(text.partition("=")[0] == "model" for text in overrides):
        raise UserError(
            "name a method (attention-benchmark check rollout), or a model (attention-benchmark check model=bert, or "
            "model=hf model.path=CHECKPOINT)"
        )
    has_model = any(text.partition("=")[0] == "model" for text in overrides)
    settings = [*_chosen(name, arguments.directory), *overrides]
    config = settled_as_typed("config", settings, arguments.directory, sweep=False)[1]
    for group in ("task", "model") if has_model else ():
        if missing := missing_keys(config[group]):
            raise UserError(not_set(f"{group}.{missing[0]}"))
    check_parts(config, (*(("methods",) if name else ()), *(("task", "model") if has_model else ())))
    paths = {key: Path(own[key]) for key in ("golden", "write_golden", "out") if key in own}
    if "write_golden" in paths and (
        paths["write_golden"].suffix != ".npz" or not paths["write_golden"].parent.is_dir()
    ):
        raise UserError(f"write_golden={own['write_golden']}: give a file FILE.npz in a folder that is there")
    only = tuple(filter(None, own.get("only", "").strip("[]").split(",")))
    return Asked(name, small, config, has_model, only, **paths)


def _small(value: str, directory: str | None) -> tuple[str, ...]:
    """Names of small models; none where the value is an option of the configuration."""
    if value in options("model", directory):
        return ()
    return tuple(value.strip("[]").split(","))


def _of_method(text: str, name: str) -> str:
    """A setting of the method, whose path begins with its name; another one as it is."""
    key = name.rpartition(".")[2]
    bare = text.lstrip("+")
    return f"++methods.{bare}" if bare.startswith(f"{key}.") else text


def _chosen(name: str | None, directory: str | None) -> list[str]:
    """Overrides that choose the method."""
    if name is None:
        return ["methods=[random]"]
    if "." in name and name not in options("methods", directory):
        with suppress(NoSuchTarget):  # which is said when it is made
            if (outline := outline_of(name)) is not None and outline.is_function:
                return ["methods=[random]", f"+methods.{name.rpartition('.')[2]}={{_target_: {name}, _partial_: true}}"]
        return ["methods=[random]", f"+methods.{name.rpartition('.')[2]}={{_target_: {name}}}"]
    return [f"methods=[{name}]"]


def _report(asked: Asked) -> "Report":
    with starting():
        from benchmark.checking import places
        from benchmark.checking.golden import write
        from benchmark.checking.methods import check as check_method
        from benchmark.checking.models import check_model
        from benchmark.checking.subject import MethodRaised, Subject, WrongForm
        from benchmark.settings.making import make
        from benchmark.types import as_compared

    model = _model(asked)
    if asked.method is None:
        return check_model(model, asked.only)
    method = make(asked.config.methods[asked.key])
    if asked.write_golden is not None:
        place = next(places.of(model))
        compared: Any = as_compared(method)
        try:
            write(asked.write_golden, Subject(compared, asked.key, place))
        except (MethodRaised, WrongForm, NotApplicable) as error:
            raise UserError(f"write_golden={asked.write_golden}: there are no scores: {error}") from error
    return check_method(method, model, asked.only, golden_file=asked.golden, name=asked.key)


def _model(asked: Asked) -> Any:
    """What is checked on: names, a model, or None for the default."""
    if not asked.has_model:
        return list(asked.small) or None
    from benchmark.run.workbench import open_model
    from benchmark.settings.making import make
    from benchmark.types import Task

    return open_model(asked.config, make(asked.config.task, Task), None)
