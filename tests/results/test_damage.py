"""What a disk, a kill or an editor made of a run folder is never read as a result."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmark.errors import UserError
from benchmark.notebook.tables import leaderboard
from benchmark.report.analysis_tables import read_tables
from benchmark.report.cells import load_cells
from benchmark.report.run_folders import check_rows, read_config
from benchmark.results import commits, statistics, store
from benchmark.results.comparison_folders import Compared
from benchmark.results.digests import sealed
from benchmark.results.plans import Account, Plan, PlannedCell, Spent, found
from benchmark.results.record import About, Figure, Metric
from benchmark.results.rows import ROW_COLUMNS, StoredRows
from benchmark.results.store import Ragged
from benchmark.results.tables import not_applicable
from tests import tiny_task
from tests.load.jobs import Place
from tests.records import evaluation_record, rows_bytes
from tests.report import folders
from tests.report.folders import write_cell

FLIPS = 400
NAN = float("nan")
TESTS = ("methods=[raw_attention]", "evaluations=[rationale,attribution_graph]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("place")).prepare()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No pictures, and no waiting for a writer who may be between two files."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
    monkeypatch.setattr("benchmark.report.write.graph_files", lambda *_: iter(()))
    monkeypatch.setattr(store, "_PATIENCE", (0.0,))
    tiny_task.CALLS.clear()


@pytest.fixture(scope="module")
def finished(place):
    """A run folder with edges and graphs, and parts as a kill leaves them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        (cell,) = place.run(place.folder / "finished", *TESTS).cells
    for name in ("parts", "analyses"):  # of a comparison's folder, the latter
        (cell / name).mkdir()
    shutil.copy(cell / "rows.parquet", cell / "parts" / "000000-000002.parquet")
    Ragged.read(cell / "attributions-predicted.safetensors").write(cell / "parts" / "000000-000002.safetensors")
    store.write_json(cell / "parts" / "triggers.json", sealed({"triggers": [1.5, "a"], "name": {"b": None}}))
    Compared(("a/b/c-12345678",), {"t": "0" * 64}).write(cell / "parts")
    Plan(60, 0.01, 1.0, 4.0, 12, (PlannedCell("rollout", seconds=10.25),)).write(cell / "parts" / "plan.json")
    Account(cells={"rollout": Spent(1.5, 10, 20)}).write(cell / "parts" / "spent.json")
    table = not_applicable("gaps", "there are none")
    store.write_json(cell / "analyses" / "gaps.json", sealed({"tables": [table.to_json()], "reads": {}}))
    return cell


@pytest.fixture
def cell(finished, tmp_path):
    """A copy of it without the parts, in an `out` of its own."""
    folder = tmp_path / finished.relative_to(finished.parents[2])
    shutil.copytree(finished, folder, ignore=shutil.ignore_patterns("parts", "analyses"))
    return folder


def arrays(path):
    found = Ragged.read(path)
    return found.uids, dict(found.cost), {name: array.tobytes() for name, array in found.arrays.items()}


READERS = {
    "record.json": lambda path: store.read_record(path.parent),
    "rows.parquet": lambda path: store.read_rows(path.parent).to_csv(),
    "attributions-predicted.safetensors": arrays,
    "edges-predicted.safetensors": arrays,
    "heatmap.json": store.read_json,
    "graphs.json": store.read_json,
    "config.yaml": lambda path: read_config(path.parent),
    "parts/000000-000002.parquet": lambda path: StoredRows.read_from(path).frame().to_csv(),
    "parts/000000-000002.safetensors": arrays,
    "parts/triggers.json": store.read_sealed,
    "parts/comparison.json": lambda path: Compared.read(path.parent),
    "parts/plan.json": Plan.read,
    "parts/spent.json": Account.read,
    "analyses/gaps.json": lambda path: [table.to_json() for table in read_tables(path.parents[1])],
}


def refusal(read, before):
    """The message with which something is not read; None where it is read as it was."""
    try:
        found = read()
    except UserError as error:
        return str(error)
    assert found == before
    return None


@pytest.mark.parametrize("name", READERS)
def test_no_flipped_bit_is_read_as_other_content(finished, tmp_path, name):
    folder = tmp_path / "cell"
    shutil.copytree(finished, folder)
    path = folder / name
    content, before = path.read_bytes(), READERS[name](path)
    generator = np.random.default_rng(0)
    refused = 0
    for place in generator.integers(0, 8 * len(content), size=FLIPS).tolist():
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(damaged))
        message = refusal(lambda: READERS[name](path), before)
        refused += message is not None
        assert message is None or (path.name in message and len(message.splitlines()) == 1)
    assert refused > 0.5 * FLIPS  # of the others Parquet makes no use


def test_every_file_of_the_folder_is_in_the_record(cell):
    files = store.read_record(cell).files
    assert set(files) == {path.name for path in cell.iterdir()} - {"record.json"}
    assert files == {name: store.hash_of(cell / name) for name in files}


def test_a_later_test_updates_the_digests(place, cell):
    out = cell.parents[2]
    before = store.read_record(cell).files
    place.run(out, TESTS[0], "evaluations=[rationale,head_pruning]")
    record = store.read_record(cell)
    assert set(record.evaluations) == {"rationale", "attribution_graph", "head_pruning"}
    assert record.files["rows.parquet"] != before["rows.parquet"]
    assert any(name.startswith("attributions-calibration") for name in record.files)
    assert record.files == {path.name: store.hash_of(path) for path in cell.iterdir() if path.name != "record.json"}
    assert load_cells([cell])


@pytest.mark.parametrize("name", ["heatmap.json", "graphs.json", "config.yaml"])
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_what_follows_from_the_rest_is_made_again(place, cell, finished, name, damage):
    if damage == "gone":
        (cell / name).unlink()
    else:
        (cell / name).write_bytes((cell / name).read_bytes()[:-9])
    place.run(cell.parents[2], *TESTS)
    assert (cell / name).read_bytes() == (finished / name).read_bytes()
    assert store.read_record(cell).evaluations.keys() == {"rationale", "attribution_graph"}
    assert load_cells([cell])


@pytest.mark.parametrize("name", ["rows.parquet", "attributions-predicted.safetensors", "edges-predicted.safetensors"])
def test_what_the_figures_come_from_is_not(place, cell, name):
    content = bytearray((cell / name).read_bytes())
    content[len(content) // 2] ^= 1
    (cell / name).write_bytes(bytes(content))
    with pytest.raises(UserError) as caught:
        place.run(cell.parents[2], *TESTS)
    assert str(caught.value).startswith(f"{cell / name} is corrupt (")
    assert f"remove the folder {cell}" in str(caught.value)


def test_rows_that_are_gone_make_their_figures_stale(place, cell, finished):
    """As an interleaving of two jobs without a lock left them: figures of two tests, rows of one."""
    record, rows = store.read_record(cell), store.read_rows(cell)
    kept = rows[rows["evaluation"] == "rationale"]
    commits.commit(cell, {"rows.parquet": rows_bytes(kept)}, record)
    with pytest.raises(UserError, match="the rows of attribution_graph are not those that its figures come from"):
        load_cells([cell])
    place.run(cell.parents[2], *TESTS)
    assert figures(cell) == figures(finished)
    assert load_cells([cell])


def figures(cell):
    return {name: (test.figures, test.rows) for name, test in store.read_record(cell).evaluations.items()}


def test_a_kill_between_rows_and_record_is_carried_on_from(place, cell, finished, monkeypatch):
    """Rows of one more test are in place, the record is not."""
    writes = []

    def stop(folder, record):
        writes.append(record)
        if not record.coming:
            raise KeyboardInterrupt
        store.write_json(folder / "record.json", sealed(record.to_json()))

    with monkeypatch.context() as patch:
        patch.setattr(commits, "write_record", stop)
        with pytest.raises(KeyboardInterrupt):
            place.run(cell.parents[2], TESTS[0], "evaluations=[perturbation]")
    assert [bool(record.coming) for record in writes] == [True, False]
    assert set(store.read_rows(cell)["evaluation"]) == {"rationale", "attribution_graph", "perturbation"}
    assert store.read_record(cell).evaluations.keys() == {"rationale", "attribution_graph"}
    place.run(cell.parents[2], TESTS[0], "evaluations=[perturbation]")
    assert store.read_record(cell).evaluations.keys() == {"rationale", "attribution_graph", "perturbation"}
    assert not store.read_record(cell).coming
    assert figures(cell).items() >= figures(finished).items()
    assert load_cells([cell])


def test_another_version_of_the_statistics_reduces_the_stored_rows_again(place, cell, finished, monkeypatch):
    def never(*_):
        raise AssertionError("tested again")

    monkeypatch.setattr(statistics, "VERSION", statistics.VERSION + 1)
    monkeypatch.setattr("benchmark.run.testing.rows_of_test", never)
    place.run(cell.parents[2], *TESTS)
    facts = store.read_record(cell).evaluations
    assert {test.statistics for test in facts.values()} == {statistics.VERSION}
    assert figures(cell) == figures(finished)


def test_words_that_changed_are_brought_up_to_date_and_nothing_is_computed(place, cell, finished, monkeypatch):
    record = store.read_record(cell)
    wordless = {
        name: replace(
            test,
            about=About(),
            metrics={key: replace(metric, title="", short="", meaning="") for key, metric in test.metrics.items()},
        )
        for name, test in record.evaluations.items()
    }
    commits.write_record(cell, replace(record, evaluations=wordless))
    rows = store.read_bytes(cell / "rows.parquet")
    calls = len(tiny_task.CALLS)

    def never(*_):
        raise AssertionError("tested again")

    monkeypatch.setattr("benchmark.run.steps.evaluate", never)
    place.run(cell.parents[2], *TESTS)
    facts = store.read_record(cell)
    assert facts.evaluations["rationale"].about.kind == "plausibility"
    assert facts.evaluations["rationale"].metrics["auprc"].title == "AUPRC"
    assert replace(facts, evaluations={}) == replace(record, evaluations={})
    assert figures(cell) == figures(finished)
    assert store.read_bytes(cell / "rows.parquet") == rows
    assert len(tiny_task.CALLS) == calls


def test_a_record_without_words_is_read(cell):
    path = cell / "record.json"
    content = json.loads(path.read_text())
    for test in content["evaluations"].values():
        del test["about"]
        for metric in test["metrics"].values():
            for word in ("title", "short", "meaning", "scale"):
                del metric[word]
    path.write_text(json.dumps(sealed({name: part for name, part in content.items() if name != "seal"})))
    test = store.read_record(cell).evaluations["rationale"]
    assert test.about == About()
    assert test.metrics["average_precision"] == Metric(True, (0.0, 1.0), headline=True)
    (loaded,) = load_cells([cell])
    assert loaded.evaluation("rationale").figures == test.figures


def test_ties_are_in_the_record_and_of_an_earlier_one_are_counted_without_a_test(place, cell, monkeypatch):
    def never(*_):
        raise AssertionError("tested again")

    record = store.read_record(cell)
    test, edges = (record.evaluations[name] for name in ("rationale", "attribution_graph"))
    assert 0 <= test.constant <= test.half_constant <= 1
    assert test.constant <= test.tied <= 1
    assert (edges.constant, edges.half_constant, edges.tied) == (None, None, None)
    monkeypatch.setattr("benchmark.run.testing.rows_of_test", never)
    for missing in ({"half_constant": None}, {"constant": None, "half_constant": None, "tied": None}):
        earlier = {name: replace(test, **missing) for name, test in record.evaluations.items()}
        commits.write_record(cell, replace(record, evaluations=earlier))
        place.run(cell.parents[2], *TESTS)
        again = store.read_record(cell).evaluations["rationale"]
        assert (again.constant, again.half_constant, again.tied) == (test.constant, test.half_constant, test.tied)


def test_a_cell_whose_name_is_equal_by_chance_is_not_taken_for_another(place, cell):
    commits.write_record(cell, replace(store.read_record(cell), hash="0" * 64))
    with pytest.raises(UserError, match="holds another cell"):
        place.run(cell.parents[2], *TESTS)


FACTS = evaluation_record(
    metrics={"f1": Metric(True, (0.0, 1.0))},
    averaged=True,
    figures=(
        Figure("f1", NAN, 0.5, NAN, NAN, 2),
        Figure("f1", 0.1, 0.25, NAN, NAN, 2),
        Figure("free", NAN, 9.0, NAN, NAN, 1),
    ),
)
ROWS = (
    ROW_COLUMNS,
    [
        ("a", "t", "f1", np.nan, 0.25, 0),
        ("a", "t", "f1", np.nan, 0.25, 1),
        ("b", "t", "f1", np.nan, 0.75, 0),
        ("a", "t", "f1", 0.1, 0.5, 0),
        ("b", "t", "f1", 0.1, 0.0, 0),
        ("b", "t", "other", 0.1, 7.0, 0),
    ],
)


def table(rows=None):
    return pd.DataFrame(ROWS[1] if rows is None else rows, columns=list(ROWS[0]))


def changed(**figure):
    first, *others = FACTS.figures
    return replace(FACTS, figures=(replace(first, **figure), *others))


def check(test, rows):
    """With the digest of the rows, as a writer would leave it."""
    stored = StoredRows.of(rows)
    check_rows({"t": replace(test, rows=stored.digest("t"))}, stored)


def test_figures_that_fit():
    FACTS.check("t", 2)
    check(FACTS, table())
    check(replace(changed(value=0.3), averaged=False), table())


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (changed(value=17.0), r"t/f1 is 17, outside of \[0, 1\]"),
        (changed(value=-0.1), "outside of"),
        (changed(n=20), "t/f1 counts 20 examples of 2"),
        (changed(x=0.1), "t/f1 at 0.1 stands there twice"),
    ],
)
def test_figures_that_cannot_be(test, message):
    with pytest.raises(ValueError, match=message):
        test.check("t", 2)


@pytest.mark.parametrize(
    ("test", "rows", "message"),
    [
        (changed(value=0.999), None, "t/f1 is 0.999, the mean of its rows 0.5"),
        (changed(n=1), None, "t/f1 counts 1 examples, its rows 2"),
        (FACTS, [*ROWS[1], ROWS[1][0]], "rows twice"),
        (FACTS, [], "t has figures and no rows"),
    ],
)
def test_rows_that_do_not_fit_their_figures(test, rows, message):
    with pytest.raises(ValueError, match=message):
        check(test, table(rows))


def test_rows_of_another_digest_are_not_those_of_the_figures():
    with pytest.raises(ValueError, match="the rows of t are not those that its figures come from"):
        check_rows({"t": replace(FACTS, rows="0" * 64)}, StoredRows.of(table()))


def test_a_report_checks_figures_before_it_shows_them(cell):
    record = store.read_record(cell)
    test = record.evaluations["rationale"]
    test = replace(test, figures=(replace(test.figures[0], value=17.0), *test.figures[1:]))
    commits.write_record(cell, replace(record, evaluations={**record.evaluations, "rationale": test}))
    with pytest.raises(UserError, match=r"record\.json is corrupt \(rationale/.* is 17, outside of"):
        load_cells([cell])
    (cell / "record.json").write_text(json.dumps({**sealed(record.to_json()), "git_commit": "another"}))
    with pytest.raises(UserError, match="is not what was written"):
        load_cells([cell])


DRAWS = ("methods=[raw_attention]", "evaluations=[head_pruning]", "evaluations.head_pruning.resamples=6")


def test_a_run_reads_what_it_wrote_however_many_rows_an_example_has(place, tmp_path, monkeypatch):
    """The bound for tables of strangers is no bound for what a record declares."""
    monkeypatch.setattr("benchmark.results.bounded.MAX_ROWS_PER_EXAMPLE", 20)
    (cell,) = place.run(tmp_path, *DRAWS).cells
    rows = store.read_rows(cell)
    assert len(rows) > 20 * rows["uid"].nunique()
    assert load_cells([cell])
    place.run(tmp_path, *DRAWS)
    place.run(tmp_path, DRAWS[0], "evaluations=[perturbation]")
    assert store.read_record(cell).evaluations.keys() == {"head_pruning", "perturbation"}
    record = store.read_record(cell)
    test = replace(record.evaluations["head_pruning"], rows="0" * 64)
    commits.write_record(cell, replace(record, evaluations={**record.evaluations, "head_pruning": test}))
    with pytest.raises(UserError, match=r"rows\.parquet is corrupt \(it has \d+ rows, more than 240"):
        load_cells([cell])


@pytest.mark.parametrize(
    ("setting", "bound", "told"),
    [
        ("evaluations.perturbation.seed=1" + "0" * 60, None, "a number of 61 digits"),
        ("evaluations.perturbation.seed=7", ("MAX_YAML", 100), "it would hold"),
    ],
)
def test_settings_that_could_not_be_read_again_are_refused_before_anything_is_computed(
    place, tmp_path, monkeypatch, setting, bound, told
):
    if bound:
        monkeypatch.setattr("benchmark.results.bounded._LIMITS", {".yaml": bound[1], ".json": 1 << 26})
    with pytest.raises(UserError, match=rf"methods\.probe: its record could not be read again.*{told}"):
        place.run(tmp_path, "methods=[probe]", "evaluations=[perturbation]", setting)
    assert not tiny_task.CALLS
    assert not store.find_cells(tmp_path)


def test_a_file_that_could_not_be_read_again_is_not_committed(cell, monkeypatch, caplog):
    before = {path.name: path.read_bytes() for path in cell.iterdir()}
    record, rows = store.read_record(cell), store.read_rows(cell)
    monkeypatch.setattr("benchmark.results.bounded._LIMITS", {".json": 2000, ".yaml": 1000})
    with pytest.raises(
        UserError, match=r"record\.json could not be read again \(it would hold \d+ bytes, more than 2000\)"
    ):
        commits.commit(cell, {"rows.parquet": rows_bytes(rows)}, record)
    assert {path.name: path.read_bytes() for path in cell.iterdir()} == before
    monkeypatch.setattr("benchmark.results.bounded._LIMITS", {".json": 1 << 26, ".yaml": 1000})
    monkeypatch.setattr("benchmark.results.commits.bounded.check_written", _refusing("heatmap.json"))
    commits.commit(cell, {"rows.parquet": rows_bytes(rows), "heatmap.json": b"[" + b" " * 3000 + b"]"}, record)
    assert "heatmap.json is left out" in caplog.text
    assert load_cells([cell])


def _refusing(refused):
    def check(name, size):
        if name == refused:
            raise ValueError("too large")

    return check


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"x":1}', "it has no seal"),
        (b'{"cells":5}', "it has no seal"),
        (b"[1]", "it has no seal"),
        (b"{", "Expecting"),
        (b"", "Expecting"),
        (json.dumps(sealed({"x": 1})).encode(), "cells is missing"),
        (json.dumps(sealed({"cells": 5, "tests": {}})).encode(), "cells is no"),
        (json.dumps(sealed({"cells": [1], "tests": {}})).encode(), r"cells\[0\] is no str"),
        (json.dumps(sealed({"cells": [], "tests": {"a": 1}})).encode(), "tests.a is no str"),
    ],
)
def test_a_malformed_comparison_is_one_line(tmp_path, content, told):
    folder = tmp_path / "comparisons" / "mine"
    folder.mkdir(parents=True)
    (folder / "comparison.json").write_bytes(content)
    with pytest.raises(UserError, match=rf"comparison\.json is corrupt \({told}.*the command of the comparison writes"):
        leaderboard(folder)


def test_no_test_of_a_comparison_is_dropped_for_a_letter_of_its_digest(place, tmp_path):
    comparison = place.run(tmp_path, *TESTS)
    path = comparison.folder / "comparison.json"
    content, board = path.read_text(), leaderboard(comparison.folder)
    assert set(board["evaluation"]) == {"rationale", "attribution_graph"}
    letter = content.index('"rationale": "') + 20
    path.write_text(content[:letter] + ("0" if content[letter] != "0" else "1") + content[letter + 1 :])
    with pytest.raises(UserError, match=r"comparison\.json is corrupt \(it is not what was written"):
        leaderboard(comparison.folder)
    place.run(tmp_path, *TESTS)
    assert path.read_text() == content


def test_a_damaged_plan_is_left_aside_with_a_line(tmp_path, caplog):
    path = tmp_path / "plan.json"
    assert found(Plan.read, path) is None
    assert not caplog.text
    path.write_text("{}")
    assert found(Plan.read, path) is None
    assert "plan.json is left aside: it has no seal" in caplog.text


@pytest.mark.parametrize("read", [store.read_rows, store.read_cell])
def test_rows_of_another_run_are_refused(tmp_path, read):
    """They are whole, with a digest of their own, and are not those that the record names."""
    cell, other = (
        write_cell(tmp_path / name, folders.Plan("rollout", skill)) for name, skill in (("a", 0.0), ("b", 0.5))
    )
    read(cell)
    (cell / "rows.parquet").write_bytes((other / "rows.parquet").read_bytes())
    with pytest.raises(UserError, match=r"not the one in record\.json"):
        read(cell)


def test_arrays_of_another_run_are_refused(tmp_path):
    cell = write_cell(tmp_path, folders.Plan("rollout"))
    path = cell / "attributions-predicted.safetensors"
    Ragged(("a",), {"tokens": np.zeros(1, np.float32)}, {}).write(path)
    commits.note(path)
    assert Ragged.read(path).uids == ("a",)
    Ragged(("a",), {"tokens": np.ones(1, np.float32)}, {}).write(path)
    with pytest.raises(UserError, match=r"not the one in record\.json"):
        Ragged.read(path)


def test_nan_is_null_in_json():
    assert store.json_bytes({"x": NAN, "y": [1.0, NAN]}) == b'{\n "x": null,\n "y": [\n  1.0,\n  null\n ]\n}\n'
