"""Encoders without a classifier, and a model whose heads are set by hand."""

import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.models import load_model
from benchmark.models.headless import needs_head
from tests import text_models
from tests.planted_heads import SEP_KIND, WORD_KIND, Nowhere, Offset, ToKind, ToPosition, save_planted_heads


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from transformers import BertForSequenceClassification

    folder = text_models.save_bert(tmp_path_factory.mktemp("bert"))
    bare = tmp_path_factory.mktemp("bare")
    text_models.save_bert(bare)
    BertForSequenceClassification.from_pretrained(folder).bert.save_pretrained(bare)
    return folder, bare


def test_an_encoder_has_the_attention_of_its_classifier_and_says_nothing(encoder):
    whole, bare = encoder
    with pytest.raises(UserError, match="no trained classifier head"):
        load_model(bare, "float64")
    model, own = load_model(bare, "float64", head="zero", labels=["a", "b", "c"]), load_model(whole, "float64")
    batch = model.encode(["a fine film", "the plot"])
    found, expected = (each.run(batch, record=("attentions",)) for each in (model, own))
    assert all(map(torch.equal, found.attentions, expected.attentions))
    assert model.labels == ("a", "b", "c")
    assert not found.logits.any()
    assert found.logits.shape == (2, 3)
    with pytest.raises(NotApplicable, match="encoder without a classifier"):
        needs_head(model)
    needs_head(own)


def test_heads_set_by_hand_do_what_they_are_set_to(tmp_path):
    rules = [[Offset(-1), Offset(0), ToKind(SEP_KIND)], [Nowhere(), Offset(1), ToPosition(2, of=WORD_KIND + 1)]]
    words = {"the": WORD_KIND, "dog": WORD_KIND, "barks": WORD_KIND + 1}
    model = load_model(save_planted_heads(tmp_path, words, rules), "float64")
    first, second = model.run(model.encode(["the dog barks"]), record=("attentions",)).attentions
    assert torch.allclose(first[0, 0, 1:], torch.eye(5, dtype=torch.float64)[:4], atol=1e-6)
    assert torch.allclose(first[0, 1], torch.eye(5, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(first[0, 2, :, 4], torch.ones(5, dtype=torch.float64), atol=1e-6)
    assert second[0, 2, 3].argmax() == 2
    assert second[0, 2, 3, 2] > 0.999
    assert torch.allclose(second[0, 0], torch.full((5, 5), 0.2, dtype=torch.float64), atol=1e-6)
