"""Which parameters a stage holds, in every family; what is drawn, from which stream, and what stays."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.checking import small_models
from benchmark.models.fresh_weights import EMBEDDINGS, HEAD, freshly, stages_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = {}

    def make(family):
        if family not in found:
            found[family] = load_model(
                small_models.save(family, tmp_path_factory.mktemp(family)), dtype="float32", device="cpu"
            )
        return found[family]

    return make


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_stages_go_from_the_output_to_the_input_and_hold_everything_once(made, family):
    model = made(family)
    stages = stages_of(model)
    names = [stage.name for stage in stages]
    assert names[0] == HEAD
    assert names[-1] == EMBEDDINGS
    blocks = [int(name.removeprefix("block ")) for name in names if name.startswith("block")]
    assert blocks == sorted(blocks, reverse=True)
    drawn = [name for stage in stages for name in stage.parameters]
    assert len(drawn) == len(set(drawn))
    missing = {name for name, p in model.model.named_parameters() if p.ndim > 1} - set(drawn)
    assert not missing


@pytest.mark.parametrize("family", ["bert", "gpt2", "vit"])
def test_a_stage_changes_its_own_parameters_alone(made, family):
    model = made(family)
    before = {name: p.detach().clone() for name, p in model.model.named_parameters()}
    for stage in stages_of(model):
        fresh = freshly(model, [stage], seed=1)
        for name, parameter in fresh.model.named_parameters():
            same = torch.equal(parameter, before[name])
            if name not in stage.parameters:
                assert same, name
            elif parameter.ndim > 1:
                assert not same, name
    assert all(torch.equal(p, before[name]) for name, p in model.model.named_parameters())


def test_matrices_are_normal_biases_are_zero_and_norms_stay(made):
    model = made("bert")
    fresh = freshly(model, stages_of(model), seed=0)
    assert fresh.fingerprint != model.fingerprint
    assert fresh.fingerprint != freshly(model, stages_of(model), seed=1).fingerprint
    old = dict(model.model.named_parameters())
    values = []
    for name, parameter in fresh.model.named_parameters():
        if "LayerNorm" in name:
            assert torch.equal(parameter, old[name]), name
        elif parameter.ndim > 1:
            values.append(parameter.flatten())
        else:
            assert not parameter.any(), name
    every = torch.cat(values).numpy() / model.config.initializer_range
    assert np.mean(every) == pytest.approx(0, abs=0.05)
    assert np.std(every) == pytest.approx(1, abs=0.05)


def test_parameters_have_streams_of_their_own(made):
    """Two matrices of one shape differ, and a parameter is drawn alike whatever else is drawn."""
    model = made("bert")
    stages = stages_of(model)
    both, one = freshly(model, stages, seed=3), freshly(model, stages[:3], seed=3)
    parameters = dict(both.model.named_parameters())
    block = [name for name in stages[2].parameters if name.endswith(("query.weight", "key.weight"))]
    assert not torch.equal(*(parameters[name] for name in block))
    of_one = dict(one.model.named_parameters())
    assert all(torch.equal(parameters[name], of_one[name]) for name in stages[2].parameters)


def test_a_fresh_model_answers_like_one(made):
    """It runs, says something else than the trained one, and has recorded attention of its own."""
    model = made("bert")
    fresh = freshly(model, stages_of(model), seed=0)
    batch = model.encode(small_models.inputs("bert", (6, 4)))
    first, second = model.run(batch, record=("attentions",)), fresh.run(batch, record=("attentions",))
    assert not torch.allclose(first.logits, second.logits, atol=1e-3)
    assert not torch.allclose(first.attentions[0], second.attentions[0], atol=1e-3)
