"""Where every command begins; what one command does not need is not imported by it."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from benchmark.commands import help as pages
from benchmark.errors import UserError, echo, near
from benchmark.working_folder import own_classes_importable, own_classes_readable, own_modules_first

_PROGRAM = "attention-benchmark"
_USAGE = f"""\
Compare attention-based explainers of transformers.

usage: {_PROGRAM} COMMAND ...

  run      one comparison: explain, test, report           {_PROGRAM} run --help
  plan     what a comparison would take, before it runs    {_PROGRAM} plan --help
  train    fine-tune a base model for a task               {_PROGRAM} train --help
  check    is an explainer, or a model, what it should be?  {_PROGRAM} check --help
  report   leaderboard and figures of finished run folders {_PROGRAM} report --help
  bundle   make a bundle of run folders, in which methods are compared
  submit   explain a bundle's examples with a method       {_PROGRAM} submit --help
  merge    take submissions into a leaderboard; audit, withdraw and site keep it
  list     methods, tests, analyses, tasks, models and experiments, a line each
  show     NAME: what one of them is, its settings with their defaults, its source and cost

  --version, --help\
"""


def main(words: Sequence[str] | None = None) -> None:
    """The console command `attention-benchmark`; ends with the status of what it did."""
    words = sys.argv[1:] if words is None else words
    own_modules_first()
    command, rest = (words[0], words[1:]) if words else ("--help", ())
    if command in ("--help", "-h", "help"):
        _print(_USAGE)
    elif command == "--version":
        _print(f"attention-explainer-benchmark {pages.own_version()}")
    elif command in _COMMANDS:
        _COMMANDS[command](rest, f"{_PROGRAM} {command}")
    else:
        mistaken = UserError(f"{command} is no command; {near(command, list(_COMMANDS))}")
        if "=" in command:
            mistaken = UserError(f"{command} is a setting; the command comes first: {_PROGRAM} run {command}")
        echo(f"error: {mistaken}")
        raise SystemExit(2)


def compare(words: Sequence[str], program: str) -> None:
    """Run a comparison."""
    if not _answered(words, "config", program):
        from benchmark.commands import running

        running.start(running.compare, running.looked_at, words)


def plan(words: Sequence[str], program: str) -> None:
    """Tell what a comparison would take."""
    if not _answered(words, "plan", program):
        from benchmark.commands import running

        running.start(running.plan, running.plan_looked_at, words)


def compare_or_plan(words: Sequence[str], program: str) -> None:
    """What `python -m benchmark` does: `plan` is its only word that is no setting."""
    if words and words[0] == "plan":
        plan(words[1:], f"{program} plan")
    else:
        compare(words, program)


def train(words: Sequence[str], program: str) -> None:
    """Fine-tune a model."""
    if not _answered(words, "train", program):
        from benchmark.commands import running

        running.start(running.fine_tune, running.training_looked_at, words)


def check(words: Sequence[str], program: str) -> None:
    """Check an explainer, or a model."""
    if not _answered(words, "check", program):
        from benchmark.commands import checking

        text, status = checking.check(words)
        _print(text)
        raise SystemExit(status)


def keep_board(name: str) -> Callable[[Sequence[str], str], None]:
    """One of the commands of a living leaderboard."""

    def command(words: Sequence[str], program: str) -> None:
        from benchmark.commands import board

        text, status = board.run(name, words, program)
        _print(text)
        raise SystemExit(status)

    return command


def report(words: Sequence[str], program: str) -> None:
    """Write the report of finished run folders."""
    from benchmark.exits import on_termination
    from benchmark.report.__main__ import main as write

    on_termination()
    raise SystemExit(write(words))


def list_all(words: Sequence[str], program: str) -> None:
    """Print what there is, a line each."""
    from benchmark.commands.shown import listing

    _printed(words, program, "list what there is, by group, or of one GROUP alone", listing, "GROUP", nargs="?")


def show(words: Sequence[str], program: str) -> None:
    """Print what one thing is."""
    from benchmark.commands.shown import description

    _printed(
        words, program, "what NAME is: definition, settings with their defaults, source, cost", description, "NAME"
    )


_COMMANDS: dict[str, Callable[[Sequence[str], str], None]] = {
    "run": compare,
    "plan": plan,
    "train": train,
    "check": check,
    "report": report,
    **{name: keep_board(name) for name in ("bundle", "submit", "merge", "audit", "withdraw", "site")},
    "list": list_all,
    "show": show,
}


def _answered(words: Sequence[str], page: str, program: str) -> bool:
    """Whether the command line asked for its page or the version, which is printed then."""
    own_modules_first()
    own_classes_importable()
    text = pages.asked(words, page, program)
    if text is not None:
        _print(text)
    return text is not None


def _printed(
    words: Sequence[str], program: str, purpose: str, text: Callable[..., str], named: str, nargs: str | None = None
) -> None:
    import argparse

    from benchmark.exits import Kept, guarded
    from benchmark.settings.own_folder import own_folder

    own_classes_readable()

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            echo(f"error: {message}; {program} --help tells how")
            raise SystemExit(2)

    parser = Parser(prog=program, description=purpose)
    parser.add_argument(named.lower(), metavar=named, nargs=nargs)
    parser.add_argument("--config-dir", metavar="DIR", help="one more folder of YAMLs, such as DIR/methods/NAME.yaml")
    given = vars(parser.parse_args(words))
    named_folder = given.pop("config_dir")

    def page() -> str:
        return text(*given.values(), None if named_folder is None else own_folder(named_folder))

    _print(guarded(page, Kept("nothing is written")))


def _print(text: str) -> None:
    """Print a page; whoever reads it may stop before its end, as `head` does."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # what is left is discarded, so that the interpreter does not meet the closed pipe again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
