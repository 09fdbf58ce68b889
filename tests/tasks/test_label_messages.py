"""Tables whose header or labels are not what they seem, and the commands that the messages propose."""

import re
import shlex
from pathlib import Path

import pytest

from benchmark.commands.running import settled_as_typed
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.rationale.rationale import Rationale
from benchmark.models.label_matching import with_labels
from benchmark.settings.making import make
from tasks.text_classification import TextClassification


def task_of(file: Path, *overrides: str):
    given = ["task=text_classification", f"task.files={{test: '{file}'}}", *overrides]
    return make(settled_as_typed("config", given, None, sweep=False)[1].task)


@pytest.mark.parametrize("header", ["Label", "the label", "label's", "label,s", "label$x"])
def test_a_header_that_is_nearly_the_setting(tmp_path: Path, header: str) -> None:
    file = tmp_path / "t.csv"
    quoted = f'"{header}"' if "," in header else header
    file.write_text(f"text,{quoted}\nfine,POS\ndull,NEG\n")
    with pytest.raises(UserError) as caught:
        _ = task_of(file).labels
    proposal = re.search(r"; set (.*)$", str(caught.value))[1]
    assert task_of(file, *shlex.split(proposal)).labels == ("NEG", "POS")


def test_a_missing_column_of_boxes_is_not_a_setting(tmp_path: Path) -> None:
    from tasks.table_columns import value_of

    with pytest.raises(
        UserError, match=r"no value in column 'x0' \(task\.boxes\); columns are file, x; call it x0 in the"
    ):
        value_of(("boxes.csv:2", {"file": "a", "x": "1"}), ("x0",), "boxes")


@pytest.mark.parametrize("label", ["nan", "NaN", "null", "<NA>"])
def test_a_label_that_is_a_missing_value_in_words(tmp_path: Path, label: str) -> None:
    (tmp_path / "test.csv").write_text(f"text,label\nfine,POS\ndull,{label}\n")
    with pytest.raises(
        UserError, match=rf"test\.csv:3: the label is '{label}', as a missing value is written; drop the row"
    ):
        _ = TextClassification(root=str(tmp_path)).labels
    assert TextClassification(root=str(tmp_path), label_names=["POS", label]).labels == ("POS", label)
    mapped = TextClassification(root=str(tmp_path), label_map={label: "NEG"})
    assert mapped.labels == ("NEG", "POS")


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("[False,True]", ("False", "True")),
        ("[false,true]", ("False", "True")),
        ("[0,1]", ("0", "1")),
        ("[0.0,1.0]", ("0.0", "1.0")),
        ('["False",yes]', ("False", "yes")),
    ],
)
def test_names_of_classes_may_be_whatever_a_list_holds(place, typed, names) -> None:
    given = ["model=hf", f"model.path={place / 'bert'}", f"model.labels={typed}", "task=planted"]
    from benchmark.commands.running import looked_at

    config = looked_at([*given, "methods=[random]", "evaluations=[aopc]"])[1]
    from benchmark.models import load_model

    assert with_labels(load_model(place / "bert"), list(config.model.labels)).labels == names


def test_rationales_that_are_all_empty_are_annotations(tmp_path: Path, place) -> None:
    from benchmark.models import load_model
    from methods.controls import Random

    (tmp_path / "test.jsonl").write_text(
        '{"text": "a fine film", "label": "POS", "rationale": [0, 0, 0]}\n'
        '{"text": "dull", "label": "NEG", "rationale": []}\n'
    )
    task = TextClassification(root=str(tmp_path), rationale="rationale")
    examples = task.split("test")
    model = load_model(place / "bert")
    batch = model.encode_examples(examples, [0, 1])
    attribution = Random()(model, batch, batch.label)
    evaluation = Rationale().over([batch])
    with pytest.raises(NotApplicable, match="no rationale marks a word: all are empty"):
        evaluation.reduce(evaluation.rows(model, batch, attribution))
