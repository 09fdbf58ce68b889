"""Taylor expansion of heads equals the published ATTATTR script, in float64, for both objectives."""

import json

import numpy as np
import pytest
import torch

from benchmark import build, load_model
from tests.conftest import shared
from tests.methods.test_parity_bert import assert_close


@pytest.mark.parametrize(("objective", "suffix"), [("logits", ""), ("loss", "_loss")])
def test_taylor(objective, suffix):
    """Published: the sum over examples (`taylor_raw`), and that divided by its L2 norm in each layer."""
    model = load_model(shared("golden/bert"), dtype="float64", device="cpu")
    inputs = json.loads(shared("golden/bert_inputs.json").read_text())
    batch = model.encode([{name: value for name, value in item.items() if name != "target"} for item in inputs])
    target = torch.tensor([item["target"] for item in inputs])
    published = np.load(shared("golden/attattr_bert.npz"))
    method = build("methods/taylor", f"objective={objective}")
    heads = method(model, batch, target).heads
    assert_close(heads.sum(0), published[f"taylor_raw{suffix}"])
    assert_close(method.aggregate_heads(heads), published[f"taylor_importance{suffix}"])
