"""A checkpoint of another kind than a classifier is named as what it is, with what comes nearest, in one line."""

import pytest
import transformers
from transformers import (
    BertConfig,
    GPT2Config,
    GPT2LMHeadModel,
    SwinConfig,
    SwinForImageClassification,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForAudioClassification,
)

import benchmark
from benchmark.errors import UserError
from benchmark.models.kinds import _KINDS
from tests import text_models

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
OF_LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
WHISPER = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, **OF_LAYERS}


def bert(kind):
    return lambda size: getattr(transformers, f"BertFor{kind}")(BertConfig(vocab_size=size, **SMALL))


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            bert("MaskedLM"),
            r"is a masked language model: .* nearest is a classifier that is fine-tuned from it \(python -m",
        ),
        (bert("NextSentencePrediction"), r"is a pre-trained language model: it tells which sentence follows"),
        (
            bert("TokenClassification"),
            r"is a token classifier: it labels each token .* nearest is a classifier of whole",
        ),
        (bert("QuestionAnswering"), r"is a reader that answers a question with a span of the text"),
        (bert("MultipleChoice"), r"is a chooser among options .* nearest is .*, with task=multiple_choice"),
        (
            lambda size: GPT2LMHeadModel(GPT2Config(vocab_size=size, n_embd=8, n_layer=1, n_head=2)),
            r"is a causal language model: it gives the next token \(GPT2LMHeadModel\)",
        ),
        (
            lambda size: T5ForConditionalGeneration(T5Config(vocab_size=size, **T5)),
            r"is a model that generates texts \(T5ForConditionalGeneration\)",
        ),
        (
            lambda size: transformers.WhisperForConditionalGeneration(
                WhisperConfig(vocab_size=size, pad_token_id=0, **WHISPER)
            ),
            r"is a speech-to-text model: it writes down what is said \(Whisper.* nearest is a classifier of texts or images",
        ),
        (
            lambda size: WhisperForAudioClassification(WhisperConfig(vocab_size=size, **WHISPER)),
            r"is a classifier of sounds \(WhisperForAudioClassification\)",
        ),
        (
            lambda size: transformers.T5ForSequenceClassification(T5Config(vocab_size=size, **T5)),
            r"\(T5ForSequenceClassification\) fails by itself on a tiny input \(AttributeError: .*decoder_start_token_id",
        ),
    ],
)
def test_what_it_is_is_said(tmp_path, make, line):
    tokenizer = transformers.AutoTokenizer.from_pretrained(text_models.save_bert(tmp_path / "bert"))
    make(len(tokenizer)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match=line) as found:
        benchmark.load_model(tmp_path / "model", device="cpu")
    assert "\n" not in str(found.value)


def test_an_image_model_that_fails_by_itself(tmp_path):
    sizes = SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 1], num_labels=2)
    SwinForImageClassification(sizes).save_pretrained(tmp_path / "swin")
    with pytest.raises(
        UserError, match=r"\(SwinForImageClassification\) fails by itself on a tiny input \(RuntimeError"
    ):
        benchmark.load_model(tmp_path / "swin", device="cpu")


def test_a_classifier_under_the_configuration_of_its_base_is_read(tmp_path):
    """The name of the class in config.json is asked where reading failed, and not before."""
    folder = text_models.save_bert(tmp_path / "bert")
    config = BertConfig.from_pretrained(folder)
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(folder)
    assert benchmark.load_model(folder, device="cpu").n_layers == config.num_hidden_layers


def test_every_kind_is_a_class_of_transformers():
    names = dir(transformers)
    assert [ending for ending, _, _ in _KINDS if not any(name.endswith(ending) for name in names)] == []
