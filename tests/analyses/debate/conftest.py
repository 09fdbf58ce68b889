"""Batches of tiny models, run once, and tables that say what they may say."""

from dataclasses import replace

import pytest
import torch

from benchmark.analyses.debate.edited_runs import Unedited
from benchmark.analyses.debate.scopes import scopes
from benchmark.checking import small_models

ALL = ("read_row", "each_layer", "all_layers")


@pytest.fixture(scope="module")
def unedited(tmp_path_factory):
    """Three examples of a family as a float64 model runs them, or others."""
    folder, loaded = tmp_path_factory.mktemp("families"), {}

    def of(family="bert", lengths=(9, 5, 12)):
        if family not in loaded:
            loaded[family] = small_models.load(family, folder)
        model = loaded[family]
        return Unedited.of(model, model.encode(small_models.inputs(family, lengths)))

    return of


@pytest.fixture(scope="module")
def ignoring(tmp_path_factory):
    """A BERT whose value vectors are the same for all tokens: whatever it attends to, it takes the same.

    Its attention is peaked, so that ln 2 is within reach of the divergence from it.
    """
    model = small_models.load("bert", tmp_path_factory.mktemp("ignoring"))
    with torch.no_grad():
        for block in model.model.bert.encoder.layer:
            block.attention.self.value.weight.zero_()
            block.attention.self.query.weight.mul_(30)
    return model


@pytest.fixture(scope="session")
def batches(batches):
    """The batches with identifiers that no two examples share."""
    names = [tuple(f"{number}-{uid}" for uid in batch.uids) for number, batch in enumerate(batches)]
    return [replace(batch, uids=uids) for batch, uids in zip(batches, names, strict=True)]


@pytest.fixture
def context(context):
    """A context whose comparison has no limit."""

    def make(**methods):
        made = context(**methods)
        made.setting.config.limit = None
        return made

    return make


@pytest.fixture
def kept_context(context, tmp_path):
    """A context of a comparison that keeps what analyses leave."""
    return replace(context(), folder=tmp_path / "comparison")


def within(unedited, number, keys="tokens"):
    """The weights of the scope of a number: 0 is the read row, then each layer, and all of them at the end."""
    return unedited.within(scopes(unedited.model, ALL)[number], keys)


def told(table):
    """Every line of a table has a figure or says why not, and no figure without a value."""
    has_value = table.rows["value"].notna()
    return (has_value | (table.rows["note"] != "")).all() and (table.rows["n"][has_value] > 0).all()
