"""Tables of several seeds: beside the same analyses asked one seed at a time, and a case worked by hand."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmark import leaderboard
from benchmark.analyses.context import Context
from benchmark.analyses.opening import composed
from benchmark.analyses.over_seeds import OverSeeds, _take, with_seed
from benchmark.comparison import compare
from benchmark.errors import NotApplicable, UserError
from benchmark.report.analysis_tables import read_tables
from benchmark.results.statistics import mean_over_seeds
from benchmark.results.tables import P_KEY, PROBABILITY, Table, line
from benchmark.settings.configuration import compose
from tests.analyses.rewording import reworded

pytestmark = pytest.mark.thorough  # its comparisons train three models

SMALL = (
    "task.train=200", "task.validation=20", "task.test=30", "model.steps=3", "limit=8", "tracking=none",
    "methods=[raw_attention,gradient_x_input]", "evaluations=[complexity]",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Facts of the model; one of them of some seeds alone."""

    version: ClassVar[int] = 1

    def __call__(self, context):
        seed = int(context.setting.config.model.get("seed", 0))
        rows = [
            line({"fact": "of all"}, "size", float(seed), seed - 1.0, seed + 2.0, n=10 + seed),
            line({"fact": "of all"}, "p", 0.01, note=PROBABILITY, key=P_KEY),
            line({"fact": "counted"}, "size", 2.0 * seed, note="a count"),
            line({"fact": "bounded"}, "size", float(seed), seed - 1.0, seed + 2.0, n=5, bounds=(-0.5, 2.5)),
        ]
        if seed == 1:
            rows.append(line({"fact": "of one"}, "size", 7.0, 6.0, 9.0, n=4))
        by_head = pd.DataFrame([line({"head": 0}, "size", 1.0, 0.5, 1.5, n=3)])
        return [
            Table("facts", "Facts", ("fact",), pd.DataFrame(rows)),
            Table("heads", "Facts of heads", ("head",), by_head),
        ]


@dataclass(frozen=True)
class Says:
    """What the facts of the same seed come to, in a figure and in words."""

    version: ClassVar[int] = 1
    reads_tables: ClassVar[bool] = True

    def __call__(self, context):
        size = float(context.tables["facts"][0].rows["value"].iloc[0])
        rows = [
            line({"question": "how large?"}, "figure", size, size - 1, size + 1, n=6),
            line({"question": "how large?"}, "says", n=6, note="small" if size < 2 else "large"),
        ]
        return [Table("said", "What is said", ("question",), pd.DataFrame(rows))]


@dataclass(frozen=True)
class Refuses:
    """Serves nobody."""

    version: ClassVar[int] = 1

    def __call__(self, context):
        raise NotApplicable("it never is")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison over three seeds, with its tables."""
    folder = tmp_path_factory.mktemp("over seeds")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        own = [
            f"+analyses.{name}._target_=tests.analyses.test_over_seeds.{name.title()}"
            for name in ("facts", "refuses", "says")
        ]
        comparison = compare(*SMALL, "analyses=[edge_sparsity,over_seeds]", *own, f"out={folder}")
        alone = [
            compare(*SMALL, "analyses=[edge_sparsity]", f"model.seed={seed}", f"out={folder}") for seed in (0, 1, 2)
        ]
    return read_tables(comparison.folder), [read_tables(one.folder) for one in alone], alone


def rows(tables, name, **labels):
    """By metric the rows of a table with these labels."""
    found = next(table for table in tables if table.name == name).rows
    for label, value in labels.items():
        found = found[found[label] == value]
    return {row["metric"]: row for row in found.to_dict("records")}


def test_each_figure_is_that_of_every_seed_alone(compared):
    tables, alone, _ = compared
    single = [rows(one, "edge_sparsity", map="attention")["Gini index"] for one in alone]
    assert len({one["value"] for one in single}) == 3
    found = rows(tables, "edge_sparsity_over_seeds", map="attention", figure="Gini index")
    expected = mean_over_seeds(*(np.array([one[end] for one in single]) for end in ("value", "low", "high")), 8)
    mean = found["mean over seeds"]
    assert [mean[end] for end in ("value", "low", "high", "n")] == pytest.approx(
        [expected.value, expected.low, expected.high, 8]
    )
    assert found["SD between seeds"]["value"] == pytest.approx(np.std([one["value"] for one in single], ddof=1))
    errors = [(one["high"] - one["low"]) / (2 * stats.norm.ppf(0.975)) for one in single]
    assert found["standard error over examples"]["value"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_tests_are_taken_too(compared):
    tables, _, alone = compared
    single = []
    for comparison in alone:
        board = leaderboard(comparison.folder)
        chosen = board[(board["method"] == "raw_attention") & (board["metric"] == "gini")]
        single.append(float(chosen["value"].iloc[0]))
    found = rows(tables, "tests_over_seeds", explainer="raw_attention", test="complexity", figure="gini")
    assert found["mean over seeds"]["value"] == pytest.approx(np.mean(single))


def test_what_some_seeds_lack_and_what_is_left_out(compared):
    tables, *_ = compared
    of_all = rows(tables, "facts_over_seeds", fact="of all", figure="size")["mean over seeds"]
    assert (of_all["value"], of_all["n"], of_all["note"]) == (1.0, 10, "")
    one = rows(tables, "facts_over_seeds", fact="of one")
    assert [one["mean over seeds"][end] for end in ("value", "low", "high", "note")] == [7, 6, 9, "over examples alone"]
    assert one["SD between seeds"]["note"] == "in 1 of 3 seeds"
    counted = rows(tables, "facts_over_seeds", fact="counted")["mean over seeds"]
    assert (counted["low"], counted["high"]) == pytest.approx(stats.t.interval(0.95, 2, 2.0, stats.sem([0, 2, 4])))
    assert counted["note"] == "over seeds alone"
    bounded = rows(tables, "facts_over_seeds", fact="bounded")["mean over seeds"]
    assert of_all["low"] < -0.5 < 2.5 < of_all["high"]
    assert (bounded["value"], bounded["low"], bounded["high"]) == (1.0, -0.5, 2.5)
    facts = next(table for table in tables if table.name == "facts_over_seeds").rows
    assert "p" not in set(facts["figure"])
    names = {table.name for table in tables}
    assert {"heads_over_seeds", "refuses_over_seeds", "edge_sparsity_heads_over_seeds"}.isdisjoint(names)


def test_p_values_are_left_out_whatever_they_are_called():
    (facts, _), kept = Facts()(Context(SimpleNamespace(config=compose("config", [])), {}, {})), []
    for table in (facts, reworded(facts)):
        found = {}
        _take(found, [table])
        kept.append([(row["value"], row["n"]) for row in found["facts"].figures])
    assert kept[0] == kept[1]
    assert len(kept[0]) == len(facts.rows) - 1


def test_words_are_counted_and_those_who_read_tables_read_the_seeds_own(compared):
    tables, *_ = compared
    found = rows(tables, "said_over_seeds", question="how large?")
    assert (found["mean over seeds"]["value"], found["SD between seeds"]["value"]) == (1.0, 1.0)
    assert found["says, in how many seeds"]["note"] == "small: 2; large: 1"
    assert next(table for table in tables if table.name == "said_over_seeds").labels == ("question",)


def told(config, **tables):
    """A comparison of this configuration whose analyses left these tables."""
    return Context(SimpleNamespace(config=config), {}, {}, tables=tables)


def test_models_and_analyses_that_have_no_seeds():
    with pytest.raises(NotApplicable, match="the model has no seed"):
        OverSeeds()(told(compose("config", ["model=hf", "model.path=here"])))
    named = ["edge_sparsity", "repair", "verdict", "over_seeds"]
    tiny = told(compose("config", [f"analyses=[{','.join(named)}]"]), **dict.fromkeys(named, ()))
    with pytest.raises(UserError, match="cannot have repair, over_seeds; it can have: edge_sparsity, verdict"):
        OverSeeds(analyses=["verdict", "repair", "over_seeds"])(tiny)


def test_models_of_other_tasks_get_the_seed_where_they_have_one():
    assert with_seed(["task=planted", "model=tiny"], 4) == ["task=planted", "model=tiny", "++model.seed=4"]
    assert composed(with_seed(["model=tiny"], 4), "settings").model.seed == 4
    assert with_seed(["model=hf", "model.path=here"], 4) == ["model=hf", "model.path=here"]
