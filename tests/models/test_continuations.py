"""Continuations of several tokens: their probability, and the sum of the explanations of their tokens."""

import copy
import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

import benchmark
from benchmark.comparison import compare
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.aopc import Aopc
from benchmark.models.continuations import each_of
from benchmark.models.next_token import CONTINUATION, _continues
from benchmark.models.removal import OPERATORS, _behind_prefixes, logits_without
from benchmark.run.explaining import Checked
from benchmark.targets import ClassTarget, LogProbability
from benchmark.types import as_compared
from tests.language_models import FAMILIES

PROMPTS = ("the untold story was a good", "a film")
SAID = (("film , a bad",), ("was a good story",))
METHODS = ("attnlrp", "gradient_x_input", "raw_attention", "leave_one_out", "attattr", "random", "integrated_gradients")


def loaded(folder, **settings):
    return benchmark.load_model(folder, device="cpu", task="next_token", dtype="float64", **settings)


@pytest.mark.parametrize("kind", FAMILIES)
def test_its_probability_is_that_of_teacher_forcing_in_plain_transformers(made, kind):
    """Alone, beside a longer prompt and behind padding on the left; the two classes have all of the probability."""
    model = loaded(made(kind), labels="continuation")
    batch = model.encode(PROMPTS, candidates=SAID)
    logits = model.run(batch).logits
    plain = AutoModelForCausalLM.from_pretrained(made(kind), dtype=torch.float64, attn_implementation="eager").eval()
    for row, prompt in enumerate(PROMPTS):
        own = model.tokenizer(prompt)["input_ids"][:-1]
        said = [int(one) for one in batch.tensors[CONTINUATION][row, :, 0] if one >= 0]
        with torch.no_grad():
            ids = torch.tensor([own + said])
            more = {name: torch.zeros_like(ids) for name in batch.tensors if name == "token_type_ids"}
            each = plain(input_ids=ids, **more).logits[0].log_softmax(-1)
        expected = sum(float(each[len(own) - 1 + t, token]) for t, token in enumerate(said))
        assert float(logits[row, 0]) == pytest.approx(expected, abs=1e-6)
        alone = model.run(model.encode([prompt], candidates=[SAID[row]])).logits
        assert torch.allclose(alone[0], logits[row], rtol=0, atol=1e-9)
    assert torch.allclose(logits.exp().sum(1), torch.ones(2, dtype=torch.float64))
    left = {name: column.clone() for name, column in batch.tensors.items()}
    short = int(batch.attention_mask[1].sum())
    for name in ("input_ids", "attention_mask"):
        left[name][1] = left[name][1].roll(left[name].shape[1] - short)
    left["position_ids"] = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    assert torch.allclose(model.run(left).logits, logits, rtol=0, atol=1e-9)


def test_a_certain_continuation_has_finite_logits_of_both_classes(made):
    """Where p rounds to 1, ln (1 − p) is that of the smallest number, and the gradient is finite."""
    sure = torch.full((1, 2, 3), -1e4).index_fill(2, torch.tensor([1]), 1e4).requires_grad_()
    logits = _continues(sure, torch.tensor([[1, 1]]))
    assert logits[0, 0] == 0
    assert torch.isfinite(logits).all()
    assert torch.isfinite(torch.autograd.grad(logits.sum(), sure)[0]).all()


@pytest.mark.parametrize("name", METHODS)
def test_its_explanation_is_the_sum_of_those_of_its_tokens(made, name):
    """Equal to `benchmark.explain(..., continuation=)`, and the same in a batch as alone."""
    folder = made("LlamaForCausalLM")
    model, prompts = loaded(folder, labels="continuation"), ("the story was a good", "a film")  # a token each word
    batch = model.encode(prompts, candidates=SAID)
    method = Checked(name, as_compared(benchmark.build(f"methods/{name}")))
    found = method(model, batch, model.target(batch, "predicted"))
    for row, (prompt, (text,)) in enumerate(zip(prompts, SAID, strict=True)):
        alone = model.encode([prompt], candidates=[(text,)])
        own = method(model, alone, model.target(alone, "log_probability")).tokens
        assert torch.allclose(found.tokens[row, : own.shape[1]], own[0], atol=1e-9)
        assert not found.tokens[row, own.shape[1] :].any()
        if name != "random":  # whose draws are of each token there
            said = benchmark.explain(loaded(folder), prompt, continuation=text, methods=[name])
            assert said.sequence()[name].to_numpy() == pytest.approx(found.words(batch)[row].to_numpy(), abs=1e-9)


def test_no_other_class_no_edges_and_no_record_of_a_whole(made):
    """What is not told of a continuation is NotApplicable, with the reason."""
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    batch = model.encode(PROMPTS, candidates=SAID)
    method = Checked("attattr", as_compared(benchmark.build("methods/attattr")))
    target = model.target(batch, "predicted")
    for ask in (
        lambda: method(model, batch, ClassTarget(torch.ones(2, dtype=torch.long))),
        lambda: method.edge_scores(model, batch, target),
        lambda: method.with_edges(model, batch, target),
        lambda: model.run(batch, record=["attentions"]),
        lambda: model.target(batch, "contrast"),
    ):
        with pytest.raises(NotApplicable, match="continuation"):
            ask()


@pytest.mark.parametrize("operator", ["delete", "pad", "attention", "zero_embedding"])
def test_removals_leave_the_continuation_where_it_is(made, operator):
    """Behind prefixes and without, the log-probability is that of the shorter or changed prompt alone."""
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    batch = model.encode(PROMPTS, candidates=SAID)
    removed = torch.zeros(3, 2, int(batch.n_units.max()), dtype=torch.bool)
    removed[1, :, 0] = removed[2, 0, 2:4] = True
    found = logits_without(model, batch, removed, OPERATORS[operator]())
    if OPERATORS[operator]().of_tokens:
        behind = _behind_prefixes(model, batch, removed, OPERATORS[operator](), 4)
        assert torch.allclose(found, behind, atol=1e-9)
    assert torch.allclose(found[0], model.run(batch).logits, atol=1e-9)
    for k, row in ((1, 0), (1, 1), (2, 0)):
        alone = model.encode([PROMPTS[row]], candidates=[SAID[row]])
        own = removed[k, row : row + 1, : int(alone.n_units)]
        left = OPERATORS[operator]()(model, alone.tensors, alone.units, own)
        expected = model.run(left.tensors, embedding_edit=left.embedding_edit).logits
        assert torch.allclose(found[k, row], expected[0], atol=1e-8), (k, row)
        if operator == "delete":
            words = [word for place, word in enumerate(PROMPTS[row].split()) if not own[0, place]]
            again = model.run(model.encode([" ".join(words)], candidates=[SAID[row]])).logits
            assert torch.allclose(found[k, row], again[0], atol=1e-8)


@pytest.mark.thorough
def test_a_comparison_follows_the_log_probability(made, tmp_path):
    """Drops are those of ln p of all tokens; a test of edges is a dash, and the oracle reads the prompt's rationale."""
    (tmp_path / "prompts.jsonl").write_text(
        "".join(
            json.dumps({"prompt": prompt, "answer": said, "foils": [], "rationale": [prompt.split()[0]]}) + "\n"
            for prompt, (said,) in zip(PROMPTS, SAID, strict=True)
        )
    )
    overrides = [
        "task=prompts", f"task.files={{test: {tmp_path / 'prompts.jsonl'}}}", "model=lm", "model.labels=continuation",
        f"model.path={made('LlamaForCausalLM')}", "model.dtype=float64", "methods=[attnlrp,attattr,oracle,random]",
        "evaluations=[aopc,perturbation,context_attribution,rationale,head_pruning,kept_edges]",
        "evaluations.aopc.target=log_probability", "evaluations.aopc.fractions=[0.2]",
        "evaluations.perturbation.target=log_probability", f"out={tmp_path / 'out'}", "analyses=[]",
    ]  # fmt: skip
    figures = pd.read_csv(compare(*overrides).folder / "leaderboard.csv")
    headlines = figures[figures["evaluation"].isin(["aopc", "perturbation", "context_attribution"])]
    hard = headlines["metric"].str.endswith("_hard")
    assert set(figures["method"]) == {"attnlrp", "attattr", "oracle", "random"}
    assert headlines[~hard]["value"].notna().all()
    assert (
        not (figures["evaluation"] == "kept_edges").any()
        or figures[figures["evaluation"] == "kept_edges"]["value"].isna().all()
    )
    one = figures[(figures["method"] == "oracle") & (figures["metric"] == "comprehensiveness")]["value"].item()
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    whole, without = (
        model.run(model.encode(texts, candidates=SAID)).logits[:, 0]
        for texts in (PROMPTS, [" ".join(prompt.split()[1:]) for prompt in PROMPTS])
    )
    assert one == pytest.approx(float((whole - without).mean()), abs=1e-6)


@pytest.mark.parametrize(
    ("prompt", "said", "expected"),
    [
        ("a film", (), "has no candidates"),
        ("a film", ("",), "is empty"),
        ("a film", ("was a good story " * 6,), "do not fit the model's window of 24"),
        ("a film", (5, "was"), "as ids and words together"),
    ],
)
def test_mistakes_are_one_line(made, prompt, said, expected):
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    with pytest.raises(UserError, match=expected):
        model.encode([prompt], candidates=[said])


def test_long_prompts_are_cut_where_they_begin(made):
    """As much as the continuation of each needs, whatever stands beside it in a batch."""
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    prompts, said = ["a film " * 40, "a good story " * 40], [("was a good story",), ("film",)]
    both = model.encode(prompts, candidates=said)
    for row in range(2):
        alone = model.encode(prompts[row : row + 1], candidates=said[row : row + 1])
        own = both.tensors["input_ids"][row][both.attention_mask[row]]
        assert torch.equal(own, alone.tensors["input_ids"][0])
        assert int(alone.attention_mask.sum()) + alone.tensors[CONTINUATION].shape[1] - 1 <= model.window
        assert both.words[row][int(both.units[row].max())] == prompts[row].split()[-1]


def test_drops_of_an_improbable_answer_are_numbers(made):
    """ln p of hundreds of tokens is far below the logarithm of the smallest number."""
    model = loaded(made("GPT2LMHeadModel"), labels="continuation")
    model = dataclasses.replace(model, encoder=dataclasses.replace(model.encoder, window=64))
    sharp = dataclasses.replace(model, model=copy.deepcopy(model.model))
    sharp.model.lm_head.weight.data.mul_(400)
    batch = sharp.encode(PROMPTS, candidates=[("film bad " * 20,), ("was a " * 20,)])
    assert (sharp.run(batch).logits[:, 0] < -1000).all()
    scores = Checked("random", as_compared(benchmark.build("methods/random")))
    target = sharp.target(batch, "log_probability")
    rows = Aopc(target="log_probability", operator="delete").rows(sharp, batch, scores(sharp, batch, target))
    assert np.isfinite(rows["value"]).all()


def test_positions_that_are_given_go_on(made):
    """Of ready ids with `position_ids` the sum over tokens is the log-probability of all."""
    model = loaded(made("GPT2LMHeadModel"), labels="continuation")
    ready = {"input_ids": [3, 5, 7, 9], "position_ids": [2, 3, 4, 5]}
    batch = model.encode([ready], candidates=[(4, 6, 8)])
    over, each, _ = each_of(model, batch)
    assert each.tensors["position_ids"][-1].tolist() == [2, 3, 4, 5, 6, 7]
    sums = LogProbability(each.label).value(over.run(each).logits).sum()
    assert float(sums) == pytest.approx(float(model.run(batch).logits[0, 0]), abs=1e-9)


def test_analyses_that_look_at_attention_or_states_say_why_not(made, tmp_path):
    """A dash with the reason, and no traceback, of what has passes of its own."""
    (tmp_path / "prompts.jsonl").write_text(
        "".join(
            json.dumps({"prompt": p, "answer": s, "foils": []}) + "\n" for p, (s,) in zip(PROMPTS, SAID, strict=True)
        )
    )
    folder = compare(
        "task=prompts", f"task.files={{test: {tmp_path / 'prompts.jsonl'}}}", "model=lm", "model.labels=continuation",
        f"model.path={made('LlamaForCausalLM')}", "methods=[attattr,raw_attention,rollout]", f"out={tmp_path / 'out'}",
        "evaluations=[aopc,triggers_script,agreement,convergence]", "analyses=[axioms,word_clusters,sinks]",
        "tracking=none",
    ).folder  # fmt: skip
    told = (folder / "analyses.md").read_text()
    assert told.count("has no attention or states as a whole") >= 2
    shown = json.loads((folder / "heatmap.json").read_text()) if (folder / "heatmap.json").exists() else None
    assert shown is None or "ln p" in json.dumps(shown, ensure_ascii=False)


def test_prompts_without_foils_need_other_classes(made, tmp_path):
    """Among the answer alone, the answer is certain."""
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "a film", "answer": "was", "foils": []}))
    with pytest.raises(UserError, match="have no foils"):
        compare(
            "task=prompts", f"task.files={{test: {tmp_path / 'prompts.jsonl'}}}", "model=lm", f"out={tmp_path / 'out'}",
            f"model.path={made('LlamaForCausalLM')}", "methods=[random]", "evaluations=[aopc]", "analyses=[]",
        )  # fmt: skip
    with pytest.raises(UserError, match="give continuation="):
        benchmark.explain(loaded(made("LlamaForCausalLM"), labels="continuation"), "a film", answer="was")
    with pytest.raises(UserError, match="tested in a comparison"):
        benchmark.evaluate(loaded(made("LlamaForCausalLM"), labels="continuation"), ["a film"], methods=["random"])


def test_the_rows_of_a_batch_are_the_prompts_with_what_was_said(made):
    """Each token's row is the prompt, the tokens before it, and nothing else."""
    model = loaded(made("LlamaForCausalLM"), labels="continuation")
    batch = model.encode(PROMPTS, candidates=SAID)
    over, each, owner = each_of(model, batch)
    assert over.run(each).logits.shape == (len(owner), len(over.labels))
    for row, prompt in enumerate(PROMPTS):
        own = batch.tensors["input_ids"][row][batch.attention_mask[row]].tolist()
        said = [int(one) for one in batch.tensors[CONTINUATION][row, :, 0] if one >= 0]
        rows = (owner == row).nonzero()[:, 0].tolist()
        for t, place in enumerate(rows):
            assert each.tensors["input_ids"][place][each.attention_mask[place]].tolist() == own + said[:t], prompt
            assert int(each.label[place]) == said[t]
    each_token = LogProbability(each.label).value(over.run(each).logits)
    sums = torch.zeros(2, dtype=torch.float64).index_add(0, owner, each_token)
    assert torch.allclose(sums, model.run(batch).logits[:, 0], atol=1e-9)
