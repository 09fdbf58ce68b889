"""ERASER directories: both layouts, queries, rationales by token offset, mistakes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.errors import UserError
from benchmark.settings.making import build
from tasks.eraser import Eraser
from tests.conftest import shared

DOCUMENTS = {"a": "a fine film .\nnot dull at all", "b": "a dull film", "c": "one two three"}


def span(docid: str, start: int, end: int) -> dict[str, Any]:
    return {
        "docid": docid,
        "start_token": start,
        "end_token": end,
        "start_sentence": -1,
        "end_sentence": -1,
        "text": "",
    }


def line(uid: str, classification: str = "POS", evidences: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    return {"annotation_id": uid, "classification": classification, "evidences": list(evidences), **more}


def write(root: Path, *, single: bool = False, documents: dict[str, str] = DOCUMENTS, **splits: list[Any]) -> Path:
    """An ERASER directory; a split that is not given holds two unremarkable annotations."""
    root.mkdir(exist_ok=True)
    if single:
        rows = [{"docid": docid, "document": text} for docid, text in documents.items()]
        (root / "docs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    else:
        (root / "docs").mkdir(exist_ok=True)
        for docid, text in documents.items():
            (root / "docs" / docid).write_text(text)
    for name in ("train", "val", "test"):
        lines = splits.get(name, [line("a", "POS"), line("b", "NEG")])
        (root / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in lines))
    return root


def test_another_file_can_serve_as_a_split(tmp_path: Path) -> None:
    root = write(tmp_path / "data", test=[line("a", "POS")], val=[line("b", "NEG"), line("c", "NEG")])
    (root / "train.jsonl").unlink()
    task = Eraser(root=str(root), files={"train": "test.jsonl", "test": "val.jsonl"}, label_names=["NEG", "POS"])
    found = {split: [example.uid for example in task.split(split)] for split in ("train", "validation", "test")}
    assert found == {"train": ["a"], "validation": ["b", "c"], "test": ["b", "c"]}
    assert task.fingerprint != Eraser(root=str(root), label_names=["NEG", "POS"]).fingerprint
    with pytest.raises(UserError, match=r"lacks train\.jsonl.*task\.files\.train=FILE"):
        Eraser(root=str(root), label_names=["NEG", "POS"]).split("train")


@pytest.mark.parametrize("single", [False, True])
def test_rationale_is_the_union_of_all_spans(tmp_path: Path, single: bool) -> None:
    evidences = [[span("a", 1, 3)], [span("a", 2, 2), span("a", 2, 3), span("a", 4, 6)]]
    root = write(tmp_path / "data", single=single, test=[line("a", "POS", evidences), line("b", "NEG")])
    first, second = Eraser(root=str(root)).split("test")
    assert first.inputs == ["a", "fine", "film", ".", "not", "dull", "at", "all"]
    assert [w for w, r in zip(first.inputs, first.rationale, strict=True) if r] == ["fine", "film", "not", "dull"]
    assert (first.uid, first.label, first.query_units) == ("a", 1, 0)
    spans = (((1, 3), (2, 2), (2, 3), (4, 6)),)
    assert first.meta == {"annotation_id": "a", "docids": ("a",), "document_lengths": (8,), "evidence_spans": spans}
    assert not second.rationale.any()
    assert second.label == 0


def test_both_layouts_give_the_same_examples(tmp_path: Path) -> None:
    folder, single = (Eraser(root=str(write(tmp_path / str(flag), single=flag))) for flag in (False, True))
    assert [e.inputs for e in folder.split("train")] == [e.inputs for e in single.split("train")]
    assert folder.labels == single.labels == ("NEG", "POS")


def test_each_span_is_kept_once_and_by_document(tmp_path: Path) -> None:
    evidences = [[span("b", 0, 1), span("a", 1, 2)], [span("b", 0, 1), span("b", 1, 3)]]
    root = write(tmp_path / "data", test=[line("q", "POS", evidences, docids=["a", "c", "b"])])
    (example,) = Eraser(root=str(root)).split("test")
    assert example.meta["docids"] == ("a", "c", "b")
    assert example.meta["evidence_spans"] == (((1, 2),), (), ((0, 1), (1, 3)))


@pytest.mark.parametrize(
    ("text", "folder", "single"),
    [
        ("one two\nthree\n", ["one", "two", "three"], ["one", "two", "three", ""]),
        ("one  two \n\n three", ["one", "two", "three"], ["one", "", "two", "", "three"]),
        ("a\tb c\xa0d", ["a\tb", "c\xa0d"], ["a\tb", "c\xa0d"]),
        ("one\rtwo\r\nthree", ["one", "two", "three"], ["one\rtwo", "three"]),
    ],
)
def test_words_are_what_the_loaders_of_eraser_make_of_a_document(
    tmp_path: Path, text: str, folder: list[str], single: list[str]
) -> None:
    documents = {**DOCUMENTS, "odd": text}
    for expected, flag in ((folder, False), (single, True)):
        root = write(tmp_path / str(flag), single=flag, test=[line("odd"), line("a")])
        if flag:
            rows = [{"docid": docid, "document": value} for docid, value in documents.items()]
            (root / "docs.jsonl").write_text("\n".join(map(json.dumps, rows)))
        else:
            (root / "docs" / "odd").write_bytes(text.encode())
        assert Eraser(root=str(root)).split("test")[0].inputs == expected


def test_separate_query_is_a_first_segment_that_is_never_rated(tmp_path: Path) -> None:
    lines = [
        line("q1", "True", [[span("c", 0, 1)]], query="Is it one ?", docids=["c"]),
        line("q2", "False", [[span("c", 2, 3)]], query="Four", docids=["c"]),
    ]
    root = write(tmp_path / "data", train=lines, val=lines, test=lines)
    first, second = Eraser(root=str(root)).split("test")
    assert first.inputs == (["Is", "it", "one", "?"], ["one", "two", "three"])
    assert first.query_units == 4
    assert first.rationale.tolist() == [False] * 4 + [True, False, False]
    assert second.rationale.tolist() == [False, False, False, True]
    assert Eraser(root=str(root), query="never").split("test")[0].inputs == ["one", "two", "three"]


def test_question_that_is_the_same_everywhere_is_left_out(tmp_path: Path) -> None:
    lines = [line("a", "POS", query="What is it ?"), line("b", "NEG", query="What is it ?")]
    root = write(tmp_path / "data", train=lines, val=lines, test=lines)
    assert Eraser(root=str(root)).split("test")[1].inputs == ["a", "dull", "film"]
    asked = Eraser(root=str(root), query="always").split("test")[1]
    assert asked.inputs == (["What", "is", "it", "?"], ["a", "dull", "film"])
    assert asked.query_units == 4


def test_several_documents_are_concatenated_with_shifted_offsets(tmp_path: Path) -> None:
    lines = [line("x", "POS", [[span("c", 1, 2), span("b", 2, 3)]], docids=["b", "c"], query="")]
    root = write(tmp_path / "data", train=lines)
    (example,) = Eraser(root=str(root)).split("train")
    assert example.inputs == ["a", "dull", "film", "one", "two", "three"]
    assert np.flatnonzero(example.rationale).tolist() == [2, 4]
    assert example.meta["docids"] == ("b", "c")
    assert example.meta["document_lengths"] == (3, 3)


def test_query_that_repeats_a_document_is_a_rated_first_segment(tmp_path: Path) -> None:
    lines = [
        line("x", "POS", [[span("c", 0, 1), span("b", 1, 2)]], docids=["b", "c"], query="one two three"),
        line("y", "NEG", [], docids=["b"], query="a dull film"),
    ]
    root = write(tmp_path / "data", train=lines)
    pair, alone = Eraser(root=str(root)).split("train")
    assert pair.inputs == (["one", "two", "three"], ["a", "dull", "film"])
    assert np.flatnonzero(pair.rationale).tolist() == [0, 4]
    assert pair.query_units == 0
    assert pair.meta["docids"] == ("c", "b")
    assert alone.inputs == ["a", "dull", "film"]


def test_fingerprint_follows_documents_annotations_and_settings(tmp_path: Path) -> None:
    root = write(tmp_path / "data")
    before = Eraser(root=str(root)).fingerprint
    assert Eraser(root=str(root)).fingerprint == before
    assert Eraser(root=str(root), query="always").fingerprint != before
    (root / "docs" / "c").write_text("one two four")
    changed = Eraser(root=str(root)).fingerprint
    assert changed != before
    write(root, test=[line("a", "NEG")], documents={})
    assert Eraser(root=str(root)).fingerprint not in (before, changed)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{broken"], r"train\.jsonl:1: broken JSON"),
        ([line("a"), ["list"]], r"train\.jsonl:2: expected a JSON object, found list"),
        ([{"annotation_id": "a", "evidences": []}], r"train\.jsonl:1: key 'classification' is missing"),
        ([line("a", "POS", [[{"docid": "a", "start_token": 1}]])], r"lacks the key 'end_token'"),
        ([line("a", "POS", [[span("a", 7, 9)]])], r"train\.jsonl:1 \('a'\): evidence \[7, 9\) .* document 'a' of 8 words"),
        ([line("a", "POS", [[span("a", -1, 2)]])], r"\[-1, 2\) lies outside"),
        ([line("a", "POS", [[span("a", 3, 2)]])], r"\[3, 2\) lies outside"),
        ([line("a", "POS", [[span("zz", 0, 1)]])], r"evidence document 'zz' is missing, expected .*zz"),
        ([line("empty", "POS")], r"document 'empty' has zero words"),
        ([line("a"), line("a")], r"train\.jsonl:2: annotation_id 'a' occurs twice, also at .*:1"),
        ([], r"train\.jsonl is empty: the train split has no examples"),
    ],
)  # fmt: skip
def test_mistakes_name_file_and_line(tmp_path: Path, lines: list[Any], message: str) -> None:
    root = write(tmp_path / "data", documents={**DOCUMENTS, "empty": " \n "}, train=[])
    text = "\n".join(value if isinstance(value, str) else json.dumps(value) for value in lines)
    (root / "train.jsonl").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        Eraser(root=str(root), query="never").split("train")
    assert "\n" not in str(caught.value)


def test_missing_document_in_a_single_file(tmp_path: Path) -> None:
    root = write(tmp_path / "data", single=True, test=[line("zz")])
    with pytest.raises(UserError, match=r"'zz' is not in .*docs\.jsonl"):
        Eraser(root=str(root)).split("test")


def test_label_that_training_does_not_have(tmp_path: Path) -> None:
    root = write(tmp_path / "data", test=[line("a", "MAYBE")])
    with pytest.raises(UserError, match=r"test\.jsonl:1 .*label 'MAYBE' is unknown; the task's labels are NEG, POS"):
        Eraser(root=str(root)).split("test")
    assert Eraser(root=str(root), label_names=["pos", "neg"]).split("train")[0].label == 0


def test_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.root=.* has no split files"):
        Eraser(root=str(tmp_path)).split("test")
    with pytest.raises(UserError, match=r"task\.root=.* is not a directory"):
        Eraser(root=str(tmp_path / "none")).split("test")
    root = write(tmp_path / "data")
    (root / "val.jsonl").unlink()
    with pytest.raises(UserError, match=r"lacks val\.jsonl"):
        Eraser(root=str(root)).split("validation")
    assert len(Eraser(root=str(root)).split("test")) == 2
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "test.jsonl").write_text(json.dumps(line("a")))
    with pytest.raises(UserError, match=r"neither docs/ nor docs\.jsonl"):
        Eraser(root=str(tmp_path / "bare")).split("test")
    with pytest.raises(UserError, match="query=sometimes: allowed are auto, always, never"):
        Eraser(query="sometimes")


def test_movie_reviews_as_distributed() -> None:
    root = shared("data/eraser_movies")
    task = build("task/eraser", f"root={root}")
    assert task.labels == ("NEG", "POS")
    assert [len(task.split(name)) for name in ("train", "validation", "test")] == [1600, 200, 199]
    lines = [json.loads(text) for text in (root / "test.jsonl").read_text().splitlines()]
    examples = {example.uid: example for example in task.split("test")}
    for annotation in lines[::20]:
        example = examples[annotation["annotation_id"]]
        assert example.query_units == 0
        expected = np.zeros(len(example.inputs), bool)
        for evidence in annotation["evidences"][0]:
            assert " ".join(example.inputs[evidence["start_token"] : evidence["end_token"]]) == evidence["text"]
            expected[evidence["start_token"] : evidence["end_token"]] = True
        assert (example.rationale == expected).all()
        assert task.labels[example.label] == annotation["classification"]
