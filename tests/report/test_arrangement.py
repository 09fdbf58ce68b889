"""In which order tests and methods stand, and which tests are not shown."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from benchmark.report.arrangement import method_order, ordered_tests, ranks, repeated_line, repeats
from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import frame, groups_with_figures, headline_columns, make_board, scalar_columns
from benchmark.report.markdown import markdown
from benchmark.report.pairs import every_pair
from benchmark.results import commits, store
from benchmark.results.record import About
from tests.records import rows_bytes
from tests.report.folders import Plan, write_cells

METHODS = ("attattr", "rollout", "lrp", "random", "oracle")


@pytest.fixture
def folders(tmp_path):
    return write_cells(tmp_path, [Plan(method) for method in METHODS])


def described(folder, **abouts):
    """The folder with words for some of its tests, and `perturbation`'s first metric."""
    record = store.read_record(folder)
    found = {
        name: replace(test, about=abouts.get(name, test.about), identity=[name.split("_")[0], 1, {}])
        for name, test in record.evaluations.items()
    }
    metrics = dict(found["perturbation"].metrics)
    metrics["positive_auc"] = replace(
        metrics["positive_auc"], title="accuracy AUC, best first", meaning="mean accuracy"
    )
    found["perturbation"] = replace(found["perturbation"], metrics=metrics)
    commits.write_record(folder, replace(record, evaluations=found))


def repeating(folder, rows=None):
    """The folder with a test of the same class as `perturbation` that gave the same rows."""
    record, table = store.read_record(folder), store.read_rows(folder)
    test = record.evaluations["perturbation"]
    again = replace(test, name="perturbation_target", digest="0" * 64, target="label", rows=rows or test.rows)
    copied = table[table["evaluation"] == "perturbation"].assign(evaluation="perturbation_target")
    contents = {"rows.parquet": rows_bytes(pd.concat([table, copied], ignore_index=True))}
    commits.commit(folder, contents, replace(record, evaluations={**record.evaluations, "perturbation_target": again}))


def test_faithfulness_comes_before_plausibility_and_description_and_what_is_unknown_last(folders):
    for folder in folders:
        described(folder, perturbation=About("descriptive", 10), rationale=About("faithfulness", 20), agreement=About())
    cells = load_cells(folders)
    assert list(ordered_tests(cells)) == ["rationale", "perturbation", "agreement"]
    table = frame(cells)
    assert list(dict.fromkeys(table["evaluation"])) == ["rationale", "perturbation", "agreement"]
    assert list(dict.fromkeys(table["kind"])) == ["faithfulness", "descriptive", ""]
    assert headline_columns(table)[0].evaluation == "rationale"


def test_every_table_has_the_methods_in_one_order(folders):
    cells = load_cells(folders)
    table = frame(cells)
    ((*_, members, part),) = groups_with_figures(cells, table)
    order = [cell.method for cell in members]
    assert order == method_order(part)
    assert order == ["attattr", "rollout", "lrp", "oracle", "random"]
    for columns in ([column] for column in scalar_columns(part)):
        assert [row.labels[0] for row in make_board(part, columns).rows] == order
    text = markdown(cells, table, every_pair(cells, table))
    assert "in the same order in every table" in text


def test_a_test_that_repeats_another_is_named_and_not_shown(folders):
    for folder in folders:
        repeating(folder)
    cells = load_cells(folders)
    assert repeats(cells) == {"perturbation_target": "perturbation"}
    table = frame(cells)
    assert "perturbation_target" in set(table["evaluation"]), "the CSV has it"
    ((*_, part),) = groups_with_figures(cells, table)
    assert "perturbation_target" not in set(part["evaluation"])
    pairs = every_pair(cells, table)
    assert {one.column.evaluation for ones in pairs.values() for one in ones} == {"perturbation", "rationale"}
    text = markdown(cells, table, pairs)
    line = repeated_line(repeats(cells))
    assert line in text
    assert "perturbation_target (equal to perturbation in every value)" in line
    assert text.count("perturbation_target") == 1


def test_a_test_that_differs_for_one_method_is_shown(folders):
    for folder in folders[:-1]:
        repeating(folder)
    assert repeats(load_cells(folders)) == {}
    assert repeated_line({}) == ""


def test_a_title_is_shown_with_its_meaning_and_its_code_name(folders):
    for folder in folders:
        described(folder, perturbation=About("faithfulness", 10, "Perturbation"))
    cells = load_cells(folders)
    table = frame(cells)
    text = markdown(cells, table, every_pair(cells, table))
    assert "accuracy AUC, best first ↓<br><sub>perturbation.positive_auc</sub> |" in text
    assert "| perturbation: negative_auc ↑ |" in text, "without a title the code name stands for it"
    assert "### Perturbation <sub>perturbation</sub>\n\nA test of faithfulness. Explained class: predicted." in text
    assert "- accuracy AUC, best first ↓: Mean accuracy; from 0 to 1, lower is better." in text


def test_nan_has_no_rank():
    assert ranks({"a": 0.5, "b": math.nan, "c": 0.7}, higher_is_better=True) == {"c": 1, "a": 2}
