"""Tiny causal language models, each made once for a file of tests."""

import pytest

from tests import language_models


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a tiny model of a family, by the name of its class; each is made once."""
    folders = {}

    def make(kind):
        if kind not in folders:
            folders[kind] = language_models.save(kind, tmp_path_factory.mktemp(kind))
        return folders[kind]

    return make
