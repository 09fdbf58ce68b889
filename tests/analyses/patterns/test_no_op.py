"""Gradients equal differences of the loss; removal equals a loop with one edit at a time."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.patterns.no_op import DRAWN, GRADIENT_GROUPS, REMOVED_GROUPS, NoOp, gradient_magnitudes, removed
from benchmark.errors import NotApplicable
from tests import text_models

TEXTS = ["a fine film , the untold story", "the plot was dull .", "good bad"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_gradients_equal_differences_of_the_loss(bert):
    batch = bert.encode(TEXTS[:1], labels=[1])
    clean = bert.run(batch, record=("attentions",))
    n, step = batch.units.shape[1], 1e-6
    tokens = bert.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0].tolist())

    def loss(layer, head, i, j):
        probabilities = clean.attentions[layer].clone()
        probabilities[0, head, i, j] += step
        return -bert.run(batch, replace={layer: probabilities}).logits.log_softmax(-1)[0, 1].item()

    own = -clean.logits.log_softmax(-1)[0, 1].item()
    found = gradient_magnitudes(bert, batch)[0]
    for layer in range(2):
        slopes = np.array(
            [[[abs(loss(layer, h, i, j) - own) / step for j in range(n)] for i in range(n)] for h in range(2)]
        ).mean((0, 1))
        by_group = {
            "start token": slopes[0],
            "separators": slopes[-1],
            "punctuation": slopes[[token == "," for token in tokens]].mean(),
        }
        by_group["other tokens"] = slopes[[t not in ("[CLS]", "[SEP]", ",") for t in tokens]].mean()
        expected = [by_group[name] for name in GRADIENT_GROUPS]
        assert found[:, layer].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-8)


def test_padding_changes_nothing(bert):
    together, alone = gradient_magnitudes(bert, bert.encode(TEXTS)), gradient_magnitudes(bert, bert.encode(TEXTS[1:2]))
    assert torch.allclose(together[1], alone[0], atol=1e-12, equal_nan=True)


def test_removal_equals_one_edit_at_a_time(bert):
    batch = bert.encode(TEXTS, labels=[0, 1, -1])
    found = removed(bert, batch, seed=0)
    clean = bert.run(batch).logits.softmax(-1)
    lengths = batch.attention_mask.sum(1)
    for layers, place in (((0,), 0), ((1,), 1), ((0, 1), 2)):

        def without_separators(layer, probabilities, layers=layers):
            if layer not in layers:
                return probabilities
            left = probabilities.clone()
            for row, length in enumerate(lengths.tolist()):
                left[row, :, :, length - 1] = 0
            return left / left.sum(-1, keepdim=True)

        after = bert.run(batch, edits=[without_separators]).logits.softmax(-1)
        change = (clean - after).abs().sum(-1) / 2
        group = REMOVED_GROUPS.index("separators")
        assert found.change[:, group, place].tolist() == pytest.approx(change.tolist(), abs=1e-10)
        c = clean.argmax(-1)
        drop = clean.gather(1, c[:, None]) - after.gather(1, c[:, None])
        assert found.drop[:, group, place].tolist() == pytest.approx(drop.squeeze(1).tolist(), abs=1e-10)
        right = [float(c[i] == batch.label[i]) - float(after[i].argmax() == batch.label[i]) for i in range(2)]
        assert found.accuracy_drop[:2, group, place].tolist() == right
    assert found.accuracy_drop[2].isnan().all()
    assert found.change[2, REMOVED_GROUPS.index("punctuation")].isnan().all()
    assert found.change[:, REMOVED_GROUPS.index(DRAWN)].isfinite().all()


def test_an_encoder_without_a_classifier_is_refused(tmp_path, given):
    model = load_model(text_models.save_bert(tmp_path), "float64", head="zero")
    with pytest.raises(NotApplicable, match="without a classifier"):
        NoOp(limit=None)(given(model, [model.encode(TEXTS)]))


def test_tables_hold_means_and_differences(bert, given):
    gradients, removal = NoOp(limit=None)(given(bert, [bert.encode(TEXTS, labels=[0, 1, 0])]))
    own = gradient_magnitudes(bert, bert.encode(TEXTS, labels=[0, 1, 0])).numpy()
    rows = gradients.rows.set_index(["tokens", "layer", "metric"])
    assert rows.loc[("separators", 1, "less that of other tokens"), "value"] == pytest.approx(
        (own[:, 1, 1] - own[:, 3, 1]).mean()
    )
    assert rows.loc[("punctuation", 0, "mean |∂loss/∂A|"), "n"] == 2
    assert set(removal.rows["layer"]) == {"0", "1", "all"}
    for table in (gradients, removal):
        table.check()
