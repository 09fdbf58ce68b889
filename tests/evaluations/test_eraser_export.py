import json
from dataclasses import replace

import numpy as np
import pytest

from benchmark.errors import UserError
from benchmark.evaluations.aopc import Aopc, stored_erasure
from benchmark.evaluations.rationale.export import json_lines, predictions
from benchmark.evaluations.rationale.rationale import Rationale
from tests.evaluations import eraser_scorer
from tests.evaluations.conftest import attribution_of, figure_of
from tests.evaluations.test_rationale import runs

SHARE = 0.3
LABELS = ("NEG", "POS")
THRESHOLDS = [0.01, 0.05, 0.1, 0.2, 0.5]


@pytest.fixture(scope="module")
def annotated(reviews):
    """The reviews as annotations of one document each; one is longer than the window."""
    meta = tuple(
        {"annotation_id": f"a{uid}", "docids": (f"d{uid}",), "document_lengths": (len(words),)}
        for uid, words in zip(reviews.uids, reviews.words, strict=True)
    )
    return replace(reviews, meta=meta)


@pytest.fixture(scope="module")
def scored(annotated):
    generator = np.random.default_rng(0)
    return attribution_of(annotated, [generator.normal(size=len(words)) for words in annotated.words])


def directory(folder, batch):
    """The batch as an ERASER directory, so that its scorer can be asked."""
    (folder / "docs").mkdir(parents=True)
    lines = []
    for b, (meta, words, gold) in enumerate(zip(batch.meta, batch.words, batch.rationale, strict=True)):
        (docid,) = meta["docids"]
        (folder / "docs" / docid).write_text(" ".join(words))
        spans = [{"docid": docid, "start_token": i, "end_token": j} for i, j in runs(gold.tolist())]
        lines.append({"annotation_id": meta["annotation_id"], "classification": LABELS[b % 2], "evidences": [spans]})
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_an_independent_scorer_finds_our_numbers_in_the_export(sentiment, annotated, scored, tmp_path):
    test = Aopc().over([annotated])
    rows = predictions(
        annotated, scored, labels=LABELS, hard_share=SHARE, erasure=test.erase(sentiment, annotated, scored)
    )
    (tmp_path / "predictions.jsonl").write_text(json_lines(rows))
    found = eraser_scorer.score(tmp_path / "predictions.jsonl", directory(tmp_path / "data", annotated), "test")
    evaluation = Rationale(hard_share=SHARE)
    ours = evaluation.reduce(evaluation.rows(sentiment, annotated, scored))
    ours += test.reduce(test.rows(sentiment, annotated, scored))
    assert found["one_threshold"] == pytest.approx(found["average_precision"], abs=1e-12), "no two words share a score"
    for name in set(found) - {"token_micro", "one_threshold"}:
        assert found[name] == pytest.approx(figure_of(ours, name).value, abs=1e-12), name
    assert {"iou_f1", "hard_token_f1", "auprc", "comprehensiveness", "sufficiency_hard"} <= set(found)


def test_stored_probabilities_are_those_that_were_compared(sentiment, annotated, scored):
    test = Aopc().over([annotated])
    erasure = test.erase(sentiment, annotated, scored)
    rows = test.rows(sentiment, annotated, scored).sample(frac=1, random_state=0)
    found = stored_erasure(rows, annotated.uids, THRESHOLDS, 2)
    for name in ("whole", "without", "only", "hard"):
        assert getattr(found, name).equal(getattr(erasure, name)), name
    assert stored_erasure(rows, ("another",), THRESHOLDS, 2) is None
    assert stored_erasure(Aopc().rows(sentiment, annotated, scored), annotated.uids, THRESHOLDS, 2) is None


def test_the_truncated_tail_is_there_with_zeros(sentiment, tmp_path):
    batch = sentiment.encode([["film"] * 100], labels=[1])
    gold = np.arange(100) % 40 < 3
    meta = ({"annotation_id": "a", "docids": ("d",), "document_lengths": (100,)},)
    batch = replace(batch, meta=meta, rationale=(gold,))
    scores = attribution_of(batch, [np.random.default_rng(0).normal(size=100)])
    rows = predictions(batch, scores, labels=LABELS, hard_share=SHARE)
    (tmp_path / "p.jsonl").write_text(json_lines(rows))
    soft = rows[0]["rationales"][0]["soft_rationale_predictions"]
    assert len(soft) == 100
    assert soft[62:] == [0.0] * 38
    found = eraser_scorer.score(tmp_path / "p.jsonl", directory(tmp_path / "data", batch), "test")
    evaluation = Rationale(hard_share=SHARE)
    ours = evaluation.reduce(evaluation.rows(sentiment, batch, scores))
    assert found["auprc"] == pytest.approx(figure_of(ours, "auprc").value)
    assert found["hard_token_f1"] == pytest.approx(figure_of(ours, "hard_token_f1").value)


def test_two_documents_and_a_query(sentiment):
    batch = sentiment.encode([("was it good", "the film was dull a story")], labels=[0])
    meta = ({"annotation_id": "a", "docids": ("x", "y"), "document_lengths": (4, 2)},)
    batch = replace(batch, meta=meta, query_units=(3,))
    rows = predictions(batch, attribution_of(batch, [[9, 9, 9, 1, 2, 3, 6, 5, 4]]), labels=LABELS, hard_share=0.5)
    assert rows[0]["rationales"] == [
        {
            "docid": "x",
            "hard_rationale_predictions": [{"start_token": 3, "end_token": 4}],
            "soft_rationale_predictions": [1.0, 2.0, 3.0, 6.0],
        },
        {
            "docid": "y",
            "hard_rationale_predictions": [{"start_token": 0, "end_token": 2}],
            "soft_rationale_predictions": [5.0, 4.0],
        },
    ]
    evaluation = Rationale(hard_share=0.5)
    gold = np.array([False] * 3 + [False, False, False, True, True, False])
    rows = evaluation.rows(
        sentiment, replace(batch, rationale=(gold,)), attribution_of(batch, [[9, 9, 9, 1, 2, 3, 6, 5, 4]])
    )
    # the rationale is one span in either document, so is the prediction: the second overlaps by a half
    assert figure_of(evaluation.reduce(rows), "iou_f1").value == 1.0


def test_probabilities_without_erasure(sentiment, annotated, scored):
    probabilities = sentiment.run(annotated).probabilities
    rows = predictions(annotated, scored, labels=LABELS, hard_share=SHARE, probabilities=probabilities)
    assert "thresholded_scores" not in rows[0]
    assert rows[0]["classification"] == LABELS[int(probabilities[0].argmax())]
    assert sum(rows[0]["classification_scores"].values()) == pytest.approx(1)


def test_a_row_with_hard_predictions_comes_first():
    def row(name, *hard):
        parts = [{"docid": f"d{i}", "hard_rationale_predictions": spans} for i, spans in enumerate(hard)]
        return {"annotation_id": name, "rationales": parts}

    some = [{"start_token": 0, "end_token": 1}]
    text = json_lines([row("a", [], []), row("b", [], some), row("c", [], [])])
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["annotation_id"] for row in rows] == ["b", "a", "c"]
    assert [part["docid"] for part in rows[0]["rationales"]] == ["d1", "d0"]


def test_refusals(annotated, scored, reviews):
    rows = predictions(annotated, scored, labels=LABELS, hard_share=SHARE)
    with pytest.raises(UserError, match="a0 occurs twice"):
        json_lines([*rows, rows[0]])
    with pytest.raises(UserError, match="no annotation"):
        json_lines([])
    with pytest.raises(UserError, match="no 'annotation_id'"):
        predictions(reviews, scored, labels=LABELS, hard_share=SHARE)
    short = replace(annotated, meta=({**annotated.meta[0], "document_lengths": (3,)}, *annotated.meta[1:]))
    with pytest.raises(UserError, match=r"documents of \[3\]"):
        predictions(short, scored, labels=LABELS, hard_share=SHARE)


def test_other_thresholds_are_refused(sentiment, annotated, scored):
    erasure = Aopc(fractions=(0.1, 0.5)).erase(sentiment, annotated, scored)
    with pytest.raises(UserError, match=r"evaluations.aopc.fractions"):
        predictions(annotated, scored, labels=LABELS, hard_share=SHARE, erasure=erasure)
    erasure = Aopc().erase(sentiment, annotated, scored)
    with pytest.raises(UserError, match=r"evaluations.aopc.hard_share"):
        predictions(annotated, scored, labels=LABELS, hard_share=SHARE, erasure=erasure)
