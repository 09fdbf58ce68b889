"""Bring a cell up to date: run the tests that are missing, and write the record that the report reads."""

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from benchmark import progress
from benchmark.errors import Corrupt, NotApplicable, UserError, one_line
from benchmark.models.guard import ModelChangedError
from benchmark.results import bounded, commits, statistics, store
from benchmark.results.record import ROWS, CostRecord, EvaluationRecord, MethodRecord, ModelRecord, Record
from benchmark.results.rows import NOTHING, Share, write_rows
from benchmark.results.store import Ragged
from benchmark.run.cell import Cell
from benchmark.run.graph_views import graphs, stored_target
from benchmark.run.heatmap_views import eraser_predictions, heatmaps
from benchmark.run.offers import JointMethod
from benchmark.run.origins import origins_of, today
from benchmark.run.testing import READ_TIES, evaluate, reworded, stages
from benchmark.settings.identity import digests_of, identity
from benchmark.types import Evaluation

logger = logging.getLogger(__name__)

_MADE_AGAIN = re.compile(r"config\.yaml|heatmap\.json|graphs\.json|eraser_predictions(-.*)?\.jsonl")
"""Names of files that follow from the others; one that is damaged is made again."""


@dataclass(frozen=True)
class Finished:
    """What was done to bring a cell up to date.

    Attributes:
        computed: how many of its tests were computed, explanations included.
        reused: how many were there.
        written: whether anything in the folder changed.
        seconds: how long it took.
    """

    computed: int
    reused: int
    written: bool
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.written:
            return "reused"
        took = progress.duration(self.seconds)
        if not self.computed:
            return f"tests reused, files made again in {took}"
        if not self.reused:
            return f"computed in {took}"
        return f"{self.computed} of {self.computed + self.reused} tests computed in {took}, the others reused"


def finish(cell: Cell, evaluations: Mapping[str, Evaluation]) -> Finished:
    """Bring a cell up to date under its lock: what is stored and still holds is reused; the record comes last.

    Rows are kept as long as the test's identity is the same; figures are reduced again from them where the statistics'
    version has changed, and the words of tests and metrics are today's. Figures whose rows are not there are computed
    again, and files that are missing are made again.

    Raises:
        UserError: the folder is damaged, or another cell's.
        ModelChangedError: the method left the model changed; the folder is what it was.
    """
    with cell.lock:
        start = time.monotonic()
        held = commits.Held.of(cell.folder)
        try:
            finished = _finish(cell, evaluations)
        except ModelChangedError:
            held.take_back()
            raise
        commits.clean(cell.folder)
        return replace(finished, seconds=time.monotonic() - start)


def pending(cell: Cell, evaluations: Mapping[str, Evaluation]) -> dict[str, int]:
    """What `finish` would compute, as far as the record tells: examples by the name of the stage that goes over them."""
    try:
        old = _old_record(cell)
    except UserError:
        return {}  # `finish` says what is wrong
    tested, digests = {} if old is None else old.evaluations, digests_of(evaluations)
    steps = (
        {} if old is not None or cell.holds("attributions-predicted") else {"attributions-predicted": cell.data.facts.n}
    )
    for name, evaluation in evaluations.items():
        test = tested.get(_key(tested, name, evaluation, digests[name]))
        if not (_is_current(test, evaluation, digests[name]) or _same_rows(test, digests[name])):
            steps |= stages(cell, evaluation)
    joint = {"attributions-predicted", "edges-predicted"}
    if isinstance(cell.method, JointMethod) and joint <= steps.keys():
        steps = {"explained-with-edges": cell.data.facts.n} | {name: steps[name] for name in steps if name not in joint}
    return steps


def _finish(cell: Cell, evaluations: Mapping[str, Evaluation]) -> Finished:
    old = _old_record(cell)
    lost = set() if old is None else _lost(cell.folder, old)
    rows = {} if old is None else _stored_rows(cell)
    stored = {} if old is None else old.evaluations
    tested = {name: test for name, test in stored.items() if test.rows == rows.get(name, NOTHING).digest}
    digests = digests_of(evaluations)
    keys = {name: _key(tested, name, evaluation, digests[name]) for name, evaluation in evaluations.items()}
    stale = [name for name, test in evaluations.items() if not _is_current(tested.get(keys[name]), test, digests[name])]
    worded = {
        keys[name]: reworded(cell, tested[keys[name]], test)
        for name, test in evaluations.items()
        if keys[name] in tested
    }
    if old is not None and not stale and not lost and len(tested) == len(stored):
        if any(_words(test) != _words(tested[key]) for key, test in worded.items()):
            commits.write_record(cell.folder, replace(old, evaluations={**old.evaluations, **worded}))
        return Finished(0, len(evaluations), written=False)
    tested |= worded
    config = _readable_settings(cell, [evaluations[name] for name in stale])
    if any(evaluations[name].reads == "edges" and evaluations[name].target == "predicted" for name in stale):
        cell.explain_with_edges()
    for name in stale:
        key = keys[name]
        reused = rows.get(key, NOTHING) if _same_rows(tested.get(key), digests[name]) else None
        with progress.step(name):
            tested[key], rows[key] = evaluate(cell, name, evaluations[name], reused)
    tested, rows = _in_one_order(tested, rows)
    written = cell.folder / "parts" / "rows.parquet"
    write_rows(written, rows)
    attributions = _attributions(cell)
    contents: dict[str, bytes | Path] = {"rows.parquet": written, **_pages(cell, attributions, tested, rows)}
    for path in cell.folder.glob("eraser_predictions*.jsonl"):
        if path.name not in contents:  # of a test that bears another name now
            path.unlink()
    if old is None or "config.yaml" not in old.files or "config.yaml" in lost:  # what differs changes no number
        contents["config.yaml"] = config
    commits.commit(cell.folder, contents, _record(cell, attributions, tested, old))
    return Finished(len(stale), len(evaluations) - len(stale), written=True)


def _words(test: EvaluationRecord) -> tuple[Any, ...]:
    """What a record says beside figures, which may be worded anew."""
    return test.about, test.metrics, test.remark


def _readable_settings(cell: Cell, evaluations: Sequence[Evaluation]) -> bytes:
    """The content of `config.yaml`; UserError, before anything is computed, where settings could not be read again."""
    content = OmegaConf.to_yaml(OmegaConf.create(dict(cell.config))).encode()
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
    return content


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


def _same_rows(test: EvaluationRecord | None, digest: str) -> bool:
    """Whether the stored rows are those that the test would give; where it could not serve, it is asked again."""
    return test is not None and test.digest == digest and test.dash is None


def _is_current(test: EvaluationRecord | None, evaluation: Evaluation, digest: str) -> bool:
    """Whether the record says of a test what it would say today; one of before ties were counted does not."""
    if test is None or (test.digest, test.statistics) != (digest, statistics.VERSION):
        return False
    return test.tied is not None or test.dash is not None or evaluation.reads not in READ_TIES


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
    """What the folder holds for people and for other tools."""
    contents: dict[str, bytes] = {}
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
            labels=tuple(model.labels),
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
    )
