"""Occlusion and leave-one-out by loops on the model of transformers."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageClassification

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from methods.occlusion import Occlusion
from tests.replicas.conftest import assert_same
from tests.replicas.registry import replicates
from tests.replicas.units_by_hand import CLASSES, TEXTS, alone, value_of


def erased(ids, units, gone, operator, model):
    if operator == "delete":
        return [token for token, unit in zip(ids, units, strict=True) if unit not in gone]
    token_of = {"mask": model.mask_token_id, "pad": model.pad_token_id}
    return [token_of[operator] if unit in gone else token for token, unit in zip(ids, units, strict=True)]


def occlusion_by_hand(model, eager, batch, row, method, operator):
    ids, units = alone(batch, row)
    n = max(units) + 1
    whole = value_of(eager, ids, CLASSES[row], method.output)
    drops = [[] for _ in range(n)]
    start = 0
    while True:
        gone = [u for u in range(start, start + method.window) if u < n]
        drop = whole - value_of(eager, erased(ids, units, gone, operator, model), CLASSES[row], method.output)
        for u in gone:
            drops[u].append(drop)
        if start + method.window >= n:
            break
        start += method.stride
    means = [sum(values) / len(values) for values in drops]
    return torch.tensor([means[u] if u >= 0 else 0.0 for u in units], dtype=torch.float64)


@replicates(Occlusion, output={"probability", "logit"})
@pytest.mark.parametrize(
    ("settings", "operator"),
    [
        ({}, "mask"),
        ({"operator": "delete", "output": "logit"}, "delete"),
        ({"window": 3}, "mask"),
        ({"window": 3, "stride": 2, "operator": "pad"}, "pad"),
        ({"window": 2, "stride": 2, "operator": "delete"}, "delete"),
        ({"window": 20}, "mask"),
    ],
)
def test_occlusion(reader, eager_reader, settings, operator):
    model = reader
    batch, method = model.encode(list(TEXTS)), Occlusion(**settings)
    found = method(model, batch, torch.tensor(CLASSES)).tokens
    for row in range(len(TEXTS)):
        slow = occlusion_by_hand(reader, eager_reader, batch, row, method, operator)
        assert_same(found[row, : len(slow)], slow)
        assert not found[row, len(slow) :].any()


def test_occlusion_with_windows_of_one_unit_is_leave_one_out(reader):
    model = reader
    batch, target = model.encode(list(TEXTS)), torch.tensor(CLASSES)
    one = benchmark.build("methods/occlusion", "window=1")(model, batch, target)
    left_out = benchmark.build("methods/leave_one_out")(model, batch, target)
    assert torch.equal(one.tokens, left_out.tokens)
    assert not torch.allclose(benchmark.build("methods/occlusion")(model, batch, target).tokens, left_out.tokens)


def test_words_of_a_truncated_pair_keep_their_own_drops(reader):
    """Truncation takes words from both ends, so the units that are left have gaps between their numbers."""
    model = reader
    first, second = " ".join(["good"] * 14), " ".join(["bad", "film"] * 8)
    batch = model.encode([(first, second)])
    assert int(batch.lost_units) > 0
    method = Occlusion(window=2, output="logit")
    found = method(model, batch, torch.tensor([1])).tokens[0]
    ids, units = batch.tensors["input_ids"][0], batch.units[0]
    seen = sorted(set(units.tolist()) - {-1})
    whole = model.run(batch).logits[0, 1]
    for place, unit in enumerate(seen):
        drops = []
        for pair in (seen[place - 1 : place + 1] if place else [], seen[place : place + 2]):
            if len(pair) == 2:
                gone = torch.tensor([u in pair for u in units.tolist()])
                masked = {**batch.tensors, "input_ids": ids.masked_fill(gone, model.mask_token_id)[None]}
                drops.append(whole - model.run(masked).logits[0, 1])
        assert torch.allclose(found[units == unit], sum(drops) / len(drops))


def test_occlusion_of_an_image_slides_a_square(tmp_path):
    model = small_models.load("vit", tmp_path)
    eager = AutoModelForImageClassification.from_pretrained(
        tmp_path / "vit", attn_implementation="eager", dtype=torch.float64
    )
    batch = model.encode(small_models.inputs("vit"))
    found = Occlusion(window=2, operator="mean", output="logit")(model, batch, torch.tensor([0, 1, 2])).tokens
    for row in range(3):
        image = batch.tensors["pixel_values"][row]
        whole = eager(pixel_values=image[None]).logits[0, row].detach()
        total, times = torch.zeros(3, 3, dtype=torch.float64), torch.zeros(3, 3)
        for top, left in np.ndindex(2, 2):  # 3 x 3 patches of 4 x 4 pixels
            painted = image.clone()
            painted[:, 4 * top : 4 * top + 8, 4 * left : 4 * left + 8] = image.mean((1, 2))[:, None, None]
            drop = whole - eager(pixel_values=painted[None]).logits[0, row].detach()
            total[top : top + 2, left : left + 2] += drop
            times[top : top + 2, left : left + 2] += 1
        # the eager attention of transformers computes this family's softmax in float32
        assert torch.allclose(found[row, 1:], (total / times).flatten(), atol=1e-6)
        assert float(found[row, 0]) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window=0: allowed are whole numbers from 1"),
        ({"window": 2, "stride": 3}, "stride=3: allowed are"),
        ({"stride": 0}, "stride=0: allowed are whole numbers from 1"),
    ],
)
def test_windows_that_leave_units_out(settings, message):
    with pytest.raises(UserError, match=message):
        Occlusion(**settings)


@pytest.mark.mistyped
def test_an_operator_that_does_not_exist(reader):
    model = reader
    with pytest.raises(UserError, match="operator=erase: allowed are auto, mask"):
        Occlusion(operator="erase")(model, model.encode(["good film"]), torch.tensor([0]))
