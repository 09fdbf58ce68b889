"""Adversaries keep to ε when their stored attention is run again; a model that ignores attention allows any."""

import json
import math
from dataclasses import replace

import pytest
import torch

import benchmark
from benchmark.analyses.debate import adversarial_attention
from benchmark.analyses.debate.adversary import Search, checked, search
from benchmark.analyses.debate.edited_runs import Unedited, taken
from benchmark.analyses.debate.found_attention import restored
from benchmark.analyses.debate.scopes import scopes
from benchmark.analyses.resumed import kept_file
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.models.divergences import LARGEST_JSD
from benchmark.results.store import Ragged
from benchmark.results.wording import number
from tests.analyses.debate.conftest import ALL, told, within

HOW = Search(restarts=3, steps=12, learning_rate=1.0, noise=2.0, train=0.01, tolerance=0.05, penalty=500.0, seed=0)


def build(*overrides):
    return benchmark.build("analyses/adversarial_attention", "limit=null", "steps=6", "restarts=3", *overrides)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_model_that_ignores_attention_allows_the_largest_divergence(number, ignoring):
    base = Unedited.of(ignoring, ignoring.encode(small_models.inputs("bert", (12, 9))))
    selected = within(base, number)
    found = search(selected, replace(HOW, steps=60), threshold=0.4)
    assert (found.change < 1e-9).all()
    assert (found.divergence.max(1).values > adversarial_attention.largest_possible(selected) - 0.01).all()
    assert (found.divergence.max(1).values > LARGEST_JSD - 0.02).all()
    assert (found.divergence <= LARGEST_JSD).all()


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("number", [0, -1])
def test_what_is_found_is_attention_that_keeps_to_the_mask_and_to_the_tolerance(family, number, unedited):
    selected = within(unedited(family), number)
    found = search(selected, HOW, threshold=0.05)
    for layer, weights in found.weights.items():
        own, movable = selected.weights[layer][:, None], selected.rows[layer].movable[:, None, None]
        assert torch.allclose(weights.sum(-1), own.sum(-1).expand(weights.shape[:-1]))
        assert torch.equal(weights.masked_fill(movable, 0), own.expand_as(weights).masked_fill(movable, 0))
    assert (found.change <= HOW.tolerance).all()
    assert (found.divergence >= 0).all()
    assert (found.divergence <= adversarial_attention.largest_possible(selected)[:, None] + 1e-9).all()
    assert found.divergence.max() > 0


def test_an_adversary_beyond_the_tolerance_does_not_count(unedited):
    selected = within(unedited("bert"), -1)
    far = {
        i: torch.zeros_like(own).scatter(-1, own.argmin(-1, keepdim=True), 1.0) for i, own in selected.weights.items()
    }
    both = {i: torch.stack([far[i], own], dim=1) for i, own in selected.weights.items()}
    found = checked(selected, both, tolerance=1e-6, threshold=0.4)
    assert (found.divergence < 1e-9).all()
    assert all(torch.equal(found.weights[i][:, 0], own) for i, own in selected.weights.items())
    assert found.between.isnan().all()
    loose = checked(selected, {i: torch.stack([far[i], far[i]], dim=1) for i in far}, tolerance=1.0, threshold=0.1)
    assert (loose.divergence > 0.1).all()
    assert loose.between.abs().max() < 1e-9, "two equal restarts do not differ"


def test_divergence_of_two_tokens_by_hand(unedited):
    """One example of two tokens: D is the mean over heads of JSD, written out."""
    selected = within(unedited("bert", (2,)), 0)
    new = {2: selected.weights[2].flip(-1)[:, None]}
    found = checked(selected, new, tolerance=1.0, threshold=0.0)
    by_head = []
    for head in range(4):
        a, b = selected.weights[2][0, head, 0].tolist()
        kl = a * math.log(a / ((a + b) / 2)) + b * math.log(b / ((a + b) / 2))
        by_head.append(kl)  # both rows have this divergence from their middle, (1/2, 1/2)
    assert found.divergence.item() == pytest.approx(sum(by_head) / 4)


def test_an_example_is_searched_alike_in_any_batch(unedited):
    base = unedited("bert")
    together = search(within(base, 0), HOW, 0.4).divergence[1]
    alone = search(within(Unedited.of(base.model, base.batch.select([1])), 0), HOW, 0.4).divergence[0]
    assert torch.allclose(together, alone, atol=1e-6)


def test_stored_attention_holds_when_the_model_runs_on_it_again(kept_context, model, batches):
    analysis = build()
    means, histogram, examples, words = analysis(kept_context)
    found = Ragged.read(kept_file(kept_context.folder, analysis))
    seen = 0
    for scope in scopes(model, ALL):
        reported = examples.rows[(examples.rows["scope"] == scope.name) & (examples.rows["metric"] == "largest JSD")]
        reported = dict(zip(reported["example"], reported["value"], strict=True))
        for batch in batches:
            selected = Unedited.of(model, batch).within(scope, "tokens")
            again = checked(selected, restored(found, selected), tolerance=1.0, threshold=0.4)
            assert (again.change <= analysis.tolerance + 1e-6).all(), scope.name
            for uid, divergence in zip(batch.uids, again.divergence.max(1).values.tolist(), strict=True):
                seen += 1
                assert divergence <= LARGEST_JSD
                assert divergence == pytest.approx(reported[uid], abs=1e-5)
    assert seen == 5 * 4
    for table in (means, histogram, examples, words):
        assert told(table)
        table.check()
    shares = histogram.rows.groupby("scope")["value"].sum()
    assert shares.tolist() == pytest.approx([1.0] * 4)


def test_the_words_show_both_rows_as_they_add_up_to_one(context):
    *_, words = build("scopes=[read_row]")(context())
    assert not words.printed
    sums = words.rows.groupby(["example", "metric"])["value"].sum()
    assert len(sums) > 0
    assert sums.to_numpy() == pytest.approx(1, abs=1e-5)


def test_the_words_stand_beside_the_outputs_of_both_runs(kept_context, model, batches):
    """The output that is told is that of a run on the stored attention; the largest differences come first."""
    analysis = build("scopes=[read_row]")
    *_, examples, words = analysis(kept_context)
    assert words.drawing.kind == "words"
    found = Ragged.read(kept_file(kept_context.folder, analysis))
    (scope,), names = scopes(model, ["read_row"]), kept_context.setting.data.labels
    told_of = words.rows[words.rows["word"] == "output"].set_index(["example", "metric"])["note"]
    jsd = examples.rows[examples.rows["metric"] == "largest JSD"].set_index("example")["value"]
    seen = 0
    for batch in batches:
        base = Unedited.of(model, batch)
        selected = base.within(scope, "tokens")
        weights = restored(found, selected)
        restarts = checked(selected, weights, tolerance=1.0, threshold=0.4).divergence.argmax(1).tolist()
        for b, uid in enumerate(batch.uids):
            if uid not in told_of.index:
                continue
            seen += 1
            best = {i: given[:, restarts[b]] for i, given in weights.items()}
            outputs = base.probabilities[b], selected.probabilities(torch.arange(len(batch)), taken(best))[b]
            order = outputs[0].argsort(descending=True).tolist()
            texts = [", ".join(f"{names[c]} {number(float(p[c]))}" for c in order) for p in outputs]
            change = float((outputs[0] - outputs[1]).abs().sum() / 2)
            assert change <= analysis.tolerance
            texts[1] += f"; total variation {number(change)}, JSD {number(jsd[uid])}"
            assert [*told_of[uid]] == texts
    assert seen == len(told_of) / 2 > 0
    shown = [*dict.fromkeys(words.rows["example"])]
    assert [jsd[uid] for uid in shown] == sorted(jsd[jsd > 0], reverse=True), "up to six of them"


def test_a_killed_run_resumes_to_the_same_tables(kept_context, monkeypatch, tmp_path):
    analysis = build("scopes=[read_row]")
    kept_context.setting.config.checkpoint_seconds = 0.0
    whole = [table.to_json() for table in analysis(replace(kept_context, folder=tmp_path / "whole"))]
    searched = []

    def killed(selected, *rest):
        searched.append(len(selected.unedited.batch))
        if len(searched) == 2:
            raise KeyboardInterrupt
        return search(selected, *rest)

    monkeypatch.setattr(adversarial_attention, "search", killed)
    with pytest.raises(KeyboardInterrupt):
        analysis(kept_context)
    assert not kept_file(kept_context.folder, analysis).exists()
    resumed = [table.to_json() for table in analysis(kept_context)]
    assert searched == [3, 2, 2], "the first batch is not searched again"
    assert json.dumps(resumed) == json.dumps(whole)
    assert sorted(path.name for path in (kept_context.folder / "analyses").iterdir()) == [
        kept_file(kept_context.folder, analysis).name
    ], "no parts are left"
    assert len(analysis(kept_context)) == len(whole)
    assert len(searched) == 3, "what is kept is read"


def test_damaged_attention_is_not_read(kept_context):
    analysis = build("scopes=[read_row]", "steps=1")
    analysis(kept_context)
    path = kept_file(kept_context.folder, analysis)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=path.name):
        analysis(kept_context)


def test_a_scope_that_does_not_fit_into_memory_is_left_out(context):
    made = context()
    small = replace(made, setting=replace(made.setting, model=replace(made.setting.model, memory_budget=1 << 11)))
    means, *_ = build()(small)
    refused = means.rows[means.rows["note"].str.startswith("left out")]
    assert refused["scope"].tolist() == ["layer 0", "layer 1", "all layers"]
    with pytest.raises(NotApplicable, match="memory_budget"):
        build("scopes=[all_layers]")(small)
