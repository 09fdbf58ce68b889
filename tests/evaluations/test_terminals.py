"""The token at the end of the flow: found by changing one token's final state after the other."""

import itertools
from functools import partial

import pytest
import torch

from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.evaluations.attribution_graph import AttributionGraphs
from benchmark.evaluations.edges import terminals
from benchmark.evaluations.kept_edges import KeptEdges
from benchmark.evaluations.receptive_field import ReceptiveField
from benchmark.models.blocks import blocks_of
from tests.evaluations.edge_examples import load, scored


def tokens_read(model, one):
    """Tokens of one example whose state, changed after the last block, changes the logits."""
    *below, last = blocks_of(model.model, model.attention_modules)
    expected, calls = model.run(one).logits, itertools.count(1)
    runs = 1 + below.count(last)  # layers may share weights: the module's last call counts

    def change(_module, _args, output, token):
        if next(calls) % runs:
            return None
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[:, token] += torch.linspace(-1, 1, hidden.shape[-1], dtype=hidden.dtype)
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    found = []
    for token in range(int(one.attention_mask.sum())):
        handle = last.register_forward_hook(partial(change, token=token))
        if not torch.allclose(model.run(one).logits, expected, atol=1e-9):
            found.append(token)
        handle.remove()
    return found


@pytest.mark.parametrize("family", [name for name in small_models.FAMILIES if name != "bart"])
def test_there_is_a_terminal_where_one_token_is_read(family, tmp_path):
    model = small_models.load(family, tmp_path)
    batch = model.encode(small_models.inputs(family, (5, 3, 7)))
    for b, terminal in enumerate(terminals(model, batch)):
        read = tokens_read(model, batch.select([b]))
        assert read
        assert terminal == (read[0] if len(read) == 1 else None)


def test_an_encoder_decoder_has_no_graph(tmp_path):
    """Edges of encoder, decoder and cross-attention are no layers of one another."""
    model, batch = load("bart", tmp_path)
    attribution = scored(model, batch)
    for evaluation in (AttributionGraphs(), ReceptiveField(), KeptEdges()):
        with pytest.raises(NotApplicable, match="take one sequence of tokens, not encoder and decoder"):
            evaluation.rows(model, batch, attribution)
