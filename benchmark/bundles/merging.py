"""Take submissions into a repository of results: every row is computed again from the explanations that were submitted."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmark.bundles import refusals
from benchmark.bundles.bundle import Bundle, files_below, newest
from benchmark.bundles.opening import open_bundle, tests_of
from benchmark.bundles.repository import AUDIT, WITHDRAWN, Repository, Result
from benchmark.bundles.retesting import differences, retest
from benchmark.bundles.submission import CHECK, FILE, RUN, Submission
from benchmark.errors import UserError
from benchmark.results import store
from benchmark.results.locks import beside
from benchmark.results.statistics import VERSION as STATISTICS
from benchmark.run.workbench import Setting
from benchmark.types import Evaluation

_SHOWN = 3  # figures in a message


@dataclass
class Merging:
    """Takes submissions one after the other; each bundle is opened once.

    Attributes:
        repository: that they are taken into.
        overrides: folders of this machine that bundles ask for.
        date: of the events, as YYYY-MM-DD.
    """

    repository: Repository
    overrides: Sequence[str]
    date: str
    _opened: dict[str, tuple[Setting, Mapping[str, Evaluation]]] = field(default_factory=dict, init=False, repr=False)

    def take(self, folder: Path) -> str:
        """Check one submission, compute its rows and figures, and put it into the repository; one line of what was done.

        Raises:
            UserError: it is refused; the line says why, and what to do.
        """
        submission = Submission.read(folder)
        bundle, place = self._bundle_of(submission)
        run = submission.run(folder)
        claimed = store.read_record(run)
        refusals.check_record(claimed, bundle, run)
        refusals.check_scores(run, claimed, bundle)
        refusals.check_report(folder)
        refusals.check_source(submission, self.repository.submissions())
        told = (submission.method, submission.version, submission.hash)
        if told != (claimed.method.name, claimed.method.version, claimed.hash):
            raise UserError(f"{folder / FILE} and {run / 'record.json'} are of different methods; submit again")
        for result in self._rows(bundle):
            if result.record.hash == claimed.hash and not result.withdrawn:
                name = result.record.method.name
                raise UserError(f"{bundle.place} has these settings of the method already, as {name} ({claimed.hash[:8]})")
        with self._scratch() as scratch:
            made = scratch / "result"
            self._retested(bundle, place, run, made, check=True)
            for name in (FILE, CHECK, "check.md"):
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, made / name)
            self._reseal(submission, made)
            put = self.repository.put(bundle, submission, made)
        self.repository.note(self.date, "merged", put)
        return f"{submission.method}: {len(bundle.tests)} tests computed again from its explanations; taken into {put}"

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
                    lacking += [
                        result
                        for result in self._rows(before)
                        if result.submission and result.record.hash not in hashes
                    ]
            for result in lacking:
                if not result.withdrawn:
                    yield self._again(result, bundle, place)

    def _again(self, result: Result, bundle: Bundle, place: Path) -> str:
        """Compute the tests of a bundle from the explanations of a stored result."""
        assert result.submission is not None
        with self._scratch() as scratch:
            made = scratch / "result"
            shutil.copytree(self.repository.root / result.folder, made)
            shutil.rmtree(made / RUN)
            self._retested(bundle, place, result.run, made, check=False)
            self._reseal(result.submission, made)
            put = self.repository.put(bundle, result.submission, made)
        self.repository.note(self.date, "retested", put, f"for {bundle.key}")
        return f"{result.submission.method}: the tests of {bundle.key} computed from its explanations ({put})"

    def _bundle_of(self, submission: Submission) -> tuple[Bundle, Path]:
        """The newest version of the bundle that a submission is for, held to what the submission says."""
        name = submission.bundle.rpartition("@")[0]
        latest, place = newest(self.repository.bundles, name)
        own = self.repository.bundles / submission.bundle
        refusals.check_bundle(submission, latest, Bundle.read(own) if own.is_dir() else None)
        return latest, place

    def _rows(self, bundle: Bundle) -> list[Result]:
        return [result for result in self.repository.results() if result.bundle.place == bundle.place]

    def _retested(self, bundle: Bundle, place: Path, run: Path, made: Path, *, check: bool) -> None:
        """The run folder that is computed from `run`, in the folder `made` of a result.

        Raises:
            UserError: it cannot be computed, or with `check` figures of the record are others.
        """
        if bundle.key not in self._opened:
            self._opened[bundle.key] = open_bundle(bundle, place, self.overrides), tests_of(bundle)
        setting, tests = self._opened[bundle.key]
        claimed, found = retest(setting, tests, run, made / RUN / run.name, texts=bundle.texts)
        if check and (off := list(differences(claimed, found, bundle.digests))):
            more = f", and {len(off) - _SHOWN} more" if len(off) > _SHOWN else ""
            raise UserError(
                f"{run / 'record.json'}: figures are not those of its explanations: {'; '.join(off[:_SHOWN])}{more}; submit "
                "again"
            )

    def _reseal(self, submission: Submission, made: Path) -> None:
        """Write `submission.json` with the files that the repository keeps."""
        replace(submission, files=files_below(made, FILE, AUDIT, WITHDRAWN)).write(made)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A folder on the disk of the results, so that what is made there can be moved; gone at the end."""
        self.repository.root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".merging-", dir=self.repository.root) as scratch:
            yield Path(scratch)


def merge(
    repository: Repository, submissions: Sequence[Path], overrides: Sequence[str], date: str, *, retest_stored: bool
) -> list[str]:
    """Take submissions, and with `retest_stored` fill new columns of stored results; lines of what was done.

    What was taken before a refusal stays taken; the same command goes on behind it.

    Raises:
        UserError: the repository is not what it was, or a submission is refused.
    """
    merging = Merging(repository, overrides, date)
    repository.root.mkdir(parents=True, exist_ok=True)
    with beside(repository.root / "merging", "merge"):
        repository.check()
        lines = [merging.take(folder) for folder in submissions]
        return lines + (list(merging.retest_all()) if retest_stored else [])


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
