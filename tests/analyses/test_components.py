"""Ablations equal a loop over examples and layers with hooks on the plain model; the tables hold their means."""

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import benchmark
from benchmark.analyses import components
from benchmark.analyses.ablation import ABLATIONS, ablated_logits, ablation_plan
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.models.parts import blocks_parts
from benchmark.targets import ClassTarget

# By family: the layers whose output holds the values (all of it, or the last third), the attention's output layer and
# the last layer of the feed-forward part.
MODULES = {
    "bert": ("attention.self.value", "attention.output.dense", "output.dense"),
    "gpt2": ("attn.c_attn", "attn.c_proj", "mlp.c_proj"),
    "vit": ("attention.v_proj", "attention.o_proj", "mlp.fc2"),
}
BLOCKS = {"bert": "bert.encoder.layer", "gpt2": "transformer.h", "vit": "vit.layers"}


class Slow:
    """One example alone in the model as transformers makes it, ablated with hooks."""

    def __init__(self, family, folder):
        auto = transformers.AutoModelForImageClassification if family == "vit" else None
        auto = auto or transformers.AutoModelForSequenceClassification
        self.family = family
        self.model = auto.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()

    def logits(self, tensors, ablation, layers):
        handles = []
        for layer in layers:
            names = [f"{BLOCKS[self.family]}.{layer}.{name}" for name in MODULES[self.family]]
            value, output, last = (self.model.get_submodule(name) for name in names)
            if ablation == "feed-forward zero":
                handles.append(last.register_forward_hook(lambda _m, _a, out: torch.zeros_like(out)))
                continue
            kept = {}
            handles.append(value.register_forward_hook(lambda _m, _a, out, kept=kept: kept.update(value=out)))
            handles.append(
                output.register_forward_pre_hook(
                    lambda _m, args, kept=kept: (self.context(kept["value"], args[0].shape[-1], ablation),)
                )
            )
        with torch.no_grad():
            logits = self.model(**tensors).logits[0]
        for handle in handles:
            handle.remove()
        return logits

    def context(self, value, size, ablation):
        """What the attention hands to its output layer, from the values of all tokens."""
        value = value[..., -size:]
        if ablation == "attention zero":
            return torch.zeros_like(value)
        if ablation == "attention identity":
            return value
        if self.family == "gpt2":  # a token sees itself and those before it
            return value.cumsum(1) / torch.arange(1, value.shape[1] + 1)[:, None]
        return value.mean(1, keepdim=True).expand_as(value)


@pytest.mark.parametrize("family", list(MODULES))
def test_ablations_equal_a_loop(family, tmp_path):
    model = small_models.load(family, tmp_path)
    inputs = small_models.inputs(family, (6, 4))
    batch, slow = model.encode(inputs), Slow(family, tmp_path / family)
    plan = ablation_plan(model.n_layers)
    before = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    found = ablated_logits(model, batch, blocks_parts(model, batch), plan)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.model.state_dict().items())
    assert found.shape == (1 + 4 * (model.n_layers + 1), 2, 3)
    for example, item in enumerate(inputs):
        tensors = {name: torch.as_tensor(value)[None] for name, value in item.items()}
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}
        assert torch.allclose(found[0, example], slow.logits(tensors, "", []), atol=1e-9)
        run = 1
        for ablation in ABLATIONS:
            for layers in (*([layer] for layer in range(model.n_layers)), list(range(model.n_layers))):
                expected = slow.logits(tensors, ablation, layers)
                assert torch.allclose(found[run, example], expected, atol=1e-9), (ablation, layers)
                assert not torch.allclose(expected, found[0, example], atol=1e-6)
                run += 1
        assert run == len(plan)


def test_drops_are_differences_of_probability_and_of_correctness(model, batches):
    batch = batches[1]
    target = torch.tensor([2, 0])
    drops, accuracy = components.ablation_drops(model, batch, ClassTarget(target))
    logits = ablated_logits(model, batch, blocks_parts(model, batch), ablation_plan(3))
    assert drops.shape == accuracy.shape == (2, 16)
    for example in range(2):
        for run in range(16):
            p = [float(logits[i, example].softmax(-1)[target[example]]) for i in (0, 1 + run)]
            assert drops[example, run] == pytest.approx(p[0] - p[1], abs=1e-6)
    right = (logits[:, 0].argmax(-1) == 1).double()
    assert accuracy[0].tolist() == (right[0] - right[1:]).tolist()
    assert np.isnan(accuracy[1]).all()


def test_the_tables_hold_means_over_examples_with_their_number(context, batches):
    analysis = benchmark.build("analyses/components")
    shares, ablation = analysis(context())
    assert (shares.name, ablation.name) == ("component_shares", "component_ablation")
    sums = shares.rows.groupby("layer")["value"].sum()
    assert sorted(sums.index) == ["0", "1", "2", "all"]
    assert sums.to_numpy() == pytest.approx(1, abs=1e-6)
    assert set(shares.rows["n"]) == {5}
    by_metric = ablation.rows.groupby("metric")["n"].unique()
    assert by_metric["drop"].tolist() == [5]
    assert by_metric["accuracy_drop"].tolist() == [4]
    model = context().setting.model
    drops = np.concatenate([components.ablation_drops(model, b, ClassTarget(model.predict(b)))[0] for b in batches])
    last = ablation.rows.query("metric == 'drop' and ablation == 'attention identity' and layer == 'all'").iloc[0]
    assert last["value"] == pytest.approx(drops[:, -1].mean(), abs=1e-9)
    assert last["low"] <= last["value"] <= last["high"]


def test_examples_limit_what_is_read(context):
    _, ablation = benchmark.build("analyses/components", "limit=2")(context())
    assert ablation.rows["n"].max() == 2


def test_a_model_that_cannot_be_taken_apart_says_why(context, monkeypatch):
    def refuse(*_):
        raise NotApplicable("the parts of block 0 cannot be told apart")

    monkeypatch.setattr(components, "blocks_parts", refuse)
    analysis = components.Components(shares=Refusing())
    for table in analysis(context()):
        assert table.rows["note"].tolist() == ["cannot, because the parts of block 0 cannot be told apart"]
        assert table.drawing is None
        assert table.rows["value"].isna().all()


class Refusing:
    """Shares of relevance of a model that has none."""

    version = 1

    def __call__(self, model, batch, target):
        raise NotApplicable("the parts of block 0 cannot be told apart")


def test_examples_without_relevance_are_left_out():
    shares = np.full((3, 1, 3), np.nan)
    shares[0], shares[1] = [0.2, 0.3, 0.5], [0.4, 0.1, 0.5]
    rows = pd.DataFrame(components.share_rows(shares)).query("layer == '0'")
    assert rows["value"].tolist() == pytest.approx([0.3, 0.2, 0.5])
    assert rows["n"].tolist() == [2, 2, 2]
    empty = pd.DataFrame(components.share_rows(np.full((1, 1, 3), np.nan)))
    assert set(empty["note"]) == {"no relevance reaches it"}


@pytest.mark.parametrize("override", ["limit=0"])
def test_a_wrong_setting_is_a_users_error(override):
    with pytest.raises(UserError, match=f"analyses.components.{override}"):
        benchmark.build("analyses/components", override)
