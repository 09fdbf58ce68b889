"""Local tables in every format, GLUE's files as they are, hub data sets, mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmark.errors import UserError
from benchmark.settings.making import build
from tasks.text_classification import TextClassification
from tests.conftest import REPOSITORY, shared

ROWS = [('it \'s "fine"', "pos"), ("NA", "neg"), ("null , or so", "neg")]


def save(folder: Path, ending: str, rows: list[tuple[str, str]] = ROWS) -> None:
    file = folder / f"train{ending}"
    if ending == ".tsv":
        file.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    elif ending in (".jsonl", ".json"):
        file.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in rows))
    elif ending == ".csv":
        pd.DataFrame(rows, columns=["text", "label"]).to_csv(file, index=False)
    else:
        pd.DataFrame(rows, columns=["text", "label"]).to_parquet(file)


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".json", ".parquet"])
def test_every_format_gives_the_same_examples(tmp_path: Path, ending: str) -> None:
    save(tmp_path, ending)
    task = TextClassification(root=str(tmp_path))
    examples = task.split("train")
    assert task.labels == ("neg", "pos")
    assert [(example.inputs, task.labels[example.label]) for example in examples] == ROWS
    assert [example.uid for example in examples] == ["train-000000", "train-000001", "train-000002"]
    assert all(example.rationale is None for example in examples)


def test_byte_order_mark_carriage_returns_and_odd_separators(tmp_path: Path) -> None:
    text = '\ufeffQuality\t#1 String\t#2 String\r\n1\the said " hi\tshe\u2028left\r\n0\t"\t\'\r\n'
    (tmp_path / "train.tsv").write_bytes(text.encode())
    task = build("task/mrpc", f"root={tmp_path}")
    first, second = task.split("train")
    assert first.inputs == ('he said " hi', "she\u2028left")
    assert second.inputs == ('"', "'")
    assert [task.labels[example.label] for example in (first, second)] == ["equivalent", "not_equivalent"]


def test_quoted_csv_may_hold_line_breaks_and_plain_csv_may_hold_quotes(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text('text,label\n"one, ""two""\nthree",a\nfour,b\n')
    first, second = TextClassification(root=str(tmp_path)).split("train")
    assert first.inputs == 'one, "two"\nthree'
    assert second.inputs == "four"
    (tmp_path / "train.csv").write_text('text,label\n"one,a\ntwo",b\n')
    plain = TextClassification(root=str(tmp_path), quoting="none")
    assert [example.inputs for example in plain.split("train")] == ['"one', 'two"']


def test_files_of_the_splits_are_found_or_named(tmp_path: Path) -> None:
    save(tmp_path, ".tsv")
    (tmp_path / "dev.csv").write_text("text,label\nyes,pos\n")
    (tmp_path / "held_out.csv").write_text("text,label\nno,neg\n")
    found = TextClassification(root=str(tmp_path))
    assert found.split("validation")[0].inputs == "yes"
    with pytest.raises(UserError, match=r"no table of the test split; name one with task\.files\.test="):
        found.split("test")
    named = TextClassification(files={"train": str(tmp_path / "train.tsv"), "test": str(tmp_path / "held_out.csv")})
    assert (named.split("test")[0].inputs, named.split("test")[0].label) == ("no", 0)


def test_labels_by_number_by_name_and_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("text\tlabel\nx\t1\ny\tNEGATIVE\nz\t0\n")
    task = TextClassification(root=str(tmp_path), label_names=["negative", "positive"])
    assert [example.label for example in task.split("train")] == [1, 0, 0]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"t\t{n}\n" for n in (10, 2, 1)))
    assert TextClassification(root=str(tmp_path)).labels == ("1", "2", "10")


def test_fingerprint_follows_bytes_and_settings(tmp_path: Path) -> None:
    save(tmp_path, ".tsv")
    before = TextClassification(root=str(tmp_path)).fingerprint
    assert TextClassification(root=str(tmp_path)).fingerprint == before
    assert TextClassification(root=str(tmp_path), label_names=["pos", "neg"]).fingerprint != before
    (tmp_path / "train.tsv").write_text("text\tlabel\nother\tpos\n")
    assert TextClassification(root=str(tmp_path)).fingerprint != before


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train.tsv", "text\tlabel\nfine\tpos\nshort\n", r"train\.tsv:3: 1 fields under 2 columns"),
        ("train.tsv", "text\tlabel\nfine\tpos\textra\n", r"train\.tsv:2: 3 fields under 2 columns"),
        ("train.csv", 'text,label\n"never closed,a\n', r"train\.csv:2: unexpected end of data"),
        ("train.jsonl", '{"text": "a", "label": "b"}\n{"text"\n', r"train\.jsonl:2: broken JSON"),
        ("train.parquet", "no parquet", r"train\.parquet: cannot be read as Parquet"),
        ("train.tsv", "text\tlabel\n", r"train\.tsv is empty: the train split has no examples"),
        ("train.tsv", "text\tlabel\n  \tpos\n", r"train\.tsv:2: the text has zero words"),
        ("train.tsv", "sentence\tlabel\na\tpos\n", r"no value in column 'text' \(task\.text\); columns are sentence, label"),
        ("train.jsonl", '{"text": 3, "label": "a"}', r"train\.jsonl:1: column of task\.text holds int"),
    ],
)  # fmt: skip
def test_broken_tables_name_the_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        TextClassification(root=str(tmp_path)).split("train")
    assert "\n" not in str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes("text\tlabel\ncaf\xe9\tpos\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"train\.tsv: not UTF-8 at byte 14"):
        TextClassification(root=str(tmp_path)).split("train")


@pytest.mark.parametrize(
    ("value", "message"), [("maybe", "label 'maybe' is unknown"), ("-1", r"label '-1' is unknown \(a hidden label")]
)
def test_unknown_label_shows_the_known_ones(tmp_path: Path, value: str, message: str) -> None:
    (tmp_path / "train.tsv").write_text(f"text\tlabel\nfine\t{value}\n")
    with pytest.raises(UserError, match=rf"train\.tsv:2: {message}.*labels are no, yes"):
        TextClassification(root=str(tmp_path), label_names=["no", "yes"]).split("train")


def test_a_query_is_read_first_and_never_rated(tmp_path: Path) -> None:
    row = '"Why , though ?","a fine film","[0, 1, 0]",pos'
    (tmp_path / "train.csv").write_text(f"question,text,why,label\n{row}\n")
    settings: dict[str, Any] = {"files": {"train": str(tmp_path / "train.csv")}, "rationale": "why"}
    (example,) = TextClassification(query="question", **settings).split("train")
    assert example.inputs == ("Why , though ?", "a fine film")
    assert (example.query_units, example.rationale.tolist()) == (4, [False] * 4 + [False, True, False])
    assert TextClassification(query="question", **settings).fingerprint != TextClassification(**settings).fingerprint
    with pytest.raises(UserError, match=r"task\.query and task\.text_pair are both set"):
        TextClassification(query="question", text_pair="question", **settings)
    with pytest.raises(UserError, match=r"task\.query needs units of the text's own"):
        TextClassification(query="question", units="tokens", **settings)


def test_settings_that_name_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.path is not set"):
        TextClassification()
    with pytest.raises(UserError, match=r"task\.root=.* is not a directory"):
        TextClassification(root=str(tmp_path / "none")).split("train")
    with pytest.raises(UserError, match=r"task\.files has the unknown split 'dev'"):
        TextClassification(root=str(tmp_path), files={"dev": "x"})
    with pytest.raises(UserError, match=r"nothing\.tsv is missing; set task\.files\.train"):
        TextClassification(root=str(tmp_path), files={"train": "nothing.tsv"}).split("train")
    save(tmp_path, ".tsv")
    with pytest.raises(UserError, match="quoting=some: allowed are auto, none, standard"):
        TextClassification(root=str(tmp_path), quoting="some").split("train")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(UserError, match=r"unknown ending '\.txt'"):
        TextClassification(root=str(tmp_path), files={"train": "x.txt"}).split("train")


HUB = """
import datasets, sys
from tasks.text_classification import TextClassification
features = datasets.Features({"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])})
rows = {"sentence": ["it is dull", "it is fine"], "label": [0, 1]}
data = datasets.DatasetDict(train=datasets.Dataset.from_dict(rows, features))
data["train"].to_parquet("hub/train.parquet")
task = TextClassification(path="hub", text="sentence")
print(task.labels, [(e.inputs, e.label) for e in task.split("train")], len(task.fingerprint))
try:
    TextClassification(path="hub", splits={"train": "trian"}).split("train")
except Exception as error:  # printed with its kind, which is what is tested
    print(type(error).__name__, error)
try:
    TextClassification(path="somebody/something", config="c").split("train")
except Exception as error:  # likewise
    print(type(error).__name__, error)
"""


@pytest.mark.thorough
def test_hub_layout_and_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(REPOSITORY)}
    environment = {**os.environ, **offline}
    done = subprocess.run(
        [sys.executable, "-c", HUB], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    good, split, unreachable = done.stdout.strip().splitlines()
    assert good == "('bad', 'good') [('it is dull', 0), ('it is fine', 1)] 64"
    assert split.startswith("NoSplit task.path=hub has no split 'trian'; it has train: set task.splits")
    assert unreachable.startswith("UserError task.path=somebody/something (task.config=c) cannot be loaded")
    assert "task.root or task.files" in unreachable


@pytest.mark.parametrize(
    ("name", "folder", "sizes", "labels", "first"),
    [
        ("sst2", "SST-2", (67349, 872), ("NEG", "POS"), ("it 's a charming and often affecting journey . ", "POS")),
        ("mrpc", "MRPC", (3667, 408), ("not_equivalent", "equivalent"), None),
        ("rte", "RTE", (2490, 277), ("entailment", "not_entailment"), None),
    ],
)
def test_glue_as_distributed(
    name: str, folder: str, sizes: tuple[int, int], labels: tuple[str, str], first: tuple[str, str] | None
) -> None:
    task = build(f"task/{name}", f"root={shared(f'data/glue/{folder}')}")
    assert task.labels == labels
    assert (len(task.split("train")), len(task.split("validation"))) == sizes
    assert [e.inputs for e in task.split("test")] == [e.inputs for e in task.split("validation")]
    assert {example.label for example in task.split("test")} == {0, 1}
    if first is not None:
        assert (task.split("test")[0].inputs, labels[task.split("test")[0].label]) == first
    else:
        assert all(isinstance(e.inputs, tuple) and len(e.inputs) == 2 for e in task.split("train"))


MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
    "sentence1 sentence2"
)
PREMISE, HYPOTHESIS = 'He said "go .', "He spoke ."


@pytest.mark.parametrize(
    ("name", "files", "header", "row", "labels"),
    [
        (
            "mnli",
            ("train.tsv", "dev_matched.tsv"),
            (*MNLI.split(), *(f"label{n}" for n in range(1, 6)), "gold_label"),
            ("0", "1n", "1", "fiction", "", "", "", "", PREMISE, HYPOTHESIS, *("neutral",) * 5, "{label}"),
            ("entailment", "neutral", "contradiction"),
        ),
        (
            "qnli",
            ("train.tsv", "dev.tsv"),
            ("index", "question", "sentence", "label"),
            ("0", PREMISE, HYPOTHESIS, "{label}"),
            ("entailment", "not_entailment"),
        ),
    ],
)
def test_glue_in_its_columns(tmp_path, name, files, header, row, labels):
    """Files with the columns that the processors of GLUE read; quotation marks are text."""
    for file in files:
        lines = ["\t".join(cell.format(label=label) for cell in row) for label in reversed(labels)]
        (tmp_path / file).write_text("\n".join(["\t".join(header), *lines, ""]), encoding="utf-8")
    task = build(f"task/{name}", f"root={tmp_path}")
    assert task.labels == labels
    for split in ("train", "validation", "test"):
        assert [example.label for example in task.split(split)] == [*reversed(range(len(labels)))]
        assert {example.inputs for example in task.split(split)} == {(PREMISE, HYPOTHESIS)}
