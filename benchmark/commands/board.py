"""The commands of a living leaderboard: bundle, submit, merge, audit, withdraw, site."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.commands.running import log_to_standard_error, starting
from benchmark.errors import UserError, near
from benchmark.exits import Kept, in_one_line, on_termination
from benchmark.working_folder import own_classes_importable

if TYPE_CHECKING:
    from benchmark.bundles.repository import Repository

Answer = tuple[str, int]
"""What is printed, and the exit status."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "bundle": ("name", "version", "out", "licence", "texts", "trust", "date"),
    "submit": ("bundle", "out", "scores", "author", "licence", "date"),
    "merge": ("--retest", "bundles", "date"),
    "audit": ("k", "nonce", "network", "methods", "bundles", "date"),
    "withdraw": ("why", "bundles", "date"),
    "site": ("out", "bundles"),
}
"""The settings and flags of each command."""


@dataclass(frozen=True)
class Words:
    """A command line: what has no equals sign, and settings.

    Attributes:
        places: folders and files.
        own: settings of the command.
        others: settings of a bundle's task and model, as they were typed.
    """

    places: tuple[str, ...]
    own: Mapping[str, str]
    others: tuple[str, ...]

    @staticmethod
    def read(words: Sequence[str], keys: Sequence[str]) -> "Words":
        """The words, of which `keys` are the command's own settings.

        Raises:
            UserError: a setting is none of these, nor one of a task or a model.
        """
        places, own, others = list[str](), dict[str, str](), list[str]()
        for word in words:
            key, sign, value = word.partition("=")
            if not sign:
                if word.startswith("-") and word not in keys:
                    raise UserError(f"{word} is no flag of this command; {near(word, list(keys))}")
                if word in keys:
                    own[word] = "true"
                else:
                    places.append(word)
            elif key in keys:
                own[key] = value
            elif key.startswith(("task.", "model.")) or key == "batch_size":
                others.append(word)
            else:
                raise UserError(f"{word}: {key} is no setting of this command; {near(key, list(keys))}")
        return Words(tuple(places), own, tuple(others))

    def need(self, *keys: str) -> list[str]:
        """The values of settings that have to be given.

        Raises:
            UserError: one is missing.
        """
        for key in keys:
            if not self.own.get(key):
                raise UserError(f"{key}= is missing; give {key}=...")
        return [self.own[key] for key in keys]

    def one(self, what: str) -> Path:
        """The only place that is named.

        Raises:
            UserError: there is none, or there are several.
        """
        if len(self.places) != 1:
            raise UserError(f"name one {what}, and not {len(self.places)}")
        return Path(self.places[0])

    @property
    def date(self) -> str:
        """The day that is given, or today.

        Raises:
            UserError: it is no day.
        """
        try:
            return date.fromisoformat(self.own["date"]).isoformat() if "date" in self.own else date.today().isoformat()
        except ValueError as error:
            raise UserError(f"date={self.own['date']}: give a day as YYYY-MM-DD") from error

    @property
    def repository(self) -> "Repository":
        """The results that are named first, and the bundles beside them."""
        from benchmark.bundles.repository import Repository

        if not self.places:
            raise UserError("name the folder of results first, such as results/")
        return Repository(Path(self.places[0]), Path(self.own["bundles"]) if "bundles" in self.own else None)


def bundle(words: Sequence[str]) -> Answer:
    """Make a bundle of finished run folders."""
    read = Words.read(words, KEYS["bundle"])
    if not read.places:
        raise UserError(
            "name folders with run folders, or the folder of a comparison: attention-benchmark bundle RUNS ..."
        )
    name, version, licence = read.need("name", "version", "licence")
    texts = _yes(read.own.get("texts", "false"), "texts")
    with starting():
        from benchmark.bundles.making import Asked, make_bundle
    trust = Path(read.own["trust"]) if "trust" in read.own else None
    asked = Asked(name, version, licence, texts, read.date, trust)
    folder, left_out = make_bundle([Path(place) for place in read.places], asked, Path(read.own.get("out", "bundles")))
    said = f"Bundle: {folder}"
    if left_out:
        said += f"\nLeft out, as a submission does not carry what they read: {', '.join(left_out)}"
    return said, 0


def submit(words: Sequence[str]) -> Answer:
    """Explain the examples of a bundle with a method, or take scores that were made elsewhere."""
    read = Words.read(words, KEYS["submit"])
    place, author, licence = read.need("bundle", "author", "licence")
    if ("scores" in read.own) == bool(read.places):
        raise UserError("give a YAML with a method, or scores=FILE: attention-benchmark submit METHOD.yaml bundle=...")
    with starting():
        from benchmark.bundles.bundle import Bundle
        from benchmark.bundles.making import portable_word
        from benchmark.bundles.sources import SCORES
        from benchmark.bundles.submitting import Author, read_method
        from benchmark.bundles.submitting import submit as make
    if read.places:
        name, settings = read_method(read.one("YAML"))
    else:
        scores = Path(read.own["scores"])
        name, settings = scores.stem, {"_target_": SCORES, "path": str(scores)}
    found = Bundle.read(Path(place))
    named = [f"bundle=bundles/{found.key}" if word.startswith("bundle=") else portable_word(word) for word in words]
    command = shlex.join(["attention-benchmark", "submit", *named])
    made = make(
        name, settings, found, Path(place), Path(read.own.get("out", "submission")), Author(author, licence),
        read.date, command, read.others,
    )  # fmt: skip
    lines = [] if made.report is None else [f"Check: {made.report.summary}"]
    return "\n".join([*lines, f"Tests: {', '.join(made.tests)}", f"Submission: {made.folder}"]), 0


def merge(words: Sequence[str]) -> Answer:
    """Take submissions into a repository of results."""
    read = Words.read(words, KEYS["merge"])
    repository = read.repository
    submissions = [Path(place) for place in read.places[1:]]
    again = "--retest" in read.own
    if not submissions and not again:
        raise UserError("name submissions, or --retest: attention-benchmark merge results/ submission/")
    with starting():
        from benchmark.bundles.board import write_leaderboard
        from benchmark.bundles.merging import merge as take
    lines = take(repository, submissions, read.others, read.date, retest_stored=again)
    written = write_leaderboard(repository)
    return "\n".join([*lines, f"Leaderboard: {written}"]), 0


def audit(words: Sequence[str]) -> Answer:
    """Explain a sample of every submitted method anew."""
    read = Words.read(words, KEYS["audit"])
    repository = read.repository
    k = read.own.get("k", "20")
    if not (k.isascii() and k.isdigit() and len(k) < 10 and int(k)):
        raise UserError(f"k={k}: give a number of examples")
    network = read.own.get("network", "none")
    if network not in ("none", "allowed"):
        raise UserError(f"network={network}: allowed are none, allowed")
    methods = [name for name in read.own.get("methods", "").strip("[]").split(",") if name]
    with starting():
        from benchmark.bundles.auditing import Auditing
        from benchmark.bundles.auditing import audit as ask
        from benchmark.bundles.board import write_leaderboard
    asked = Auditing(int(k), read.own.get("nonce", ""), network == "allowed", read.others, read.date)
    lines, held = [], True
    for line, ok in ask(repository, asked, methods):
        lines.append(line)
        held &= ok
    lines = lines or ["there is nothing to audit: no method was submitted"]
    return "\n".join([*lines, f"Leaderboard: {write_leaderboard(repository)}"]), 0 if held else 1


def withdraw(words: Sequence[str]) -> Answer:
    """Mark a result as withdrawn; nothing of it is deleted."""
    read = Words.read(words, KEYS["withdraw"])
    (why,) = read.need("why")
    if len(read.places) != 2:
        raise UserError(
            "name the results, and the folder below them: attention-benchmark withdraw results/ PLACE why=..."
        )
    with starting():
        from benchmark.bundles.board import write_leaderboard
    repository = read.repository
    repository.withdraw(read.places[1].rstrip("/"), why, read.date)
    return f"withdrawn: {read.places[1]}\nLeaderboard: {write_leaderboard(repository)}", 0


def site(words: Sequence[str]) -> Answer:
    """Write the static site of a repository."""
    read = Words.read(words, KEYS["site"])
    with starting():
        from benchmark.bundles.site.pages import write_site
    out = Path(read.own.get("out", "site"))
    count, size = write_site(read.repository, out)
    return f"Site: {out / 'index.html'} ({count} files, {size / 1e6:.1f} MB)", 0


def _yes(text: str, key: str) -> bool:
    if text not in ("true", "false"):
        raise UserError(f"{key}={text}: allowed are true, false")
    return text == "true"


COMMANDS: Mapping[str, tuple[Callable[[Sequence[str]], Answer], str]] = {
    "bundle": (
        bundle,
        "bundle RUNS... name=NAME version=1.0 licence=TEXT [texts=true] [trust=COMPARISON] [out=bundles]",
    ),
    "submit": (
        submit,
        "submit METHOD.yaml|scores=FILE bundle=bundles/NAME@1.0 author=NAME licence=TEXT [out=submission] "
        "[task.root=DIR] [model.path=DIR]",
    ),
    "merge": (merge, "merge results/ SUBMISSION... [--retest] [bundles=bundles/] [task.root=DIR] [model.path=DIR]"),
    "audit": (
        audit,
        "audit results/ [k=20] [methods=NAME,NAME] [nonce=TEXT] [network=none|allowed] [bundles=bundles/]",
    ),
    "withdraw": (withdraw, "withdraw results/ NAME@MAJOR/METHOD/HASH why=TEXT [bundles=bundles/]"),
    "site": (site, "site results/ [out=site] [bundles=bundles/]"),
}
"""What each does, and how it is typed."""


def run(name: str, words: Sequence[str], program: str) -> Answer:
    """Run one of `COMMANDS`; a mistake ends the program with one line and status 2."""
    action, usage = COMMANDS[name]
    if {"--help", "-h"} & {*words}:
        purpose = (action.__doc__ or "").strip()
        return f"usage: {program.rpartition(' ')[0]} {usage}\n\n{purpose} docs/leaderboard.md tells all of it.", 0
    log_to_standard_error()
    on_termination()
    own_classes_importable()
    with in_one_line(Kept("what was done before is kept; the same command goes on")):
        return action(words)
