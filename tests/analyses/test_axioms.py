"""Twins, gaps and verdicts: methods whose axioms are known, and loops that the gaps equal."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses import axiom_gaps as gaps
from benchmark.analyses.axioms import AXIOMS, INVARIANCE, Axioms
from benchmark.analyses.twins import INVARIANT, Twins, double_copy, equal_heads
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.completeness import layer_contributions
from benchmark.models.precision import batch_for
from benchmark.results.tables import Table
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method

TARGET = torch.tensor([0, 2, 1])
VALUES = INVARIANCE + "values rescaled"


@dataclass(frozen=True)
class Planted(Method):
    """Scores edges by a rule that breaks one axiom at least."""

    kind: str
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def edge_scores(self, model, batch, target):
        trace = model.run(batch, record=("attentions",))
        scores = torch.stack(trace.attentions, dim=1).clone()
        if self.kind == "head number":
            scores *= torch.arange(1.0, 1 + model.n_heads)[:, None, None]
        elif self.kind == "nothing":
            scores *= 0
        elif self.kind == "heads together":
            scores = scores.sum(2, keepdim=True)
        elif self.kind == "size of parameters":
            scores = scores.zero_() + sum(p.abs().sum() for p in model.model.parameters())
            scores[:, -1] *= torch.rand(scores[:, -1].shape, generator=torch.Generator().manual_seed(0))
        elif self.kind == "refuses":
            raise NotApplicable("nothing fits")
        return scores

    def explain(self, model, batch, target):
        return Attribution(target=target)


def verdicts(table, method):
    rows = table.rows[(table.rows["method"] == method) & (table.rows["metric"] == "verdict")]
    assert tuple(rows["axiom"]) == AXIOMS
    return dict(zip(rows["axiom"], rows["note"], strict=True))


def gap_of(table, method, axiom):
    rows = table.rows
    found = rows[(rows["method"] == method) & (rows["axiom"] == axiom) & (rows["metric"] == "gap")]
    assert len(found) == 1
    return found.iloc[0]


@pytest.fixture(scope="module", params=list(small_models.FAMILIES))
def loaded(request, tmp_path_factory):
    return load(request.param, tmp_path_factory.mktemp("models"))


def load(family, folder):
    model = small_models.load(family, folder, dtype="float32")
    return model, model.encode(small_models.inputs(family))


TAKEN_APART = pytest.mark.parametrize("loaded", [f for f in small_models.FAMILIES if f != "bart"], indirect=True)


@TAKEN_APART
def test_twins_have_other_parameters_and_the_same_function(loaded):
    model, batch = loaded
    before = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    twins = Twins.of(model)
    wide = batch_for(twins.base, batch)
    logits = twins.base.run(wide).logits
    assert logits.dtype == torch.float64
    assert torch.allclose(logits.float(), model.run(batch).logits, atol=1e-4)
    for name, change in INVARIANT.items():
        twin = twins.change(name, change, wide)
        changed = sum(
            int(not torch.equal(a, b))
            for a, b in zip(twin.model.parameters(), twins.base.model.parameters(), strict=True)
        )
        assert changed >= 2, name
        assert twin.fingerprint != twins.base.fingerprint
        if model.config.model_type == "modernbert" and name.startswith("queries"):
            # its rotary embedding rounds queries and keys to float32, so the twin's function is not quite the same
            with pytest.raises(NotApplicable, match="the twin changes the logits"):
                gaps.require_equal(logits, twin.run(wide).logits, "the twin")
        else:
            gaps.require_equal(logits, twin.run(wide).logits, "the twin")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.model.state_dict().items())


@TAKEN_APART
def test_equal_heads_attend_equally_and_change_the_function(loaded):
    model, batch = loaded
    twins = Twins.of(model)
    wide = batch_for(twins.base, batch)
    trace = twins.change("equal heads", equal_heads, wide).run(wide, record=("attentions",))
    assert all(torch.allclose(layer[:, 0], layer[:, 1], atol=1e-12) for layer in trace.attentions)
    gaps.require_equal_heads(trace.attentions)
    with pytest.raises(NotApplicable, match="heads with equal parameters attend differently"):
        gaps.require_equal_heads(twins.base.run(wide, record=("attentions",)).attentions)
    assert not torch.allclose(trace.logits, twins.base.run(wide).logits, atol=1e-4)


def test_a_change_starts_from_the_base_each_time(model, batches):
    twins = Twins.of(model)
    first = twins.change("values", INVARIANT["values rescaled"], batches[0])
    kept = [parameter.clone() for parameter in first.model.parameters()]
    twins.change("logits", INVARIANT["queries and keys rescaled"], batches[0])
    again = twins.change("values", INVARIANT["values rescaled"], batches[0])
    assert all(torch.equal(a, b) for a, b in zip(kept, again.model.parameters(), strict=True))


def test_attattr_satisfies_every_axiom_and_the_others_do_not(context):
    methods = {
        n: benchmark.build(f"methods/{n}") for n in ("attattr", "raw_attention", "transformer_attribution", "lrp")
    }
    (table,) = Axioms(limit=4, edges=30)(context(**methods))
    assert set(verdicts(table, "attattr").values()) == {"pass"}
    raw = verdicts(table, "raw_attention")
    assert [axiom for axiom in AXIOMS if raw[axiom] == "fail"] == ["completeness", "dummy"]
    propagated = verdicts(table, "transformer_attribution")
    assert [a for a in AXIOMS if propagated[a] == "fail"][:2] == ["completeness", "sensitivity(a)"]
    assert propagated[VALUES] == "fail"
    assert propagated["dummy"] == propagated["symmetry"] == "pass"
    assert "lrp" not in set(table.rows["method"])
    assert "Methods that do not score edges: lrp." in table.sentences
    assert gap_of(table, "attattr", "completeness")["n"] == 4
    figures = table.rows[table.rows["metric"] == "gap"].dropna(subset=["low"])  # gaps that are all 0 have no interval
    assert len(figures)
    assert (figures["low"] <= figures["value"]).all()
    assert (figures["value"] <= figures["high"]).all()


def test_without_a_method_that_scores_edges_the_table_is_empty(context):
    (table,) = Axioms()(context(lrp=benchmark.build("methods/lrp")))
    assert table.rows.empty
    assert Table.from_json(table.to_json()).sentences[-1] == "Methods that do not score edges: lrp."


def test_what_it_costs(model, batches):
    """Five times the method (raw attention is one pass), and edges + L + 12 passes; tracing takes one example."""
    twins, batch = Twins.of(model), batches[0]
    Axioms(edges=4).outcomes(twins, benchmark.build("methods/raw_attention"), [(batch, ClassTarget(TARGET))])
    passes = twins.base.cost.forward_passes + twins.changed.cost.forward_passes
    traced = 4
    assert passes - traced == 3 * (5 + 4 + model.n_layers + 12)


def test_planted_scores_break_the_axiom_they_are_made_to_break(context):
    kinds = ("head number", "nothing", "heads together", "size of parameters", "refuses")
    (table,) = Axioms(limit=3, edges=20)(context(**{kind: Planted(kind) for kind in kinds}))
    assert verdicts(table, "head number")["symmetry"] == "fail"
    assert gap_of(table, "head number", "symmetry")["value"] > 0.05
    nothing = verdicts(table, "nothing")
    assert (nothing["sensitivity(a)"], nothing["dummy"], nothing["completeness"]) == ("fail", "pass", "fail")
    assert gap_of(table, "nothing", "sensitivity(a)")["value"] == 1
    assert gap_of(table, "nothing", "completeness")["value"] == pytest.approx(1)
    together = verdicts(table, "heads together")
    assert together["symmetry"] == "not tested, because the method scores the heads of a layer together"
    assert together["sensitivity(a)"] == "pass"
    parameters = verdicts(table, "size of parameters")
    assert parameters[VALUES] == "fail"
    assert parameters[INVARIANCE + "feed-forward units permuted"] == "pass"
    assert parameters["dummy"] == "fail"
    assert set(verdicts(table, "refuses").values()) == {"not tested, because nothing fits"}


def test_removing_an_edge_equals_a_pass_of_its_own(model, batches):
    wide, batch = double_copy(model), batches[0]
    attentions = wide.run(batch, record=("attentions",)).attentions
    edges = gaps.sample_edges(attentions, wide.read_weights(batch), batch, 8, seed=3)
    for all_heads in (False, True):
        found = gaps.removal_effects(wide, batch, ClassTarget(TARGET), edges, all_heads=all_heads)
        for row in range(24):
            example, layer, head, query, key = (
                int(getattr(edges, name)[row]) for name in ("example", "layer", "head", "query", "key")
            )

            def remove(at, probabilities, layer=layer, head=head, query=query, key=key, all_heads=all_heads):
                edited = probabilities.clone()
                if at == layer:
                    edited[0, slice(None) if all_heads else head, query, key] = 0
                return edited

            alone, target = batch.select([example]), TARGET[example]
            before, after = (wide.run(alone, edits=e).probabilities[0, target] for e in ([], [remove]))
            assert float(found[row]) == pytest.approx(float(before - after), abs=1e-12)


def test_sampled_edges_are_the_examples_own_and_do_not_depend_on_the_batch(model, batches):
    wide, batch = double_copy(model), batches[0]

    def sample(chosen):
        trace = wide.run(chosen, record=("attentions",))
        return gaps.sample_edges(trace.attentions, wide.read_weights(chosen), chosen, 50, seed=0)

    edges, alone = sample(batch), sample(batch.select([1]))
    lengths = batch.attention_mask.sum(1)
    assert (edges.query < lengths[edges.example]).all()
    assert (edges.key < lengths[edges.example]).all()
    assert (edges.query[edges.layer == 2] == 0).all()
    assert torch.equal(edges.key[edges.example == 1], alone.key)
    assert torch.equal(edges.head[edges.example == 1], alone.head)


def test_influential_edges_with_a_score_of_zero_are_counted():
    scores = torch.zeros(2, 1, 1, 2, 2, dtype=torch.float64)
    scores[0, 0, 0, 0, 0], scores[0, 0, 0, 0, 1], scores[1, 0, 0, 1, 1] = 2.0, 1e-13, 1e-13
    example, query, key = (torch.tensor(x) for x in ([0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 1]))
    zeros = torch.zeros(4, dtype=torch.long)
    edges = gaps.Removals(example, zeros, zeros + 1, query, key)
    effects = torch.tensor([0.1, -0.1, 1e-9, 0.1], dtype=torch.float64)
    missed, influential = gaps.unscored(scores, edges, effects, 1e-6)
    assert missed.tolist() == [1, 0]
    assert influential.tolist() == [2, 1]


def test_null_edges_are_those_that_cannot_matter(loaded):
    model, batch = loaded
    wide = double_copy(model)
    batch = batch_for(wide, batch)
    null = gaps.null_edges(wide, batch)
    trace = wide.run(batch, record=("attentions",))
    read = wide.read_weights(batch)
    slow = torch.zeros_like(null)
    for b, layer, h, i, j in np.ndindex(*null.shape):
        masked = float(trace.attentions[layer][b, h, i, j]) == 0
        slow[b, layer, h, i, j] = masked or (layer == model.n_layers - 1 and float(read[b, i]) == 0)
    assert torch.equal(null, slow)
    own = (batch.attention_mask[:, :, None] & batch.attention_mask[:, None, :])[:, None, None]
    scores = torch.rand(null.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    worst, counts = gaps.dummy(scores, null, batch)
    assert counts.tolist() == (null & own).sum((1, 2, 3, 4)).tolist()
    for example, count in enumerate(counts.tolist()):
        sizes = gaps.own_edges(scores, batch)[example]
        each = [float((layer * null[example, n]).max() / layer.max()) for n, layer in enumerate(sizes)]
        assert float(worst[example]) == pytest.approx(max(each))
        assert (count > 0) == (not bool(read[example][batch.attention_mask[example]].all()))


# DINOv2's classifier reads every token and nothing is masked; BART's blocks hold two attentions.
UNTESTED = {
    "dinov2": {"dummy": "every edge of the examples may change the prediction"},
    "bart": dict.fromkeys(AXIOMS[3:], "4 blocks hold 6 attention layers: not one in each"),
    "qwen3": {},
    "beit": {},
}


@pytest.mark.parametrize("family", list(UNTESTED))
def test_what_cannot_be_tested_on_a_family_is_said(family, tmp_path):
    model, batch = load(family, tmp_path)
    raw, given = benchmark.build("methods/raw_attention"), [(batch, ClassTarget(TARGET))]
    outcomes = Axioms(edges=9).outcomes(Twins.of(model), raw, given)
    assert {outcome.axiom: outcome.reason for outcome in outcomes if outcome.reason} == UNTESTED[family]
    verdicts = {outcome.axiom: outcome.verdict for outcome in outcomes}
    assert {verdicts[axiom] for axiom in AXIOMS[3:]} == ({"pass"} if family != "bart" else {verdicts["symmetry"]})


def test_edges_that_do_matter_are_not_taken_for_null(model, batches):
    """A family that reads another token than is known changes its logits, and is not tested."""
    wide = double_copy(model)
    wrong = replace(wide, family=replace(wide.family, read="last"))
    with pytest.raises(NotApplicable, match="edges that should not matter changes the logits"):
        gaps.null_edges(wrong, batches[0])


def test_the_completeness_gap_equals_a_loop(model, batches):
    wide, batch = double_copy(model), batches[0]
    scores = gaps.own_edges(benchmark.build("methods/raw_attention").edge_scores(wide, batch, TARGET), batch)
    gap, contribution = gaps.completeness(wide, batch, ClassTarget(TARGET), scores)
    expected = layer_contributions(wide, batch, ClassTarget(TARGET))
    for example, length in enumerate(batch.attention_mask.sum(1).tolist()):
        own = scores[example, :, :, :length, :length]
        assert float(scores[example].sum()) == pytest.approx(float(own.sum()))
        each = [abs(float(own[layer].sum()) - float(expected[example, layer])) for layer in range(3)]
        assert float(gap[example]) == pytest.approx(sum(each) / 3)
        assert float(contribution[example]) == pytest.approx(float(expected[example].abs().mean()))


@pytest.mark.parametrize("override", ["limit=0", "edges=0", "tolerance=-1", "influence=-0.1"])
def test_a_wrong_setting_is_a_users_error(override):
    with pytest.raises(UserError, match=f"analyses.axioms.{override}"):
        benchmark.build("analyses/axioms", override)
