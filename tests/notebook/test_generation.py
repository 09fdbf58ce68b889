"""What a language model says, token by token, and the explanation of each."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import benchmark
from benchmark.errors import UserError
from benchmark.targets import LogProbability
from tests import text_models

PROMPT = "the untold story was a good"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    words = AutoTokenizer.from_pretrained(text_models.save_bert(tmp_path_factory.mktemp("bert")))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    config = LlamaConfig(
        vocab_size=len(words), max_position_embeddings=64, eos_token_id=None, bos_token_id=None, **sizes
    )
    found = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(config).save_pretrained(found)
    words.save_pretrained(found)
    return found


@pytest.fixture(scope="module")
def model(folder):
    return benchmark.load_model(folder, dtype="float64", device="cpu", task="next_token")


@pytest.fixture(scope="module")
def found(model):
    return benchmark.explain(model, PROMPT, generate=4, methods=["gradient_x_input", "leave_one_out", "oracle"])


def test_the_tokens_are_those_that_transformers_generates(folder, model, found):
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    ids = model.tokenizer(PROMPT, return_tensors="pt")["input_ids"][:, :-1]
    told = plain.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)[0, ids.shape[1] :]
    assert found.target.classes.tolist() == told.tolist()
    assert list(found.said) == model.tokenizer.batch_decode(told[:, None])
    assert found.text == model.tokenizer.decode(told)
    with torch.no_grad():
        logits = plain(torch.cat([ids, told[None]], 1)).logits[0, ids.shape[1] - 1 : -1]
    chances = logits.softmax(-1)[range(4), told]
    assert [chance for _, chance in found.own] == pytest.approx(chances.tolist(), abs=1e-6)
    assert found.whole.probability == pytest.approx(float(chances.prod()), abs=1e-6)


def test_each_token_is_explained_as_it_is_alone(model, found):
    """Row t: the log-probability of token t behind the prompt and what was said, of the prompt's words alone."""
    over = benchmark.load_model(model.model, dtype="float64", device="cpu", task="next_token", labels="vocabulary",
                                tokenizer=model.tokenizer)  # fmt: skip
    prompt = over.tokenizer(PROMPT)["input_ids"][:-1]
    said = found.target.classes
    method = benchmark.build("methods/gradient_x_input")
    for t in range(4):
        batch = over.encode([{"input_ids": [*prompt, *said[:t].tolist()]}])
        tokens = method(over, batch, LogProbability(said[t : t + 1])).tokens[0]
        own = found.attributions["gradient_x_input"].tokens[t, : len(tokens)]
        assert torch.allclose(own, tokens, atol=1e-9)
    assert found.matrix("gradient_x_input").shape == (4, 6)
    assert list(found.matrix("leave_one_out").columns) == PROMPT.split()
    rows = found.matrix("gradient_x_input").to_numpy()
    assert found.sequence()["gradient_x_input"].to_numpy() == pytest.approx(rows.sum(0))
    assert found.sequence()["oracle"].isna().all()
    assert found.reasons["oracle"] == "the task has no rationales"


def test_what_was_said_is_not_removed(model, found):
    """Leave-one-out of a word of the prompt leaves the tokens that were said where they are."""
    removed = found.attributions["leave_one_out"].tokens
    width = int((found.batch.units[0] >= 0).nonzero().max()) + 1
    assert not removed[:, width:].any()
    assert np.abs(found.matrix("leave_one_out").to_numpy()).min() > 0


def test_it_is_shown_in_a_terminal_and_in_a_notebook(found):
    text = repr(found)
    assert text.startswith("explained ln p of “")
    assert "gradient_x_input" in text
    assert "oracle: – the task has no rationales" in text
    page = found._repr_html_()
    assert page.count("<details>") == 4
    assert page.count('<th scope="col">') == 2 * 6
    assert page.count('<th scope="row">') == 2 * 4
    assert "<script" not in page


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"generate": 0}, "generate=0: give the number of tokens, 1 or more"),
        (
            {"generate": 2, "answer": "film"},
            "generate= is what the model says by itself, and continuation= what is given",
        ),
        ({"generate": 2, "continuation": "film"}, "give one of them"),
        ({"continuation": 3.5}, "continuation=3.5: give a text, or a list of ids of tokens"),
        ({"continuation": b"film"}, "give a text, or a list of ids"),
        ({"continuation": {5: 1}}, "give a text, or a list of ids"),
        ({"continuation": np.array(5)}, "give a text, or a list of ids"),
        ({"continuation": np.array([5]), "generate": 2}, "give one of them"),
        ({"continuation": "zebra film"}, "'zebra film' is not in the model's vocabulary"),
        ({"continuation": []}, "give a text, or a list of ids"),
        ({"continuation": [True]}, "give a text, or a list of ids"),
        ({"continuation": [4000]}, "there is no token 4000; the vocabulary has"),
        ({"continuation": " "}, "continuation: a candidate for what comes next is empty"),
        ({"continuation": [5, 6] * 15}, "continuation: the prompt has 8 tokens, and with 30 more"),
        ({"generate": 60}, "the prompt has 8 tokens, and with 60 more it does not fit the model's window of 24"),
    ],
)
def test_mistakes_are_one_line(model, settings, line):
    with pytest.raises(UserError, match=line):
        benchmark.explain(model, PROMPT, **settings)


def test_a_given_continuation_is_explained_token_by_token(model, found):
    """What the model would say gives the same explanation as letting it say it; another text has other tokens."""
    methods = ["gradient_x_input", "leave_one_out"]
    ids = found.target.classes.tolist()
    same, again = (
        benchmark.explain(model, PROMPT, continuation=form(ids), methods=methods) for form in (list, torch.tensor)
    )
    for method in methods:
        assert np.array_equal(same.matrix(method), again.matrix(method))
        assert same.matrix(method).to_numpy() == pytest.approx(found.matrix(method).to_numpy(), abs=1e-12)
    other = benchmark.explain(model, PROMPT, continuation="fine film", methods=["leave_one_out"])
    expected = model.tokenizer("fine film", add_special_tokens=False)["input_ids"]
    assert other.target.classes.tolist() == expected
    assert other.text == "fine film"
    whole = other.whole.probability
    dropped = other.sequence()["leave_one_out"]
    assert 0 < whole < 1
    assert dropped.notna().all()


def test_what_leave_one_out_sums_to_is_the_change_of_the_whole_answer(folder, model):
    """ln p(y | x) − ln p(y | x without a word), by plain transformers."""
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    found = benchmark.explain(model, PROMPT, continuation="fine film", methods=["leave_one_out"])

    def told(words):
        prompt = model.tokenizer(" ".join(words), return_tensors="pt")["input_ids"][:, :-1]
        ids = torch.cat([prompt, found.target.classes[None]], 1)
        with torch.no_grad():
            logits = plain(ids).logits[0, prompt.shape[1] - 1 : -1].log_softmax(-1)
        return float(logits[range(2), found.target.classes].sum())

    words = PROMPT.split()
    drops = [told(words) - told(words[:place] + words[place + 1 :]) for place in range(len(words))]
    assert found.sequence()["leave_one_out"].to_numpy() == pytest.approx(drops, abs=1e-6)


def test_one_prompt_of_a_language_model_alone(model, tmp_path):
    with pytest.raises(UserError, match="one prompt at a time is explained token by token, and 2 are given"):
        benchmark.explain(model, [PROMPT, "a film"], generate=2)
    classifier = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    with pytest.raises(UserError, match="this is a classifier"):
        benchmark.explain(classifier, PROMPT, generate=2)


def test_it_ends_where_the_model_ends(folder, found, tmp_path):
    second = int(found.target.classes[1])
    plain = LlamaForCausalLM.from_pretrained(folder)
    plain.config.eos_token_id = second
    plain.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    model = benchmark.load_model(tmp_path, dtype="float64", device="cpu", task="next_token")
    if int(found.target.classes[0]) == second:
        with pytest.raises(UserError, match="the model ends at once"):
            benchmark.explain(model, PROMPT, generate=4, methods=["gradient_x_input"])
        return
    assert len(benchmark.explain(model, PROMPT, generate=4, methods=["gradient_x_input"]).said) == 1
