"""A comparison on an ERASER directory leaves predictions that ERASER's scorer can read."""

import json

import pytest

from benchmark.runner import compare
from tests.text_models import save_bert

WORDS = [
    "the",
    "film",
    "was",
    "a",
    "fine",
    "piece",
    "of",
    "work",
    "and",
    "the",
    "songs",
    "were",
    "dull",
    "but",
    "short",
]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    (folder / "docs").mkdir(parents=True)
    for split in ("train", "val", "test"):
        lines = []
        for number in range(4):
            docid = f"{split}_{number}"
            (folder / "docs" / docid).write_text(" ".join(WORDS[number:]) + "\n", encoding="utf-8")
            span = {"docid": docid, "start_token": 1, "end_token": 3, "text": " ".join(WORDS[number + 1 : number + 3])}
            span |= {"start_sentence": 0, "end_sentence": 1}
            label = ("NEG", "POS")[number % 2]
            lines.append({"annotation_id": docid, "classification": label, "evidences": [[span]], "query": "Which?"})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def test_predictions_of_every_annotation(root, tmp_path):
    checkpoint = save_bert(tmp_path / "bert", labels=("neg", "pos"))
    comparison = compare(
        "task=eraser", f"task.root={root}", "model=hf", f"model.path={checkpoint}", "methods=[random]",
        "evaluations=[rationale]", "tracking=none", f"out={tmp_path / 'runs'}",
    )  # fmt: skip
    text = (comparison.cells[0] / "eraser_predictions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert sorted(row["annotation_id"] for row in rows) == [f"test_{number}" for number in range(4)]
    for row in rows:
        number = int(row["annotation_id"][-1])
        (document,) = row["rationales"]
        assert len(document["soft_rationale_predictions"]) == len(WORDS) - number
        assert document["hard_rationale_predictions"]
        assert row["classification"] in ("NEG", "POS")
        assert sum(row["classification_scores"].values()) == pytest.approx(1)
