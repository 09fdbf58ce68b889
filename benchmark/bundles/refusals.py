"""What a repository does not take, each in one line with the way out."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmark.bundles.bundle import Bundle
from benchmark.bundles.submission import CHECK, Submission
from benchmark.errors import UserError
from benchmark.results import bounded, store
from benchmark.results.digests import DAMAGE
from benchmark.results.record import Record
from benchmark.run.stages import CLASSES, PREDICTED

MOST_MISSING = 0.01
"""Share of the examples whose explanation may hold numbers that are not finite."""

_SAME = 1e-6  # of the largest magnitude: below it, scores of two classes are the same


def check_bundle(submission: Submission, newest: Bundle, bundle: Bundle | None) -> None:
    """The submission is for a bundle whose columns are still the newest ones.

    Args:
        submission: what is taken.
        newest: the newest version of the bundle that it names.
        bundle: the version that it names, None where it is not there.

    Raises:
        UserError: it is for another major version, for a version that is not there, or for another bundle of that name; or
            its release is older than the newest version.
    """
    major = int(submission.bundle.rpartition("@")[2].partition(".")[0])
    if major != newest.major:
        raise UserError(
            f"the submission is for {submission.bundle}, and the bundle is at {newest.key}: rows of before and after may "
            f"not stand in one column; submit it again with bundle={newest.key}"
        )
    if bundle is None:
        raise UserError(f"there is no bundle {submission.bundle}; submit again with bundle={newest.key}")
    if submission.bundle_seal != bundle.seal:
        raise UserError(f"the submission was made with another {bundle.key} than this one; submit again with this one")
    if _release(submission.harness) < _release(newest.harness.version):
        raise UserError(
            f"the submission was made with release {submission.harness}, and {newest.key} asks for "
            f"{newest.harness.version}: `pip install --upgrade attention-explainer-benchmark`, and submit again"
        )


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number of a release, which decide whether rows are comparable."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def check_record(record: Record, bundle: Bundle, place: Path) -> None:
    """The record is of the bundle's examples, model and tests.

    Raises:
        UserError: it is not; the message says in what.
    """
    for what, found, known in (
        (
            "the task",
            f"{record.task.name} version {record.task.version}",
            f"{bundle.task.name} version {bundle.task.version}",
        ),
        ("the data", record.task.fingerprint, bundle.task.fingerprint),
        ("the split", record.task.split, bundle.task.split),
        ("the model", record.model.fingerprint, bundle.model.fingerprint),
        ("the precision of the model", record.model.dtype, bundle.model.dtype),
    ):
        if found != known:
            raise UserError(
                f"{place}: {what} is another than that of {bundle.key} ({found[:20]}, not {known[:20]}); submit with the "
                f"bundle's: `attention-benchmark submit ... bundle={bundle.key}`"
            )
    if record.task.n < bundle.task.n:
        raise UserError(
            f"{place}: {record.task.n} examples are explained, and {bundle.key} has {bundle.task.n}; explain all of them"
        )
    known_tests = {(test.name, test.digest, test.statistics) for test in bundle.tests}
    named = {test.name for test in bundle.tests}
    for test in record.evaluations.values():
        if test.name in named and (test.name, test.digest, test.statistics) not in known_tests:
            raise UserError(
                f"{place}: the test {test.name} is version {test.version}, settings {test.digest[:8]}, statistics "
                f"{test.statistics}, which {bundle.key} does not know; use the release that it asks for "
                f"({bundle.harness.version}), with its settings"
            )


def check_uids(uids: Sequence[str], bundle: Bundle, place: Path) -> None:
    """Every example of the bundle is explained, each once, and no other.

    Raises:
        UserError: one is missing, stands there twice or is none of the bundle's.
    """
    known = set(bundle.task.uids)
    missing, strange = sorted(known - set(uids)), sorted(set(uids) - known)
    if missing:
        raise UserError(
            f"{place}: {_some(missing)} missing of the {len(known)} examples of {bundle.key}; explain all of them"
        )
    if strange:
        raise UserError(f"{place}: {_some(strange)} no example of {bundle.key}; leave it out")
    if len(uids) != len(known):
        twice = sorted({uid for uid in uids if list(uids).count(uid) > 1})
        raise UserError(f"{place}: {_some(twice)} there twice; give each example once")
    if tuple(uids) != bundle.task.uids:
        raise UserError(f"{place}: the examples are in another order than in {bundle.key}; submit with this release")


def _some(uids: Sequence[str]) -> str:
    return f"example '{uids[0]}' is" if len(uids) == 1 else f"examples '{uids[0]}' and {len(uids) - 1} more are"


def check_scores(run: Path, record: Record, bundle: Bundle) -> None:
    """The stored explanations are of the bundle's examples, of numbers, and of the class where the method says so.

    Raises:
        UserError: they are not, or there are none.
    """
    path = run / f"{PREDICTED.name}.safetensors"
    if not path.is_file():
        raise UserError(
            f"{run} has figures and no explanations ({path.name} is missing); figures alone cannot be computed again and "
            "are refused: submit with `attention-benchmark submit`"
        )
    stored = store.Ragged.read(path)
    check_uids(stored.uids, bundle, path)
    off = _not_finite(stored)
    if off > MOST_MISSING * len(stored.uids):
        raise UserError(
            f"{path}: of {off} of {len(stored.uids)} examples, scores are no finite numbers; at most {MOST_MISSING:.0%} "
            "may be such"
        )
    classes = run / f"{CLASSES.name}.safetensors"
    if record.method.class_specific and classes.is_file() and _ignores_classes(store.Ragged.read(classes)):
        raise UserError(
            f"{run}: the method says that it explains the class, and its scores are the same for every class; declare "
            "class_specific = False, and submit again"
        )


def _not_finite(stored: store.Ragged) -> int:
    """How many examples have a score that is no finite number."""
    scores, lengths = stored.arrays.get("tokens"), stored.arrays["lengths"].astype(int)
    if scores is None:
        return 0
    owner = np.repeat(np.arange(len(stored.uids)), lengths)
    return len(np.unique(owner[~np.isfinite(scores)]))


def _ignores_classes(stored: store.Ragged) -> bool:
    """Whether the scores of every token [ΣT, K] are the same for all classes."""
    scores = stored.arrays["classes"]
    if scores.ndim != 2 or scores.shape[1] < 2 or not scores.size:
        return False
    return bool(np.abs(scores - scores[:, :1]).max() <= _SAME * np.abs(scores).max())


def check_report(folder: Path) -> None:
    """The report of `attention-benchmark check` does not say that a class-specific method ignores the class.

    Raises:
        UserError: it does, or it cannot be read.
    """
    path = folder / CHECK
    if not path.is_file():
        return
    try:
        outcomes = bounded.parse_json(bounded.read_bytes(path))["checks"]
        failed = [one for one in outcomes if one["check"] == "class" and one["status"] == "fail"]
    except DAMAGE as error:
        raise UserError(f"{path} is no report of a check ({error}); submit again") from error
    if failed:
        raise UserError(
            f"{path}: the check of the class failed ({failed[0]['words']}); declare class_specific = False, or mend the "
            "method, and submit again"
        )


def check_source(submission: Submission, others: Iterable[Submission]) -> None:
    """Of one method and version there is one source.

    Args:
        submission: what is taken.
        others: those that are there, of all bundles.

    Raises:
        UserError: the same version of the method was submitted with another source.
    """
    for other in others:
        same = (other.method, other.target, other.version) == (submission.method, submission.target, submission.version)
        if same and submission.kind == other.kind == "method" and other.source != submission.source:
            raise UserError(
                f"{submission.method} version {submission.version} was submitted for {other.bundle} with another source; "
                "raise `version` of the class where its scores change, and submit again"
            )


def check_tests(record: Record, tests: Mapping[str, str]) -> None:
    """UserError where a record has none of the bundle's tests."""
    if not any(tests.get(test.name) == test.digest for test in record.evaluations.values()):
        raise UserError(f"{record.method.name}: its record has none of the bundle's tests; submit again")
