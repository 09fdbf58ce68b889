"""Tiny causal language models, each made once for a file of tests."""

import pytest
import torch
import transformers
from transformers import AutoTokenizer

from tests import text_models
from tests.language_models import FAMILIES


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a tiny model of a family, by the name of its class; each is made once."""
    words = AutoTokenizer.from_pretrained(text_models.save_bert(tmp_path_factory.mktemp("bert")))
    folders = {}

    def make(kind):
        if kind not in folders:
            torch.manual_seed(0)
            family = getattr(transformers, kind)
            pads = words.convert_tokens_to_ids("film")
            config = family.config_class(vocab_size=len(words), pad_token_id=pads, **FAMILIES[kind])
            folders[kind] = tmp_path_factory.mktemp(kind)
            family(config).save_pretrained(folders[kind])
            words.save_pretrained(folders[kind])
        return folders[kind]

    return make
