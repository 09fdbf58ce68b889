"""Every method equals the published implementation of it, in float64, on inputs that are padded together."""

import numpy as np
import pytest

from benchmark import build
from tests.conftest import shared
from tests.methods.comparisons import CHEFER_BERT, CHEFER_VIT, COMPARISONS, LAST_ROW
from tests.methods.parity import TOLERANCE, inputs_of, tokens


@pytest.mark.parametrize("comparison", COMPARISONS, ids=str)
def test_parity(comparison):
    shared(f"golden/{comparison.source.file}")
    errors = comparison.errors()
    assert errors
    assert max(max(found) for found in errors.values()) <= TOLERANCE, errors


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
