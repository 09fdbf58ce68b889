"""What a report says, in a line, in a table, as JSON and as a page."""

import json
from pathlib import Path

import jsonschema

import benchmark
from benchmark.checking import report as reports
from benchmark.checking.models import check_model
from benchmark.checking.report import Finding, Outcome, Report
from tests.checking.seeded import BUGS

SCHEMA = json.loads((Path(reports.__file__).parent / "check.schema.json").read_text(encoding="utf-8"))
OUTCOMES = (
    Outcome("form", "small bert", "pass", "all | well", seconds=0.5),
    Outcome("sign", "small bert", "property", "by definition", 2.0, 0.01),
    Outcome("read", "small bert", "fail", "the scores are those of row 1", where="example 2"),
    Outcome("twins", "small bert", "fail", "more", float("inf"), 1e-6),
    Outcome("golden", "small bert", "not applicable", "no file"),
)
REPORT = Report("mine", "method", {"class": "mine.Heat"}, OUTCOMES)


def test_the_first_failure_is_the_place_to_look_at():
    assert not REPORT.ok
    assert REPORT.first is OUTCOMES[2]
    assert str(REPORT.first) == "read (small bert): FAIL: example 2: the scores are those of row 1"
    assert REPORT.summary == f"1 pass, 2 fail, 1 property, 1 not applicable; first: {REPORT.first}"
    assert REPORT.of("twins") == (OUTCOMES[3],)
    assert Report("mine", "method", {}, OUTCOMES[:2]).ok


def test_a_table_has_a_line_for_each(tmp_path):
    head, empty, titles, *lines = REPORT.table().splitlines()
    assert head == f"mine: {REPORT.summary}"
    assert (empty, titles.split()) == ("", ["check", "model", "gap", "at", "most"])
    assert [line.split()[0] for line in lines] == [one.check for one in OUTCOMES]
    assert "2.0e+00  1.0e-02  by definition" in lines[1]
    written = REPORT.write(tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["check.json", "check.md"]
    page = written[1].read_text(encoding="utf-8")
    assert "| form | small bert | pass |  |  | 0.5 | all \\| well |" in page
    assert "- class: `mine.Heat`" in page


def test_json_is_as_the_schema_says():
    for one in (
        REPORT,
        benchmark.check(BUGS["row 1"][0], only=["form", "read"]),
        check_model("gpt2", only=["logits", "read"]),
    ):
        told = json.loads(one.as_json())
        jsonschema.validate(told, SCHEMA)
        assert told["ok"] is one.ok
    assert json.loads(REPORT.as_json())["checks"][3]["gap"] == "inf"
    about = json.loads(benchmark.check("rollout", only=["form"]).as_json())["about"]
    assert about["class"] == "methods.attention_explainer.AttentionExplainer"
    assert len(about["source_sha256"]) == 64


def test_a_gap_that_is_no_number_does_not_pass():
    assert not Finding("", float("nan"), 1.0).passes
    assert Finding("", 1.0, 1.0).passes
    assert not Finding("", 0.0, 1.0, ok=False).passes
