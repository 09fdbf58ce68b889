"""The list of explainers: complete, and the documentation holds the current one."""

import pytest

from benchmark.catalogue import entries, entry, main
from benchmark.errors import UserError
from benchmark.settings.configuration import compose, options
from tests.conftest import GIVEN


def test_every_method_says_what_it_is_what_it_needs_and_where_it_is_from():
    listed = entries()
    assert {item.name for item in listed} == set(options("methods"))
    assert all(item.definition and item.cost and item.source for item in listed)
    found = {item.name: item for item in listed}
    assert found["rollout"].needs == "forward passes"
    assert found["transformer_attribution"].needs == "gradients"
    assert found["oracle"].needs == "no model"
    assert "Abnar & Zuidema 2020" in found["rollout"].source


def explainer(edges, readout):
    parts = {"edges": {"_target_": "methods.edges.product.FactorProduct", **edges}}
    parts["readout"] = {"_target_": "methods.readouts.read_row.ReadRow", **readout}
    return {"_target_": "methods.attention_explainer.AttentionExplainer", **parts}


def test_a_docstring_may_say_something_else_of_a_setting():
    plain = entry("mine", explainer({"factors": ["attention"]}, {"layer": -1}))
    assert plain.definition.startswith("`E[l,h,i,j] = A[l,h,i,j]`, in [0, 1]")
    assert (plain.needs, plain.cost) == ("forward passes", "1 forward pass")
    assert plain.source.startswith("Bahdanau et al. 2015, section 3.1; ")
    assert "Serrano & Smith 2019, section 3" in plain.source
    other = entry("mine", explainer({"factors": ["relevance", "gradient"]}, {"layer": "max"}))
    assert "(factors=[relevance, gradient]) · `s_j = max_l" in other.definition
    assert other.cost.startswith("1 forward pass, 2 backward passes")
    assert other.source == "Chefer et al. 2021a, section 3.2, eq. 13; this project, docs/protocols.md, section 3"


def test_the_command_prints_it(tmp_path, monkeypatch, capsys):
    """That `docs/methods.md` holds what it prints is asserted in `tests/test_pages.py`."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "mine.yaml").write_text("mine:\n  _target_: methods.controls.Random\n  seed: 3\n")
    monkeypatch.setattr("sys.argv", ["catalogue", "--config-dir", str(tmp_path)])
    main()
    printed = capsys.readouterr().out
    assert "| `mine` |" in printed
    assert "| `attattr` |" in printed


def test_a_method_without_source_or_cost_is_named():
    with pytest.raises(UserError, match=r"docstring of pathlib\.Path lacks a line 'Cost"):
        entry("nothing", {"_target_": "pathlib.Path"})


def test_the_experiment_with_all_methods_has_all_methods():
    named = set(compose("config", ["+experiment=all_methods"]).methods)
    assert named == {name for name in options("methods") if f"methods/{name}" not in GIVEN}
