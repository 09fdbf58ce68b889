"""Rows and figures computed again from submitted explanations: forward passes of the bundle's model alone.

Nothing of the submitted method is run: a stand-in has its name and identity, and the explanations lie on disk.
"""

import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.report.run_folders import read_config
from benchmark.results import store
from benchmark.results.digests import digest
from benchmark.results.record import EvaluationRecord, Record
from benchmark.run.arrays import target_of_stored
from benchmark.run.cell import Cell
from benchmark.run.stages import PREDICTED, asked
from benchmark.run.steps import finish
from benchmark.run.workbench import Setting
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Evaluation, Method

ROUNDING = 1e-4
"""Largest difference of a figure that is computed on another machine; tables show three decimals."""

_SECONDS = 60.0


class Given(Method):
    """Stands for a method whose explanations are stored.

    Args:
        record: what is known of it.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.__dict__["version"] = record.method.version

    @property
    def class_specific(self) -> bool:
        """What the record says."""
        return self.record.method.class_specific

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Never asked: what is not stored is refused before.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.record.method.name}: explanations are missing, and a submitted method is not run")


def retest(
    setting: Setting, evaluations: Mapping[str, Evaluation], run: Path, folder: Path, *, texts: bool
) -> tuple[Record, Record]:
    """Compute the rows and figures of all tests from the explanations of a run folder.

    Args:
        setting: the bundle, opened.
        evaluations: its tests.
        run: the submitted run folder, whose record and rows are not used but to say what was claimed.
        folder: for the new run folder, which must not be there.
        texts: whether it may hold the words of the examples.

    Returns:
        The record that was submitted, and the one of the new folder.

    Raises:
        UserError: the explanations are of other examples, or of something else than the record says, or some are missing.
    """
    claimed = store.read_record(run)
    cell = cell_of(setting, claimed, run, folder, texts=texts)
    folder.mkdir(parents=True)
    for name in sorted(
        {stage.name for evaluation in evaluations.values() for stage in (PREDICTED, *asked(evaluation))}
    ):
        if (run / f"{name}.safetensors").is_file():
            shutil.copyfile(run / f"{name}.safetensors", folder / f"{name}.safetensors")
    if not cell.holds(PREDICTED):
        raise UserError(
            f"{run} has no explanations (attributions-predicted.safetensors): figures alone cannot be computed again"
        )
    stored = store.Ragged.read(cell.path(PREDICTED))
    if bool(target_of_stored(stored).differs(setting.data.targets("predicted")).any()):
        raise UserError(f"{cell.path(PREDICTED)}: some examples are explained for another class than the predicted one")
    _tell_refusals(cell, evaluations)
    finish(cell, evaluations)
    return claimed, store.read_record(folder)


def cell_of(setting: Setting, record: Record, run: Path, folder: Path, *, texts: bool) -> Cell:
    """The cell of a stored method, with a stand-in for it.

    Raises:
        UserError: the hash in the record is not that of these examples, this model and the method that it names.
    """
    covered = [setting.covered(record.method.identity, fitted=fitted) for fitted in (False, True)]
    known = [one for one in covered if digest(one) == record.hash]
    if not known:
        raise UserError(
            f"{run / 'record.json'}: its hash is not that of these examples, this model and the method that it names; "
            "explain again with `attention-benchmark submit`"
        )
    return Cell(
        folder=folder,
        name=record.method.name,
        compared=Given(record),
        model=setting.model,
        data=setting.data,
        identity={**known[0], "hash": record.hash},
        config=read_config(run),
        checkpoint_seconds=_SECONDS,
        texts=texts,
    )


NOT_SUBMITTED = "the submission does not have what this test reads"


def _tell_refusals(cell: Cell, evaluations: Mapping[str, Evaluation]) -> None:
    """Of what the submission does not hold, the test is a dash that says so, in words of ours."""
    for evaluation in evaluations.values():
        for stage in asked(evaluation):
            if not cell.holds(stage) and (cell.method.class_specific or not stage.of_others):
                cell.refuse(stage, NOT_SUBMITTED)


def differences(claimed: Record, found: Record, tests: Mapping[str, str]) -> Iterator[str]:
    """Figures of the bundle's tests that a record has otherwise than they are when they are computed again.

    Args:
        claimed: the record that was submitted.
        found: the one that was computed.
        tests: the identity of each test by its name.
    """
    before, after = (_of_tests(record, tests) for record in (claimed, found))
    for name, test in after.items():
        known = {(figure.metric, _x(figure.x)): figure for figure in before[name].figures} if name in before else {}
        for figure in test.figures:
            old = known.get((figure.metric, _x(figure.x)))
            if old is None or not _alike(old.value, figure.value) or old.n != figure.n:
                said = "nothing" if old is None else f"{old.value:.6g} (n = {old.n})"
                now = f"{figure.value:.6g} (n = {figure.n})"
                yield f"{name}.{figure.metric} is {said} in the record, and {now} from its rows"


def _of_tests(record: Record, tests: Mapping[str, str]) -> dict[str, EvaluationRecord]:
    return {test.name: test for test in record.evaluations.values() if tests.get(test.name) == test.digest}


def _x(x: float) -> float | None:
    return None if math.isnan(x) else x


def _alike(first: float, second: float) -> bool:
    return (math.isnan(first) and math.isnan(second)) or abs(first - second) <= ROUNDING * max(1.0, abs(second))
