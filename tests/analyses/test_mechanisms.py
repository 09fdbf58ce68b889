"""What explainers find in written models, held to what theory says of a few of them."""

import numpy as np
import pandas as pd
import pytest

from benchmark.analyses import mechanisms
from benchmark.analyses.mechanisms import CHANCE, TRUTH
from benchmark.comparison import compare
from benchmark.errors import UserError

METHODS = (
    "raw_attention,leave_one_out,gradient_x_input,integrated_gradients,attention_masking,attattr,attnlrp,oracle,random"
)


@pytest.fixture(scope="module", params=[pytest.param("bert", marks=pytest.mark.thorough), "gpt2"])
def tables(request, tmp_path_factory):
    """Tables of models of one family, their folder, and the family."""
    family, out = request.param, tmp_path_factory.mktemp("out")
    folder = compare(
        "task=mechanism", "model=written", f"methods=[{METHODS}]", "evaluations=[known_words]", "analyses=[mechanisms]",
        "analyses.mechanisms.mechanisms=[copy,decoy,either,both,gating]", f"analyses.mechanisms.families=[{family}]",
        "analyses.mechanisms.limit=6", "limit=4", "tracking=none", f"out={out}",
    ).folder  # fmt: skip
    written = {path.stem.removeprefix("table-"): pd.read_csv(path) for path in folder.glob("table-*.csv")}
    return written, folder, family


def value(tables, part, explainer, mechanism):
    rows = tables[0][f"mechanisms_{part}"]
    place = (rows["model"] == f"{tables[2]}, medium") & (rows["explainer"] == explainer) & (rows["metric"] == mechanism)
    return rows[place]["value"].item()


def test_theory_holds(tables):
    """Attention is fooled by a decoy; what removes or steps a word at a time misses one of two that are each enough, and
    integrated gradients do not.
    """
    names = (
        "raw_attention",
        "leave_one_out",
        "gradient_x_input",
        "integrated_gradients",
        "attention_masking",
        "attnlrp",
    )
    found = {name: {m: value(tables, "words", name, m) for m in ("copy", "decoy", "either")} for name in names}
    for name, values in found.items():
        assert values["copy"] == pytest.approx(1), name
        assert (values["decoy"] < 0.9) == (name == "raw_attention"), name
    chance = value(tables, "words", CHANCE, "either")
    for name in (
        "leave_one_out",
        "gradient_x_input",
        "attention_masking",
        "attnlrp",
    ):  # what two neurons send back cancels
        assert found[name]["either"] == pytest.approx(chance), name
    assert found["integrated_gradients"]["either"] == pytest.approx(1)
    assert value(tables, "heads", "attattr", "decoy") == pytest.approx(1)
    assert value(tables, "edges", "attattr", "decoy") == pytest.approx(1)
    assert value(tables, "words", "leave_one_out", "gating") == pytest.approx(1)


def test_what_is_known_has_one_and_random_scores_have_chance(tables):
    """In every mechanism of every part."""
    for part in ("words", "heads", "edges"):
        rows = tables[0][f"mechanisms_{part}"]
        assert (rows[rows["explainer"] == TRUTH]["value"] == 1).all()
        chance = rows[rows["explainer"] == CHANCE]
        assert ((chance["value"] > 0) & (chance["value"] < 0.95)).all()
        assert rows["low"].notna().all()
        assert (rows["n"] == 6).all()
    words = tables[0]["mechanisms_words"].set_index(["model", "metric"])
    heads = tables[0]["mechanisms_heads"].set_index(["model", "metric"])
    assert (heads[heads["explainer"] == "random"]["value"] == heads[heads["explainer"] == CHANCE]["value"]).all()
    random, chance = (words[words["explainer"] == name] for name in ("random", CHANCE))
    assert ((random["low"] <= chance["value"]) & (chance["value"] <= random["high"])).all()


def held(precisions, source, brute=1.0):
    """Arrays of a model of two mechanisms in which explainers have these average precisions of words, and no others."""
    places = [mechanisms._Place("bert", name, "medium", source) for name in ("copy", "decoy")]
    arrays = {f"{name} words": np.stack([values] * 4, axis=1) for name, values in precisions.items()}
    for part in ("words", "heads", "edges"):
        arrays[f"{mechanisms.BRUTE} {part}"] = np.full((8, 4), brute)
        for name in precisions:
            arrays.setdefault(f"{name} {part}", np.full((8, 4), np.nan))
    return dict.fromkeys(places, arrays)


def test_explainers_are_compared_in_written_and_softened_models():
    """Means, paired differences and the order; a mechanism whose truth does not hold in the softened model is left out."""
    noise = np.random.default_rng(0).uniform(0, 0.05, 8)
    written = {"a": 0.9 + noise, "b": 0.6 + noise, "c": 0.3 + noise}
    softened = {"a": 0.2 + noise, "b": 0.6 + noise, "c": 0.3 + noise}
    found = held(written, "written") | held(softened, "softened")
    table = mechanisms._beside_softened(found, list(written))
    rows = table.rows[table.rows["part"] == "words"].set_index(["explainer", "metric"])["value"]
    assert rows["a", "difference"] == pytest.approx(-0.7)
    assert rows["b", "difference"] == pytest.approx(0)
    assert rows["c", "softened"] == pytest.approx(0.3 + noise.mean())
    assert "2 of 2 mechanisms" in table.sentences[0]
    assert "τ_b = -0.333" in table.sentences[0]
    unlearnt = held(softened, "softened", brute=0.5)
    (place,) = [place for place in unlearnt if place.mechanism == "decoy"]
    partly = mechanisms._beside_softened(found | {place: unlearnt[place]}, list(written))
    assert "1 of 2 mechanisms" in partly.sentences[0]
    nothing = mechanisms._beside_softened(held(written, "written") | unlearnt, list(written))
    assert "no softened model" in nothing.sentences[0]
    assert set(nothing.rows["explainer"]) == {mechanisms.BRUTE}


def test_families_that_are_not_learnt_are_refused():
    with pytest.raises(UserError, match="llama is written by hand alone"):
        mechanisms.Mechanisms(families=["bert", "llama"], softened=True)


def test_outcomes_are_shares_that_add_up(tables):
    rows = tables[0]["mechanisms"]
    sums = rows.groupby(["model", "mechanism", "explainer"])["value"].sum()
    assert sums.to_numpy() == pytest.approx(1)
    fooled = rows[
        (rows["explainer"] == "raw_attention") & (rows["mechanism"] == "decoy") & (rows["metric"] == "fooled")
    ]
    assert (fooled["value"] == 1).all()


def test_each_model_has_a_file_of_its_own(tables):
    """In the comparison's folder, so that what a killed run had finished is not explained again."""
    assert len(list((tables[1] / "analyses").glob("mechanisms-*.safetensors"))) == 5


def test_mistakes_are_one_line():
    for wrong, expected in (("mechanisms=[decoi]", "did you mean decoy"), ("families=[berd]", "did you mean bert"),
                            ("strengths=[huge]", "weak, medium, strong")):  # fmt: skip
        with pytest.raises(UserError, match=expected):
            compare(
                "task=mechanism",
                "model=written",
                "analyses=[mechanisms]",
                f"analyses.mechanisms.{wrong}",
            )
