"""What `construction=script` may be told otherwise, and what it can not read."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.triggers.patterns import Placed, Trigger, read, read_construction, read_variations, written
from benchmark.evaluations.triggers.script import (
    ScriptRule,
    encode_pieces,
    extract_as_script,
    insert_pieces,
    patterns_of_cells,
)
from benchmark.evaluations.triggers.triggers import Triggers
from benchmark.evaluations.triggers.words import Exclusion, count_pieces
from benchmark.settings.configuration import compose
from benchmark.types import Attribution, Method
from tests.evaluations.triggers.texts import labelled

TEXT = "the untoldly film was dull, bad"  # [CLS] the un ##told ##ly film was dull , bad [SEP]
CLS, THE, UN, TOLD, LY, FILM, WAS, DULL, COMMA, BAD, SEP = range(11)


def read_off(model, cells, rule=None):
    batch = model.encode([TEXT])
    edges = torch.zeros(1, 2, 2, 11, 11, dtype=torch.float64)
    for (query, key), score in cells.items():
        edges[0, 1, 0, query, key] = score
    found = patterns_of_cells(model, batch, edges, torch.tensor([0]), rule or ScriptRule())
    return [([word.word for word in pattern.words], pytest.approx(pattern.score)) for pattern in found]


def test_what_counts_can_be_narrowed(bert):
    cells = {(CLS, SEP): 0.9, (COMMA, BAD): 0.8, (UN, LY): 0.7, (FILM, WAS): 0.6, (DULL, DULL): 0.5, (THE, CLS): 0.85}
    for rule, words, score in (
        (ScriptRule(), ["the"], 1.75),
        (ScriptRule(skip_special=True), ["un", "##ly", ",", "bad"], 1.5),
        (ScriptRule(skip_special=True, exclusion=Exclusion()), ["un", "##ly", "film", "was"], 1.3),
        (ScriptRule(skip_special=True, exclusion=Exclusion(frozenset({"untoldly"}))), ["film", "was", "dull"], 1.1),
        (ScriptRule(exclusion=Exclusion(frozenset({"the", "bad"}), punctuation=False)), ["un", "##ly"], 1.6),
        (ScriptRule(cells=1), [], 0.9),
        (ScriptRule(cells=3), ["the", ",", "bad"], 2.55),
        (ScriptRule(score="mean"), ["the"], 1.75 / 3),
        (ScriptRule(score="mean", skip_special=True), ["un", "##ly", ",", "bad"], 1.5 / 4),
    ):
        assert read_off(bert, cells, rule) == [(words, score)]


def test_a_small_second_cell_is_summed_and_not_inserted(bert):
    cells = {(FILM, BAD): 0.25, (WAS, DULL): 0.05}
    assert read_off(bert, cells) == [(["film", "was", "dull", "bad"], 0.3)]
    cells[WAS, DULL] = 0.0499
    assert read_off(bert, cells) == [(["film", "bad"], 0.2999)]
    assert read_off(bert, cells, ScriptRule(cell_share=0)) == [(["film", "was", "dull", "bad"], 0.2999)]
    cells[WAS, DULL] = 0.1
    assert read_off(bert, cells, ScriptRule(cell_share=0.5)) == [(["film", "bad"], 0.35)]


def test_patterns_below_the_least_score_are_left_out(bert):
    cells = {(FILM, BAD): 0.015, (WAS, DULL): 0.005}
    assert read_off(bert, cells) == [(["film", "was", "dull", "bad"], 0.02)]
    cells[WAS, DULL] = 0.0049
    assert read_off(bert, cells) == []
    assert read_off(bert, cells, ScriptRule(score="mean", least_score=0.019)) == [
        (["film", "was", "dull", "bad"], 0.0199 / 4)
    ]
    assert read_off(bert, {}, ScriptRule(least_score=0)) == []
    assert read_off(bert, {(FILM, BAD): float("nan"), (WAS, DULL): 0.1}) == [(["was", "dull"], 0.1)]


def test_of_equal_cells_the_last(bert):
    assert read_off(bert, {(FILM, BAD): 0.1, (WAS, DULL): 0.1, (THE, FILM): 0.1}) == [
        (["film", "was", "dull", "bad"], 0.2)
    ]


@dataclass(frozen=True)
class ByTarget(Method):
    """Every cell of class c scores `scores[c]`, a little less for each further word of the example."""

    scores: tuple[float, float] = (1.0, 1.0)
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        return Attribution(target=target, tokens=torch.ones(batch.units.shape))

    def edge_scores(self, model, batch, target):
        score = torch.tensor(self.scores, dtype=torch.float64)[target.classes] - 0.01 * batch.n_units
        width = batch.units.shape[1]
        return score[:, None, None, None, None].expand(-1, 2, 2, width, width)


@dataclass(frozen=True)
class NoEdges(Method):
    """Scores tokens only."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        return Attribution(target=target, tokens=torch.ones(batch.units.shape))


def test_sources_are_explained_for_the_prediction_right_or_wrong(bert):
    batch = labelled(bert, wrong=range(6))
    (found,) = extract_as_script(bert, ByTarget(), [batch], ScriptRule(triggers=9))
    assert {trigger.uid for trigger in found} == set(batch.uids)
    assert [trigger.score for trigger in found] == sorted((trigger.score for trigger in found), reverse=True)
    predicted = dict(zip(batch.uids, model_labels(bert, bert.predict(batch)), strict=True))
    assert {trigger.uid: trigger.source for trigger in found} == predicted
    (found,) = extract_as_script(bert, ByTarget(), [batch], ScriptRule(triggers=9, target="label"))
    annotated = dict(zip(batch.uids, model_labels(bert, batch.label), strict=True))
    assert {trigger.uid: trigger.source for trigger in found} == annotated
    unlabelled = replace(batch, label=torch.full_like(batch.label, -1))
    assert len(extract_as_script(bert, ByTarget(), [unlabelled], ScriptRule(triggers=9))[0]) == 6
    with pytest.raises(NotApplicable, match="no trigger"):
        extract_as_script(bert, ByTarget(), [unlabelled], ScriptRule(target="label"))


def model_labels(model, indices):
    return [model.labels[index] for index in indices.tolist()]


def test_the_best_of_each_class_in_one_ranking(bert):
    batch = labelled(bert)
    (whole,) = extract_as_script(bert, ByTarget((0.5, 1.0)), [batch], ScriptRule(triggers=9))
    (few,) = extract_as_script(bert, ByTarget((0.5, 1.0)), [batch], ScriptRule(triggers=2))
    assert [trigger.source for trigger in few] == [bert.labels[1]] * 2 + [bert.labels[0]] * 2
    assert few == [t for name in reversed(bert.labels) for t in [t for t in whole if t.source == name][:2]]
    (poor,) = extract_as_script(bert, ByTarget((0.01, 1.0)), [batch], ScriptRule())
    assert {trigger.source for trigger in poor} == {bert.labels[1]}
    parts = [batch.select([0, 1, 2]), batch.select([3, 4, 5])]
    assert extract_as_script(bert, ByTarget((0.5, 1.0)), parts, ScriptRule(triggers=2)) == [few]


def test_short_texts_are_left_out_by_either_construction(bert):
    batch = labelled(bert)
    tokens = dict(zip(batch.uids, batch.attention_mask.sum(1).tolist(), strict=True))
    (found,) = extract_as_script(bert, ByTarget(), [batch], ScriptRule(triggers=9, least_tokens=9))
    assert {trigger.uid for trigger in found} == {uid for uid, n in tokens.items() if n >= 9} != set(batch.uids)
    artifact = Triggers(triggers=9, least_tokens=9, min_words=2).extract(bert, ByTarget(), [batch])
    assert all(tokens[trigger.uid] >= 9 for trigger in read(artifact, "file"))
    with pytest.raises(NotApplicable, match="has 5 words and 99 tokens"):
        Triggers(least_tokens=99).extract(bert, ByTarget(), [batch])
    with pytest.raises(NotApplicable, match=r"99 tokens or more has cells that sum to 0\.02"):
        Triggers(construction="script", least_tokens=99).extract(bert, ByTarget(), [batch])


def test_one_cell_may_be_too_little_where_two_are_enough(bert):
    batch = labelled(bert)
    evaluation = Triggers(construction="script", triggers=9)
    artifact = evaluation.extract(bert, ByTarget((0.075, 0.075)), [batch.select([0, 1, 4])])  # six words each
    assert [t.score for t in read(artifact, "file")] == pytest.approx([0.03] * 3)
    curve = {x: len(found) for x, found in read_variations(artifact)["drop_of_pairs"]}
    assert curve == {1.0: 0, 2.0: 3}
    rows = evaluation.restored(artifact).rows(bert, batch, Attribution(target=batch.label))
    assert set(rows[rows.metric == "drop_of_pairs"].x) == {2.0}


def test_tokens_alone_are_no_cells(bert):
    with pytest.raises(NotApplicable, match="scores no edges, which construction=script reads"):
        Triggers(construction="script").extract(bert, NoEdges(), [labelled(bert)])


def test_controls_are_word_pieces_too_and_the_file_tells_how_to_insert(bert, gpt2, tmp_path):
    batch = labelled(bert)
    evaluation = Triggers(construction="script")
    artifact = json.loads(json.dumps(evaluation.extract(bert, ByTarget(), [batch])))
    assert read_construction(artifact) == "script"
    triggers = read(artifact, "file")
    said = {word for t in triggers for kind in (t.random, t.matched) for words in kind for word in words}
    assert said <= set(count_pieces(bert, [batch], Exclusion(punctuation=False)))
    path = tmp_path / "triggers-0.json"
    path.write_text(json.dumps(artifact))
    whole = evaluation.restored(artifact).rows(bert, batch, Attribution(target=batch.label))
    elsewhere = Triggers(file=str(path))
    rows = elsewhere.restored(elsewhere.extract(bert, NoEdges(), [])).rows(bert, batch, Attribution(target=batch.label))
    assert rows.equals(whole)
    with pytest.raises(NotApplicable, match="no word piece"):
        encode_pieces(gpt2, triggers)


def test_pieces_are_counted_as_they_are_spelled(bert):
    batch = bert.encode(["a untold film, a plot"])
    assert count_pieces(bert, [batch], Exclusion(punctuation=False)) == Counter(
        {"a": 2, "un": 1, "##told": 1, "film": 1, ",": 1, "plot": 1}
    )
    assert "," not in count_pieces(bert, [batch], Exclusion())


def trigger(*words):
    return Trigger(words, source="good", attacks=("bad", "good"), score=1.0)


def test_a_trigger_without_a_piece_inserts_nothing(bert):
    batch = bert.encode(["a plot", "the film was bad"])
    found = insert_pieces(bert, batch.tensors, batch.units, encode_pieces(bert, [trigger()] * 2)).tensors
    for name, tensor in batch.tensors.items():
        assert torch.equal(found[name], tensor)
    artifact = json.loads(json.dumps(written([trigger()], bert, construction="script")))
    assert read(artifact, "file") == (trigger(),)
    with pytest.raises(UserError, match="no words"):
        read(artifact | {"construction": "paper"}, "file")
    with pytest.raises(UserError, match="construction=other is unknown"):
        read(artifact | {"construction": "other"}, "file")


def test_pieces_fall_out_of_a_full_window(bert):
    text = " ".join(["the", "film"] * 11)
    batch = bert.encode([text])
    one = encode_pieces(bert, [trigger(Placed("bad", 0, 0.5), Placed("good", 0, 1.0))])
    found = insert_pieces(bert, batch.tensors, batch.units, one).tensors
    tokens = bert.tokenizer.convert_ids_to_tokens(found["input_ids"][0].tolist())
    expected = [*text.split()[:12], "bad", *text.split()[12:]]
    assert tokens == ["[CLS]", *expected[: bert.window - 2], "[SEP]"]


def test_byte_level_pieces(gpt2):
    batch = gpt2.encode(["the plot was dull"], labels=[0])
    edges = torch.zeros(1, 1, 1, batch.units.shape[1], batch.units.shape[1])
    edges[..., 0, -1] = 1.0
    (pattern,) = patterns_of_cells(gpt2, batch, edges, torch.tensor([0]), ScriptRule())
    names = gpt2.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0].tolist())
    assert [word.word for word in pattern.words] == [names[0], names[-1]]
    assert [word.position for word in pattern.words] == [1 / len(names), 1.0]
    found = insert_pieces(gpt2, batch.tensors, batch.units, encode_pieces(gpt2, [trigger(*pattern.words)])).tensors
    assert sorted(found["input_ids"][0].tolist()) == sorted(
        [*batch.tensors["input_ids"][0].tolist(), *gpt2.tokenizer.convert_tokens_to_ids([names[0], names[-1]])]
    )


def test_settings():
    for settings, message in (
        (
            {"construction": "script", "tau": 0.5},
            "tau=0.5: allowed are null alone, as construction=script does not read it",
        ),
        ({"construction": "script", "min_words": 3}, "min_words=3: allowed are 5 alone, as construction=script"),
        ({"cell_share": 0}, "cell_share=0: allowed are 0.2 alone"),
        ({"construction": "script", "cell_share": 1.5}, r"cell_share=1\.5"),
        ({"construction": "script", "least_score": -1}, "least_score=-1"),
        ({"least_tokens": -1}, "least_tokens=-1"),
        ({"skip_special": False}, "skip_special=false: allowed are null and true"),
    ):
        with pytest.raises(UserError, match=message):
            Triggers(**settings)
    assert Triggers(skip_special=True, skip_punctuation=False).construction == "paper"


def test_the_experiment_on_sst2_leaves_sentiment_words_and_short_texts_out():
    folders = [f"{key}=none" for key in ("glue", "movies")]
    folders += [f"checkpoints.{task}=none" for task in ("sst2", "mrpc", "rte", "movies")]
    tests = compose("config", ["+experiment=hao2021_glue", *folders]).evaluations
    assert (tests.triggers.lexicon, tests.triggers.least_tokens) == ("sentiment", 15)
    for test in (
        tests.triggers,
        tests.triggers_script,
        compose("config", ["+experiment=hao2021"]).evaluations.triggers,
    ):
        assert (test.score, test.calibration.limit) == ("mean", 3000), "as the paper has them"
