"""A comparison on an ERASER directory leaves predictions from which ERASER's scorer finds the comparison's own figures."""

import json
from collections import Counter

import pytest

from benchmark.comparison import compare
from benchmark.results import store
from tests.conftest import shared
from tests.evaluations import eraser_scorer
from tests.text_models import save_bert

WORDS = (
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
)
FIGURES = ("auprc", "average_precision", "iou_f1", "iou_f1_micro", "hard_token_f1")


def span(docid, start, end):
    where = {"docid": docid, "start_token": start, "end_token": end}
    return where | {"start_sentence": -1, "end_sentence": -1, "text": ""}


def one_document(folder):
    """Reviews of one document each, of different lengths; some spans touch, some are empty or annotated twice."""
    (folder / "docs").mkdir(parents=True)
    for split in ("train", "val", "test"):
        lines = []
        for number in range(6):
            docid = f"{split}_{number}"
            words = [*WORDS[number:], "\tplain\xa0words ", *WORDS[: number + 2]]
            (folder / "docs" / docid).write_text(" ".join(words[:7]) + "\n \n" + " ".join(words[7:]) + "\n")
            groups = [
                [span(docid, 1, 3), span(docid, 3, 5)],
                [span(docid, 3, 5), span(docid, 8, 8)],
                [span(docid, 9, 13)],
            ]
            line = {"annotation_id": docid, "classification": ("NEG", "POS")[number % 2], "query": "Which?"}
            line["evidences"] = groups[: 1 + number % 3]
            lines.append(line)
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def several_documents(folder):
    """Pairs of documents, as e-SNLI's; evidence stands in both, in either, or in none; some lie beyond the window."""
    folder.mkdir(parents=True)
    documents, splits = [], {}
    for split in ("train", "val", "test"):
        splits[split] = lines = []
        for number in range(8):
            first, second = (f"{split}_{number}_{part}" for part in ("premise", "hypothesis"))
            documents.append({"docid": first, "document": " ".join([*WORDS[number:]] * (1 + number % 4))})
            documents.append({"docid": second, "document": " ".join(WORDS[: 3 + number]) + "\nso  it goes"})
            evidences = [
                [[span(first, 0, 2), span(second, 1, 3)]],
                [[span(first, 2, 4)], [span(first, 4, 6), span(first, 3, 5)]],
                [[span(second, 0, 3)]],
                [],
            ][number % 4]
            line = {"annotation_id": f"{split}_{number}", "classification": ("NEG", "POS")[number % 2]}
            lines.append(line | {"evidences": evidences, "docids": [first, second], "query": f"Is it {number} ?"})
    (folder / "docs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in documents), encoding="utf-8")
    for split, lines in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("model") / "bert", labels=("neg", "pos"))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No pictures: they are tested with the report."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


def run(root, checkpoint, out, *more):
    given = {text.partition("=")[0] for text in more}
    defaults = ["methods=[random]", "evaluations=[rationale,aopc]", "batch_size=3"]
    comparison = compare(
        "task=eraser", f"task.root={root}", "model=hf", f"model.path={checkpoint}", "tracking=none", f"out={out}",
        *(text for text in defaults if text.partition("=")[0] not in given), *more,
    )  # fmt: skip
    return comparison.cells[0]


def figures(cell, evaluation):
    stored = store.read_json(cell / "record.json")["evaluations"][evaluation]["figures"]
    return {figure["metric"]: figure["value"] for figure in stored if figure["x"] is None}


def agree(cell, root, split="test", names=FIGURES):
    """The figures that ERASER's scorer finds are those of the record; returns both.

    Its average precision takes the words beyond the window, which have one score, as one threshold, where ours is the mean
    over their orders; the two are one where all words lie within the window.
    """
    found = eraser_scorer.score(cell / "eraser_predictions.jsonl", root, split)
    ours = figures(cell, "rationale")
    assert {name: found[name] for name in names} == pytest.approx({name: ours[name] for name in names}, abs=1e-12)
    if ours["coverage"] == 1 and names == FIGURES:
        assert found["one_threshold"] == pytest.approx(found["average_precision"], abs=1e-12)
    if "comprehensiveness" in found:
        erased = figures(cell, "aopc")
        assert {name: found[name] for name in erased} == pytest.approx(erased, abs=1e-12)
    return found, ours


@pytest.mark.parametrize("make", [one_document, several_documents])
def test_the_scorer_finds_the_figures_of_the_comparison(make, checkpoint, tmp_path):
    root = make(tmp_path / "data")
    found, ours = agree(run(root, checkpoint, tmp_path / "runs"), root)
    assert "comprehensiveness" in found
    assert 0 < ours["iou_f1"] < 1
    assert 0 < ours["hard_token_f1"] < 1


def test_documents_without_evidence_are_counted_and_told(checkpoint, tmp_path):
    root = several_documents(tmp_path / "data")
    _, ours = agree(run(root, checkpoint, tmp_path / "runs", "methods=[oracle]"), root, names=("auprc",))
    assert (ours["documents"], ours["unmarked_documents"]) == (2, 8 / 16)
    assert 1 / 2 < ours["auprc_marked"] <= 1
    assert ours["auprc"] == pytest.approx((ours["auprc_marked"] + 1 / 2) / 2)


def test_the_export_follows_the_settings_of_the_evaluation(checkpoint, tmp_path):
    root = one_document(tmp_path / "data")
    settings = [f"evaluations.rationale.{text}" for text in ("pool=sum", "clamp=true", "seed=5", "target=label")]
    usual, other = run(root, checkpoint, tmp_path / "a"), run(root, checkpoint, tmp_path / "b", *settings)
    assert agree(usual, root) != agree(other, root)
    first, second = (eraser_scorer.lines(cell / "eraser_predictions.jsonl") for cell in (usual, other))
    soft = [[row["rationales"][0]["soft_rationale_predictions"] for row in rows] for rows in (first, second)]
    assert soft[0] != soft[1]


def test_the_selection_takes_the_exact_mean_share(checkpoint, tmp_path):
    root = one_document(tmp_path / "data")
    cell = run(root, checkpoint, tmp_path / "runs", "batch_size=2")
    rows = eraser_scorer.lines(cell / "eraser_predictions.jsonl")
    length = eraser_scorer.lengths(root)
    annotations = eraser_scorer.lines(root / "test.jsonl")
    shares = []
    for annotation in annotations:
        evidence = [e for group in annotation["evidences"] for e in group]
        marked = {t for e in evidence for t in range(e["start_token"], e["end_token"])}
        shares.append(len(marked) / length[annotation["annotation_id"]])
    share = sum(shares) / len(shares)
    assert figures(cell, "rationale")["hard_share"] == pytest.approx(share, abs=1e-15)
    for row in rows:
        (document,) = row["rationales"]
        selected = sum(s["end_token"] - s["start_token"] for s in document["hard_rationale_predictions"])
        assert selected == -int(-share * length[document["docid"]] // 1)


def test_probabilities_after_removal_come_with_whichever_test_is_run_last(checkpoint, tmp_path):
    root = one_document(tmp_path / "data")
    cell = run(root, checkpoint, tmp_path / "runs", "evaluations=[rationale]")
    assert "comprehensiveness" not in agree(cell, root)[0]
    assert run(root, checkpoint, tmp_path / "runs", "evaluations=[aopc]") == cell
    assert "comprehensiveness" in agree(cell, root)[0]
    again = run(root, checkpoint, tmp_path / "other", "evaluations=[aopc]")
    assert not (again / "eraser_predictions.jsonl").exists()
    run(root, checkpoint, tmp_path / "other", "evaluations=[rationale]")
    assert "comprehensiveness" in agree(again, root)[0]


def test_other_shares_are_no_thresholds_of_the_scorer(checkpoint, tmp_path):
    root = one_document(tmp_path / "data")
    cell = run(root, checkpoint, tmp_path / "runs", "evaluations.aopc.fractions=[.1,.3]")
    assert "comprehensiveness" not in agree(cell, root)[0]


@pytest.mark.parametrize(("data", "split", "labels"), [
    ("eraser_movies", "test", "[NEG,POS]"), ("eraser_multirc", "val", "['False','True']"),
])  # fmt: skip
def test_published_data_sets(data, split, labels, tmp_path):
    root = shared(f"data/{data}")
    names = [name.strip("'") for name in labels.strip("[]").split(",")]
    checkpoint = save_bert(tmp_path / "bert", labels=names)
    name = {"val": "validation"}.get(split, split)
    cell = run(root, checkpoint, tmp_path / "runs", f"task.label_names={labels}", f"split={name}", "limit=12")
    agree(cell, root, split)
    ids = {row["annotation_id"] for row in eraser_scorer.lines(cell / "eraser_predictions.jsonl")}
    spans = Counter(
        (line["annotation_id"], e["docid"], e["start_token"], e["end_token"])
        for line in eraser_scorer.lines(root / f"{split}.jsonl")
        for group in line["evidences"]
        for e in group
        if line["annotation_id"] in ids
    )
    rows = store.read_rows(cell)
    assert rows.loc[rows["metric"] == "iou_gold", "value"].sum() == len(spans)
