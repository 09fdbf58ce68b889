"""The folders that the pages' commands name, filled with a handful of texts in the documented formats and tiny models."""

import json
from pathlib import Path

from PIL import Image
from transformers import (
    AutoTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tasks.opensesame_grammar import AGREEMENT, REFLEXIVE
from tests import text_models

LABELS = {"sst2": ("NEG", "POS"), "movies": ("NEG", "POS"), "mrpc": ("not_equivalent", "equivalent"),
          "rte": ("entailment", "not_entailment"), "planted": ("negative", "positive"),
          "mine": ("LABEL_0", "LABEL_1"), "base": ("NEG", "POS"), "multirc": ("NEG", "POS"),
          "dream": ("wrong", "right")}  # fmt: skip
BASE = "nreimers/MiniLM-L6-H384-uncased"
IMAGE_BASE = "google/vit-base-patch16-224"
CLASSIFIER = "distilbert/distilbert-base-uncased-finetuned-sst-2-english"
TEXTS = ("the untold story was good", "the plot was dull", "a fine film , good story", "bad film !")
GLUE = {
    "SST-2": ("sentence\tlabel", ("0", "1"), "{0}\t{label}"),
    "MRPC": ("Quality\t#1 String\t#2 String", ("0", "1"), "{label}\t{0}\t{1}"),
    "RTE": ("sentence1\tsentence2\tlabel", LABELS["rte"], "{0}\t{1}\t{label}"),
}


def write(folder: Path) -> Path:
    """Everything: `reviews.csv`, `data/`, `checkpoints/` and base models under their names of the hub."""
    rows = [f'"{text}",{("NEG", "POS")[number % 2]}' for number, text in enumerate(TEXTS)]
    (folder / "reviews.csv").write_text("\n".join(["review,sentiment", *rows, ""]), encoding="utf-8")
    for name, (header, labels, line) in GLUE.items():
        (folder / "data" / "glue" / name).mkdir(parents=True)
        pairs = enumerate(zip(TEXTS, TEXTS[::-1], strict=True))
        rows = [line.format(*pair, label=labels[number % 2]) for number, pair in pairs]
        for split in ("train", "dev"):
            (folder / "data" / "glue" / name / f"{split}.tsv").write_text("\n".join([header, *rows, ""]), "utf-8")
    for name in ("movies", "eraser_movies", "eraser_multirc"):
        _write_eraser(folder / "data" / name)
    for name, labels in LABELS.items():
        window = 288 if name == "multirc" else 160
        text_models.save_bert(folder / "checkpoints" / name, window=window, labels=labels, layers=3)
    _write_linguistics(folder / "data")
    _write_questions(folder / "data" / "cose")
    text_models.save_bert(folder / BASE, window=160)
    _write_classifier(folder / CLASSIFIER, folder / BASE)
    _write_language_model(folder / "checkpoints" / "lm", folder / BASE)
    _write_images(folder)
    return folder


def _write_classifier(folder: Path, tokenizer: Path) -> None:
    """A DistilBERT whose classes have the names of the one on the hub."""
    words = AutoTokenizer.from_pretrained(tokenizer)
    names = {0: "NEGATIVE", 1: "POSITIVE"}
    sizes = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 8, "max_position_embeddings": 160}
    config = DistilBertConfig(vocab_size=len(words), **sizes, id2label=names, label2id={n: i for i, n in names.items()})
    DistilBertForSequenceClassification(config).save_pretrained(folder)
    words.save_pretrained(folder)


def _write_language_model(folder: Path, tokenizer: Path) -> None:
    """A Llama of three layers."""
    words = AutoTokenizer.from_pretrained(tokenizer)
    sizes = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes, max_position_embeddings=160)).save_pretrained(folder)
    words.save_pretrained(folder)


def _write_linguistics(data: Path) -> None:
    """A treebank, the stimuli of Open Sesame, and a dialogue with a question in DREAM's format."""
    treebank, stimuli, dream = (data / name for name in ("ud_english_ewt", "opensesame", "dream"))
    kinds = ("agr", "refl", "aux", "sbjn", "sbjn-join", "nth")
    for folder in (treebank, dream, *(stimuli / f"data_{name}" for name in kinds)):
        folder.mkdir(parents=True)
    words = enumerate(zip(("good", "story", "shines"), (2, 3, 0), ("amod", "nsubj", "root"), strict=True), 1)
    rows = [f"{n}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_" for n, (word, head, relation) in words]
    for split in ("dev", "test"):
        (treebank / f"en_ewt-ud-{split}.conllu").write_text("\n".join([*rows, "", *rows, ""]), "utf-8")
        talk = [["M: the story was good .", "W: i saw it ."], [
            {"question": "what was good ?", "choice": ["the story .", "the plot .", "it ."], "answer": "the story ."}
        ], "1-1"]  # fmt: skip
        (dream / f"{split}.json").write_text(json.dumps([talk, [*talk[:2], "1-2"]]), "utf-8")
    (dream / "train.json").write_text((dream / "dev.json").read_text("utf-8"), "utf-8")
    stimulus, marked = "the story was good\t2\t0 1\t\n", "the story was good\t2\n"
    for condition in (*AGREEMENT, *REFLEXIVE):
        kind = "agr" if condition in AGREEMENT else "refl"
        (stimuli / f"data_{kind}" / condition).write_text(stimulus * 20, "utf-8")
    for stem, line in (("aux/aux", marked), ("sbjn/sbjn", marked), ("nth/nth", "the story was a good one\n")):
        for part in ("train", "test", "gen"):
            (stimuli / f"data_{stem}.{part}").write_text(line * 4, "utf-8")
    for part in ("train", "test", "gen_apost"):
        (stimuli / "data_sbjn-join" / f"sbjn-join.{part}").write_text(marked * 4, "utf-8")


def _write_questions(folder: Path) -> None:
    """Questions with two options each, and marks, in a table like that of CoS-E."""
    folder.mkdir()
    rows = [f'{text},{"AB"[number % 2]},story [SEP] plot,"{[0, 1] + [0] * (len(text.split()) - 2)}"'
            for number, text in enumerate(("who was good ?", "the film was dull ?", "what was it ?"))]  # fmt: skip
    for split in ("train", "val", "test"):
        table = "\n".join(["text,classification,query,rationale", *rows, ""])
        (folder / f"{split}.csv").write_text(table, "utf-8")


def _write_images(folder: Path) -> None:
    """`photo.jpg`; `pictures/`, and `data/tiny_imagenet/` with boxes, with a test split of four classes; checkpoints that
    know them, and one that knows digits."""
    kinds = ("koala", "banana", "alp", "bus")
    images = [Image.new("RGB", (16, 16), (60 * number, 90, 200)) for number in range(len(kinds))]
    names = ("1.jpg", "2.png", "3.png", "4.png")
    images[0].save(folder / "photo.jpg")
    for root in ("pictures/test", "data/tiny_imagenet/train"):
        for kind, image, name in zip(kinds, images, names, strict=True):
            place = folder / root / kind / "images" if "train" in root else folder / root / kind
            place.mkdir(parents=True)
            image.save(place / name)
            if "train" in root:
                (place.parent / f"{kind}_boxes.txt").write_text(f"{name}\t2\t3\t9\t8\n", "utf-8")
    root = folder / "data" / "tiny_imagenet"
    files = [[f"train/{kind}/images/{name}", kind] for kind, name in zip(kinds, names, strict=True)]
    (root / "split-test.json").write_text(json.dumps(files), "utf-8")
    sizes = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
    known = dict.fromkeys(("checkpoints/images", "checkpoints/dinov2-tinyimagenet", IMAGE_BASE), kinds)
    for name, labels in (known | {"checkpoints/digits": tuple("0123456789")}).items():
        names = {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}
        model = ViTForImageClassification(ViTConfig(**sizes, **names, image_size=16, patch_size=4))
        model.save_pretrained(folder / name)
        ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder / name)


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
