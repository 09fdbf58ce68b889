"""How often the explained model is right, and whether examples share passages, as the record and the report have it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmark.comparison import compare
from benchmark.report.cells import answers_line, load_cells, passages_line
from benchmark.report.leaderboard import frame
from benchmark.report.markdown import markdown
from benchmark.report.pairs import every_pair
from benchmark.results.record import Answers, TaskRecord
from benchmark.results.store import Ragged
from benchmark.run.encoded import labels_of
from benchmark.run.records import _answers
from benchmark.run.workbench import open_setting
from tests import tiny_task


def told(labels, predicted, *, multilabel=False):
    batches = [SimpleNamespace(label=np.array(part)) for part in np.array_split(np.array(labels), 2)]
    cell = SimpleNamespace(data=SimpleNamespace(batches=batches), model=SimpleNamespace(multilabel=multilabel))
    target = {"target": np.array(predicted)}
    return _answers(cell, Ragged(tuple(map(str, labels)), target, {}))


def test_right_and_commonest_are_counted():
    assert told([0, 1, 1, 2, 1], [0, 1, 0, 0, 1]) == Answers(right=3, commonest=3)


@pytest.mark.parametrize(("labels", "settings"), [([0, -1], {}), ([0, 1], {"multilabel": True})])
def test_without_one_class_for_each_example_nothing_is_said(labels, settings):
    assert told(labels, [0, 1], **settings) is None
    cell = SimpleNamespace(data=SimpleNamespace(batches=[SimpleNamespace(label=np.array(labels))]))
    cell.model = SimpleNamespace(multilabel=False)
    assert _answers(cell, None) is None


def test_the_line_has_the_share_and_wilsons_interval():
    record = SimpleNamespace(answers=Answers(178, 110), task=SimpleNamespace(n=200))
    silent = SimpleNamespace(record=SimpleNamespace(answers=None, task=SimpleNamespace(n=200)))
    line = answers_line([silent, SimpleNamespace(record=record)])
    assert line == (
        "The model predicts the annotated class of 178 of 200 examples: 0.890 [0.839, 0.926]. Naming the most frequent "
        "class would be right in 0.550."
    )
    assert answers_line([silent]) == ""


@pytest.mark.parametrize(("right", "commonest"), [(-1, 3), (6, 3), (3, 0), (3, 6)])
def test_what_cannot_be_counted_is_refused(right, commonest):
    with pytest.raises(ValueError, match="are no counts of 5 examples"):
        Answers(right, commonest).check(5)


def test_a_comparison_says_what_its_model_answers(place, tmp_path):
    cells = tiny_task.compared(place, tmp_path / "out", "methods=[random,rollout]", "evaluations=[aopc]").cells
    setting = open_setting(tiny_task.settings(place, tmp_path))
    labels, predicted = [], []
    for batch in setting.data.batches:
        labels += batch.label.tolist()
        predicted += setting.model.run(batch).logits.argmax(1).tolist()
    assert labels_of(setting.data.batches) == tuple(labels)
    right = int((np.array(labels) == np.array(predicted)).sum())
    for folder in cells:
        answers = json.loads((folder / "record.json").read_text())["answers"]
        assert answers == {"right": right, "commonest": max(labels.count(label) for label in labels)}
    named = load_cells(cells)
    table = frame(named)
    told = markdown(named, table, every_pair(named, table))
    assert f"predicts the annotated class of {right} of {len(labels)} examples" in told


def facts(n, passages, design_effect):
    return TaskRecord("task", 1, "test", None, None, n, "data", 0, 0, passages, design_effect)


@pytest.mark.parametrize("given", [(100, None, None), (100, 100, 1.0), (100, 96, 1.08), (0, 0, 0.0)])
def test_nothing_is_said_where_hardly_an_example_shares_its_passage(given):
    assert not facts(*given).shared_passages


def test_that_examples_share_passages_is_said():
    given = [(100, None, None), (100, 25, 4.0)]
    cells = [SimpleNamespace(record=SimpleNamespace(task=facts(*each))) for each in given]
    assert passages_line(cells) == (
        "The 100 examples have 25 passages, and figures of tests take examples for independent: their intervals may be too "
        "narrow by a factor of up to 2. task=distinct_passages keeps one example of each passage."
    )
    assert not passages_line(cells[:1])
    assert facts(9, 1, 9.0).shared_passages.startswith("The 9 examples have 1 passage, and")


def test_no_hash_covers_what_is_counted_of_passages():
    assert facts(9, 1, 9.0).identity == facts(9, None, None).identity
    assert "passages" not in facts(9, 1, 9.0).identity


def test_a_comparison_says_that_its_examples_share_passages_unless_one_of_each_is_kept(place, tmp_path, caplog):
    asked = tmp_path / "asked"
    asked.mkdir()
    rows = [f"a fine film number {number}\tgood\twhat {question} ?" for number in range(6) for question in range(2)]
    (asked / "test.tsv").write_text("\n".join(["text\tlabel\tquery", *rows]))
    table = [f"root={asked}", "query=query", "name=asked", "label_names=[bad,good]"]
    rest = ["model=hf", f"model.path={place / 'bert'}", "tracking=none", "analyses=[]", f"out={tmp_path / 'out'}"]

    def compared(task, prefix):
        given = [*task, *(f"{prefix}.{setting}" for setting in table)]
        caplog.clear()
        cells = load_cells(compare(*given, *rest, "methods=[random]", "evaluations=[aopc]").cells)
        return cells, "have 6 passages" in caplog.text

    cells, warned = compared(["task=text_classification"], "task")
    assert (cells[0].record.task.n, cells[0].record.task.passages, warned) == (12, 6, True)
    assert cells[0].record.task.design_effect == 2
    frame_of = frame(cells)
    assert "The 12 examples have 6 passages" in markdown(cells, frame_of, every_pair(cells, frame_of))
    cells, warned = compared(["task=distinct_passages", "task@task.task=text_classification"], "task.task")
    assert (cells[0].record.task.n, cells[0].record.task.passages, warned) == (6, 6, False)
