"""Each setting of tokenizers and processors, changed once: another fingerprint, or the same tensors."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoTokenizer, BertConfig, CLIPImageProcessorPil, ViTImageProcessorPil

from benchmark.models.adopting import adopt_tokenizer
from benchmark.models.loading import fingerprint_of
from tests import text_models

WINDOW = 24
TEXTS = [
    "The film, told in 1987, was n't GOOD: naïve Öl  ½ don't", " a <e1> fine</e1> story !", "un\u200btold 中文 ﬁne film",
    "the plot was dull . " * 9, "[SEP] </s> @USER <|endoftext|>", "xylophone\tÀ é",
]  # fmt: skip
NUMBERS = (bool, int, float)


class Weightless(nn.Module):
    """A model that has a configuration alone."""

    def __init__(self) -> None:
        super().__init__()
        self.config = BertConfig()


def of_tokenizer(tokenizer: Any) -> tuple[str, Any]:
    """The fingerprint of a model with the tokenizer, and the tensors that it makes of the texts."""
    own = adopt_tokenizer(tokenizer)
    window = min(own.model_max_length, WINDOW)
    own.pad_token = own.pad_token or own.eos_token
    tensors = [
        dict(own(*texts, truncation="longest_first", max_length=window, padding=True))
        for texts in ((TEXTS,), (TEXTS, TEXTS[::-1]))
    ]
    return fingerprint_of(Weightless(), own, window), [tensors, own.mask_token_id, own.pad_token_id]


def changes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of a nested setting with another value of its kind."""
    if isinstance(value, dict) and len(value) < 30:
        for key, item in value.items():
            yield from changes(item, (*path, key))
    elif isinstance(value, list | tuple) and len(value) < 30:
        for place, item in enumerate(value):
            yield from changes(item, (*path, place))
        yield path, list(value)[::-1]
        yield path, list(value)[:-1]
    elif isinstance(value, bool) or value is None:
        yield path, not value
    elif isinstance(value, NUMBERS):
        yield path, value + 1
        yield path, value * 2
    else:
        for other in ("film", "left", "a"):
            if value != other:
                yield path, other


def changed(settings: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of nested settings with one of them changed."""
    if not path:
        return value
    head, *rest = path
    if isinstance(settings, dict):
        return {**settings, head: changed(settings[head], tuple(rest), value)}
    return [changed(item, tuple(rest), value) if place == head else item for place, item in enumerate(settings)]


@pytest.fixture(
    scope="module",
    params=[text_models.save_bert, text_models.save_gpt2, text_models.save_bart],
    ids=["bert", "gpt2", "bart"],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved: Path = request.param(tmp_path_factory.mktemp("model"))
    tokenizer = AutoTokenizer.from_pretrained(saved)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<e1>", "</e1>"]})
    tokenizer.add_tokens(["@USER"])
    tokenizer.save_pretrained(saved)
    return saved


def test_each_setting_of_a_tokenizer(folder: Path) -> None:
    plain = AutoTokenizer.from_pretrained(folder)
    one, tensors = of_tokenizer(plain)
    stored = {**plain.init_kwargs, **json.loads((folder / "tokenizer_config.json").read_text())}
    tried, moved = 0, 0
    for path, value in changes({key: item for key, item in stored.items() if "added_tokens" not in key}):
        settings = {path[0]: changed(stored, path, value)[path[0]]}
        try:
            other, others = of_tokenizer(AutoTokenizer.from_pretrained(folder, **settings))
        except Exception:  # what makes no tokenizer is no setting of one
            continue
        tried, moved = tried + 1, moved + (one != other)
        assert one != other or tensors == others, settings
    assert tried >= 20
    assert moved >= 5


def test_each_stored_fact_of_a_tokenizer(folder: Path) -> None:
    plain = AutoTokenizer.from_pretrained(folder)
    one, tensors = of_tokenizer(plain)
    facts = json.loads(plain.backend_tokenizer.to_str())
    vocabulary = facts["model"].pop("vocab")
    merges = facts["model"].pop("merges", None)
    swapped = dict(zip(vocabulary, [1, 0, *list(vocabulary.values())[2:]], strict=True))
    tried = 0
    for path, value in [*changes(facts), (("model", "vocab"), swapped)]:
        if path[0] == "post_processor" and isinstance(value, str):
            continue  # the backend panics at a template of unknown names
        whole = {"vocab": vocabulary} | ({} if merges is None else {"merges": merges})
        other_facts = {**facts, "model": {**facts["model"], **whole}}
        changed_tokenizer = copy.deepcopy(plain)
        try:
            changed_tokenizer._tokenizer = Tokenizer.from_str(json.dumps(changed(other_facts, path, value)))
            other, others = of_tokenizer(changed_tokenizer)
        except Exception:  # what makes no tokenizer is no setting of one
            continue
        tried += 1
        assert one != other or tensors == others, (path, value)
    assert tried >= 40


@pytest.mark.parametrize(
    "processor",
    [
        ViTImageProcessorPil(size={"height": 32, "width": 32}),
        CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}),
    ],
    ids=["vit", "clip"],
)
def test_each_setting_of_a_processor(processor: Any) -> None:
    noise = np.random.default_rng(0)
    images = [Image.fromarray(noise.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in ((50, 61), (33, 32))]

    def of_processor(settings: dict[str, Any]) -> tuple[str, torch.Tensor]:
        made = type(processor)(**settings)
        pixels = torch.stack([made(images=[image], return_tensors="pt")["pixel_values"] for image in images])
        return fingerprint_of(Weightless(), None, 10, made), pixels

    stored = {key: getattr(value, "value", value) for key, value in processor.to_dict().items()}
    one, pixels = of_processor(stored)
    tried = 0
    for path, value in changes(stored):
        try:
            other, others = of_processor(changed(stored, path, value))
        except Exception:  # what makes no processor is no setting of one
            continue
        tried += 1
        assert one != other or torch.equal(pixels, others), (path, value)
    assert tried >= 15


class Odd:
    """Settings that no JSON holds: a set, and an object with an address."""

    def to_dict(self) -> dict[str, Any]:
        return {"names": {f"name {number}" for number in range(9)}, "own": Odd(), 3: np.float32(0.5)}

    def __call__(self, images: Any, return_tensors: str) -> dict[str, torch.Tensor]:
        return {"pixel_values": torch.zeros(len(images), 3, 8, 8)}


@pytest.mark.thorough
def test_no_address_and_no_order_of_a_process_is_in_it(tmp_path: Path) -> None:
    text_models.save_bert(tmp_path)

    def told() -> list[str]:
        tokenizer = adopt_tokenizer(AutoTokenizer.from_pretrained(tmp_path))
        return [fingerprint_of(Weightless(), None, 10, Odd()), fingerprint_of(Weightless(), tokenizer, 24)]

    lines = [
        "from tests.models.test_fingerprint_settings import *",
        "tokenizer = adopt_tokenizer(AutoTokenizer.from_pretrained(sys.argv[1]))",
        "print(fingerprint_of(Weightless(), None, 10, Odd()), fingerprint_of(Weightless(), tokenizer, 24))",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", "\n".join(lines), str(tmp_path)]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told() == told() == other.stdout.split()
