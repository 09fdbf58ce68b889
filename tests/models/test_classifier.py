"""The instrumented classifier computes what the plain model computes, and leaves it as it was."""

import copy

import pytest
import torch
import transformers

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models import PruneHeads, hold_constant
from benchmark.models.edits import KeepOutputs, PatchHeads
from benchmark.models.loading import states_read
from benchmark.targets import ClassTarget


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    return small_models.save(family, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def model(folder):
    return benchmark.load_model(folder, device="cpu")


@pytest.fixture(scope="module")
def eager(folder, family):
    auto = transformers.AutoModelForSequenceClassification
    if family in small_models.IMAGE_FAMILIES:
        auto = transformers.AutoModelForImageClassification
    return auto.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def close(logits, expected):
    """Up to rounding: the weights are large, and attention that nobody reads is computed by another function."""
    return torch.allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_logits_equal_eager_attention_exactly_where_attention_is_read(model, eager, family):
    batch = model.encode(small_models.inputs(family))
    with torch.no_grad():
        expected = eager(**batch.tensors).logits
    assert torch.equal(model.run(batch, record=("attentions", "hidden", "embeddings"), grad=True).logits, expected)
    assert close(model.run(batch).logits, expected)


def eager_attentions(eager, batch):
    """In the order of the forward pass: an encoder's, then self- and cross-attention of each decoder layer."""
    output = eager(**batch.tensors, output_attentions=True)
    if not eager.config.is_encoder_decoder:
        return output.attentions
    pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return (*output.encoder_attentions, *(attention for pair in pairs for attention in pair))


def test_recorded_attentions_equal_eager_attentions(model, eager, family):
    batch = model.encode(small_models.inputs(family))
    with torch.no_grad():
        expected = eager_attentions(eager, batch)
    recorded = model.run(batch, record=("attentions",)).attentions
    assert len(recorded) == model.n_layers == len(expected)
    queries = batch.attention_mask[:, None, :, None]  # a decoder is not told what is padding; we do tell it
    for ours, theirs in zip(recorded, expected, strict=True):
        assert torch.equal(ours * queries, theirs * queries)
        assert torch.equal(ours, theirs) or family == "bart"
        assert torch.allclose(ours.sum(-1), torch.ones(()), atol=1e-6)


def test_padding_does_not_change_logits(folder, family):
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    ready = small_models.inputs(family)
    together = model.run(model.encode(ready)).logits
    for row, single in enumerate(ready):
        assert torch.allclose(model.run(model.encode([single])).logits[0], together[row], atol=1e-6)


def test_restart_from_every_layer_with_a_repeated_batch(model, family):
    batch = model.encode(small_models.inputs(family))
    full = model.run(batch, record=("hidden",))
    repeated = {name: torch.cat([tensor, tensor]) for name, tensor in batch.tensors.items()}
    for layer in range(model.n_layers):
        hidden = torch.cat([full.hidden[layer]] * 2)
        logits = model.run(repeated, start=(layer, hidden)).logits
        assert torch.allclose(logits, torch.cat([full.logits] * 2), atol=1e-5)
    assert not torch.allclose(model.run(repeated, start=(1, torch.cat([full.hidden[0]] * 2))).logits, logits, atol=1e-3)


def test_edits_reach_every_layer_and_replacements_stand_in(model, family):
    batch = model.encode(small_models.inputs(family))
    plain = model.run(batch, record=("attentions",))
    keep = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    keep[:, 1, 2] = False
    pruned = model.run(batch, edits=[PruneHeads(keep)], record=("attentions",))
    assert pruned.attentions[1][:, 2].abs().max() == 0
    assert torch.equal(pruned.attentions[0], plain.attentions[0])
    assert not torch.equal(pruned.logits, plain.logits)
    replaced = model.run(batch, replace={1: pruned.attentions[1]})
    assert torch.allclose(replaced.logits, pruned.logits, atol=1e-6)


def test_gradients_agree_with_finite_differences(folder, family):
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    batch = model.encode(small_models.inputs(family)[:1])
    trace = model.run(batch, record=("attentions", "embeddings"), grad=True)
    target = torch.tensor([1])
    gradients = model.gradients(
        trace.logits, [trace.attentions[1], trace.embeddings], weights=ClassTarget(target).seed(trace.logits)
    )
    step = 1e-3  # some families compute parts in float32 whatever the model's precision
    direction = torch.randn(trace.attentions[1].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    moved = [
        model.run(batch, edits=[lambda layer, a, sign=sign: a + sign * step * direction if layer == 1 else a]).logits[
            0, 1
        ]
        for sign in (1, -1)
    ]
    slope = (moved[0] - moved[1]) / (2 * step)
    assert torch.allclose(slope, (gradients[0] * direction).sum(), rtol=1e-2, atol=1e-3)
    shift = torch.randn(trace.embeddings.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    moved = [model.run(batch, embedding_edit=lambda e, s=sign: e + s * 1e-4 * shift).logits[0, 1] for sign in (1, -1)]
    slope = (moved[0] - moved[1]) / 2e-4
    assert torch.allclose(slope, (gradients[1] * shift).sum(), rtol=1e-2, atol=1e-3)


def test_holding_attention_constant_changes_gradients_but_not_logits(model, family):
    batch = model.encode(small_models.inputs(family))
    free = model.run(batch, record=("embeddings",), grad=True)
    held = model.run(batch, record=("embeddings",), grad=True, edits=[hold_constant])
    assert close(free.logits, held.logits)
    target = torch.zeros(len(batch), dtype=torch.long)
    (a,) = model.gradients(free.logits, [free.embeddings], weights=ClassTarget(target).seed(free.logits))
    (b,) = model.gradients(held.logits, [held.embeddings], weights=ClassTarget(target).seed(held.logits))
    assert not torch.allclose(a, b)


def test_bit_identical_after_use_and_after_an_exception(model, family):
    batch = model.encode(small_models.inputs(family))
    state = copy.deepcopy(model.model.state_dict())
    forwards = {name: module.__dict__.get("forward") for name, module in model.model.named_modules()}
    before = model.run(batch).logits

    def broken(layer, probabilities):
        if layer == 1:
            raise RuntimeError("an edit that fails")
        return probabilities

    with pytest.raises(RuntimeError, match="an edit that fails"):
        model.run(batch, edits=[broken], record=("attentions", "hidden", "embeddings"), grad=True)
    assert all(torch.equal(value, model.model.state_dict()[name]) for name, value in state.items())
    assert forwards == {name: module.__dict__.get("forward") for name, module in model.model.named_modules()}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.model.modules())
    assert torch.equal(model.run(batch).logits, before)


def test_models_do_not_disturb_each_other(folder, family):
    one, two = (benchmark.load_model(folder, device="cpu") for _ in range(2))
    batch = one.encode(small_models.inputs(family))
    seen = []

    def run_the_other(layer, probabilities):
        seen.append(two.run(batch, record=("attentions",)).attentions[layer].clone())
        return probabilities * 0.5

    halved = one.run(batch, edits=[run_the_other], record=("attentions",))
    assert len(seen) == one.n_layers
    assert torch.allclose(halved.attentions[0], 0.5 * seen[0])
    assert torch.equal(two.run(batch).logits, one.run(batch).logits)


def test_the_classifier_reads_the_states_that_the_read_weights_name(folder, family):
    """The logits depend on the last block's output exactly where a read weight is not 0."""
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    batch = model.encode(small_models.inputs(family))
    read = model.read_weights(batch)
    assert torch.equal(states_read(model, batch), read > 0)
    assert torch.allclose(read.sum(1), torch.ones_like(read[:, 0]))


def test_scaling_by_one_changes_nothing_and_pruning_any_layer_changes_logits(model, family):
    batch = model.encode(small_models.inputs(family))
    plain = model.run(batch, record=("attentions",)).logits
    assert torch.equal(model.run(batch, edits=[lambda layer, a: a * 1.0]).logits, plain)
    for layer in range(model.n_layers):
        keep = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
        keep[:, layer] = False
        pruned = model.run(batch, edits=[PruneHeads(keep)]).logits
        assert not torch.allclose(pruned, plain, atol=1e-4)
        assert close(model.run(batch, value_edits=[PruneHeads(keep)]).logits, pruned)


def test_outputs_of_heads_are_kept_and_exchanged(model, family):
    """For themselves: nothing changes. For 0: the head is pruned. For those of another input: in that layer alone."""
    batch = model.encode(small_models.inputs(family))
    kept = KeepOutputs()
    plain = model.run(batch, output_edits=[kept]).logits
    assert close(model.run(batch).logits, plain)
    assert len(kept.outputs) == model.n_layers
    some = torch.zeros(1, model.n_layers, model.n_heads, 1, dtype=torch.bool)
    some[:, 0, 1] = True
    of_head = PatchHeads(kept.outputs, some)
    assert close(model.run(batch, output_edits=[of_head]).logits, plain)
    zeros = [torch.zeros_like(output) for output in kept.outputs]
    pruned = model.run(batch, edits=[PruneHeads(~some[..., 0])]).logits
    assert close(model.run(batch, output_edits=[PatchHeads(zeros, some)]).logits, pruned)
    others, again = [output.flip(0) for output in kept.outputs], KeepOutputs()
    changed = model.run(batch, output_edits=[PatchHeads(others, some), again]).logits
    assert not torch.allclose(changed, plain, atol=1e-4)
    expected = kept.outputs[0].clone()
    expected[:, :, 1] = others[0][:, :, 1]
    assert torch.allclose(again.outputs[0], expected, atol=1e-5)


def test_a_restart_records_from_its_layer_on_and_costs_less(model, family):
    batch = model.encode(small_models.inputs(family))
    full = model.run(batch, record=("attentions", "hidden"))
    for layer in range(model.n_layers):
        before = model.cost.forward_passes
        rest = model.run(batch, start=(layer, full.hidden[layer]), record=("attentions", "hidden"))
        for name in ("attentions", "hidden"):
            found, expected = getattr(rest, name), getattr(full, name)[layer:]
            assert len(found) == len(expected)
            assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))
        cheaper = model.attention_names[layer] not in ("0", "encoder.0", "decoder.0", "cross.0")
        assert (model.cost.forward_passes - before < len(batch)) == cheaper
    assert close(model.run(batch).logits, full.logits)


def test_a_token_that_the_mask_hides_is_hidden_everywhere(model, family):
    if family in small_models.IMAGE_FAMILIES:
        pytest.skip("images have no attention mask")
    batch = model.encode(small_models.inputs(family))
    tensors = {name: tensor.clone() for name, tensor in batch.tensors.items()}
    tensors["attention_mask"][:, 2] = 0
    hidden = model.run(tensors).logits
    tensors["input_ids"][:, 2] = (tensors["input_ids"][:, 2] - 4) % 50 + 5
    assert torch.allclose(model.run(tensors).logits, hidden, atol=1e-6)
    assert not torch.allclose(model.run(batch).logits, hidden, atol=1e-4)


def test_the_gradient_of_a_token_embedding_counts_every_use_of_it(folder, family):
    """Against moving the row of the embedding matrix itself, which an encoder and a decoder share."""
    if family in small_models.IMAGE_FAMILIES:
        pytest.skip("patches are no rows of a matrix")
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    batch = model.encode([{"input_ids": [1, 7, 8, 9, 10, 2]}])
    trace = model.run(batch, record=("embeddings",), grad=True)
    (gradient,) = model.gradients(
        trace.logits, [trace.embeddings], weights=ClassTarget(torch.tensor([1])).seed(trace.logits)
    )
    matrix = model.model.get_input_embeddings().weight
    direction = torch.randn(matrix.shape[1], generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for position, token in ((2, 8), (4, 10)):
        moved = []
        for step in (1e-3, -2e-3):
            matrix[token] += step * direction
            moved.append(model.run(batch).logits[0, 1])
        matrix[token] += 1e-3 * direction
        assert torch.allclose((moved[0] - moved[1]) / 2e-3, gradient[0, position] @ direction, rtol=1e-2, atol=1e-3)


def test_half_precision_checkpoints_load_in_float32(folder, family, tmp_path, eager):
    half = copy.deepcopy(eager).half()
    half.save_pretrained(tmp_path / "half")
    model = benchmark.load_model(tmp_path / "half", device="cpu")
    assert {parameter.dtype for parameter in model.model.parameters()} == {torch.float32}


def test_a_checkpoint_without_a_tokenizer_says_what_it_takes(model, family):
    expected = "no image processor|no tokenizer"
    with pytest.raises(UserError, match=expected):
        model.encode(["a text"]) if family not in small_models.IMAGE_FAMILIES else model.encode([object()])
