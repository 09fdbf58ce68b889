"""The first token's share of attention, the words that methods call best, and attention without the sink."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import benchmark
from benchmark import load_model
from benchmark.analyses.patterns.sinks import FIRST, LAST, Sinks, best_at_the_ends
from benchmark.errors import NotApplicable
from benchmark.report.analysis_tables import read_tables
from methods.edges.sinkless import SinklessAttention
from methods.readouts.rollout import Rollout
from tests import text_models

TEXTS = ["the untold story was good", "a fine film", "the plot was dull and the film bad"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """GPT-2, whose tokenizer puts nothing before the text, and whose first layer's heads look at the first token alone."""
    return text_models.save_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def gpt2(checkpoint):
    return load_model(checkpoint, "float64")


def test_words_that_share_the_best_score_count_in_equal_parts():
    assert best_at_the_ends(np.array([3.0, 1.0, 2.0])) == (1.0, 0.0)
    assert best_at_the_ends(np.array([1.0, 0.0, 2.0])) == (0.0, 1.0)
    assert best_at_the_ends(np.array([2.0, 0.0, 2.0])) == (0.5, 0.5)
    assert best_at_the_ends(np.zeros(4)) == (0.25, 0.25)


def test_a_method_that_names_the_place_is_said_so(checkpoint, tmp_path):
    texts = pd.DataFrame({"text": TEXTS * 7, "label": [0, 1, 0] * 7})
    texts.to_csv(tmp_path / "texts.csv", index=False)

    comparison = benchmark.compare(
        "task=text_classification", f"task.files={{test: {tmp_path / 'texts.csv'}}}", "model=hf", f"model.path={checkpoint}",
        "task.label_names=[bad,good]", "model.labels=[bad,good]", "methods=[position,first_word,last_word,constant]",
        "evaluations=[]", "analyses=[sinks]", "tracking=none", f"out={tmp_path}",
        "+methods.named={_target_: methods.controls.FirstWord}",
    )  # fmt: skip
    tables = {table.name: table for table in read_tables(comparison.folder)}
    by_method = tables["sinks"].rows.set_index(["explainer", "metric"])["value"]
    assert by_method["first_word", FIRST] == by_method["position", FIRST] == by_method["last_word", LAST] == 1.0
    assert by_method["constant", FIRST] == pytest.approx(np.mean([1 / 5, 1 / 3, 1 / 8]))
    told = [sentence for sentence in tables["sinks"].sentences if "more than half" in sentence]
    assert len(told) == 1
    assert told[0].startswith("named calls the first word, the sink, the best in 1.000 [")
    assert "which is the first of the rated words" in tables["sinks"].sentences[0]
    model = load_model(checkpoint)
    shares = [
        torch.stack(model.run(model.encode([text]), record=("attentions",)).attentions)[:, 0, :, 1:, 0].mean((1, 2))
        for text in TEXTS
    ]
    assert tables["sinks_by_layer"].rows["value"].to_numpy() == pytest.approx(
        torch.stack(shares).mean(0).numpy(), abs=1e-6
    )
    assert len(tables["sinks_heads"].rows) == model.n_layers * model.n_heads
    json.loads((comparison.folder / "analyses" / "sinks.json").read_text())


def test_examples_of_one_token_are_left_out_and_counted(checkpoint, tmp_path):
    pd.DataFrame({"text": [*TEXTS, "a"], "label": [0, 1, 0, 1]}).to_csv(tmp_path / "texts.csv", index=False)
    comparison = benchmark.compare(
        "task=text_classification", f"task.files={{test: {tmp_path / 'texts.csv'}}}", "model=hf", f"model.path={checkpoint}",
        "task.label_names=[bad,good]", "model.labels=[bad,good]", "methods=[position]", "evaluations=[]",
        "analyses=[sinks]", "tracking=none", f"out={tmp_path}",
    )  # fmt: skip
    tables = {table.name: table for table in read_tables(comparison.folder)}
    assert tables["sinks_by_layer"].rows["value"].between(0, 1).all()
    assert "(n = 3; without 1 of a single token)" in tables["sinks"].sentences[0]


def test_in_half_precision_what_the_sink_leaves_is_kept(checkpoint):
    half = load_model(checkpoint, "bfloat16")
    layers = SinklessAttention()(half, half.encode(TEXTS), torch.zeros(3, dtype=torch.long))
    sums = torch.stack([layer[:, :, 1:4].sum(-1) for layer in layers])
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-6)


def test_examples_without_words_are_refused(model, batches, given):
    with pytest.raises(NotApplicable, match="the examples have no words"):
        Sinks()(given(model, batches))


def test_without_the_sink_rows_sum_to_one_again_and_the_first_word_has_nothing(gpt2):
    batch = gpt2.encode(TEXTS)
    attention = gpt2.run(batch, record=("attentions",)).attentions
    left = SinklessAttention()(gpt2, batch, torch.zeros(3, dtype=torch.long))
    for whole, part in zip(attention, left, strict=True):
        for b, row in enumerate(batch.attention_mask):
            n = int(row.sum())
            expected = whole[b, :, 1:n, 1:n] / (1 - whole[b, :, 1:n, :1])
            assert torch.allclose(part[b, :, 1:n, 1:n], expected, atol=1e-12)
            assert not part[b, ..., 0].any()
            assert not part[b, :, 0].any(), "the first token attends to nothing else"
    read = gpt2.read_weights(batch)
    mixing = [torch.eye(left[0].shape[-1]) + layer.mean(1) for layer in left]
    product = read[:, None]
    for layer in reversed(mixing):
        product = product @ (layer / layer.sum(-1, keepdim=True))
    rollout = Rollout()
    found = rollout.combine([rollout.reduce(layer, read) for layer in left], read)
    assert torch.allclose(found, product[:, 0], atol=1e-12)
    assert not found[:, 0].any()
