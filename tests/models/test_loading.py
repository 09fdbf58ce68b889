"""What `load_model` refuses, and how it says so."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import transformers

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models.weights import from_source
from tests import text_models


def test_families_that_bypass_the_interface_are_refused_with_the_reason(tmp_path):
    small = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "vocab_size": 20,
    }
    models = {
        "deberta-v2": transformers.DebertaV2ForSequenceClassification(transformers.DebertaV2Config(**small)),
        "mpnet": transformers.MPNetForSequenceClassification(transformers.MPNetConfig(**small)),
        "longformer": transformers.LongformerForSequenceClassification(
            transformers.LongformerConfig(**small, attention_window=4)
        ),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        with pytest.raises(
            UserError, match=f"family {name}, which is not supported: its .* attention|family {name}, .* bias"
        ):
            benchmark.load_model(tmp_path / name)


def test_a_path_that_does_not_exist():
    with pytest.raises(UserError, match=r"model\.path=\./nowhere is not a directory"):
        benchmark.load_model("./nowhere")


def test_a_hub_id_without_a_network_names_the_way_out():
    with pytest.raises(UserError, match=r"model\.path=some/model is no folder here, and as the name of a checkpoint"):
        benchmark.load_model("some/model")


def test_a_checkpoint_without_a_classifier_head(tmp_path):
    config = transformers.BertConfig(**small_models.FAMILIES["bert"][1])
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"no trained classifier head \(missing weights: classifier"):
        benchmark.load_model(tmp_path)


def test_a_nan_in_the_weights_names_the_tensor(tmp_path):
    folder = small_models.save("bert", tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.weight[0, 0] = torch.nan
    model.save_pretrained(folder)
    with pytest.raises(UserError, match=r"not finite .* in 'classifier.weight'"):
        benchmark.load_model(folder)


def test_an_unknown_precision():
    with pytest.raises(UserError, match=r"model\.dtype=float8 is unknown; allowed: float32"):
        benchmark.load_model(".", dtype="float8")


def test_a_precision_that_the_device_cannot_compute_in(tmp_path, monkeypatch):
    folder = small_models.save("bert", tmp_path)

    def refusing(*_args, **_options):
        raise RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'")

    monkeypatch.setattr(transformers.BertForSequenceClassification, "forward", refusing)
    with pytest.raises(UserError, match=r"model\.dtype=float16 cannot be used on cpu .*; use model\.dtype=float32"):
        benchmark.load_model(folder, dtype="float16", device="cpu")


def test_labels_are_matched_by_name_and_a_mismatch_shows_both(tmp_path):
    folder = small_models.save("bert", tmp_path)
    model = benchmark.load_model(folder)
    assert model.label_map(["label_2", "LABEL_0"]) == [2, 0]
    with pytest.raises(UserError, match=r"label good of the task is unknown .*'good'.*'LABEL_0', 'LABEL_1', 'LABEL_2'"):
        model.label_map(["good", "LABEL_0"])


def test_the_fingerprint_is_of_weights_and_not_of_places(tmp_path):
    one, two = (benchmark.load_model(small_models.save("bert", tmp_path / name)) for name in ("a", "b"))
    assert one.fingerprint == two.fingerprint
    other = benchmark.load_model(small_models.save("bert", tmp_path / "c", scale=2.0))
    assert other.fingerprint != one.fingerprint


def test_a_window_cuts_texts_and_is_part_of_what_the_model_is(tmp_path):
    folder = text_models.save_bert(tmp_path / "bert")
    whole, cut = benchmark.load_model(folder), benchmark.load_model(folder, window=8)
    texts = ["a good film the plot was dull the story was bad"]
    assert cut.encode(texts).units.shape[1] == 8
    assert int(cut.encode(texts).lost_units[0]) == len(texts[0].split()) - 6
    assert int(whole.encode(texts).lost_units[0]) == 0
    assert cut.fingerprint != whole.fingerprint
    for wrong in (7, 25):
        with pytest.raises(UserError, match="whole numbers from 8 to 24"):
            benchmark.load_model(folder, window=wrong)


@pytest.mark.parametrize("save", [text_models.save_bert, text_models.save_gpt2])
def test_a_tokenizer_that_pads_on_the_left_pads_on_the_right_here(save, tmp_path):
    """Positions, read tokens and units count from the left: padding there would move them."""
    folder, texts = save(tmp_path / "model"), ["the film was good", "dull"]
    as_saved = benchmark.load_model(folder, device="cpu").encode(texts)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "padding_side": "left"}))
    assert transformers.AutoTokenizer.from_pretrained(folder).padding_side == "left"
    model = benchmark.load_model(folder, device="cpu")
    assert model.tokenizer.padding_side == "right", "also for who asks it directly"
    batch = model.encode(texts)
    assert batch.attention_mask.tolist() == as_saved.attention_mask.tolist()
    assert batch.attention_mask[1].long().diff().max() <= 0  # ones, then zeros
    assert batch.units.tolist() == as_saved.units.tolist()
    alone = torch.cat([model.run(model.encode([text])).logits for text in texts])
    assert torch.allclose(model.run(batch).logits, alone, atol=1e-6)


def test_two_threads_never_make_a_model_at_once():
    """transformers takes the tying of weights away from every model while it makes one, and gives back what it found."""
    inside, most = 0, []

    class Slow:
        @staticmethod
        def from_pretrained(source, **_):
            nonlocal inside
            inside += 1
            most.append(inside)
            time.sleep(0.05)
            inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: from_source(Slow, "folder"), range(4)))
    assert most == [1, 1, 1, 1]
