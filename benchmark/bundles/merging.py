"""Take submissions into a repository of results: every row is computed again from the explanations that were submitted."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmark.bundles import refusals
from benchmark.bundles.bundle import METHODS, Bundle, files_below, newest
from benchmark.bundles.opening import open_bundle, tests_of
from benchmark.bundles.repository import AUDIT, WITHDRAWN, Repository, Result
from benchmark.bundles.retesting import differences, retest
from benchmark.bundles.submission import CHECK, FILE, RUN, Submission, class_of
from benchmark.errors import UserError
from benchmark.report.run_folders import read_config
from benchmark.results import store
from benchmark.results.statistics import VERSION as STATISTICS
from benchmark.run.workbench import Setting
from benchmark.types import Evaluation

_SHOWN = 3  # figures in a message


@dataclass
class Merging:
    """Takes submissions one after the other; each bundle is opened once.

    Attributes:
        repository: that they are taken into; it is held.
        overrides: folders of this machine that bundles ask for.
        date: of the events, as YYYY-MM-DD.
    """

    repository: Repository
    overrides: Sequence[str]
    date: str
    _opened: dict[str, tuple[Setting, Mapping[str, Evaluation]]] = field(default_factory=dict, init=False, repr=False)

    def take(self, folder: Path) -> str:
        """Check one submission, compute its rows and figures, and put it into the repository; one line of what was done.

        One that is there already is left alone, so that a command can name all submissions that there are.

        Raises:
            UserError: it is refused; the line says why, and what to do.
        """
        submission = Submission.read(folder)
        bundle, place = self._bundle_of(submission)
        run = submission.run(folder)
        claimed = refusals.read_record(run)
        target = f"{bundle.place}/{submission.method}/{submission.hash[:16]}"
        refusals.check_name(submission.method, submission.target, bundle, _references(place))
        refusals.check_record(claimed, bundle, run)
        refusals.check_identity(submission, claimed, read_config(run), folder)
        refusals.check_report(folder)
        refusals.check_source(submission, self.repository.submissions())
        if (said := self._there(bundle, claimed.hash, run)) is not None:
            return said
        setting, _ = self._open(bundle, place)
        lengths = dict(zip(setting.data.uids, (n for part in setting.data.lengths for n in part), strict=True))
        refusals.check_scores(run, claimed, bundle, lengths, int(setting.data.logits(0).shape[-1]))
        with self.repository.scratch() as scratch:
            made = scratch / "result"
            self._retested(bundle, place, run, made, check=True)
            for name in (FILE, CHECK, "check.md"):
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, made / name)
            _reseal(submission, made)
            self.repository.put(target, made, self.date, "merged")
        return (
            f"{submission.method}: {len(bundle.tests)} tests computed again from its explanations; taken into {target}"
        )

    def _there(self, bundle: Bundle, hash_of_cell: str, run: Path) -> str | None:
        """What is said of a submission whose method, settings included, is a row already; None where it is none.

        Raises:
            UserError: with other explanations, or it was withdrawn.
        """
        for result in self._rows(bundle):
            if result.record.hash == hash_of_cell:
                name = result.record.method.name
                if result.withdrawn:
                    raise UserError(
                        f"{bundle.place} had these settings of the method, as {name}, and they were withdrawn "
                        f"({result.withdrawn['why']}); raise `version` of the class, and submit again"
                    )
                if all(_is_same(path, run / path.name) for path in result.run.glob("*.safetensors")):
                    return f"{name}: is there already ({hash_of_cell[:8]})"
                raise UserError(
                    f"{bundle.place} has these settings of the method already, as {name} ({hash_of_cell[:8]}), with other "
                    "explanations; raise `version` of the class, and submit again"
                )
        return None

    def retest_all(self) -> Iterator[str]:
        """Compute what stored results lack of the newest tests; a line for each that was changed or added.

        A result lacks tests that a minor version of its bundle has added, or figures of today's statistics. And it is a row
        of a newer major version, too, where that has the same examples and model and only its tests are others.
        """
        bundles = self.repository.newest()
        for bundle, place in bundles.values():
            rows = self._rows(bundle)
            hashes = {result.record.hash for result in rows}
            lacking = [result for result in rows if result.submission is not None and not _is_whole(result, bundle)]
            for before, _ in bundles.values():
                if _is_continued(before, bundle):
                    earlier = (result for result in self._rows(before) if result.submission is not None)
                    lacking += [result for result in earlier if result.record.hash not in hashes]
            for result in lacking:
                if not result.withdrawn:
                    yield self._again(result, bundle, place)

    def _again(self, result: Result, bundle: Bundle, place: Path) -> str:
        """Compute the tests of a bundle from the explanations of a stored result.

        What an audit found is kept where it was bad; a good one is of the explanations that earlier tests read.
        """
        assert result.submission is not None
        target = f"{bundle.place}/{result.submission.method}/{result.submission.hash[:16]}"
        with self.repository.scratch() as scratch:
            made = scratch / "result"
            shutil.copytree(self.repository.root / result.folder, made)
            shutil.rmtree(made / RUN)
            if result.audit.get("ok", False):
                (made / AUDIT).unlink()
            self._retested(bundle, place, result.run, made, check=False)
            _reseal(result.submission, made)
            self.repository.put(target, made, self.date, "retested", f"for {bundle.key}")
        return f"{result.submission.method}: the tests of {bundle.key} computed from its explanations ({target})"

    def _bundle_of(self, submission: Submission) -> tuple[Bundle, Path]:
        """The newest version of the bundle that a submission is for, held to what the submission says."""
        name = submission.bundle.rpartition("@")[0]
        latest, place = newest(self.repository.bundles, name)
        own = self.repository.bundles / submission.bundle
        refusals.check_bundle(submission, latest, Bundle.read(own) if own.is_dir() else None)
        return latest, place

    def _rows(self, bundle: Bundle) -> list[Result]:
        return [result for result in self.repository.results() if result.bundle.place == bundle.place]

    def _open(self, bundle: Bundle, place: Path) -> tuple[Setting, Mapping[str, Evaluation]]:
        if bundle.key not in self._opened:
            self._opened[bundle.key] = open_bundle(bundle, place, self.overrides), tests_of(bundle)
        return self._opened[bundle.key]

    def _retested(self, bundle: Bundle, place: Path, run: Path, made: Path, *, check: bool) -> None:
        """The run folder that is computed from `run`, in the folder `made` of a result.

        Raises:
            UserError: it cannot be computed, or with `check` figures of the record are others.
        """
        setting, tests = self._open(bundle, place)
        claimed, found = retest(setting, tests, run, made / RUN / run.name, texts=bundle.texts)
        if check and (off := list(differences(claimed, found, bundle.digests))):
            more = f", and {len(off) - _SHOWN} more" if len(off) > _SHOWN else ""
            raise UserError(
                f"{run / 'record.json'}: figures are not those of its explanations: {'; '.join(off[:_SHOWN])}{more}; submit "
                "again"
            )


def merge(
    repository: Repository, submissions: Sequence[Path], overrides: Sequence[str], date: str, *, retest_stored: bool
) -> list[str]:
    """Take submissions, and with `retest_stored` fill new columns of stored results; lines of what was done.

    What was taken before a refusal stays taken; the same command goes on behind it.

    Raises:
        UserError: the repository is not what it was, or a submission is refused.
    """
    merging = Merging(repository, overrides, date)
    with repository.held(make=True):
        lines = [merging.take(folder) for folder in submissions]
        return lines + (list(merging.retest_all()) if retest_stored else [])


def _references(place: Path) -> dict[str, str]:
    """By its name, the class of each method that a bundle begins with."""
    records = [store.read_record(path.parent) for path in sorted((place / METHODS).glob("*/record.json"))]
    return {record.method.name: class_of(record.method.identity) for record in records}


def _is_same(first: Path, second: Path) -> bool:
    return second.is_file() and store.hash_of(first) == store.hash_of(second)


def _reseal(submission: Submission, made: Path) -> None:
    """Write `submission.json` with the files that the repository keeps."""
    replace(submission, files=files_below(made, FILE, AUDIT, WITHDRAWN)).write(made)


def _is_whole(result: Result, bundle: Bundle) -> bool:
    """Whether a result has every test of the bundle, with the statistics of today."""
    found = {(test.name, test.digest): test.statistics for test in result.record.evaluations.values()}
    return all(found.get((test.name, test.digest)) == STATISTICS for test in bundle.tests)


def _is_continued(before: Bundle, bundle: Bundle) -> bool:
    """Whether a bundle is a later major version of another one with the same examples and model."""
    facts = [
        (one.name, one.task.fingerprint, one.task.uids, one.model.fingerprint, one.model.dtype)
        for one in (before, bundle)
    ]
    return before.major < bundle.major and facts[0] == facts[1]
