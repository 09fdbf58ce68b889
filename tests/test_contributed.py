"""What somebody adds outside of the repository, two files each as `docs/adding.md` shows them, passes what ours passes."""

import sys
from pathlib import Path

import pytest

import benchmark
from benchmark.commands.shown import description, listing
from benchmark.comparison import run_comparison
from benchmark.report.analysis_tables import read_tables
from benchmark.results.record import KINDS
from benchmark.run.explaining import Checked
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from benchmark.targets import ClassTarget
from tests import pages, text_models
from tests.conftest import REPOSITORY
from tests.test_architecture import check_built, composed

FILES = pages.named_files(REPOSITORY / "docs" / "adding.md")
YAMLS = sorted(Path(name).relative_to("myconf").with_suffix("").as_posix() for name in FILES if name.endswith(".yaml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reader's folder with the files of the page, in which commands are run."""
    place = tmp_path_factory.mktemp("contributed")
    for name, code in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(code, encoding="utf-8")
    return place


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield str(folder / "myconf")
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
        del sys.modules[name]


def test_the_page_has_one_of_each_in_two_files():
    assert [name.partition("/")[0] for name in YAMLS] == ["analyses", "evaluations", "methods", "task"]
    assert len(FILES) == 2 * len(YAMLS)


@pytest.mark.parametrize("name", YAMLS)
def test_it_composes_and_is_what_its_group_takes(here, name):
    built = make(composed(name, here))
    check_built(name.partition("/")[0], built)


@pytest.mark.parametrize("name", YAMLS)
def test_it_is_listed_and_says_what_it_is(here, name):
    group, _, option = name.partition("/")
    assert option in listing(group, here)
    assert option in description(option, here)


def test_the_edge_score_keeps_the_contract(here, folder):
    model = benchmark.load_model(text_models.save_bert(folder / "bert"))
    batch = model.encode(["a good film", "bad"])
    method = make(composed("methods/sharpened", here))
    target = ClassTarget(model.predict(batch))
    checked = Checked("sharpened", method)
    attribution = checked(model, batch, target)
    edges = checked.edge_scores(model, batch, target)
    assert attribution.tokens.shape == batch.units.shape
    assert edges.sum(-1)[batch.attention_mask[:, None, None].expand(edges.shape[:-1])].allclose(edges.new_ones(()))


@pytest.mark.usefixtures("no_pictures")
def test_all_of_them_stand_in_a_comparison(here, folder):
    """The analysis reads stored attributions; the test is of the kind that it says."""
    chosen = ["methods=[sharpened,random]", "evaluations=[rationale,largest_share]", "analyses=[same_first]"]
    small = ["task=opinions", "model.steps=30", "limit=6", "tracking=none", f"out={folder / 'runs'}"]
    comparison = run_comparison(compose("config", [*chosen, *small], here))
    records = {cell.record.method.name: cell.record for cell in comparison.loaded}
    assert set(records) == {"sharpened", "random"}
    assert all(record.evaluations["largest_share"].about.kind in KINDS for record in records.values())
    assert records["sharpened"].evaluations["rationale"].dash is None, "its rationales are lists"
    (table,) = read_tables(comparison.folder)
    assert table.rows[["method", "and", "n"]].to_numpy().tolist() == [["sharpened", "random", 6]]
