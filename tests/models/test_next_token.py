"""Causal language models asked for the next token: the numbers of transformers, LXT and inseq, alone and in a batch."""

import copy
import dataclasses
import json
import pickle
import shutil

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

import benchmark
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.base import rated_units
from benchmark.models.next_token import CANDIDATES
from benchmark.targets import ClassTarget, Contrast, LogProbability
from benchmark.types import Example, as_compared
from tests import text_models
from tests.checking.cheap import METHODS
from tests.checking.cheap import NAMES_OF_COMPONENTS as COMPONENTS
from tests.conftest import shared
from tests.language_models import FAMILIES

PROMPTS = ("the untold story was a good", "a film")
CANDIDATE_WORDS = (("film", "story"), ("good", "bad"))


def loaded(folder, dtype="float32", **settings):
    return benchmark.load_model(folder, device="cpu", task="next_token", dtype=dtype, **settings)


@pytest.mark.parametrize("kind", FAMILIES)
def test_logits_are_those_of_transformers_alone_and_beside_longer_prompts(made, kind):
    """Prompts may end with the token that pads, which the configuration's pad_token_id is here ("film")."""
    model = loaded(made(kind), "float64")
    batch = model.encode(PROMPTS, candidates=CANDIDATE_WORDS)
    trace = model.run(batch)
    plain = AutoModelForCausalLM.from_pretrained(made(kind), dtype=torch.float64, attn_implementation="eager").eval()
    for row, prompt in enumerate(PROMPTS):
        encoded = model.tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            whole = plain(**{name: row[:, :-1] for name, row in encoded.items()}).logits[0, -1]  # no [SEP] behind it
        picked = whole[batch.tensors[CANDIDATES][row, :, 0]]
        assert torch.allclose(trace.logits[row], picked, rtol=0, atol=1e-6)
        assert torch.allclose(trace.vocabulary[row], whole, rtol=0, atol=1e-6)
        assert float(trace.normaliser[row]) == pytest.approx(float(whole.logsumexp(-1)), abs=1e-6)
        alone = model.run(model.encode([prompt], candidates=[CANDIDATE_WORDS[row]]))
        assert torch.allclose(trace.logits[row], alone.logits[0], rtol=0, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM"])
def test_every_method_that_serves_texts_explains_it(made, kind):
    """The same scores for a prompt alone as beside a longer one, and again, for a token and for a contrast; or why not."""
    model = loaded(made(kind), "float64")
    both = model.encode(PROMPTS, candidates=CANDIDATE_WORDS)
    alone = model.encode(PROMPTS[1:], candidates=CANDIDATE_WORDS[1:])
    alone = dataclasses.replace(alone, uids=both.uids[1:], keys=both.draw_keys[1:])
    first = torch.zeros(2, dtype=torch.long)
    silent = {}
    for name in METHODS:
        method = as_compared(benchmark.build(f"methods/{name}"))
        for target in (ClassTarget(first), Contrast(first, first + 1)):
            try:
                together = method.explain(model, both, target).tokens
            except NotApplicable as answer:
                silent[name] = str(answer)
                continue
            if together is None:
                continue
            beside, own = together[1, : alone.units.shape[1]], method.explain(model, alone, target[1:]).tokens[0]
            assert torch.allclose(beside.double(), own.double(), rtol=1e-6, atol=1e-8), name
            assert torch.equal(together, method.explain(model, both, target).tokens), f"{name}: not the same again"
    assert set(silent) <= {"oracle", "inverted", "full_lrp", *COMPONENTS}, silent


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_published_implementations_give_the_same(name):
    """LXT's AttnLRP at the first block's input, and gradient × input as plain autograd and inseq have it."""
    folder = shared("golden/lm") / name
    plain, lxt = (np.load(folder.parent / f"{name}_{part}.npz") for part in ("plain", "lxt"))
    model = loaded(folder, "float64")
    pairs = [[int(answer[0]), int(foil[0])] for answer, foil in zip(plain["targets"], plain["foils"], strict=True)]
    batch = model.encode([{"input_ids": row.tolist()} for row in plain["ids"]], candidates=pairs)
    trace = model.run(batch)
    assert np.abs(trace.vocabulary.numpy() - plain["logits_last"]).max() < 1e-5
    first = torch.zeros(len(pairs), dtype=torch.long)
    for asked, target in (("logit", ClassTarget(first)), ("contrast", Contrast(first, first + 1))):
        relevance = benchmark.build("methods/attnlrp", "rules.epsilon=0")(model, batch, target).tokens.detach().numpy()
        assert np.abs(relevance - lxt[f"lxt/{asked}_first_block_input"]).max() < 1e-5
        product = benchmark.build("methods/gradient_x_input")(model, batch, target).tokens.detach().numpy()
        assert np.abs(product - plain[f"gradient_x_input/{asked}"]).max() < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_published_implementations_give_the_same_of_a_log_probability(name):
    """Of the whole vocabulary: LXT's AttnLRP, gradient × input, and captum's ablation of each token."""
    folder = shared("golden/lm") / name
    plain, lxt = (np.load(folder.parent / f"{name}_{part}.npz") for part in ("plain", "lxt"))
    model = loaded(folder, "float64", labels="vocabulary")
    answers = torch.tensor(plain["targets"][:, 0])
    ready = [{"input_ids": row.tolist()} for row in plain["ids"]]
    batch = model.encode(ready, candidates=[[int(answer)] for answer in answers])
    target = LogProbability(answers)
    assert torch.equal(batch.label, answers)
    assert np.abs(model.run(batch).logits.numpy() - plain["logits_last"]).max() < 1e-5
    relevance = benchmark.build("methods/attnlrp", "rules.epsilon=0")(model, batch, target).tokens.detach().numpy()
    assert np.abs(relevance - lxt["lxt/log_prob_first_block_input"]).max() < 1e-5
    product = benchmark.build("methods/gradient_x_input")(model, batch, target).tokens.detach().numpy()
    assert np.abs(product - plain["gradient_x_input/log_prob"]).max() < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_conservative_propagation_with_constant_gates_is_that_of_lxt(name):
    """CP-LRP at the first block's input, of a logit, a contrast and a log-probability."""
    folder = shared("golden/lm") / name
    lxt = np.load(folder.parent / f"{name}_lxt_cp.npz")
    method = benchmark.build("methods/conservative_lrp", "rules.activations=identity", "rules.gates=constant")
    ready = [{"input_ids": row.tolist()} for row in lxt["ids"]]
    answers, foils = (torch.tensor(lxt[field][:, 0]) for field in ("targets", "foils"))
    model = loaded(folder, "float64", labels="vocabulary")
    batch = model.encode(ready)
    for asked, target in (
        ("logit", ClassTarget(answers)),
        ("contrast", Contrast(answers, foils)),
        ("log_prob", LogProbability(answers)),
    ):
        relevance = method(model, batch, target).tokens.detach().numpy()
        assert np.abs(relevance - lxt[f"lxt_cp/{asked}_first_block_input"]).max() < 1e-5, asked


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_a_continuation_is_ablated_and_integrated_as_by_captum(name):
    """Each token in the place of padding (the last of the prompt too), and layer integrated gradients, of two tokens."""
    folder = shared("golden/lm") / name
    plain = np.load(folder.parent / f"{name}_plain.npz")
    model = loaded(folder, "float64")
    methods = {
        "feature_ablation": benchmark.build("methods/leave_one_out", "operator=pad"),
        "layer_ig": benchmark.build("methods/integrated_gradients", "baseline=pad"),
    }
    for row, ids in enumerate(plain["ids"].tolist()):
        found = benchmark.explain(
            model, {"input_ids": ids}, continuation=plain["targets"][row].tolist(), methods=methods
        )
        for method in methods:
            captum = plain[f"captum/{method}/{row}/token"]
            assert np.abs(found.matrix(method).to_numpy() - captum).max() < 1e-5, (row, method)
        whole = plain[f"captum/feature_ablation/{row}/seq"]
        assert np.abs(found.sequence()["feature_ablation"].to_numpy() - whole).max() < 1e-5
    if "captum/shapley/0/token" in plain:  # of four tokens, exact; so is a fit to every coalition
        shapley = benchmark.build("methods/kernel_shap", "operator=pad", "samples=400")
        four, targets = {"input_ids": plain["ids"][0, :4].tolist()}, plain["targets"][0].tolist()
        found = benchmark.explain(model, four, continuation=targets, methods={"shapley": shapley})
        assert np.abs(found.matrix("shapley").to_numpy() - plain["captum/shapley/0/token"]).max() < 1e-5


def test_over_the_vocabulary_probabilities_are_the_language_models(made):
    """The predicted class is the model's own next token, and labels are the answers."""
    model, beside = loaded(made("GPT2LMHeadModel"), labels="vocabulary"), loaded(made("GPT2LMHeadModel"))
    batch, other = model.encode(PROMPTS, candidates=[["film"], []]), beside.encode(PROMPTS, candidates=CANDIDATE_WORDS)
    trace = beside.run(other)
    assert torch.equal(model.run(batch).logits, trace.vocabulary)
    assert batch.label.tolist() == [model.labels.index("film"), -1]
    assert CANDIDATES not in batch.tensors
    assert model.fingerprint != beside.fingerprint
    assert model.predict(batch).tolist() == trace.vocabulary.argmax(-1).tolist()
    found = benchmark.explain(model, PROMPTS[0], answer="film", methods=["gradient_x_input"])
    assert isinstance(found.target, LogProbability)
    assert found.target.classes.tolist() == [model.labels.index("film")]
    assert "probability of film" in str(found)
    both = benchmark.explain(model, PROMPTS[0], answer="film", foil="story", methods=["gradient_x_input"])
    of_candidates = benchmark.explain(beside, PROMPTS[0], answer="film", foil="story", methods=["gradient_x_input"])
    assert torch.allclose(
        both.attributions["gradient_x_input"].tokens, of_candidates.attributions["gradient_x_input"].tokens, atol=1e-6
    )
    free = benchmark.explain(model, PROMPTS[0], methods=["gradient_x_input"])
    assert free.target.classes.tolist() == [int(trace.vocabulary[0].argmax())]


def test_over_the_vocabulary_explanations_are_tested_and_answers_are_words(made):
    model = loaded(made("GPT2LMHeadModel"), labels="vocabulary")
    explanation = benchmark.explain(model, list(PROMPTS), methods=["gradient_x_input", "raw_attention"])
    assert isinstance(explanation.target, ClassTarget)
    found = benchmark.evaluate(model, list(PROMPTS), explanation, ["perturbation"], labels=["film", "good"])
    assert len(found.table()) > 0
    with pytest.raises(UserError, match="the candidate 'zebra' is not in the model's vocabulary"):
        benchmark.evaluate(model, list(PROMPTS), explanation, ["perturbation"], labels=["film", "zebra"])
    with pytest.raises(UserError, match="labels='vocabulary': give a list with a name for each class"):
        benchmark.load_model(made("GPT2LMHeadModel"), labels="vocabulary")
    unknown = model.encode_examples([Example("a", "the film", 1)], model.label_map(["bad", "good"]))
    assert unknown.label.tolist() == [-1], "a class is no token"


TEMPLATE = (
    "[CLS]{% for message in messages %}the {{ message['role'] }} [SEP]{{ message['content'] | trim }}[SEP]{% endfor %}"
    "{% if add_generation_prompt %}the story was{% endif %}"
)
"""Of a chat: special tokens and words around what is said."""


@pytest.fixture
def in_chat(made, tmp_path):
    """A folder of a tiny Llama whose tokenizer has a chat template."""
    folder = shutil.copytree(made("LlamaForCausalLM"), tmp_path / "chat")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def test_in_a_chat_the_template_stands_around_the_prompt(in_chat):
    model = loaded(in_chat, "float64", chat=True)
    batch = model.encode(PROMPTS, candidates=CANDIDATE_WORDS)
    tokenizer = AutoTokenizer.from_pretrained(in_chat)
    plain = AutoModelForCausalLM.from_pretrained(in_chat, dtype=torch.float64, attn_implementation="eager").eval()
    for row, prompt in enumerate(PROMPTS):
        said = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        attended = batch.attention_mask[row]
        assert batch.tensors["input_ids"][row][attended].tolist() == ids["input_ids"][0].tolist()
        with torch.no_grad():
            whole = plain(**ids).logits[0, -1]
        assert torch.allclose(model.run(batch).vocabulary[row], whole, rtol=0, atol=1e-6)
        units = batch.units[row][attended].tolist()
        assert sorted({unit for unit in units if unit >= 0}) == list(range(len(prompt.split())))
        assert units[:4] == [-1] * 4, "the template is no word"
        assert units[-4:] == [-1] * 4
    bare = loaded(in_chat, "float64")
    assert model.fingerprint != bare.fingerprint
    found = benchmark.explain(
        model, PROMPTS[0], answer="film", foil="story", methods=["gradient_x_input", "leave_one_out"]
    )
    assert list(found.table().index) == PROMPTS[0].split()
    assert found.table().notna().all().all()
    of_own = benchmark.explain(model, PROMPTS[0], answer="film", methods=["gradient_x_input"])
    assert len(of_own.candidates[0]) == 2


def test_a_long_prompt_is_cut_and_the_template_is_not(in_chat):
    model = loaded(in_chat, window=14, chat=True)
    batch = model.encode(["bad bad bad bad bad bad bad the film was good"], candidates=[("film", "story")])
    before, behind = model.encoder.chat
    ids = batch.tensors["input_ids"][0].tolist()
    assert len(ids) == 14
    assert (tuple(ids[: len(before)]), tuple(ids[-len(behind) :])) == (before, behind)
    assert batch.words[0][int(batch.units.max())] == "good"
    with pytest.raises(UserError, match="its chat template alone fills the window of 8 tokens"):
        loaded(in_chat, window=8, chat=True)


def test_a_chat_that_cannot_be_held_is_one_line(made, in_chat):
    with pytest.raises(UserError, match="its tokenizer has no chat template; leave chat"):
        loaded(made("LlamaForCausalLM"), chat=True)
    with pytest.raises(UserError, match="a chat is held with a causal language model"):
        benchmark.load_model(in_chat, chat=True)
    tokenizer = AutoTokenizer.from_pretrained(in_chat)
    tokenizer.chat_template = "{% for message in messages %}said{% endfor %}"
    tokenizer.save_pretrained(in_chat)
    with pytest.raises(UserError, match="does not hold what the user says once"):
        loaded(in_chat, chat=True)


@pytest.mark.thorough
def test_a_comparison_over_the_vocabulary(made, tmp_path):
    """The tests follow the log-probability of the answer among all tokens; the record does not hold their names."""
    lines = [
        {"prompt": "the untold story was a good", "answer": "film", "foils": ["story"], "rationale": ["story"]}
    ] * 3
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    comparison = benchmark.compare(
        "task=prompts", f"task.files={{test: {tmp_path / 'prompts.jsonl'}}}", "model=lm", "model.labels=vocabulary",
        f"model.path={made('LlamaForCausalLM')}", "methods=[gradient_x_input,attnlrp,random]", "tracking=none",
        "evaluations=[perturbation,aopc,rationale]", "evaluations.perturbation.target=log_probability", f"out={tmp_path}",
    )  # fmt: skip
    figures = benchmark.leaderboard(comparison.folder).set_index(["method", "evaluation", "metric"])["value"]
    assert figures["attnlrp", "perturbation", "positive_log_probability_auc_mean"] < 0
    assert comparison.loaded[0].record.model.labels == ()


def test_ready_ids_are_padded_on_either_side(made):
    model = loaded(made("GPT2LMHeadModel"), "float64")
    ids = [7, 8, 9]
    given = [
        {"input_ids": ids},
        {"input_ids": [*ids, 0, 0], "attention_mask": [1, 1, 1, 0, 0]},
        {"input_ids": [0, 0, *ids], "attention_mask": [0, 0, 1, 1, 1]},
    ]
    logits = [model.run(model.encode([one], candidates=[(4, 5)])).logits for one in given]
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_a_model_can_be_sent_to_another_process_and_copied(made):
    model = loaded(made("LlamaForCausalLM"))
    batch = model.encode(PROMPTS, candidates=CANDIDATE_WORDS)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert type(other.model) is type(model.model)
        assert torch.equal(other.run(batch).logits, model.run(batch).logits)
    assert copy.deepcopy(model.model).model.embed_tokens is not model.model.model.embed_tokens


def test_long_prompts_are_cut_where_they_begin(made):
    model = loaded(made("LlamaForCausalLM"), window=8)
    batch = model.encode(["bad bad bad bad the untold story was good"], candidates=[("film", "story")])
    words, units = batch.words[0], batch.units[0]
    assert [words[unit] for unit in units.tolist() if unit >= 0][-2:] == ["was", "good"]
    assert units[0] == -1, "the token that begins the text stays"
    assert int(batch.lost_units) > 0


@pytest.mark.parametrize(
    ("candidates", "line"),
    [
        (("untoldly", "good"), r"the candidate 'untoldly' is 3 tokens \('un', '##told', '##ly'\)"),
        (("zebra", "good"), r"the candidate 'zebra' is not in the model's vocabulary"),
        (("good", "good"), r"the candidate 'good' is the same token as another one"),
        (("good", " "), r"a candidate for what comes next is empty"),
        ((), r"has no candidates for the next token"),
        (("good",), r"has one candidate, which is certain among itself; give a foil"),
        (("good", 4, 5), r"the examples have 3 candidates, and the model 2 labels"),
        ((4, 10**6), r"candidates hold the id 1000000"),
    ],
)
def test_candidates_that_are_none_are_one_line(made, candidates, line):
    model = loaded(made("GPT2LMHeadModel"))
    with pytest.raises(UserError, match=line) as found:
        model.encode(["the story was"], candidates=[candidates])
    assert "\n" not in str(found.value)


def test_what_is_no_causal_language_model_is_one_line(tmp_path, made):
    classifier = text_models.save_bert(tmp_path / "bert")
    with pytest.raises(UserError, match=r"BertForSequenceClassification\) is no causal language model"):
        loaded(classifier)
    with pytest.raises(UserError, match=r"model=lm model\.path=.*task=\"next_token\""):
        benchmark.load_model(made("GPT2LMHeadModel"), device="cpu")
    own = AutoModelForCausalLM.from_pretrained(made("GPT2LMHeadModel"))
    with pytest.raises(UserError, match=r'load_model\(model, task="next_token"\)'):
        benchmark.load_model(own)
    taken = benchmark.load_model(own, tokenizer=AutoTokenizer.from_pretrained(classifier), task="next_token")
    assert type(own) is transformers.GPT2LMHeadModel, "the model that was given stays what it is"
    assert taken.labels == ("answer", "foil")


def test_a_gguf_file_is_named(tmp_path, made):
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match=r"holds a\.gguf; say which: model\.gguf_file=a\.gguf"):
        loaded(tmp_path)
    pytest.importorskip("gguf", reason="gguf is not installed: pip install '.[gguf]'")
    with pytest.raises(UserError, match=r"has no b\.gguf; did you mean a\.gguf|allowed: a\.gguf"):
        loaded(tmp_path, gguf_file="b.gguf")


def write_gguf(file):
    """A Llama of one layer with a byte-level tokenizer, half of its weights in eight bits."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed: pip install '.[gguf]'")
    draw = np.random.default_rng(0)
    letters = [chr(code) for code in range(33, 127)]
    tokens = ["<|endoftext|>", "<s>", "</s>", "\u0120", *letters, "\u0120a", "\u0120g", "oo", "ood", "\u0120good"]
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(["\u0120 a", "\u0120 g", "o o", "oo d", "\u0120g ood"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    shapes = {
        "token_embd": (len(tokens), 32), "output": (len(tokens), 32), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32),
        "blk.0.attn_v": (16, 32), "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32),
        "blk.0.ffn_down": (32, 64),
    }  # fmt: skip
    for name, shape in shapes.items():
        weights = draw.normal(size=shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q8_0 if "blk" in name else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, kind), raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(32, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_weights_of_a_gguf_file_are_those_that_transformers_reads(tmp_path):
    write_gguf(tmp_path / "tiny.gguf")
    model = loaded(tmp_path, "float64", gguf_file="tiny.gguf")
    assert model.name == "tiny"
    batch = model.encode(["a good"], candidates=[("good", "a")])
    assert not getattr(model.model, "is_quantized", False)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf", dtype=torch.float64)
    with torch.no_grad():
        whole = plain(batch.tensors["input_ids"]).logits[0, -1]
    assert torch.allclose(model.run(batch).vocabulary[0], whole, rtol=0, atol=1e-6)
    found = benchmark.explain(model, "a good", answer="good", foil="a", methods=["gradient_x_input", "attnlrp"])
    assert found.table().notna().all().all()


def test_an_answer_rather_than_a_foil_is_explained(made):
    model = loaded(made("LlamaForCausalLM"), "float64")
    found = benchmark.explain(model, PROMPTS[0], answer="film", foil="bad", methods=["attnlrp", "leave_one_out"])
    assert found.candidates == (("film", "bad"),)
    assert "film rather than bad" in str(found)
    batch = model.encode([PROMPTS[0]], candidates=[("film", "bad")])
    trace = model.run(batch)
    expected = (trace.logits - trace.normaliser[:, None]).exp()
    assert torch.allclose(found.probabilities, expected.cpu(), atol=1e-9), "among the whole vocabulary"
    token, probability = found.own[0]
    assert probability == pytest.approx(float(trace.vocabulary.softmax(-1).max()))
    assert f"predicted {token}" in str(found)
    free = benchmark.explain(model, list(PROMPTS), methods=["raw_attention"])
    assert [names[0] for names in free.candidates] == [name for name, _ in free.own], "the model's own next token"
    ids = trace.vocabulary[0].topk(2).indices.tolist()
    why_not = benchmark.explain(model, PROMPTS[0], foil=ids[1], methods=["gradient_x_input"])
    assert why_not.candidates == free.candidates[:1], "beside the most probable token stands the second one"
    assert float(why_not.table().abs().to_numpy().sum()) > 0


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"target": 0}, r"target and against are classes of a classifier"),
        ({"answer": ["film"] * 3}, r"answer has 3 tokens for 1 texts"),
        ({"answer": 1e3}, r"answer=1000\.0 is no token"),
        ({"answer": "film", "foil": [True]}, r"foil=True is no token|True is no token"),
    ],
)
def test_what_cannot_be_asked_is_one_line(made, asked, line):
    with pytest.raises(UserError, match=line):
        benchmark.explain(loaded(made("GPT2LMHeadModel")), "the story was", methods=["random"], **asked)


def test_a_classifier_has_no_answers(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path / "bert"), device="cpu")
    with pytest.raises(UserError, match="answer and foil are tokens of a causal language model"):
        benchmark.explain(model, "a film", answer="good", methods=["random"])


def test_a_comparison_of_prompts(made, tmp_path):
    """From the file to the leaderboard; the last word, behind which the answer is read, is neither removed nor rated."""
    rows = [
        {"prompt": "the story was a good", "answer": "film", "foils": ["story"], "rationale": ["story"]},
        {"prompt": "bad film , bad", "answer": "story", "foils": ["good"], "rationale": ["film"]},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = benchmark.compare(
        "task=prompts", f"task.files={{test: {file}}}", "model=lm", f"model.path={made('LlamaForCausalLM')}",
        "methods=[attnlrp,oracle,random,inverted]", "evaluations=[perturbation,aopc,rationale,agreement]", "analyses=[]",
        "tracking=none", f"out={tmp_path / 'runs'}", "evaluations.perturbation.target=contrast",
    )  # fmt: skip
    board = benchmark.leaderboard(done.folder)
    assert set(board["method"]) == {"attnlrp", "oracle", "random", "inverted"}
    assert board[board["metric"] == "comprehensiveness"]["value"].notna().all()
    oracle = board[(board["method"] == "oracle") & (board["evaluation"] == "rationale")].set_index("metric")["value"]
    assert oracle["average_precision"] == oracle["coverage"] == 1.0, (
        "words that are not rated are no words that were missed"
    )
    assert oracle["truncated_rationale_share"] == 0.0
    model = loaded(made("LlamaForCausalLM"))
    task = benchmark.build("task/prompts", f"files={{test: {file}}}")
    assert tuple(task.labels) == ("answer", "foil")
    batch = model.encode_examples(task.split("test"), [0, 1])
    visible = torch.ones(2, 5, dtype=torch.bool)
    assert rated_units(batch, visible).sum(1).tolist() == [4, 4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"answer": "film"}, r"prompts\.jsonl:1: 'prompt' is missing"),
        ({"prompt": "a good", "answer": ""}, r"'answer' is missing or no text"),
        ({"prompt": "a good", "answer": "film", "foils": [3]}, r"'foils' is \[3\]; give a list of texts"),
        ({"prompt": "a good", "answer": "film"}, r"'foils' is missing; give at least one"),
        (
            {"prompt": "a good", "answer": "film", "foils": "bad", "rationale": ["good"]},
            r"marks words alone that are not",
        ),
        (
            {"prompt": "a good", "answer": "film", "foils": ["bad"], "rationale": ["dull"]},
            r"'rationale' names 'dull', which does not occur",
        ),
        (
            {"prompt": "a good", "answer": "film", "foils": ["story", "bad"]},
            r"has 2 foils and '.*' has 1; give as many",
        ),
    ],
)
def test_a_prompt_that_does_not_fit_names_its_line(tmp_path, line, said):
    file = tmp_path / "prompts.jsonl"
    second = {"prompt": "a bad", "answer": "film", "foils": ["story"]}
    file.write_text(json.dumps(line) + "\n" + json.dumps(second) + "\n", "utf-8")
    with pytest.raises(UserError, match=said):
        benchmark.build("task/prompts", f"files={{test: {file}}}").split("test")
