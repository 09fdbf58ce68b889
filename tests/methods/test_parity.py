"""Every method equals the published implementation of it, in float64, on inputs that are padded together."""

import re
from functools import cache

import numpy as np
import pytest
import torch

from benchmark import build
from benchmark.settings.configuration import options
from benchmark.targets import ClassTarget
from methods.propagation.relevance import relevance_pass
from methods.propagation.rule_sets import rule_set
from tests.conftest import SHARED, shared
from tests.methods.comparisons import CHEFER_BERT, CHEFER_VIT, COMPARISONS, LAST_ROW, NOT_COMPARED
from tests.methods.parity import DOCUMENT, TOLERANCE, Comparison, inputs_of, stem
from tests.methods.parity_reads import tokens

GOLDEN = SHARED / "golden"
INPUTS = ("vit_inputs.npz",)
NO_SCORES = {
    "chefer_bert.npz": {"n", "0/logits", "0/target", "0/input_ids", "0/attention_mask", "0/layer_rel"},
    "chefer_vit.npz": {"n", "0/logits", "0/target", "0/layer_rel"},
    "attattr_bert.npz": {
        "n",
        "steps",
        "logits_0",
        "prob_0",
        "target_0",
        *(f"prune_{what}_{ranking}" for what in ("masks", "order") for ranking in ("attr", "taylor")),
    },
}
"""Arrays that are no scores of a method: inputs, orders, and relevance at places that no method gives."""

measured = cache(Comparison.errors)


@pytest.mark.parametrize("comparison", COMPARISONS, ids=str)
def test_parity(comparison):
    shared(f"golden/{comparison.source.file}")
    errors = measured(comparison)
    assert errors
    assert max(max(found) for found in errors.values()) <= TOLERANCE, errors


OF_OTHERS = ("circuits", "lm")
"""Folders with values of circuits and of generative models, which no method here explains."""


def golden_files():
    found = [path.relative_to(GOLDEN) for path in GOLDEN.rglob("*.npz") if path.name not in INPUTS]
    return sorted(str(path) for path in found if path.parts[0] not in OF_OTHERS)


def test_every_golden_file_and_array_is_compared():
    shared("golden/published")
    assert {comparison.source.file for comparison in COMPARISONS} == set(golden_files())
    for source in {comparison.source for comparison in COMPARISONS}:
        keys = {re.sub(r"\d+", "#", key) for key in np.load(source.path)}
        patterns = [comparison.key for comparison in COMPARISONS if comparison.source == source]
        compared = {key for key in np.load(source.path) for pattern in patterns if fits(key, pattern)}
        left = keys - {re.sub(r"\d+", "#", key) for key in compared}
        assert left == {re.sub(r"\d+", "#", key) for key in NO_SCORES.get(source.file, set())}


def fits(key, pattern):
    """Whether a key is that of an input by `pattern`."""
    return re.fullmatch(re.escape(pattern).replace(r"\{\}", r"(\d+|\w+/\d+)"), key) is not None


def test_every_method_is_compared_or_says_why_not():
    compared = {comparison.method for comparison in COMPARISONS}
    others = [name for names in NOT_COMPARED.values() for name in names]
    assert sorted([*compared, *others]) == sorted(options("methods"))


def test_the_document_is_current():
    """Every line stands there, with the error that is measured now but for rounding, which machines do differently."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    for comparison in COMPARISONS:
        (found,) = [line for line in lines if line.startswith(stem(comparison) + " ")]
        stated = float(found.split("|")[-2])
        assert 0 <= stated <= TOLERANCE
        if comparison.source.path.exists():
            worst = max(max(errors) for errors in measured(comparison).values())
            assert worst <= max(100 * stated, 1e-12)
    for why, names in NOT_COMPARED.items():
        assert f"| {', '.join(f'`{name}`' for name in names)} | {why} |" in lines


def test_images_have_the_published_logits_and_relevance_of_every_block():
    """Rows of `layer_rel`: the first block's input, then the output of each block, which is the next one's input."""
    shared("golden/chefer_vit.npz")
    arrays, (inputs,) = np.load(CHEFER_VIT.path), inputs_of(CHEFER_VIT)
    passed = []
    norm = inputs.model.model.vit.layernorm

    def output_of_the_last_block(_module, states):
        states[0].register_hook(passed.append)

    handle = norm.register_forward_pre_hook(output_of_the_last_block)
    try:
        part = relevance_pass(inputs.model, inputs.batch, ClassTarget(inputs.target), rule_set("chefer2021"), "hidden")
    finally:
        handle.remove()
    found = torch.stack([*part.layers, passed[0]], dim=1).sum(-1).numpy()
    for row, name in enumerate(inputs.names):
        assert np.abs(part.trace.logits[row].detach().numpy() - arrays[f"{name}/logits"]).max() < 1e-10
        assert int(inputs.target[row]) == int(arrays[f"{name}/target"])
        published = arrays[f"{name}/layer_rel"]
        assert np.abs(found[row] - published).max() <= TOLERANCE * np.abs(published).max()


def published_row(matrices):
    """The row of [CLS] of the mean over heads of the positive part."""
    return matrices.clip(min=0).mean(0)[0]


@pytest.mark.parametrize("source", [CHEFER_BERT, CHEFER_VIT], ids=lambda source: source.file)
@pytest.mark.parametrize(("method", "block"), [("attention_x_relevance", -1), ("transformer_attribution", 1)])
def test_ablations_of_transformer_attribution(source, method, block):
    """From the published attention, gradient and relevance: (i) A in the place of its gradient; (iii) block B − 1.

    The published code computes the latter from `blocks[1]`, the second from the input.
    """
    shared(f"golden/{source.file}")
    arrays = np.load(source.path)
    factor = {"attention_x_relevance": "attn", "transformer_attribution": "attn_grad"}[method]
    explainer = build(f"methods/{method}", *LAST_ROW, f"+readout.layer={block}")
    (inputs,) = inputs_of(source)
    found = tokens(explainer, inputs).numpy()
    for row, name in enumerate(inputs.names):
        published = published_row(arrays[f"{name}/{factor}"][block] * arrays[f"{name}/attn_cam"][block])
        ours = found[row, : inputs.length(row)]
        error = np.abs(ours - published[: len(ours)]).max() / np.abs(published).max()
        assert error <= TOLERANCE
