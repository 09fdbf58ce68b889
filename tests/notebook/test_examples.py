"""The examples of the docstrings of all public names are run, and there is one for each."""

import doctest
from importlib.metadata import version

import pandas as pd
import pytest

import benchmark
from benchmark.comparison import run_comparison
from benchmark.notebook import tables
from benchmark.settings.configuration import compose
from benchmark.types import Attribution
from tests import tiny_task

NAMES = {
    **{name: getattr(benchmark, name) for name in benchmark.__all__},
    "evaluations": tables.evaluations,
    "Attribution.words": Attribution.words,
}


@pytest.fixture(scope="session")
def comparison(checkpoint, tmp_path_factory):
    place = tmp_path_factory.mktemp("comparison")
    tiny_task.write_yamls(place / "conf")
    chosen = ("task=tiny_task", "model=hf", f"model.path={checkpoint}", "tracking=none", f"out={place / 'runs'}")
    tests = ("methods=[rollout]", "evaluations=[rationale]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        return run_comparison(compose("config", [*chosen, *tests], str(place / "conf"))).folder


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_docstring_runs(name, model, checkpoint, comparison, tmp_path, no_pictures):
    (tmp_path / "table.csv").write_text("text,label\na fine film,good\nthe plot was dull,bad\n")
    known = {"benchmark": benchmark, "model": model, "checkpoint": checkpoint, "comparison": comparison}
    known |= {"table": tmp_path / "table.csv", "folder": tmp_path / "runs"}
    (found,) = doctest.DocTestFinder(recurse=False).find(NAMES[name], name, globs=known)
    assert found.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said = []
    with pd.option_context("display.width", 200):
        runner.run(found, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_every_public_name_is_offered():
    assert {*benchmark.__all__, "evaluations"} == set(dir(benchmark))
    assert all(callable(getattr(benchmark, name)) for name in dir(benchmark))
    assert benchmark.__version__ == version("attention-explainer-benchmark")
