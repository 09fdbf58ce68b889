"""What a spreadsheet shows of a CSV: texts, and no formula."""

import pandas as pd
import pytest

from benchmark.report.printed import as_text, csv_bytes


@pytest.mark.parametrize("name", ["=1+1", " =1+1", "\t@SUM(A1)", "\n-2+3", "\u3000\uff1d1+1", "+A1"])
def test_formulas_are_texts_with_blanks_before_them_too(name):
    assert as_text(name) == f"'{name}'"[:-1]


@pytest.mark.parametrize("name", ["-0.5", " +1e3", "rollout", " a=b", "", 0.5, None])
def test_numbers_and_names_stay(name):
    assert as_text(name) == name


def test_headings_and_cells_are_guarded():
    table = pd.DataFrame({" =x": ["a", " =y"], "value": [-1.0, 2.0]})
    assert csv_bytes(table).decode().splitlines() == ["' =x,value", "a,-1.0", "' =y,2.0"]
