"""Files of rows: whole metrics are read without the others, whatever the order they came in, and what is broken is said."""

import numpy as np
import pandas as pd
import pytest

from benchmark.errors import Corrupt
from benchmark.evaluations.base import connected
from benchmark.results import rows
from benchmark.results.rows import (
    NO_ROWS,
    ROW_COLUMNS,
    FileRows,
    FrameRows,
    RowsWriter,
    Share,
    StoredRows,
    join_rows,
    write_rows,
)
from benchmark.run.resumable import Resumable
from tests.records import rows_bytes

UIDS = [f"e{number}" for number in range(7)]
METRICS = ("auc", "curve", "tau")
POINTS = {"auc": [np.nan], "curve": [0.0, 0.5, 1.0], "tau": [np.nan]}


def table(evaluation="one", uids=UIDS, seed=0, metrics=METRICS):
    """Rows in the order of a test: example by example, some values missing from some examples."""
    rng = np.random.default_rng(seed)
    records = [
        (uid, evaluation, metric, x, rng.normal(), 0)
        for number, uid in enumerate(uids)
        for metric in metrics
        for x in POINTS[metric]
        if (metric, number) != ("tau", 2)
    ]
    return pd.DataFrame(records, columns=ROW_COLUMNS)


def sorted_as_stored(frame):
    parts = [part.sort_values("metric", kind="stable") for _, part in frame.groupby("evaluation", sort=False)]
    return pd.concat(parts, ignore_index=True).astype({"uid": "str", "evaluation": "str", "metric": "str"})


def unnamed(frame):
    return Share(StoredRows.of(frame.drop(columns="evaluation")))


@pytest.fixture
def small(monkeypatch):
    """Groups of four rows, and chunks of nine: the paths of large files over a few rows."""
    monkeypatch.setattr(rows, "GROUP", 4)
    monkeypatch.setattr(rows, "CHUNK", 9)


@pytest.fixture
def both():
    return pd.concat([table("two", seed=1), table("one")], ignore_index=True)


@pytest.fixture
def stored(small, both, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(rows_bytes(both))
    return StoredRows.read_from(tmp_path / "rows.parquet")


def test_tests_keep_their_order_and_metrics_are_sorted(stored, both):
    assert list(stored.tests) == ["two", "one"]
    assert list(stored.tests["one"].items()) == [("auc", 7), ("curve", 21), ("tau", 6)]
    assert len(stored) == len(both)
    pd.testing.assert_frame_equal(stored.frame(), sorted_as_stored(both))


def test_a_metric_is_read_without_the_others(stored, both, monkeypatch):
    spans = []
    read = FileRows.rows
    monkeypatch.setattr(FileRows, "rows", lambda self, *span: (spans.append(span), read(self, *span))[1])
    asked = stored.read("one", "curve")
    expected = both[(both["evaluation"] == "one") & (both["metric"] == "curve")]
    pd.testing.assert_frame_equal(asked, expected.reset_index(drop=True).astype(asked.dtypes))
    start = 34 + 7  # rows of the other test, and of the metric before
    assert spans == [(start, start + 21)]
    assert stored.read("one", "unknown").empty
    assert stored.read("three", "auc").empty


def test_only_the_groups_that_hold_a_metric_are_decoded(stored):
    groups = []
    read = stored._source._parquet.read_row_group
    stored._source._parquet = type(
        "Watched", (), {"read_row_group": lambda _, n, **k: (groups.append(n), read(n, **k))[1]}
    )()
    stored.read("two", "tau")
    assert groups == [7, 8]  # of 17: rows 28 to 34


def test_chunks_are_whole_metrics_and_keep_apart_what_is_apart(stored):
    sizes = [dict(part["metric"].value_counts(sort=False)) for part in stored.chunks("one")]
    assert sizes == [{"auc": 7}, {"curve": 21}, {"tau": 6}]
    together = [
        dict(part["metric"].value_counts(sort=False)) for part in stored.chunks("one", [("auc", "tau"), ("curve",)])
    ]
    assert together == [{"auc": 7, "tau": 6}, {"curve": 21}]
    assert [len(part) for part in stored.chunks("none")] == []


def test_a_table_and_its_file_read_alike(stored, both):
    memory = StoredRows.of(both)
    assert isinstance(memory._source, FrameRows)
    assert isinstance(stored._source, FileRows)
    assert memory.tests == stored.tests
    for test in memory.tests:
        assert memory.digest(test) == stored.digest(test)
    pd.testing.assert_frame_equal(memory.frame(), stored.frame())


def test_the_digest_of_a_test_is_of_its_rows_alone(both):
    alone = StoredRows.of(both[both["evaluation"] == "one"])
    assert alone.digest("one") == StoredRows.of(both).digest("one") == unnamed(table("one")).digest
    changed = both.copy()
    changed.loc[changed["evaluation"] == "one", "value"] += 1e-16  # lost beside most values, not beside all
    changed.loc[changed.index[-1], "value"] += 1e-9
    assert StoredRows.of(changed).digest("one") != alone.digest("one")
    assert StoredRows.of(changed).digest("two") == StoredRows.of(both).digest("two")


def test_names_shown_in_place_of_stored_ones(stored):
    shown = stored.named({"one": "first"}, {"auc": "area"})
    assert shown.tests == {"first": {"area": 7, "curve": 21, "tau": 6}}
    part = shown.read("first", "area")
    assert set(part["evaluation"]) == {"first"}
    assert set(part["metric"]) == {"area"}
    assert part["value"].tolist() == stored.read("one", "auc")["value"].tolist()
    assert shown.digest("first") != stored.digest("one")  # the names of metrics are digested
    with pytest.raises(ValueError, match="two metrics differ in characters that cannot be shown alone"):
        stored.named({"one": "first"}, {"auc": "tau"})


@pytest.mark.parametrize("groups", [1 << 16, 4, 1])
def test_groups_and_chunks_do_not_change_what_is_read(both, monkeypatch, tmp_path, groups):
    monkeypatch.setattr(rows, "GROUP", groups)
    monkeypatch.setattr(rows, "CHUNK", groups)
    (tmp_path / "rows.parquet").write_bytes(rows_bytes(both))
    pd.testing.assert_frame_equal(StoredRows.read_from(tmp_path / "rows.parquet").frame(), sorted_as_stored(both))


def test_no_rows_at_all(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(rows_bytes(NO_ROWS))
    empty = StoredRows.read_from(tmp_path / "rows.parquet")
    assert empty.tests == {}
    assert len(empty) == 0
    pd.testing.assert_frame_equal(empty.frame(), NO_ROWS)


def test_a_test_is_joined_from_parts_to_the_same_bytes(small, tmp_path):
    whole = table()
    join_rows(tmp_path / "one.parquet", [unnamed(whole)], UIDS)
    parts = []
    for number, some in enumerate((UIDS[:2], UIDS[2:3], UIDS[3:])):
        write_rows(tmp_path / f"{number}.parquet", {"": unnamed(whole[whole["uid"].isin(some)])})
        parts.append(Share(StoredRows.read_from(tmp_path / f"{number}.parquet")))
    join_rows(tmp_path / "three.parquet", parts, UIDS)
    assert (tmp_path / "three.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_rows_of_examples_that_another_test_has_take_their_places(small, tmp_path):
    """As the annotated class where it is the predicted one: rows in the order of examples, not of their sources."""
    whole, alike = table(), [UIDS[number] for number in (0, 3, 6)]
    write_rows(tmp_path / "twin.parquet", {"": unnamed(whole)})
    twin = Share(StoredRows.read_from(tmp_path / "twin.parquet"), uids=frozenset(alike))
    others = unnamed(whole[~whole["uid"].isin(alike)])
    join_rows(tmp_path / "joined.parquet", [others, twin], UIDS)
    join_rows(tmp_path / "one.parquet", [unnamed(whole)], UIDS)
    assert (tmp_path / "joined.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    pd.testing.assert_frame_equal(
        twin.read(["auc"]).reset_index(drop=True),
        unnamed(whole[whole["uid"].isin(alike)]).read(["auc"]),
    )


def test_an_example_that_is_in_two_parts_is_refused(tmp_path):
    with pytest.raises(ValueError, match="an example was tested twice"):
        join_rows(tmp_path / "joined.parquet", [unnamed(table()), unnamed(table(uids=UIDS[:1]))], UIDS)
    assert not list(tmp_path.iterdir())


def test_several_tests_are_written_under_other_names(stored, tmp_path):
    write_rows(tmp_path / "cell.parquet", {"b": Share(stored, "two"), "a": Share(stored, "one")})
    again = StoredRows.read_from(tmp_path / "cell.parquet")
    assert list(again.tests) == ["b", "a"]
    assert again.digest("a") == stored.digest("one")
    assert again.read("b", "tau")["value"].tolist() == stored.read("two", "tau")["value"].tolist()


def test_a_metric_that_was_changed_is_found_when_it_is_read_and_not_before(small, both, tmp_path):
    """A file that is whole as a file: its pages fit their checksums, and one value is not the one that was digested."""
    changed = both.copy()
    place = changed.index[(changed["evaluation"] == "one") & (changed["metric"] == "tau")][0]
    changed.loc[place, "value"] += 1.0
    path, whole, wanted = tmp_path / "rows.parquet", tmp_path / "whole.parquet", StoredRows.of(both)
    writer, forged = RowsWriter(whole), RowsWriter(path)
    for test in wanted.tests:
        for part, false in zip(wanted.chunks(test), StoredRows.of(changed).chunks(test), strict=True):
            writer.add(test, part)
            forged.add(test, false)
    forged._index = writer._index
    forged.close()
    writer.close()
    read = StoredRows.read_from(path)
    assert read.read("one", "auc")["value"].tolist() == wanted.read("one", "auc")["value"].tolist()
    with pytest.raises(Corrupt, match="it is not what was written: its digest does not fit"):
        read.read("one", "tau")
    assert len(StoredRows.read_from(whole).frame()) == len(both)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all" * 20])
def test_what_is_no_parquet_file_is_said(tmp_path, content):
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(Corrupt, match=r"rows\.parquet"):
        StoredRows.read_from(tmp_path / "rows.parquet")


def test_a_parquet_file_that_says_nothing_of_what_it_holds_is_refused(both, tmp_path):
    both.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(Corrupt, match="it does not say what it holds"):
        StoredRows.read_from(tmp_path / "rows.parquet")


def test_more_rows_than_the_examples_can_have_are_refused(monkeypatch, both, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(rows_bytes(both))
    monkeypatch.setattr("benchmark.results.bounded.MAX_ROWS", 10)
    with pytest.raises(Corrupt, match="rows"):
        StoredRows.read_from(tmp_path / "rows.parquet")


def test_parts_are_written_where_results_come_together(tmp_path):
    """However fast they come: their sizes bound what is in memory."""
    written = []
    stage = Resumable[list](
        folder=tmp_path,
        suffix=".txt",
        write=lambda values, path: (
            written.append((path.name, list(values))),
            path.write_text(" ".join(map(str, values))),
        ),
        read=lambda path: [int(value) for value in path.read_text().split()],
        merge=lambda lists: [value for values in lists for value in values],
        seconds=1e9,
        size=len,
        most=3,
    )
    results = [[1], [2, 3], [4], [5], [6], [7]]
    assert stage.run([1] * 6, results.__getitem__, "rows") == [1, 2, 3, 4, 5, 6, 7]
    assert written == [("000000-000002.txt", [1, 2, 3]), ("000002-000005.txt", [4, 5, 6])]


def test_metrics_that_hang_together_form_groups():
    assert connected(["a", "b", "c", "d"], [("c", "a"), ("d", "unknown")]) == [["c", "a"], ["b"], ["d"]]
    assert connected(["a", "b", "c"], [("a", "b"), ("b", "c")]) == [["a", "b", "c"]]
    assert connected([], [("a", "b")]) == []
