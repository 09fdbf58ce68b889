"""The product of edge scores and readouts: remembered scores, run folders, what cannot serve, and a complete YAML."""

import ast
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
import torch

import benchmark
from benchmark.analyses.context import Context
from benchmark.analyses.edges_by_readouts import EdgesByReadouts
from benchmark.analyses.remembered import Remembered
from benchmark.comparison import run_comparison
from benchmark.errors import NotApplicable, UserError
from benchmark.results import store
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.identity import identity as versions
from benchmark.settings.making import make
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.readouts.column_sum import ColumnSum
from methods.readouts.rollout import Rollout
from tests.conftest import REPOSITORY

EXPLAINER = {"_target_": "methods.attention_explainer.AttentionExplainer"}
EDGES = {
    "attention": {"_target_": "methods.edges.product.FactorProduct"},
    "gradient": {"_target_": "methods.edges.product.FactorProduct", "factors": ["gradient"]},
}
READOUTS = {
    "mean_layers": {"_target_": "methods.readouts.read_row.ReadRow", "layer": "mean"},
    "rollout": {"_target_": "methods.readouts.rollout.Rollout"},
}


@dataclass(frozen=True)
class Refusing:
    """An edge score that cannot serve."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def __call__(self, model, batch, target):
        raise NotApplicable("it does not know this family")


@dataclass(frozen=True)
class Counted:
    """Attention; every call is noted."""

    calls: list
    class_specific: bool = False
    version: ClassVar[int] = 1

    def __call__(self, model, batch, target):
        self.calls.append(batch.uids)
        return FactorProduct()(model, batch, target)


def config(place, *overrides):
    settings = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=4"]
    tests = "evaluations=[rationale,aopc,head_pruning]"
    return compose("config", [*settings, tests, f"out={place / 'runs'}", *overrides], str(place / "conf"))


def context_of(setting):
    """Without methods of the comparison."""
    return Context(setting, {}, {name: make(settings) for name, settings in setting.config.evaluations.items()})


@pytest.fixture(scope="module")
def context(place):
    return context_of(open_setting(config(place, "methods=[probe]")))


@pytest.mark.parametrize(
    "edges",
    [FactorProduct(), FactorProduct(("gradient",)), FactorProduct(("attention", "gradient"), "positive")],
    ids=lambda edges: "-".join(edges.factors),
)
def test_remembered_edges_give_the_attributions_and_the_cost_of_the_plain_method(context, edges):
    setting, memory = context.setting, Remembered(edges, 2**20)
    model = setting.model
    for readout in (ColumnSum(), Rollout(), ColumnSum("positive")):
        plain = AttentionExplainer(edges, readout)
        quick = replace(plain, edges=memory)
        assert quick.class_specific == plain.class_specific
        for index, batch in enumerate(setting.data.batches):
            for target in (setting.data.target(index, "predicted"), batch.label):
                found, spent = measured(quick, model, batch, target)
                expected, cost = measured(plain, model, batch, target)
                assert spent == cost
                assert found.target.ids == expected.target.ids
                for name in (field.name for field in fields(expected)[1:]):
                    one, two = getattr(found, name), getattr(expected, name)
                    assert one is two is None or torch.equal(one, two), name


def measured(method, model, batch, target):
    before = replace(model.cost)
    found = method(model, batch, target)
    after = model.cost
    return found, (after.forward_passes - before.forward_passes, after.backward_passes - before.backward_passes)


def test_edges_are_computed_once_as_far_as_the_memory_goes(context):
    model, batches = context.setting.model, context.setting.data.batches
    one = FactorProduct()(model, batches[0], batches[0].label)
    size = sum(layer.numel() * layer.element_size() for layer in one)
    for budget, expected in ((2**30, 3), (size, 3 + 2 + 2), (0, 9)):
        calls = []
        memory = Remembered(Counted(calls), budget)
        for _, batch in ((i, batch) for i in range(3) for batch in batches):
            memory(model, batch, batch.label)
        assert len(calls) == expected


def test_another_class_is_computed_anew_where_the_class_matters(context):
    batch = context.setting.data.batches[0]
    for specific, expected in ((False, 1), (True, 2)):
        calls = []
        memory = Remembered(Counted(calls, specific), 2**30)
        for target in (torch.zeros_like(batch.label), torch.ones_like(batch.label), torch.zeros_like(batch.label)):
            memory(context.setting.model, batch, target)
        assert len(calls) == expected


@pytest.fixture(scope="module")
def tables(context):
    edges = EDGES | {
        "refusing": {"_target_": "tests.analyses.test_edges_by_readouts.Refusing"},
        "left_out": None,
    }
    return EdgesByReadouts(EXPLAINER, edges, READOUTS, limit=8)(context)


def test_one_table_for_each_headline_metric_of_tests_that_read_tokens(tables):
    assert [table.name for table in tables] == [
        "edges_by_readouts",
        *(f"edges_by_readouts_rationale-{metric}" for metric in ("average_precision", "token_f1_mean", "iou_f1")),
        *(f"edges_by_readouts_aopc-{metric}" for metric in ("comprehensiveness", "sufficiency")),
    ]
    heat = tables[1].rows.set_index(["edge score", "metric"])
    assert set(heat.index.get_level_values(0)) == {"attention", "gradient", "refusing"}
    assert heat.loc[("refusing", "rollout"), "note"] == "it does not know this family"
    assert heat.loc[("attention", "rollout"), "n"] == 8
    assert heat.loc[("attention", "rollout"), "low"] <= heat.loc[("attention", "rollout"), "value"]
    assert tables[1].sentences[0].startswith("The best is ")


def test_what_cannot_serve_is_left_out_of_the_shares_and_named(tables):
    shares = tables[0]
    assert any(sentence.startswith("Edge score refusing is left out") for sentence in shares.sentences)
    own = shares.rows[shares.rows["measure"] == "rationale: average_precision"]
    for metric, count in (("share of all variance", 5), ("share among combinations", 3)):
        part = own[own["metric"] == metric]
        assert len(part) == count
        assert part["value"].sum() == pytest.approx(1)
        assert set(part["n"]) == {8}
    assert "2 edge scores × 2 readouts, 8 examples" in shares.sentences[0]


def test_run_folders_are_those_of_the_plain_methods(place, context, tables):
    found = {path.name for path in store.find_cells(place / "runs")}
    published = open_setting(config(place, "methods=[rollout]")).limited(8).cell("rollout")
    assert published.folder.name in found, "the combination that a YAML names"
    explainer = {**EXPLAINER, "edges": EDGES["gradient"], "readout": READOUTS["mean_layers"]}
    own = "+methods.gradient-mean_layers=" + json.dumps(explainer).replace('"', "")
    settings = ("methods=[]", own, "limit=8", "evaluations=[rationale]")
    plain = open_setting(config(place, *settings)).cell("gradient-mean_layers")
    assert plain.folder.name in found
    before = {path: path.stat().st_mtime_ns for path in plain.folder.iterdir()}
    record = store.read_record(plain.folder)
    assert record.method.identity == plain.identity["method"]
    attributions = store.Ragged.read(plain.folder / "attributions-predicted.safetensors")
    fresh = plain.method(
        context.setting.model,
        context.setting.limited(8).data.batches[0],
        torch.as_tensor(attributions.arrays["target"][:4]),
    )
    kept = context.setting.limited(8).data.batches[0].attention_mask
    assert torch.equal(fresh.tokens[kept], torch.as_tensor(attributions.arrays["tokens"][: int(kept.sum())]))
    assert before == {path: path.stat().st_mtime_ns for path in plain.folder.iterdir()}


def test_the_cost_of_a_cell_is_that_of_its_method_alone(place, tables):
    costs = {
        record.method.name: record.cost
        for record in (store.read_record(folder) for folder in store.find_cells(place / "runs"))
        if record.task.limit == 8 and record.cost.seconds is not None
    }
    assert len(costs) == 4
    for cost in costs.values():
        assert cost.forward_passes == 8
        assert cost.seconds > 0
    assert {name for name, cost in costs.items() if cost.backward_passes == 8} == {
        "gradient-mean_layers", "gradient-rollout",
    }  # fmt: skip


def test_settings_that_make_no_sense_are_one_line():
    with pytest.raises(UserError, match="edges names fewer than two"):
        EdgesByReadouts(EXPLAINER, {"attention": EDGES["attention"], "gradient": None}, READOUTS)
    with pytest.raises(UserError, match="readouts names fewer than two"):
        EdgesByReadouts(EXPLAINER, EDGES, {})
    with pytest.raises(UserError, match="steps=0: allowed are whole numbers from 1"):
        EdgesByReadouts(EXPLAINER, EDGES | {"bad": {"_target_": "methods.edges.attattr.AttAttr", "steps": 0}}, READOUTS)


def test_versions_of_all_parts_enter_the_name_of_the_comparison(monkeypatch):
    before = versions(EdgesByReadouts(EXPLAINER, EDGES, READOUTS))
    assert versions(EdgesByReadouts(EXPLAINER, EDGES, READOUTS)) == before
    monkeypatch.setattr(FactorProduct, "version", 2)
    assert versions(EdgesByReadouts(EXPLAINER, EDGES, READOUTS)) != before


def test_tests_that_do_not_read_tokens_have_nothing_to_say_of_readouts(place, context):
    other = open_setting(config(place, "methods=[probe]", "evaluations=[head_pruning]"))
    with pytest.raises(NotApplicable, match="no test of the comparison reads token scores"):
        EdgesByReadouts(EXPLAINER, EDGES, READOUTS)(context_of(other))


def classes_of(folder):
    """`module.Class` of everything in a folder of methods that declares a version."""
    found = set()
    for path in sorted((REPOSITORY / "methods" / folder).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and path.stem != "base":
                names = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
                if "version" in names:
                    found.add(f"methods.{folder}.{path.stem}.{node.name}")
    return found


@pytest.mark.parametrize(("key", "folder"), [("edges", "edges"), ("readouts", "readouts")])
def test_the_yaml_lists_every_edge_score_and_every_readout(key, folder):
    analysis = benchmark.build("analyses/edges_by_readouts")
    listed = {settings["_target_"] for settings in getattr(analysis, key).values()}
    assert listed == classes_of(folder), "conf/analyses/edges_by_readouts.yaml and methods/ differ"
    assert len(listed) >= 4


@pytest.mark.usefixtures("no_pictures")
def test_the_command_writes_the_tables(place):
    keep = {"edges": ("attention", "gradient"), "readouts": ("mean_layers", "rollout")}
    settings = benchmark.build("analyses/edges_by_readouts")
    without = [
        f"analyses.edges_by_readouts.{key}.{name}=null"
        for key, names in keep.items()
        for name in getattr(settings, key)
        if name not in names
    ]
    composed = config(
        place, "methods=[rollout]", "evaluations=[rationale]", "analyses=[edges_by_readouts]", "limit=6", *without
    )
    comparison = run_comparison(composed)
    written = {path.name for path in comparison.folder.iterdir()}
    assert {"table-edges_by_readouts.png", "table-edges_by_readouts_rationale-average_precision.png"} <= written
    facts = store.read_sealed(comparison.folder / "analyses" / "edges_by_readouts.json")["tables"]
    heat = pd.DataFrame(facts[1]["rows"])
    record = store.read_record(comparison.cells[0])
    figure = record.evaluations["rationale"].scalar("average_precision")
    own = heat[(heat["edge score"] == "attention") & (heat["metric"] == "rollout")]
    assert own["value"].item() == figure.value, "the comparison's own cell is reused"
    names = {Path(path).name.rpartition("-")[0] for path in store.find_cells(place / "runs")}
    assert "attention-rollout" not in names
