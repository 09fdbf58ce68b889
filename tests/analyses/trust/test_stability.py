"""How far explanations move under noise, by hand; and the noise reaches whatever a method computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from benchmark.analyses.trust.stability import SENSITIVITY, Stability, unit_length
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models.noise import noisy
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method


class Sums(Method):
    """The sum of each token's embedding."""

    version = 1
    class_specific = False

    def explain(self, model, batch, target):
        return Attribution(target, model.run(batch, record=("embeddings",)).embeddings.sum(-1))


class Says(Method):
    """The same scores for every input."""

    version = 1
    class_specific = False

    def __init__(self, value):
        self.value = value

    def explain(self, model, batch, target):
        return Attribution(target, torch.full(batch.units.shape, self.value))


class Shortens(Method):
    """Reads the first tokens alone."""

    version = 1
    class_specific = False

    def explain(self, model, batch, target):
        model.run({name: tensor[:, :2] for name, tensor in batch.tensors.items()})
        return Attribution(target, torch.ones(batch.units.shape))


def of_all(context):
    """The context with a limit, which that of a configuration has."""
    return replace(context, setting=replace(context.setting, config=OmegaConf.create({"limit": None})))


def table(context, **settings):
    (found,) = Stability(limit=None, **settings)(of_all(context))
    found.check()
    return found.rows.set_index(["explainer", "metric"])


def test_the_largest_distance_of_three_units_by_hand():
    assert unit_length(np.array([3.0, 0.0, -4.0])).tolist() == [0.6, 0, -0.8]
    assert unit_length(np.zeros(3)) is None
    assert unit_length(np.array([1.0, np.nan])) is None


def test_it_equals_a_slow_computation(context, model, batches):
    stability = Stability(draws=4, radius=0.5)
    rows = table(context(sums=Sums()), draws=4, radius=0.5)
    moved = []
    for batch in batches:
        for b in range(len(batch)):
            length = int(batch.attention_mask[b].sum())
            one = {name: tensor[b : b + 1, :length] for name, tensor in batch.tensors.items()}
            run = model.run(one, record=("embeddings",))
            e, units = run.embeddings[0].double(), batch.units[b, :length]
            size = 0.5 * float(e.square().mean().sqrt())
            noise = stability._noise(batch.uids[b], e, torch.ones(length, dtype=torch.bool))
            assert float(noise.abs().max()) <= size
            distances = []
            for drawn in noise:
                other = model.run(one, embedding_edit=lambda own, drawn=drawn: own + drawn.to(own))
                if other.logits.argmax() != run.logits.argmax():
                    continue
                before, after = (values.sum(-1)[units >= 0].numpy() for values in (e, e + drawn))
                distances.append(np.linalg.norm(after / np.linalg.norm(after) - before / np.linalg.norm(before)))
            if distances:
                moved.append(max(distances))
    assert len(moved) >= 3
    assert rows.loc[("sums", SENSITIVITY), "value"] == pytest.approx(np.mean(moved), abs=1e-5)
    assert rows.loc[("sums", SENSITIVITY), "n"] == len(moved)


def test_what_says_nothing_moves_nowhere_and_zeros_are_undefined(context):
    rows = table(context(one=Says(1.0), nothing=Says(0.0)), draws=2)
    assert rows.loc[("one", SENSITIVITY), "value"] == 0
    assert rows.loc[("nothing", "undefined"), "value"] == 1
    assert np.isnan(rows.loc[("nothing", SENSITIVITY), "value"])


def test_a_method_that_reads_other_lengths_has_a_line_and_no_figure(context):
    rows = table(context(sums=Sums(), shortens=Shortens()), draws=2)
    assert "another length" in rows.loc[("shortens", SENSITIVITY), "note"]
    with pytest.raises(NotApplicable, match="another length"):
        table(context(shortens=Shortens()), draws=2)
    with pytest.raises(NotApplicable, match="no method"):
        table(context(random=Says(1.0)), draws=2)


def test_a_pass_may_leave_out_padding_and_no_token(model, batches):
    batch = batches[0]
    row = int(batch.attention_mask.sum(1).argmin())
    length = int(batch.attention_mask[row].sum())
    one = batch.select([row])
    e = model.run(one, record=("embeddings",)).embeddings
    noise = Stability(draws=1)._noise("x", e[0], one.attention_mask[0])
    with noisy(model, noise) as moved:
        whole = moved.run(one).logits
        cut = moved.run({name: tensor[:, :length] for name, tensor in one.tensors.items()}).logits
        assert torch.allclose(whole, cut, atol=1e-5)
        with pytest.raises(NotApplicable, match="another length"):
            moved.run({name: tensor[:, : length - 1] for name, tensor in one.tensors.items()})
    assert not torch.allclose(whole, model.run(one).logits, atol=1e-5)


def test_padding_changes_nothing(context, model, batches):
    long = table(context(sums=Sums()), draws=2)
    batch = batches[0]
    shortest = int(batch.attention_mask.sum(1).argmin())
    length = int(batch.attention_mask[shortest].sum())
    stability = Stability(draws=2)
    e = model.run(batch.select([shortest]), record=("embeddings",)).embeddings[0]
    padded = stability._noise("x", e, batch.attention_mask[shortest])
    alone = stability._noise("x", e[:length], torch.ones(length, dtype=torch.bool))
    assert torch.equal(padded[:, :length], alone)
    assert not padded[:, length:].any()
    assert len(long)


METHODS = ("gradient_x_input", "integrated_gradients", "attnlrp", "rollout", "attattr", "alti_logit")


@pytest.mark.parametrize("name", METHODS)
def test_the_noise_reaches_what_every_method_computes(name, model, batches):
    """Under a noise that takes one example's embeddings to another's, a method says of it what it says of the other."""
    method = make(compose("config", [f"methods=[{name}]"]).methods[name])
    one, other = batches[0].select([0]), batches[0].select([2])
    length = min(int(batch.attention_mask.sum()) for batch in (one, other))

    def cut(batch):
        tensors = {key: tensor[:, :length] for key, tensor in batch.tensors.items()}
        return model.encode([{"input_ids": tensors["input_ids"][0]}], labels=[0])

    one, other = cut(one), cut(other)
    target = torch.zeros(1, dtype=torch.long)
    e, f = (model.run(batch, record=("embeddings",)).embeddings for batch in (one, other))
    with noisy(model, (f - e).double()) as moved:
        assert moved.fingerprint != model.fingerprint
        found = method(moved, one, ClassTarget(target)).tokens
    expected = method(model, other, ClassTarget(target)).tokens
    assert torch.allclose(found.double(), expected.double(), atol=1e-4 * float(expected.abs().max()))
    after = method(model, one, ClassTarget(target)).tokens
    assert not torch.allclose(after.double(), expected.double(), atol=1e-3 * float(expected.abs().max()))


def test_a_model_that_embeds_twice_is_refused(tmp_path):
    bart = small_models.load("bart", small_models.save("bart", tmp_path))
    with pytest.raises(NotApplicable, match="embeds its input twice"), noisy(bart, torch.zeros(1, 2, 3)):
        pass
