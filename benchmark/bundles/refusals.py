"""What a repository does not take, each in one line with the way out.

Nothing that a submission says of itself is believed where it can be looked at: the explanations are held to the bundle's
examples and tokens, and the name, the class and the settings in its files to each other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.bundles.bundle import Bundle
from benchmark.bundles.submission import CHECK, Submission, check_method_name, class_of
from benchmark.errors import UserError, shorter
from benchmark.results import bounded, store
from benchmark.results.annotated import as_dataclass
from benchmark.results.control_names import control_order
from benchmark.results.digests import DAMAGE
from benchmark.results.record import Record
from benchmark.results.store import Ragged
from benchmark.run.stages import CLASSES, PREDICTED
from benchmark.targets import TARGET_FIELDS
from benchmark.types import layouts

_SAME = 1e-4  # of the largest magnitude: below it, scores of two classes are the same
_COST = {"seconds", "forward_passes", "backward_passes"}


def check_name(name: str, target: str, bundle: Bundle, references: Mapping[str, str]) -> None:
    """The name can stand in a path, and is not that of a control or of another method of the bundle.

    Args:
        name: of the method.
        target: its class.
        bundle: that it is submitted to.
        references: by name, the class of each method that is part of the bundle.

    Raises:
        UserError: it cannot, or is.
    """
    check_method_name(name)
    if control_order(name) and references.get(name) != target:
        raise UserError(f"{name} is what a control is called; give the method another name")
    if name in references and references[name] != target:
        raise UserError(f"{bundle.key} has a method '{name}' of another class; give yours another name")


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
    return tuple(int(part) for part in version.split(".")[:2])


def check_record(record: Record, bundle: Bundle, place: Path) -> None:
    """The record is of the bundle's examples, model and tests.

    Raises:
        UserError: it is not; the message says in what.
    """
    task, known_task = (f"{one.name} version {one.version}" for one in (record.task, bundle.task))
    for what, found, known in (
        ("the task", task, known_task),
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


def check_identity(submission: Submission, record: Record, config: Mapping[str, Any], place: Path) -> None:
    """What is shown of the method, what its record covers and what an audit runs are the same class.

    Raises:
        UserError: they are not.
    """
    said, known = (
        (one.method, one.version, one.hash)
        if isinstance(one, Submission)
        else (one.method.name, one.method.version, one.hash)
        for one in (submission, record)
    )
    of_record, settings = class_of(record.method.identity), config.get("method")
    of_config = settings.get("_target_") if isinstance(settings, Mapping) else None
    if said != known or {submission.target, of_config} != {of_record}:
        raise UserError(
            f"{place}: submission.json, record.json and config.yaml are of different methods ({submission.target}, "
            f"{shorter(of_record, 60)}, {shorter(str(of_config), 60)}); submit again"
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
    first = shorter(uids[0], 60)
    return f"example '{first}' is" if len(uids) == 1 else f"examples '{first}' and {len(uids) - 1} more are"


def check_scores(run: Path, record: Record, bundle: Bundle, lengths: Mapping[str, int], n_classes: int) -> None:
    """The stored explanations are finite numbers, one for each token of each example that a file is of.

    Args:
        run: the run folder.
        record: what it says.
        bundle: whose examples are explained.
        lengths: tokens of each example.
        n_classes: of the model.

    Raises:
        UserError: they are not, or there are none.
    """
    path = run / f"{PREDICTED.name}.safetensors"
    if not path.is_file():
        raise UserError(
            f"{run} has figures and no explanations ({path.name} is missing); figures alone cannot be computed again and "
            "are refused: submit with `attention-benchmark submit`"
        )
    for file in sorted(run.glob("*.safetensors")):
        try:
            stored = Ragged.read(file)
        except (*DAMAGE, AssertionError) as error:
            raise UserError(f"{file} cannot be read ({error}); submit again") from error
        whole = file.stem in (PREDICTED.name, CLASSES.name)
        if whole:
            check_uids(stored.uids, bundle, file)
        elif len(set(stored.uids)) != len(stored.uids) or not set(stored.uids) <= set(bundle.task.uids):
            raise UserError(f"{file}: an example is there twice, or is none of {bundle.key}'s; submit again")
        _check_arrays(file, stored, lengths, n_classes)
    if (classes := run / f"{CLASSES.name}.safetensors").is_file():
        _check_classes(run, Ragged.read(classes), class_specific=record.method.class_specific)


def _check_arrays(file: Path, stored: Ragged, lengths: Mapping[str, int], n_classes: int) -> None:
    """Names, shapes and numbers of the arrays of one file."""

    def refuse(what: str) -> None:
        raise UserError(f"{file}: {what}; submit again")

    count, total = len(stored.uids), sum(lengths[uid] for uid in stored.uids)
    known = {"lengths", *TARGET_FIELDS, *layouts()}
    needed = {"lengths", "target", "classes" if file.stem == CLASSES.name else "tokens"}
    if strange := sorted(set(stored.arrays) - known):
        refuse(f"there is an array '{shorter(strange[0], 40)}', which no explanation has")
    if lacking := sorted(needed - set(stored.arrays)):
        refuse(f"the array '{lacking[0]}' is missing")
    own = stored.arrays["lengths"]
    if own.dtype.kind not in "iu" or own.shape != (count,) or own.tolist() != [lengths[uid] for uid in stored.uids]:
        refuse("the numbers of tokens are others than the bundle's")
    target = stored.arrays["target"]
    if target.dtype.kind not in "iu" or target.shape != (count,) or not ((target >= 0) & (target < n_classes)).all():
        refuse("what is explained is no class of the model")
    for name, array in stored.arrays.items():
        if problem := _problem(name, array, count, total):
            refuse(problem)
    if set(stored.cost) != _COST or not all(_is_amount(value) for value in stored.cost.values()):
        refuse("what explaining cost is no seconds and passes")


def _problem(name: str, array: np.ndarray, count: int, total: int) -> str:
    """What is wrong with an array of so many examples and tokens; empty where nothing is."""
    of_tokens = layouts()[name].of_tokens if name in layouts() else 0
    rows = total if of_tokens == 1 else None if of_tokens else count
    if array.ndim == 0 or (rows is not None and len(array) != rows):
        return f"'{name}' has not one entry for each token, or each example"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return f"some scores of '{name}' are no finite numbers; explain these examples, or leave the method out"
    if name in ("tokens", "classes") and (array.dtype.kind != "f" or array.ndim != (1 if name == "tokens" else 2)):
        return f"'{name}' is no array of scores"
    return ""


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _check_classes(run: Path, stored: Ragged, *, class_specific: bool) -> None:
    """Whether scores of classes differ is what the method says."""
    scores = stored.arrays["classes"]
    if scores.shape[1] < 2 or not scores.size:
        return
    same = bool(np.abs(scores - scores[:, :1]).max() <= _SAME * np.abs(scores).max())
    if class_specific and same:
        raise UserError(
            f"{run}: the method says that it explains the class, and its scores are the same for every class; declare "
            "class_specific = False, and submit again"
        )
    if not class_specific and not same:
        raise UserError(
            f"{run}: the method says that it does not look at the class, and its scores differ between classes; declare "
            "class_specific = True, and submit again"
        )


@dataclass(frozen=True)
class Outcome:
    """A line of a check's report (`benchmark.checking.report.Outcome`), as it was submitted."""

    check: str
    model: str
    status: str
    words: str


@dataclass(frozen=True)
class CheckReport:
    """The report of `attention-benchmark check`, as it was submitted: nobody made the check again."""

    checks: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether no outcome is a failure, and one a pass."""
        statuses = {one.status for one in self.checks}
        return "pass" in statuses and "fail" not in statuses

    @staticmethod
    def read(folder: Path) -> "CheckReport | None":
        """The report in a folder; None where there is none.

        Raises:
            UserError: it is something else.
        """
        path = folder / CHECK
        if not path.is_file():
            return None
        try:
            report: CheckReport = as_dataclass(CheckReport, bounded.parse_json(bounded.read_bytes(path)), "")
        except DAMAGE as error:
            raise UserError(f"{path} is no report of a check ({error}); submit again") from error
        return report


def check_report(folder: Path) -> None:
    """The report of `attention-benchmark check` does not say that a class-specific method ignores the class.

    Raises:
        UserError: it does, or it cannot be read.
    """
    report = CheckReport.read(folder)
    for one in report.checks if report is not None else ():
        if (one.check, one.status) == ("class", "fail"):
            raise UserError(
                f"{folder / CHECK}: the check of the class failed ({shorter(one.words, 120)}); mend the method, or what its "
                "class declares (class_specific), and submit again"
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
        same = (other.target, other.version) == (submission.target, submission.version)
        if same and submission.kind == other.kind == "method" and other.source != submission.source:
            raise UserError(
                f"{submission.method} version {submission.version} was submitted for {other.bundle} with another source; "
                "raise `version` of the class where its scores change, and submit again"
            )


def read_record(run: Path) -> Record:
    """The record of a submitted run folder.

    Raises:
        UserError: it is none.
    """
    try:
        return store.read_record(run)
    except DAMAGE as error:
        raise UserError(f"{run / 'record.json'} cannot be read ({error}); submit again") from error
