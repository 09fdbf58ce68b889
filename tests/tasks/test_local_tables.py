"""What ends a line of a table, and what a cell may hold."""

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.errors import UserError
from benchmark.evaluations.triggers.words import exclusion
from tasks.conll2012 import read_conll2012
from tasks.conllu import read_conllu
from tasks.image_files import class_names
from tasks.local_tables import read_table
from tasks.text_classification import TextClassification

SEPARATORS = {
    "line separator": "\u2028", "paragraph separator": "\u2029", "next line": "\x85", "form feed": "\f",
    "vertical tab": "\v", "file": "\x1c", "group": "\x1d", "record": "\x1e", "unit": "\x1f",
}  # fmt: skip
LONG = "word " * 60_000


def values(file: Path, **settings: str) -> list[list[str]]:
    return [list(row.values()) for _, row in read_table(file, **settings)]


@pytest.mark.parametrize("character", SEPARATORS.values(), ids=SEPARATORS)
def test_characters_that_only_python_calls_line_ends_stand_within_a_cell(tmp_path: Path, character: str) -> None:
    text = f"good{character}story"
    (tmp_path / "t.csv").write_bytes(f"text,label\r\n{text},POS\r\ndull,NEG\r\n".encode())
    assert values(tmp_path / "t.csv") == [[text, "POS"], ["dull", "NEG"]]
    assert pd.read_csv(tmp_path / "t.csv").to_numpy().tolist() == [[text, "POS"], ["dull", "NEG"]]
    for quoting in ("none", "standard"):
        (tmp_path / "t.tsv").write_text(f"text\tlabel\n{text}\tPOS\n", encoding="utf-8")
        assert values(tmp_path / "t.tsv", quoting=quoting) == [[text, "POS"]]
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert values(tmp_path / "t.jsonl") == [[text]]
    task = TextClassification(files={"test": str(tmp_path / "t.csv")})
    assert [example.inputs for example in task.split("test")] == [text, "dull"]


@pytest.mark.parametrize("character", SEPARATORS.values(), ids=SEPARATORS)
def test_they_stand_within_the_lines_of_other_files_too(tmp_path: Path, character: str) -> None:
    (tmp_path / "words.txt").write_text(f"n01\ta{character}b\nn02\tc\n", encoding="utf-8")
    assert class_names(tmp_path / "words.txt") == {"n01": f"a{character}b", "n02": "c"}
    (tmp_path / "lexicon.txt").write_text(f"x{character}y\nz\n", encoding="utf-8")
    assert exclusion(str(tmp_path / "lexicon.txt"), "words").lexicon == {f"x{character}y", "z"}
    columns = ["d", "0", "0", f"p{character}q", "NN", "*", "-", "-", "-", "-", "*", "(1)"]
    (tmp_path / "d.conll").write_text(f"#begin document (d)\n{' '.join(columns)}\n#end document\n", encoding="utf-8")
    assert read_conll2012(tmp_path / "d.conll")[0].words == (f"p{character}q",)
    tree = "\t".join(["1", f"p{character}q", "_", "_", "_", "_", "0", "root", "_", "_"])
    (tmp_path / "t.conllu").write_text(f"{tree}\n\n", encoding="utf-8")
    assert read_conllu(tmp_path / "t.conllu")[0].words == (f"p{character}q",)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte-order mark"])
def test_line_ends_and_quoted_line_ends(tmp_path: Path, end: str, mark: str) -> None:
    lines = ["text,label", '"one', 'two",POS', "three; four,NEG", ""]
    (tmp_path / "t.csv").write_bytes((mark + end.join(lines)).encode())
    assert values(tmp_path / "t.csv") == [[f"one{end}two", "POS"], ["three; four", "NEG"]]
    (tmp_path / "t.tsv").write_bytes((mark + end.join(["text\tlabel", '"one\tPOS', ""])).encode())
    assert values(tmp_path / "t.tsv") == [['"one', "POS"]]


CELL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(
    rows=st.lists(st.tuples(CELL, CELL), max_size=4), delimiter=st.sampled_from(["comma", "semicolon", "tab", "bar"])
)
def test_whatever_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    character = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}[delimiter]
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=character).writerows([("text", "label"), *rows])
    file = tmp_path_factory.getbasetemp() / "written.csv"
    file.write_bytes(written.getvalue().encode())
    assert values(file, delimiter=delimiter) == [list(row) for row in rows]


@pytest.mark.parametrize("quoted", [True, False])
def test_cells_may_be_longer_than_the_csv_module_allows_by_itself(tmp_path: Path, *, quoted: bool) -> None:
    before = csv.field_size_limit()
    (tmp_path / "t.csv").write_text(f'text,label\n"{LONG}",POS\n' if quoted else f"text,label\n{LONG},POS\n")
    assert values(tmp_path / "t.csv") == [[LONG, "POS"]]
    assert csv.field_size_limit() == before
    (tmp_path / "t.csv").write_text(f'text,label\n"{LONG}')
    with pytest.raises(UserError, match=r"t\.csv:2: unexpected end of data"):
        values(tmp_path / "t.csv")
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json"])
def test_a_nul_character_is_named_by_line_and_column(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"t{ending}").write_bytes(b"text,label\r\nfine,POS\r\nba\0d,NEG\0\r\n")
    with pytest.raises(UserError, match=rf"t\{ending}:3: a NUL character \(code 0\) at column 3, one of 2"):
        values(tmp_path / f"t{ending}")


@pytest.mark.parametrize("header", ["text, label", "text ,label", " text,  label "])
def test_white_space_around_the_name_of_a_column_is_none_of_it(tmp_path: Path, header: str) -> None:
    """Written as `text, label`, the second column would be ` label`, which no setting names."""
    (tmp_path / "t.csv").write_text(f"{header}\na story,POS\n", encoding="utf-8")
    ((_, row),) = read_table(tmp_path / "t.csv")
    assert row == {"text": "a story", "label": "POS"}
