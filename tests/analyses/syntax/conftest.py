"""Models and batches with parses, and a comparison of no method."""

import pytest
from omegaconf import OmegaConf

from benchmark.analyses.context import Context
from benchmark.annotations import KEYS, Parse
from benchmark.run.data import Data
from benchmark.run.workbench import Setting
from benchmark.types import Example
from tests.analyses.conftest import NoTask


@pytest.fixture
def given():
    """A context of a model, its scored batches, and those of its validation split."""

    def make(model, batches, validation):
        data = Data(model, batches=batches, calibration=lambda split, n: validation, facts={}, labels=NoTask.labels)
        return Context(Setting(OmegaConf.create({"limit": None}), NoTask(), model, data), {}, {})

    return make


@pytest.fixture
def parsed():
    """Encodes sentences with their heads (from 1 on, 0 the root) and relations."""

    def encode(model, *sentences):
        examples = [
            Example(
                f"s{i}", words.split(), -1, meta={KEYS[Parse]: Parse(tuple(h - 1 for h in heads), tuple(names.split()))}
            )
            for i, (words, heads, names) in enumerate(sentences)
        ]
        return model.encode_examples(examples, ())

    return encode
