"""The record of a cell: what its run folder holds and what is left to do, and what is written when all is done."""

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from benchmark.errors import Corrupt, NotApplicable, UserError, one_line
from benchmark.models.next_token import VOCABULARY
from benchmark.results import bounded, commits, statistics, store
from benchmark.results.record import ROWS, Answers, CostRecord, EvaluationRecord, MethodRecord, ModelRecord, Record
from benchmark.results.rows import NOTHING, Share, write_rows
from benchmark.results.store import Ragged
from benchmark.run.cell import Cell
from benchmark.run.encoded import labels_of
from benchmark.run.origins import origins_of, today
from benchmark.run.reducing import READ_TIES, reworded
from benchmark.run.views import eraser_predictions, graphs, heatmaps, stored_target
from benchmark.settings.identity import digests_of, identity
from benchmark.types import Evaluation

logger = logging.getLogger(__name__)

_MADE_AGAIN = re.compile(r"config\.yaml|heatmap\.json|graphs\.json|eraser_predictions(-.*)?\.jsonl")
"""Names of files that follow from the others; one that is damaged is made again."""


@dataclass(frozen=True)
class State:
    """What a run folder holds of the tests of a comparison, before a step is taken.

    Attributes:
        old: its record; None where the cell is not finished.
        lost: files that the record names and that are to be made again.
        rows: by test, those that are stored.
        tested: by test, what the record says, as far as the rows are there, in the words of today.
        keys: by the name of a test in the comparison, what it is called in the record.
        stale: names of the tests whose figures are not in the record, or no longer hold.
    """

    old: Record | None
    lost: Set[str]
    rows: Mapping[str, Share]
    tested: Mapping[str, EvaluationRecord]
    keys: Mapping[str, str]
    stale: Sequence[str]
    _digests: Mapping[str, str]

    @classmethod
    def of(cls, cell: Cell, evaluations: Mapping[str, Evaluation]) -> "State":
        """What it holds, with a look at its files.

        Raises:
            UserError: the folder is damaged, or another cell's.
        """
        old = _old_record(cell)
        lost = set() if old is None else _lost(cell.folder, old)
        rows = {} if old is None else _stored_rows(cell)
        stored = {} if old is None else old.evaluations
        tested = {name: test for name, test in stored.items() if test.rows == rows.get(name, NOTHING).digest}
        state = cls._of(old, lost, rows, tested, evaluations)
        worded = {
            key: reworded(cell, tested[key], evaluations[name]) for name, key in state.keys.items() if key in tested
        }
        return replace(state, tested={**tested, **worded})

    @classmethod
    def recorded(cls, cell: Cell, evaluations: Mapping[str, Evaluation]) -> "State":
        """What the record says that it holds.

        Raises:
            UserError: the folder is another cell's.
        """
        old = _old_record(cell)
        return cls._of(old, set(), {}, {} if old is None else old.evaluations, evaluations)

    @classmethod
    def _of(
        cls,
        old: Record | None,
        lost: Set[str],
        rows: Mapping[str, Share],
        tested: Mapping[str, EvaluationRecord],
        evaluations: Mapping[str, Evaluation],
    ) -> "State":
        digests = digests_of(evaluations)
        keys = {name: _key(tested, name, test, digests[name]) for name, test in evaluations.items()}
        stale = [n for n, test in evaluations.items() if not _is_current(tested.get(keys[n]), test, digests[n])]
        return cls(old, lost, rows, tested, keys, stale, digests)

    def has_rows(self, name: str) -> bool:
        """Whether the stored rows are those that the test would give; where it could not serve, it is asked again."""
        test = self.tested.get(self.keys[name])
        return test is not None and test.digest == self._digests[name] and test.dash is None

    @property
    def is_current(self) -> bool:
        """Whether nothing is left to do but to word the record anew."""
        return (
            self.old is not None
            and not self.stale
            and not self.lost
            and self.tested.keys() == self.old.evaluations.keys()
        )

    def keep_words(self, cell: Cell) -> None:
        """Write the record with the words of today, where they are others."""
        assert self.old is not None
        before = self.old.evaluations
        if any(_words(test) != _words(before[key]) for key, test in self.tested.items()):
            commits.write_record(cell.folder, replace(self.old, evaluations={**before, **self.tested}))

    def check_settings(self, cell: Cell, evaluations: Sequence[Evaluation]) -> None:
        """Look, before anything is computed, whether the settings of a cell and of these tests can be read again.

        Raises:
            UserError: they hold more than is read.
        """
        content = _settings(cell)
        try:
            bounded.check_written("config.yaml", len(content))
            bounded.parse_yaml(content)
            described = {"identity": cell.identity, "tests": [identity(evaluation) for evaluation in evaluations]}
            bounded.parse_json(json.dumps(described, default=str).encode())
        except ValueError as error:
            raise UserError(
                f"methods.{cell.name}: its record could not be read again, as its settings, or those of its task, model or "
                f"tests, hold more than is read ({one_line(error)}); give shorter ones"
            ) from error


def keep(cell: Cell, state: State, tested: Mapping[str, EvaluationRecord], rows: Mapping[str, Share]) -> None:
    """Commit the figures and rows of all tests of a cell, with what follows from them for people; the record comes last."""
    tested, rows = _in_one_order(tested, rows)
    written = cell.folder / "parts" / "rows.parquet"
    write_rows(written, rows)
    attributions = _attributions(cell)
    contents: dict[str, bytes | Path] = {"rows.parquet": written, **_pages(cell, attributions, tested, rows)}
    for path in cell.folder.glob("eraser_predictions*.jsonl"):
        if path.name not in contents:  # of a test that bears another name now
            path.unlink()
    old = state.old
    if old is None or "config.yaml" not in old.files or "config.yaml" in state.lost:  # what differs changes no number
        contents["config.yaml"] = _settings(cell)
    commits.commit(cell.folder, contents, _record(cell, attributions, tested, old))


def _settings(cell: Cell) -> bytes:
    """The content of `config.yaml`."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(cell.config))).encode()


def _words(test: EvaluationRecord) -> tuple[Any, ...]:
    """What a record says beside figures, which may be worded anew."""
    return test.about, test.metrics, test.remark


def _old_record(cell: Cell) -> Record | None:
    """The record that the folder holds; None where there is none that can be added to."""
    old = store.find_record(cell.folder)
    if old is not None and old.hash != cell.identity["hash"]:
        raise UserError(f"{cell.folder} holds another cell, whose name is the same by chance; choose another out=")
    return old


def _lost(folder: Path, old: Record) -> set[str]:
    """Files that the record names and that are to be made again; UserError where one is damaged that nothing else gives."""
    lost = {"rows.parquet"} if old.coming else set()  # a kill between rows and record
    for name in old.files:
        path = folder / name
        if not path.exists():
            lost.add(name)
        elif store.hash_of(path) not in old.digests(name):
            if not _MADE_AGAIN.fullmatch(name):
                raise Corrupt(path, store.NOT_AS_RECORDED)
            lost.add(name)
    if damaged := sorted(filter(_MADE_AGAIN.fullmatch, lost)):
        logger.warning("%s: %s missing or damaged; made again", folder, ", ".join(damaged))
    return lost


def _stored_rows(cell: Cell) -> dict[str, Share]:
    """The rows of each test; none where they are gone."""
    if not (cell.folder / "rows.parquet").exists():
        return {}
    stored = store.stored_rows(cell.folder)
    return {name: Share(stored, name) for name in stored.tests}


def _key(tested: Mapping[str, EvaluationRecord], name: str, evaluation: Evaluation, digest: str) -> str:
    """Where the record keeps a test: under its name, and with its digest where another of that name is there.

    Jobs that give one name other settings share a folder without losing each other's figures. What an earlier version of
    the same class left is replaced.
    """
    for key, test in tested.items():
        if (test.name, test.digest) == (name, digest):
            return key
    old = tested.get(name)
    replaced = old is None or (old.identity[0] == identity(evaluation)[0] and old.version != evaluation.version)
    return name if replaced else f"{name}-{digest[:8]}"


def _in_one_order(
    tested: Mapping[str, EvaluationRecord], rows: Mapping[str, Share]
) -> tuple[dict[str, EvaluationRecord], dict[str, Share]]:
    """Tests and their rows as any history of commands that asked for these tests leaves them: by name, and named alike.

    Tests that share a name bear their digest too, whichever came first.
    """
    alike = Counter(test.name for test in tested.values())
    names = {
        key: test.name if alike[test.name] == 1 else f"{test.name}-{test.digest[:8]}" for key, test in tested.items()
    }
    ordered = sorted(tested, key=names.__getitem__)
    return (
        {names[key]: tested[key] for key in ordered},
        {names[key]: rows[key] for key in ordered if key in rows},
    )


def _is_current(test: EvaluationRecord | None, evaluation: Evaluation, digest: str) -> bool:
    """Whether the record says of a test what it would say today; one of before half constant maps were counted does not."""
    if test is None or (test.digest, test.statistics) != (digest, statistics.VERSION):
        return False
    return test.half_constant is not None or test.dash is not None or evaluation.reads not in READ_TIES


def _attributions(cell: Cell) -> Ragged | None:
    """Those for the predicted classes; None where the method cannot serve."""
    try:
        return cell.explain("predicted")
    except NotApplicable:
        return None


def _of_labels(cell: Cell, tested: Mapping[str, EvaluationRecord]) -> bool:
    """Whether images are shown with the annotated class explained: where every test explains it."""
    return cell.data.batches[0].grid is not None and {test.identity[2].get("target") for test in tested.values()} == {
        "label"
    }


def _pages(
    cell: Cell, attributions: Ragged | None, tested: Mapping[str, EvaluationRecord], rows: Mapping[str, Share]
) -> dict[str, bytes]:
    """What the folder holds for people and for other tools; nothing where that would show words that it may not hold."""
    contents: dict[str, bytes] = {}
    if not cell.texts:
        return contents
    if attributions is not None:
        shown = cell.explain("label") if _of_labels(cell, tested) else attributions
        contents["heatmap.json"] = store.json_bytes(heatmaps(cell, shown))
        with suppress(NotApplicable):
            contents |= eraser_predictions(cell, tested, rows)
    if (which := stored_target(cell)) is not None and cell.model.streams.count == 1:  # graphs of one sequence of tokens
        contents["graphs.json"] = store.json_bytes(graphs(cell, which))
    return contents


def computed(path: Path) -> bool:
    """Whether a file of a run folder is what a method gave, rather than what follows from others."""
    return (
        path.is_file()
        and not path.name.startswith(".")
        and not (_MADE_AGAIN.fullmatch(path.name) or path.name in ("record.json", "rows.parquet"))
    )


def _answers(cell: Cell, attributions: Ragged | None) -> Answers | None:
    """How often the classes that are explained as predicted are the annotated ones."""
    labels = np.array(labels_of(cell.data.batches))
    if attributions is None or cell.model.multilabel or (labels < 0).any():
        return None
    right = labels == attributions.arrays["target"]
    return Answers(int(right.sum()), int(np.unique(labels, return_counts=True)[1].max(initial=0)))


def _record(
    cell: Cell, attributions: Ragged | None, tested: Mapping[str, EvaluationRecord], old: Record | None
) -> Record:
    """Everything that the report needs of a finished cell."""
    model, reasons = cell.model, {test.dash for test in tested.values()}
    files = {path.name: path.name for path in cell.folder.iterdir() if computed(path)}
    origins = origins_of(cell.folder, old, files | {f"{ROWS}{name}": test.digest for name, test in tested.items()})
    explained = origins.get("attributions-predicted.safetensors", today())
    return Record(
        hash=cell.identity["hash"],
        task=cell.data.facts,
        model=ModelRecord(
            name=model.name,
            fingerprint=model.fingerprint,
            dtype=str(model.dtype).removeprefix("torch."),
            n_layers=model.n_layers,
            n_heads=model.n_heads,
            labels=() if model.encoder.over == VOCABULARY else tuple(model.labels),
        ),
        method=MethodRecord(
            name=cell.name,
            identity=cell.identity["method"],
            version=cell.method.version,
            class_specific=cell.method.class_specific,
        ),
        versions=explained.versions,
        git_commit=explained.git_commit,
        dash=next(iter(reasons)) if len(reasons) == 1 else None,
        cost=CostRecord(cell.data.runner.peak_memory(), **({} if attributions is None else attributions.cost)),
        evaluations={name: tested[name] for name in sorted(tested)},
        origins=origins,
        answers=_answers(cell, attributions),
    )
