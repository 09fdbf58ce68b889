"""Models that are written by hand: what is said of them is held to brute force, in every family."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForImageClassification, AutoModelForSequenceClassification

import benchmark
from benchmark.errors import NotApplicable, UserError
from benchmark.models.written.families import FAMILIES, write
from benchmark.models.written.mechanism import READER, Drawn, Mechanism, reads, share_of, weight_of, words_of
from benchmark.models.written.mechanisms import MECHANISMS, SHARES, copy, mechanism
from benchmark.models.written.program import Layer, Program
from benchmark.models.written.told import told
from benchmark.models.written.truth import AGAINST, check, known_edges, known_heads, proof, shapley
from benchmark.training.written import Written
from tasks.mechanism import MechanismTask
from tests.covering import covering

PAIRS = [(family, name) for family in FAMILIES for name in MECHANISMS if (family, name) != ("vit", "pieces")]


def form_of(family):
    return "image" if family == "vit" else "prompt" if family.endswith("_lm") else "text"


def opened(family, task, count=2):
    source = Written(family=family)
    model = benchmark.load_model(source.resolve(task), dtype="float64", device="cpu", task=source.answers)
    return model, model.encode_examples(task.split("test")[:count], model.label_map(task.labels))


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    """Models are written anew, and so checked when they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize(
    ("family", "name"),
    covering({family: [name for own, name in PAIRS if own == family] for family in FAMILIES}, share=4),
)
def test_each_part_that_counts_moves_the_answer_and_no_other_does(family, name):
    """Every set of words, every head, every attention edge: `Written` does it for four inputs, and here once more for two
    others; Shapley values are above 0 for the words that speak for the answer, and for no others.
    """
    model, batch = opened(family, MechanismTask(mechanism=name, form=form_of(family), seed=1))
    found = proof(model, batch)
    assert found.flaws == ()
    for b, values in enumerate(found.shapley):
        assert {int(u) for u in np.flatnonzero(values > 1e-3)} == {int(u) for u in np.flatnonzero(batch.rationale[b])}
        assert sorted(np.flatnonzero(values < -1e-3)) == list(batch.meta[b][AGAINST])


@pytest.mark.parametrize("strength", SHARES)
def test_strengths_are_shares_of_attention(strength):
    model, batch = opened("bert", MechanismTask(mechanism="copy", strength=strength))
    (attention,) = model.run(batch, record=["attentions"]).attentions
    heads, edges = known_heads(model, batch), known_edges(model, batch)
    for b in range(len(batch)):
        layer, head = heads[b].nonzero()[0].tolist()
        _, query, key = edges[b].nonzero()[0].tolist()
        assert layer == 0
        assert float(attention[b, head, query, key]) == pytest.approx(SHARES[strength], abs=1e-7)
    assert share_of(weight_of(0.3)) == pytest.approx(0.3)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_a_plain_checkpoint_of_transformers(family, tmp_path):
    """Read by transformers alone it has the same logits; in float32 too, but for its rounding."""
    task = MechanismTask(mechanism="two_hops", form=form_of(family))
    model, batch = opened(family, task)
    folder = Written(family=family).resolve(task)
    auto = {"vit": AutoModelForImageClassification, "gpt2_lm": AutoModelForCausalLM, "llama_lm": AutoModelForCausalLM}
    plain = auto.get(family, AutoModelForSequenceClassification).from_pretrained(folder, dtype=torch.float64).eval()
    inputs = {name: tensor for name, tensor in batch.tensors.items() if name != "candidates"}
    with torch.no_grad():
        logits = plain(**inputs).logits
    if family.endswith("_lm"):
        logits = logits[torch.arange(len(batch)), batch.attention_mask.sum(1) - 1].gather(
            1, batch.tensors["candidates"][..., 0]
        )
    assert torch.allclose(model.run(batch).logits, logits, atol=1e-6)
    single = benchmark.load_model(folder, device="cpu", task=Written(family=family).answers)
    again = single.encode_examples(task.split("test")[:2], single.label_map(task.labels))
    assert torch.allclose(single.run(again).logits, model.run(batch).logits.float(), atol=1e-2)
    assert type(plain).__module__.startswith(transformers.__name__)


def liar(share):
    """A mechanism whose words say something else than its weights do."""
    honest = copy(share)

    def draw(generator):
        drawn = honest.draw(generator)
        other = next(place for place in range(6) if place not in drawn.speaks_for)
        return Drawn(drawn.words, drawn.label, frozenset({other}), drawn.edges)

    return Mechanism("liar", "it says another word", honest.program, honest.heads, draw)


def lost(share):
    """A mechanism with an edge to a word that is not there."""
    honest = copy(share)

    def draw(generator):
        return dataclasses.replace(honest.draw(generator), edges=frozenset({(0, READER, 9)}))

    return Mechanism("lost", "it points beyond the text", honest.program, honest.heads, draw)


def twice(share):
    """A mechanism of one's own, as docs/mechanisms.md shows it."""
    words = words_of({"well": {"cue": 1.0, "sense": 1.0}})
    real = reads("cue", share, ("sense", "answer", 8.0))

    def draw(generator):
        place = generator.randrange(6)
        words = ["cup"] * 6
        words[place] = "well"
        return Drawn(tuple(words), 1, frozenset({place}), frozenset({(0, READER, place)}))

    program = Program(words, (Layer((real,)),), {"answer": 1.0})
    return Mechanism("twice", "it is ours", program, frozenset({(0, 0)}), draw)


def test_a_mechanism_of_ones_own_and_one_that_lies():
    """By its dotted path; what is not so is refused when it is written, and nothing is kept."""
    model, batch = opened("gpt2", MechanismTask(mechanism="tests.models.test_written.twice"))
    assert proof(model, batch).flaws == ()
    task = MechanismTask(mechanism="tests.models.test_written.liar")
    for _ in range(2):
        with pytest.raises(UserError, match=r"not what it says: .* changes the answer by .*, and is (said|not said)"):
            Written().resolve(task)
    with pytest.raises(UserError, match=r"no token 9, which an edge of its mechanism names"):
        Written().resolve(MechanismTask(mechanism="tests.models.test_written.lost"))
    with pytest.raises(UserError, match="did you mean decoy"):
        mechanism("decoi", 0.4)
    with pytest.raises(UserError, match="cannot be imported"):
        mechanism("nowhere.at_all", 0.4)
    with pytest.raises(UserError, match="and no Mechanism"):
        mechanism("benchmark.models.written.mechanism.share_of", 0.4)


def test_shapley_values_are_those_of_all_orders():
    """Of `either` two halves, of `both` too, by the sum over orders of three words done by hand on the model."""
    for name in ("either", "both"):
        model, batch = opened("bert", MechanismTask(mechanism=name), count=1)
        values = shapley(model, batch)[0]
        places = np.flatnonzero(batch.rationale[0])
        assert values[places] == pytest.approx([4.0, 4.0], abs=1e-4)
        assert np.nansum(values) == pytest.approx(8.0, abs=1e-4)


def test_what_a_task_does_not_know_is_not_asked(tmp_path):
    write(copy(0.4).program, "bert", tmp_path)
    model = benchmark.load_model(tmp_path, device="cpu")
    batch = model.encode(["cup good ?"])
    with pytest.raises(NotApplicable, match="task=mechanism"):
        known_heads(model, batch)
    with pytest.raises(UserError, match="pieces; patches are not"):
        MechanismTask(mechanism="pieces", form="image").split("test")
    with pytest.raises(UserError, match="says nothing of weights"):
        Written().resolve(benchmark.build("task/planted"))


def test_the_same_inputs_for_the_same_seed_and_others_for_another_split():
    """Truth of words stays within the six that are rated."""
    texts = {}
    for split in ("train", "validation", "test"):
        task = MechanismTask(mechanism="negative")
        texts[split] = [example.inputs for example in task.split(split)]
        assert texts[split] == [example.inputs for example in MechanismTask(mechanism="negative").split(split)]
        assert all(not example.rationale[6] and not example.rated[6] for example in task.split(split))
    assert texts["train"] != texts["test"] != texts["validation"]
    fingerprints = {MechanismTask(mechanism=name, strength=s).fingerprint for name in MECHANISMS for s in SHARES}
    assert len(fingerprints) == len(MECHANISMS) * len(SHARES)


@pytest.mark.parametrize("name", MECHANISMS)
def test_it_is_told_in_words(name):
    """Each head that takes part is marked, and no other is."""
    known = mechanism(name, 0.4)
    lines = told(known).splitlines()
    marked = {line.split()[1] for line in lines if line.endswith("(takes part)")}
    assert marked == {f"{layer}.{head}" for layer, head in known.heads}
    assert lines[0].startswith(f"{name}: ")
    assert lines[-1].startswith("Lesson: ")


def test_check_says_how_many_flaws_there_are():
    model, batch = opened("bert", MechanismTask(mechanism="copy"))
    for meta in batch.meta:
        meta["heads"] = [(0, 0)]
    with pytest.raises(UserError, match=r"head 0\.0 changes the answer by .*\(and \d+ more\)"):
        check(model, batch)
