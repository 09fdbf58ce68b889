"""A mistake in a user's table, labels or checkpoint is one line that names the setting; the words that it proposes work."""

import re

import pytest

from benchmark.commands.running import settled_as_typed
from benchmark.errors import UserError
from benchmark.run.workbench import open_setting
from tests.own_data.commands import DULL, composed

MISTAKES = {
    "labels of a checkpoint without names": ("numbered", "a.csv", f"text,label\nfine,POS\n{DULL},NEG\n", (),
        'add "model.labels=[NEG,POS]"'),
    "numbers without names": ("named", "a.csv", f"text,label\n{DULL},0\nfine,1\n", (), 'add "task.label_names=[NEG,POS]"'),
    "another spelling": ("named", "a.csv", f"text,label\n{DULL},negative\nfine,positive\n", (),
        'add "model.labels=[negative,positive]"'),
    "another spelling of a named class": ("named", "a.csv", "text,label\nfine,positive\n", ("task.label_names=[NEG,POS]",),
        'a.csv:2: label \'positive\' is unknown; the task\'s labels are NEG, POS; say which of them it is: '
        '"task.label_map={positive: POS}"'),
    "a number beyond the names": ("named", "a.csv", "text,label\nfine,2\n", ("task.label_names=[NEG,POS]",),
        'whole numbers count these from 0; say which of them it is: "task.label_map={2: NAME}"'),
    "a broken number": ("named", "a.csv", "text,label\nfine,1.5\n", ("task.label_names=[NEG,POS]",),
        '"task.label_map={1.5: NAME}"'),
    "a head of three": ("three", "a.csv", f"text,label\n{DULL},NEG\nfine,POS\n", (),
        "the model has 3 classes: name each in their order with model.labels=[...]"),
    "too few names": ("numbered", "a.csv", "text,label\nfine,POS\n", ("model.labels=[POS]",),
        "model.labels=['POS']: the model 'numbered' has 2 classes, which it calls LABEL_0, LABEL_1"),
    "a map to nowhere": ("named", "a.csv", "text,label\nfine,ok\n",
        ("task.label_names=[NEG,POS]", "task.label_map={ok: good}"),
        "task.label_map leads to 'good', which is none of task.label_names: NEG, POS"),
    "no map": ("named", "a.csv", "text,label\nfine,ok\n", ("task.label_map=[ok]",),
        "task.label_map=['ok']: allowed are names with values, {NAME: VALUE, ...}, and null"),
    "a name twice": ("named", "a.csv", "text,label\nfine,POS\n", ("task.label_names=[POS,POS]",),
        "task.label_names=['POS', 'POS']: allowed are lists"),
    "names that are no list": ("named", "a.csv", "text,label\nfine,POS\n", ("task.label_names=POS",),
        "task.label_names=POS: allowed are lists"),
    "no label": ("named", "a.csv", "text,label\nfine,\n", (), "a.csv:2: no value in column 'label' (task.label)"),
    "several delimiters": ("named", "a.csv", "text;label,x\nfine;POS,1\n", (),
        "a.csv: the header line holds comma and semicolon; say which one separates columns: "
        "task.delimiter=comma or task.delimiter=semicolon"),
    "no delimiter": ("named", "a.csv", "text,label\nfine,POS\n", ("task.delimiter=colon",),
        "task.delimiter=colon: allowed are auto, comma, semicolon, tab, bar"),
    "too many fields": ("named", "a.csv", "text,label\na, b,POS\n", (),
        "a.csv:2: 3 fields under 2 columns; mend the line, or set task.quoting to none or task.delimiter to comma"),
    "a column twice": ("named", "a.csv", "text,text,label\na,b,POS\n", (), "a.csv:1: the column 'text' occurs twice"),
    "a column of another name": ("named", "a.csv", "Text,label\nfine,POS\n", (),
        "no value in column 'text' (task.text); columns are Text, label; set task.text=Text"),
    "a column that is not there": ("named", "a.csv", "review,label\nfine,POS\n", (), "set task.text=COLUMN"),
    "UTF-16": ("named", "a.csv", "text,label\nfine,POS\n".encode("utf-16"), (), "a.csv is UTF-16"),
    "another encoding": ("named", "a.csv", "text,label\ncafé,POS\n".encode("latin-1"), (), "a.csv: not UTF-8 at byte 14"),
    "a workbook": ("named", "a.xlsx", b"PK\x03\x04", (), 'with pandas: read_excel("a.xlsx").to_csv("a.csv", index=False)'),
    "a workbook by another name": ("named", "a.csv", b"PK\x03\x04", (), "a.csv is a workbook of Excel"),
    "a pointer": ("named", "a.parquet", b"version https://git-lfs.github.com/spec/v1\n", (), "run: git lfs pull"),
    "an empty file": ("named", "a.csv", "", (), "a.csv is empty: the test split has no examples"),
    "a header alone": ("named", "a.csv", "text,label\n", (), "a.csv is empty: the test split has no examples"),
    "a broken array": ("named", "a.json", '[{"text": "fine"},\n ]', (), "a.json:2: broken JSON array"),
    "an array of texts": ("named", "a.json", '["fine"]', (), "a.json: item 0 of the array is no object, but str"),
    "an object of arrays": ("named", "a.json", '{"data": [1]}', (), "columns are data; set task.text=COLUMN"),
    "no file": ("named", None, "", (), "a.csv is missing; set task.files.test to the table of the test split"),
    "a folder": ("named", None, "", ("task.files={test: .}",), ". is a folder; set task.files.test"),
    "no split": ("named", "a.csv", "text,label\nfine,POS\n", ("task.files=a.csv",),
        "task.files=a.csv: allowed are null, and the file of each split, {test: FILE}"),
    "an unknown split": ("named", "a.csv", "text,label\nfine,POS\n", ("task.files={tset: a.csv}",),
        "task.files has the unknown split 'tset'; allowed are train, validation, test"),
    "another split": ("named", "a.csv", "text,label\nfine,POS\n", ("split=train",),
        "task.files has no table of the train split; name one with task.files.train=FILE, or use split=test"),
    "a split that no task has": ("named", "a.csv", "text,label\nfine,POS\n", ("split=tset",),
        "split=tset does not exist; did you mean test?"),
    "no column of rationales": ("named", "a.csv", "text,label,Why\nfine,POS,\n", ("task.rationale=why",),
        "no value in column 'why' (task.rationale); columns are text, label, Why; set task.rationale=Why"),
    "a rationale of another text": ("named", "a.csv", 'text,label,why\nfine,POS,"[0, 1]"\n', ("task.rationale=why",),
        "a.csv:2: the rationale (task.rationale) has 2 marks for 1 words"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_the_setting(here, checkpoints, case):
    checkpoint, file, content, overrides, expected = MISTAKES[case]
    if file is not None:
        (here / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    named = (
        ()
        if any(text.startswith("task.files=") for text in overrides)
        else (f"task.files={{test: {file or 'a.csv'}}}",)
    )
    with pytest.raises(UserError) as caught:
        open_setting(composed(checkpoints / checkpoint, *named, *overrides))
    message = str(caught.value)
    assert expected in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "tiny",
            "model=tiny is trained on the task's training split, and task.files has no table of the train split; name one "
            "with task.files.train=FILE",
        ),
        (
            "adversarial model.base={base}",
            "the model is trained on the task's own splits, and task.files has no table of the train split; name one with "
            "task.files.train=FILE",
        ),
        ("tiny_vit", "example 'test-000000' holds no image to train on; use model=tiny for texts"),
    ],
)
def test_a_model_that_is_trained_needs_something_to_be_trained_on(here, checkpoints, model, expected):
    (here / "a.csv").write_text("text,label\nfine,POS\nbad,NEG\n")
    chosen = f"model={model}".format(base=checkpoints / "named").split()
    words = ["task=text_classification", "task.files={test: a.csv}", *chosen, "methods=[random]"]
    with pytest.raises(UserError) as caught:
        open_setting(settled_as_typed("config", words, None, sweep=False)[1])
    assert str(caught.value) == expected


def test_no_split_but_the_training_split_is_needed_for_training(here, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(here / "cache"))
    for split in ("test", "train"):
        (here / f"{split}.csv").write_text("text,label\nfine film,POS\nbad plot,NEG\n")
    words = ["task=text_classification", "task.files={test: test.csv, train: train.csv}", "model=tiny", "model.steps=2"]
    assert open_setting(settled_as_typed("config", words, None, sweep=False)[1]).model.labels == ("NEG", "POS")


PROPOSED = re.compile(r'"((?:task|model)\.[a-z_]+=[^"]*)"$')
"""The words to type at the end of a message."""


@pytest.mark.parametrize(
    "proposed",
    [
        case
        for case, parts in MISTAKES.items()
        if PROPOSED.search(parts[4]) and "NAME" not in parts[4] and case != "no map"
    ],
)
def test_what_a_message_proposes_works(here, checkpoints, proposed):
    checkpoint, file, content, overrides, expected = MISTAKES[proposed]
    (here / file).write_text(content)
    words = PROPOSED.search(expected)[1]
    kept = [text for text in overrides if text.partition("=")[0] != words.partition("=")[0]]
    files = () if words.startswith("task.files") else (f"task.files={{test: {file}}}",)
    assert open_setting(composed(checkpoints / checkpoint, *files, *kept, words)).data.uids
