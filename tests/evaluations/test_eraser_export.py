import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve

from benchmark.errors import UserError
from benchmark.evaluations.aopc import Aopc
from benchmark.evaluations.eraser_export import export, predictions
from benchmark.evaluations.rationale import Rationale
from tests.evaluations.conftest import attribution_of, figure_of

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


def truth_of(batch):
    """Annotation id and document → evidence spans, document → number of tokens."""
    evidence = {}
    for meta, flags in zip(batch.meta, batch.rationale, strict=True):
        start = 0
        for docid, length in zip(meta["docids"], meta["document_lengths"], strict=True):
            here = flags[start : start + length]
            found, open_at = [], None
            for i, flag in enumerate([*here, False]):
                if flag and open_at is None:
                    open_at = i
                if not flag and open_at is not None:
                    found.append((open_at, i))
                    open_at = None
            evidence[meta["annotation_id"], docid] = found, length
            start += length
    return evidence


def scorer(path, evidence):
    """ERASER's rules, transcribed: hard spans at IOU 0.5, token-level F1, AUPRC, AOPC."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["annotation_id"] for row in rows}) == len(rows)
    assert rows[0]["rationales"][0]["hard_rationale_predictions"], "the scorer looks in the first row"
    matched, precision, recall, f1, areas, drops = {}, [], [], [], [], {"comprehensiveness": [], "sufficiency": []}
    for row in rows:
        for document in row["rationales"]:
            key = row["annotation_id"], document["docid"]
            gold, length = evidence[key]
            soft = document["soft_rationale_predictions"]
            assert len(soft) == length
            hard = [(s["start_token"], s["end_token"]) for s in document["hard_rationale_predictions"]]
            assert all(0 <= a < b <= length for a, b in hard)
            assert all(hard[i][1] <= hard[i + 1][0] for i in range(len(hard) - 1)), "spans overlap"
            tokens = {t for a, b in gold for t in range(a, b)}
            chosen = {t for a, b in hard for t in range(a, b)}
            if gold:
                best = [
                    max(len({*range(*h)} & {*range(*g)}) / len({*range(*h)} | {*range(*g)}) for g in gold) for h in hard
                ]
                matched[key] = sum(value >= 0.5 for value in best)
                precision.append(matched[key] / len(hard))
                recall.append(matched[key] / len(gold))
                hits = len(tokens & chosen)
                p, r = hits / len(chosen), hits / len(tokens)
                f1.append(2 * p * r / (p + r) if hits else 0.0)
                curve = precision_recall_curve([t in tokens for t in range(length)], soft)
                areas.append(auc(curve[1], curve[0]))
        if "thresholded_scores" in row:
            name = row["classification"]
            assert row["classification_scores"][name] == max(row["classification_scores"].values())
            assert [entry["threshold"] for entry in row["thresholded_scores"]] == THRESHOLDS
            for kind, found in drops.items():
                for entry in row["thresholded_scores"]:
                    after = entry[f"{kind}_classification_scores"]
                    assert sum(after.values()) == pytest.approx(1, abs=1e-12)
                    found.append(row["classification_scores"][name] - after[name])
    p, r = np.mean(precision), np.mean(recall)
    return {
        "iou_f1": 2 * p * r / (p + r) if p + r else 0.0,
        "token_f1": np.mean(f1),
        "auprc": np.mean(areas),
        **{kind: np.mean(found) for kind, found in drops.items() if found},
    }


def test_an_independent_scorer_finds_our_numbers_in_the_export(sentiment, annotated, scored, tmp_path):
    erasure = Aopc().erase(sentiment, annotated, scored)
    rows = predictions(annotated, scored, labels=LABELS, hard_share=SHARE, erasure=erasure)
    export(tmp_path / "predictions.jsonl", rows)
    found = scorer(tmp_path / "predictions.jsonl", truth_of(annotated))
    evaluation = Rationale(hard_share=SHARE)
    ours = evaluation.reduce(evaluation.rows(sentiment, annotated, scored))
    for theirs, name in (("iou_f1", "iou_f1"), ("token_f1", "hard_token_f1"), ("auprc", "auprc")):
        assert found[theirs] == pytest.approx(figure_of(ours, name).value, abs=1e-12)
    faithful = Aopc().reduce(Aopc().rows(sentiment, annotated, scored))
    for name in ("comprehensiveness", "sufficiency"):
        assert found[name] == pytest.approx(figure_of(faithful, name).value, abs=1e-12)


def test_the_truncated_tail_is_there_with_zeros(sentiment, tmp_path):
    batch = sentiment.encode([["film"] * 100], labels=[1])
    gold = np.arange(100) % 40 < 3
    meta = ({"annotation_id": "a", "docids": ("d",), "document_lengths": (100,)},)
    batch = replace(batch, meta=meta, rationale=(gold,))
    scores = attribution_of(batch, [np.random.default_rng(0).normal(size=100)])
    rows = predictions(batch, scores, labels=LABELS, hard_share=SHARE)
    export(tmp_path / "p.jsonl", rows)
    soft = rows[0]["rationales"][0]["soft_rationale_predictions"]
    assert len(soft) == 100
    assert soft[62:] == [0.0] * 38
    found = scorer(tmp_path / "p.jsonl", truth_of(batch))
    evaluation = Rationale(hard_share=SHARE)
    ours = evaluation.reduce(evaluation.rows(sentiment, batch, scores))
    assert found["auprc"] == pytest.approx(figure_of(ours, "auprc").value)
    assert found["token_f1"] == pytest.approx(figure_of(ours, "hard_token_f1").value)


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


def test_a_row_with_hard_predictions_comes_first(tmp_path):
    def row(name, hard):
        return {"annotation_id": name, "rationales": [{"docid": "d", "hard_rationale_predictions": hard}]}

    export(tmp_path / "p.jsonl", [row("a", []), row("b", [{"start_token": 0, "end_token": 1}]), row("c", [])])
    names = [json.loads(line)["annotation_id"] for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert names == ["b", "a", "c"]


def test_refusals(annotated, scored, reviews, tmp_path):
    rows = predictions(annotated, scored, labels=LABELS, hard_share=SHARE)
    with pytest.raises(UserError, match="a0 occurs twice"):
        export(tmp_path / "p.jsonl", [*rows, rows[0]])
    with pytest.raises(UserError, match="no annotation"):
        export(tmp_path / "p.jsonl", [])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="no 'annotation_id'"):
        predictions(reviews, scored, labels=LABELS, hard_share=SHARE)
    short = replace(annotated, meta=({**annotated.meta[0], "document_lengths": (3,)}, *annotated.meta[1:]))
    with pytest.raises(UserError, match=r"documents of \[3\]"):
        predictions(short, scored, labels=LABELS, hard_share=SHARE)


def test_nothing_is_left_where_writing_fails(annotated, scored, tmp_path):
    rows = predictions(annotated, scored, labels=LABELS, hard_share=SHARE)
    rows[1]["classification"] = object()
    with pytest.raises(TypeError):
        export(tmp_path / "p.jsonl", rows)
    assert list(tmp_path.iterdir()) == []


def test_other_thresholds_are_refused(sentiment, annotated, scored):
    erasure = Aopc(fractions=(0.1, 0.5)).erase(sentiment, annotated, scored)
    with pytest.raises(UserError, match=r"evaluations.aopc.fractions"):
        predictions(annotated, scored, labels=LABELS, hard_share=SHARE, erasure=erasure)
