"""The folders that the pages' commands name, filled with a handful of texts in the documented formats and tiny models."""

import json
from pathlib import Path

from tests import text_models

LABELS = {"sst2": ("NEG", "POS"), "movies": ("NEG", "POS"), "mrpc": ("not_equivalent", "equivalent"),
          "rte": ("entailment", "not_entailment"), "planted": ("negative", "positive"),
          "mine": ("LABEL_0", "LABEL_1")}  # fmt: skip
BASE = "microsoft/MiniLM-L12-H384-uncased"
TEXTS = ("the untold story was good", "the plot was dull", "a fine film , good story", "bad film !")
GLUE = {
    "SST-2": ("sentence\tlabel", ("0", "1"), "{0}\t{label}"),
    "MRPC": ("Quality\t#1 String\t#2 String", ("0", "1"), "{label}\t{0}\t{1}"),
    "RTE": ("sentence1\tsentence2\tlabel", LABELS["rte"], "{0}\t{1}\t{label}"),
}


def write(folder: Path) -> Path:
    """Everything: `reviews.csv`, `data/`, `checkpoints/` and a base model under its name of the hub."""
    rows = [f'"{text}",{("NEG", "POS")[number % 2]}' for number, text in enumerate(TEXTS)]
    (folder / "reviews.csv").write_text("\n".join(["review,sentiment", *rows, ""]), encoding="utf-8")
    for name, (header, labels, line) in GLUE.items():
        (folder / "data" / "glue" / name).mkdir(parents=True)
        pairs = enumerate(zip(TEXTS, TEXTS[::-1], strict=True))
        rows = [line.format(*pair, label=labels[number % 2]) for number, pair in pairs]
        for split in ("train", "dev"):
            (folder / "data" / "glue" / name / f"{split}.tsv").write_text("\n".join([header, *rows, ""]), "utf-8")
    for name in ("movies", "eraser_movies"):
        _write_eraser(folder / "data" / name)
    for name, labels in LABELS.items():
        text_models.save_bert(folder / "checkpoints" / name, window=160, labels=labels, layers=3)
    text_models.save_bert(folder / BASE, window=160)
    return folder


def _write_eraser(folder: Path) -> None:
    (folder / "docs").mkdir(parents=True)
    for split in ("train", "val", "test"):
        lines = []
        for number, text in enumerate(TEXTS):
            uid = f"{split}_{number}"
            (folder / "docs" / uid).write_text(text, encoding="utf-8")
            span = {"docid": uid, "start_token": 1, "end_token": 3}
            lines.append({"annotation_id": uid, "classification": ("NEG", "POS")[number % 2], "evidences": [[span]]})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
