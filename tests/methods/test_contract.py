"""Every method on every family: finite, right shapes, deterministic, invariant to padding and batch, model untouched.

A cell that cannot work is listed once, in CANNOT, with its reason, and the test holds it to that. The last test prints the
whole matrix.
"""

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import benchmark
import conf
from benchmark.errors import NotApplicable
from benchmark.models.components import Graph
from benchmark.settings.configuration import options
from benchmark.settings.defaults import whole
from benchmark.types import Example
from tests import tiny_models

OTHERS = {
    "universal_trigger": "a search",
    "scores": "reads a file of its examples: `test_given_scores.py` holds it to the same",
}
METHODS = [name for name in options("methods") if name not in OTHERS]
DECOMPOSITIONS = (
    "alti", "alti_logit", "attention_norm", "attention_norm_residual", "attention_x_input_norm", "decompx",
    "direct_logit_attribution", "globenc", "information_flow", "value_zeroing",
)  # fmt: skip
COMPONENTS = (
    "activation_patching", "component_flow", "eap", "eap_clean_corrupted", "eap_ig", "eap_ig_activations", "relp",
)  # fmt: skip
HEADS_ONLY = ("taylor", "accuracy_difference", "random_components", *COMPONENTS)
NORMED_BEHIND = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert")
CHEAPER = {"steps": 3, "n_steps": 3, "samples": 8, "n_samples": 8}
"""Settings, wherever a method's YAML has them, that need not be large for the contract to be tested."""
CANNOT = {
    **{("frequency", family): "no words to count" for family in tiny_models.IMAGE_FAMILIES},
    **{("full_lrp", family): "pixels of images" for family in tiny_models.TEXT_FAMILIES},
    **{(method, "bart"): "cross-attention mixes two sequences" for method in DECOMPOSITIONS},
    **{(method, "bart"): "an encoder and a decoder" for method in COMPONENTS},
    **{("component_flow", family): "norms stand behind the additions" for family in NORMED_BEHIND},
}
"""(method, family): why the method cannot serve the family, in words that its NotApplicable must hold."""
MAY_FAIL = 0.05
"""The largest share of cells that may stand in CANNOT."""
OUTCOMES: dict[tuple[str, str], bool] = {}
"""Whether a cell did what it should, filled as the cells are run."""
LENGTHS = (7, 5, 9)


@pytest.fixture(scope="module", params=tiny_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    return tiny_models.load(family, tmp_path_factory.mktemp("models"))


def cheap(name):
    """Overrides that make a method's YAML cheap."""

    def walk(node, path):
        for key, value in node.items():
            if isinstance(value, dict):
                yield from walk(value, [*path, key])
            elif key in CHEAPER and isinstance(value, int) and value > CHEAPER[key]:
                yield f"{'.'.join([*path, key])}={CHEAPER[key]}"

    settings = OmegaConf.load(Path(conf.__file__).parent / "methods" / f"{name}.yaml")[name]
    return list(walk(whole(OmegaConf.to_container(settings)), []))


@cache
def build(name):
    method = benchmark.build(f"methods/{name}", *cheap(name))
    if name == "frequency":
        return method.fit([Example(str(i), " ".join(words(range(5, 5 + i))), 0) for i in range(50)])
    return method


def words(ids):
    return tuple(f"word{token}" for token in ids)


def encode(model, inputs, uids):
    """A batch that has what text and annotators give: a word for each unit, and rationales."""
    batch = model.encode(inputs)
    batch = replace(batch, corrupted=corrupted(batch))
    n_units = batch.n_units.tolist()
    rationale = tuple(np.arange(n) % 3 == 1 for n in n_units)
    if "input_ids" not in batch.tensors:
        return replace(batch, uids=uids, rationale=rationale)
    content = [ids[units >= 0].tolist() for ids, units in zip(batch.tensors["input_ids"], batch.units, strict=True)]
    return replace(batch, uids=uids, rationale=rationale, words=tuple(map(words, content)))


def corrupted(batch):
    """The inputs with another token in the place of each first unit's, or with inverted pixels."""
    if "input_ids" not in batch.tensors:
        return {**batch.tensors, "pixel_values": -batch.tensors["pixel_values"]}
    ids = batch.tensors["input_ids"]
    return {**batch.tensors, "input_ids": torch.where(batch.units == 0, 5 + (ids - 4) % 20, ids)}


def assert_equal(a, b, tolerance):
    for name in ("tokens", "heads", "layers", "totals", "pixels", "nodes", "components"):
        one, two = getattr(a, name), getattr(b, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert torch.allclose(one, two, atol=tolerance * max(1.0, float(two.abs().max())), rtol=0), name


def cut(result, row, width):
    """What a result says of one example, without padding."""
    parts = {"tokens": (slice(width),), "layers": (slice(None), slice(width))}
    parts |= dict.fromkeys(("heads", "totals", "pixels", "nodes", "components"), ())
    kept = {
        name: value[(slice(row, row + 1), *index)]
        for name, index in parts.items()
        if (value := getattr(result, name)) is not None
    }
    return type(result)(target=result.target[row : row + 1], **kept)


@pytest.mark.parametrize("name", METHODS)
def test_contract(name, model, family):
    OUTCOMES[name, family] = False
    method, inputs, uids = build(name), tiny_models.inputs(family, LENGTHS), ("a", "b", "c")
    batch, target = encode(model, inputs, uids), torch.tensor([0, 1, 2])
    if (name, family) in CANNOT:
        with pytest.raises(NotApplicable, match=CANNOT[name, family]):
            method(model, batch, target)
        OUTCOMES[name, family] = True
        return
    state = copy.deepcopy(model.model.state_dict())
    result = method(model, batch, target)
    assert_shapes(name, result, model, batch)
    assert_equal(method(model, batch, target), result, 0.0)
    assert all(torch.equal(value, model.model.state_dict()[key]) for key, value in state.items())
    assert not any(module.__dict__.get("forward") or module._forward_hooks for module in model.model.modules())
    row = 1  # the shortest text, with the most padding
    alone = encode(model, [inputs[row]], (uids[row],))
    single = method(model, alone, target[row : row + 1])
    tolerance = 1e-5 if family in tiny_models.FLOAT32_INSIDE else 1e-6
    assert_equal(single, cut(result, row, alone.units.shape[1]), tolerance)
    assert_class_specific_as_declared(name, method, result, method(model, batch, (target + 1) % 3))
    OUTCOMES[name, family] = True


def assert_shapes(name, result, model, batch):
    if name in HEADS_ONLY:
        assert result.tokens is None
        assert result.heads.shape == (len(batch), model.n_layers, model.n_heads)
    else:
        assert result.tokens.shape == batch.units.shape
        assert float(result.tokens[~batch.attention_mask].abs().sum()) == 0
    assert result.pixels is None or result.pixels.shape == (len(batch), *batch.size)
    if name in (*COMPONENTS, "random_components"):
        graph = Graph(model.n_layers, model.n_heads)
        assert result.nodes.shape == (len(batch), len(graph.nodes))
        assert not result.components[:, ~graph.edges].any()
    fields = ("tokens", "heads", "layers", "totals", "pixels", "nodes", "components")
    for value in (getattr(result, field) for field in fields):
        assert value is None or bool(value.isfinite().all())


def assert_class_specific_as_declared(name, method, result, other):
    one, two = (each.heads if name in HEADS_ONLY else each.tokens for each in (result, other))
    if method.class_specific and not bool(one.any() | two.any()):  # grad-CAM may be clamped to 0 everywhere
        return
    assert torch.allclose(one, two, rtol=1e-9, atol=0) != method.class_specific


def table():
    """The matrix as text: `ok`, the number of the reason, `FAIL`, or `-` for a cell that was not run."""
    reasons = list(dict.fromkeys(CANNOT.values()))

    def cell(name, family):
        if not OUTCOMES.get((name, family), True):
            return "FAIL"
        if (name, family) in CANNOT:
            return str(1 + reasons.index(CANNOT[name, family]))
        return "ok" if (name, family) in OUTCOMES else "-"

    width = max(map(len, METHODS))
    lines = [" ".join([" " * width, *tiny_models.FAMILIES])]
    lines += [
        " ".join([name.ljust(width), *(cell(name, family).rjust(len(family)) for family in tiny_models.FAMILIES)])
        for name in METHODS
    ]
    return "\n".join([*lines, *(f"{number}: {reason}" for number, reason in enumerate(reasons, 1))])


def test_few_cells_cannot_work(capsys):
    with capsys.disabled():
        print(f"\n\n{table()}\n")
    cells = {(name, family) for name in METHODS for family in tiny_models.FAMILIES}
    assert set(CANNOT) <= cells
    assert len(CANNOT) <= MAY_FAIL * len(cells)
    assert all(OUTCOMES.values())
