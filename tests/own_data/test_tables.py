"""A user's own tables, labels and checkpoints, from end to end."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmark.commands.running import settled_as_typed
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.results import store
from benchmark.run.workbench import open_setting
from benchmark.settings.making import build
from tests import pages
from tests.conftest import REPOSITORY
from tests.own_data.commands import DULL, FINE, composed, table

PAGE = REPOSITORY / "docs" / "own-data.md"


def labels_of(config):
    """The scored examples' classes in the model's order."""
    setting = open_setting(config)
    classes = {
        uid: int(label) for batch in setting.data.batches for uid, label in zip(batch.uids, batch.label, strict=True)
    }
    return [classes[uid] for uid in sorted(classes)]


@pytest.mark.parametrize(
    ("file", "content", "overrides"),
    [
        ("a.csv", f"text;label\n{FINE};1.0\n{DULL};0.0\n", ("task.label_names=[NEG,POS]",)),
        ("a.csv", f"text\tlabel\n{FINE}\tPOS\n{DULL}\tneg\n", ()),
        ("a.tsv", f"text\tlabel\n{FINE}\tPOS\n{DULL}\tneg\n", ()),
        ("a.tsv", f"text|label\n{FINE}|POS\n{DULL}|neg\n", ()),
        ("a.csv", f'"text; or so,";label\n{FINE};POS\n{DULL};NEG\n', ("task.text='text; or so,'",)),
        ("a.csv", f"text;label,x\n{FINE};POS\n{DULL};NEG\n", ("task.delimiter=semicolon", "task.label='label,x'")),
        ("a.json", json.dumps([{"text": FINE, "label": 1.0}, {"text": DULL, "label": 0}]), ("task.label_names=[NEG,POS]",)),
        ("a.jsonl", json.dumps([{"text": FINE, "label": "POS"}, {"text": DULL, "label": "NEG"}], indent=1), ()),
        ("a.csv", f'text,label\n"{FINE}",great\n{DULL},poor\n', ("task.label_map={great: POS, Poor: NEG}",)),
        ("a.csv", f'text,label\n"{FINE}",5.0\n{DULL},1\n',
         ("task.label_map={5: POS, 1: NEG}", "task.label_names=[POS,NEG]")),
    ],
)  # fmt: skip
def test_a_test_table_alone_is_read(here, checkpoints, file, content, overrides):
    (here / file).write_text(content)
    assert labels_of(composed(checkpoints / "named", f"task.files={{test: {file}}}", *overrides)) == [1, 0]


def test_names_that_are_told_decide_the_annotated_class(here, checkpoints):
    (here / "a.csv").write_text(f'text,label\n"{FINE}",POS\n{DULL},NEG\n')
    for names, expected in (("[NEG,POS]", [1, 0]), ("[POS,NEG]", [0, 1])):
        config = composed(checkpoints / "numbered", "task.files={test: a.csv}", f"model.labels={names}")
        assert labels_of(config) == expected


def test_numbers_are_not_taken_for_names(here):
    (here / "train.csv").write_text("text,label\nfine,1\ndull,2\n")
    (here / "test.csv").write_text("text,label\nfine,0\n")
    with pytest.raises(UserError, match="label '0' is unknown; the task's labels are 1, 2"):
        table("root=.").split("test")


def test_the_labels_of_all_tables_where_there_is_no_training_table(here):
    (here / "dev.csv").write_text("text,label\nfine,b\n")
    (here / "test.csv").write_text("text,label\nfine,10\ndull,9.0\n")
    task = table("root=.")
    assert task.labels == ("9", "10", "b")
    assert table("root=.", "label_map={10: a, 9: a}").labels == ("a", "b")


def test_settings_that_are_not_used_leave_the_digest_as_it_was(here):
    """Run folders of before these settings are found again: the digest that version 0.2.0 gave this table."""
    (here / "test.csv").write_text("text,label\nfine,POS\n")
    plain = table("root=.", "label_names=[NEG,POS]")
    assert plain.fingerprint == "62907626a90a9b146ce6298c36946bb46a42067d765180ad33fee9ec914b9970"
    digests = {plain.fingerprint}
    for used in ("rationale=why", "label_map={x: POS}", "delimiter=semicolon"):
        digests.add(table("root=.", "label_names=[NEG,POS]", used).fingerprint)
    assert len(digests) == 4


def test_a_column_that_is_not_read_is_named_once(here, caplog):
    for split in ("train", "test"):
        (here / f"{split}.csv").write_text("text,label,Evidence\nfine,POS,x\n")
    task = table("root=.")
    assert [task.split(split)[0].rationale for split in ("train", "test")] == [None, None]
    assert caplog.messages == ["train.csv has a column 'Evidence' that is not read: task.rationale=Evidence"]


def test_a_table_may_lack_the_column_where_another_has_it(here, caplog):
    (here / "train.csv").write_text("text,label\nfine,POS\n")
    (here / "test.csv").write_text('text,label,why\nfine,POS,"[""fine""]"\ndull,POS,\n')
    task = table("root=.", "rationale=why")
    assert [example.rationale for example in task.split("train")] == [None]
    assert "the train split has no column of task.rationale=why" in caplog.text
    first, second = task.split("test")
    assert first.rationale.tolist() == [True]
    assert second.rationale is None


@pytest.mark.parametrize("file", ["why.csv", "why.jsonl"])
def test_the_page_s_rationales(here, file):
    (here / file).write_text(pages.shown_files(PAGE)[file])
    marks = [example.rationale.astype(int).tolist() for example in
             table(f"files={{test: {file}}}", "rationale=why").split("test")]  # fmt: skip
    assert marks == [[0, 1, 1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0]]


def test_the_page_s_files_of_eraser_are_ten_lines(here):
    shown = {name: text for name, text in pages.shown_files(PAGE).items() if name.startswith("eraser/")}
    assert sum(len(text.splitlines()) for text in shown.values()) == 10
    for name, text in shown.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    task = build("task/eraser", "root=eraser")
    assert task.labels == ("NEG", "POS")
    examples = task.split("test")
    assert [" ".join(np.array(example.inputs)[example.rationale]) for example in examples] == [
        "fine film", "dull", "good", "bad", ""
    ]  # fmt: skip
    assert [example.label for example in examples] == [1, 0, 1, 0, 0]
    renamed = build("task/eraser", "root=eraser", "label_map={POS: good, NEG: bad}")
    assert renamed.labels == ("bad", "good")
    assert renamed.fingerprint != task.fingerprint


def test_the_page_s_python(here):
    (here / "why.jsonl").write_text(pages.shown_files(PAGE)["why.jsonl"])
    (program,) = (code for language, code in pages.blocks(PAGE) if language == "python")
    names = {}
    exec(program, names)
    assert names["first"].inputs == FINE


def figures(folder, metric):
    (test,) = store.read_record(folder).evaluations.values()
    return [figure.value for figure in test.figures if figure.metric == metric]


def test_rationales_of_a_table_reach_controls_tests_and_heatmaps(here, checkpoints):
    (here / "why.csv").write_text(pages.shown_files(PAGE)["why.csv"])
    config = composed(checkpoints / "named", "task.files={test: why.csv}", "task.rationale=why",
                      "methods=[oracle,inverted,frequency]")  # fmt: skip
    oracle, inverted, frequency = run_comparison(config).cells
    assert figures(oracle, "average_precision") == [1.0]
    assert figures(inverted, "average_precision")[0] < 1
    assert store.read_record(frequency).dash == "it is fitted on the training split, which the task does not have"
    pages_of = {tuple(page["words"]): page["rationale"] for page in store.read_json(oracle / "heatmap.json")}
    assert pages_of[tuple(FINE.split())] == [False, True, True, False, True, False]


def test_rationales_of_pairs_and_a_split_that_is_not_there(here, checkpoints):
    (here / "pairs.jsonl").write_text(pages.shown_files(PAGE)["pairs.jsonl"])
    config = composed(checkpoints / "named", "task.files={test: pairs.jsonl}", "task.rationale=why", "task.text=first",
                      "task.text_pair=second", "task.label=same", "task.label_names=[NEG,POS]", "methods=[oracle]",
                      "evaluations=[rationale]")  # fmt: skip
    assert figures(run_comparison(config).cells[0], "average_precision") == [1.0]
    config = composed(checkpoints / "named", "task.files={test: pairs.jsonl}", "task.text=first", "task.label=same",
                      "task.label_names=[NEG,POS]", "evaluations=[head_pruning]")  # fmt: skip
    dash = store.read_record(run_comparison(config).cells[0]).dash
    assert dash == "it is calibrated on the validation split, which the task does not have"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("list", "methods.probe: the method gave a list of 12 items; expected is benchmark.types.Attribution"),
        ("short", "methods.probe: the method gave as tokens a tensor of shape [12, "),
    ],
)
def test_a_method_of_another_form_ends_a_comparison_in_one_line(place, here, how, expected):
    overrides = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "methods=[probe]",
                 "evaluations=[perturbation]", "out=out", f"methods.probe.how={how}"]  # fmt: skip
    config = settled_as_typed("config", overrides, str(place / "conf"), sweep=False)[1]
    with pytest.raises(UserError) as caught:
        run_comparison(config)
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value).splitlines()) == 1
