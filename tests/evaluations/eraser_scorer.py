"""ERASER's scorer by its equations: slow and obvious, from files alone, nothing of the benchmark's in it."""

import json
import warnings
from pathlib import Path

from sklearn.metrics import auc, average_precision_score, precision_recall_curve


def lines(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def lengths(root):
    """Document -> how many tokens ERASER's loaders make of it."""
    if (root / "docs.jsonl").exists():
        return {
            line["docid"]: sum(len(part.strip().split(" ")) for part in line["document"].split("\n"))
            for line in lines(root / "docs.jsonl")
        }
    found = {}
    for path in (root / "docs").iterdir():
        with path.open(encoding="utf-8") as file:
            found[path.name] = sum(len([word for word in line.strip().split(" ") if word]) for line in file)
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def f1(precision, recall):
    return 0.0 if precision == 0 or recall == 0 else 2 * precision * recall / (precision + recall)


def by_key(triples):
    """(annotation, document) -> the set of what belongs to it."""
    found = {}
    for annotation, document, thing in triples:
        found.setdefault((annotation, document), set()).add(thing)
    return found


def overlap(a, b):
    """Intersection over union of two spans of tokens."""
    x, y = set(range(*a)), set(range(*b))
    return len(x & y) / len(x | y) if x | y else 0.0


def shares(found, keys, of):
    """For each key, which share of `of[key]` was found."""
    return [found.get(key, 0) / len(of[key]) for key in keys]


def spans_scored(truth, predicted):
    """Macro and micro F1 of spans that overlap by a half."""
    hits = {
        key: sum(max([overlap(p, t) for t in truth.get(key, ())], default=0.0) >= 0.5 for p in spans)
        for key, spans in predicted.items()
    }
    macro = f1(mean(shares(hits, predicted, predicted)), mean(shares(hits, truth, truth)))
    micro = f1(
        sum(hits.values()) / sum(map(len, predicted.values())), sum(hits.values()) / sum(map(len, truth.values()))
    )
    return macro, micro


def tokens_scored(truth, predicted):
    """Macro and micro F1 of tokens."""
    each = []
    for key in truth.keys() | predicted.keys():
        gold, chosen = truth.get(key, set()), predicted.get(key, set())
        hits = len(gold & chosen)
        each.append(f1(hits / len(chosen) if chosen else 0.0, hits / len(gold) if gold else 0.0))
    hits = sum(len(truth.get(key, set()) & chosen) for key, chosen in predicted.items())
    micro = f1(hits / sum(map(len, predicted.values())), hits / sum(map(len, truth.values())))
    return mean(each), micro


def tokens_of(spans):
    return [(annotation, document, token) for annotation, document, span in spans for token in range(*span)]


def precision_over_orders(flags, scores):
    """Average precision as a mean over all orders of equal scores, word by word; not ERASER's, which has one threshold.

    At place j of its group a rationale word finds the words above, itself, and of the others of the group those that happen
    to stand before it.
    """
    total = 0.0
    for score in set(scores):
        above = [flag for flag, other in zip(flags, scores, strict=True) if other > score]
        group = [flag for flag, other in zip(flags, scores, strict=True) if other == score]
        for j in range(len(group)):
            others = (sum(group) - 1) * j / (len(group) - 1) if len(group) > 1 else 0.0
            total += sum(group) / len(group) * (sum(above) + 1 + others) / (len(above) + j + 1)
    return total / sum(flags)


def drops(rows, entries, kind):
    """p(ŷ|x) − p(ŷ|after), for each prediction and each of its entries."""
    found = []
    for row in rows:
        name = row["classification"]
        found.append(
            [row["classification_scores"][name] - e[f"{kind}_classification_scores"][name] for e in entries(row)]
        )
    return found


def check(rows, length):
    """What the scorer verifies, and what it silently relies on."""
    assert len({row["annotation_id"] for row in rows}) == len(rows)
    assert rows[0]["rationales"][0]["hard_rationale_predictions"], "it looks here for whether there are any"
    optional = {
        "thresholded_scores", "comprehensiveness_classification_scores", "sufficiency_classification_scores",
    }  # fmt: skip
    assert len({frozenset(optional & set(row)) for row in rows}) == 1
    assert optional & set(rows[0]) in (set(), optional), "all three or none"
    for row in rows:
        assert len({document["docid"] for document in row["rationales"]}) == len(row["rationales"])
        for document in row["rationales"]:
            assert len(document["soft_rationale_predictions"]) == length[document["docid"]]
            covered = [
                t for s in document["hard_rationale_predictions"] for t in range(s["start_token"], s["end_token"])
            ]
            assert len(set(covered)) == len(covered), "spans overlap"
            assert set(covered) <= set(range(length[document["docid"]]))


def score(predictions, root, split):
    """The scorer's figures of a file of predictions, by our names.

    The split's file is cut to the annotations that were predicted; the scorer needs it to be.
    """
    rows, length = lines(predictions), lengths(root)
    check(rows, length)
    ids = {row["annotation_id"] for row in rows}
    annotations = [line for line in lines(root / f"{split}.jsonl") if line["annotation_id"] in ids]
    truth = {
        (a["annotation_id"], e["docid"], (e["start_token"], e["end_token"]))
        for a in annotations
        for group in a["evidences"]
        for e in group
    }
    predicted = {
        (row["annotation_id"], document["docid"], (span["start_token"], span["end_token"]))
        for row in rows
        for document in row["rationales"]
        for span in document["hard_rationale_predictions"]
    }
    found = dict(zip(("iou_f1", "iou_f1_micro"), spans_scored(by_key(truth), by_key(predicted)), strict=True))
    token_truth, token_predicted = by_key(tokens_of(truth)), by_key(tokens_of(predicted))
    found["hard_token_f1"], found["token_micro"] = tokens_scored(token_truth, token_predicted)
    areas, precisions, over_orders = [], [], []
    for row in rows:
        for document in row["rationales"]:
            gold = token_truth.get((row["annotation_id"], document["docid"]), set())
            flags = [int(t in gold) for t in range(length[document["docid"]])]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # no token of a document may be evidence
                precision, recall, _ = precision_recall_curve(flags, document["soft_rationale_predictions"])
            areas.append(auc(recall, precision))
            if len(set(flags)) == 2:
                precisions.append(average_precision_score(flags, document["soft_rationale_predictions"]))
                over_orders.append(precision_over_orders(flags, document["soft_rationale_predictions"]))
    found |= {"auprc": mean(areas), "one_threshold": mean(precisions), "average_precision": mean(over_orders)}
    if "thresholded_scores" in rows[0]:
        for kind in ("comprehensiveness", "sufficiency"):
            at = drops(rows, lambda row: row["thresholded_scores"], kind)
            assert [e["threshold"] for e in rows[0]["thresholded_scores"]] == [0.01, 0.05, 0.1, 0.2, 0.5]
            found[kind] = mean(value for values in at for value in values)
            found[f"{kind}_hard"] = mean(value for (value,) in drops(rows, lambda row: [row], kind))
    return found
