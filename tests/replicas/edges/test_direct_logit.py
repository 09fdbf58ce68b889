"""What each edge writes to the logit: one vector at a time, carried by hand past all other sublayers."""

import torch

from methods.edges.direct_logit import DirectLogit
from tests.replicas.blocks_by_hand import (
    LENGTHS,
    norm_of_part,
    normed,
    output,
    residual_sum,
)
from tests.replicas.registry import replicates


def to_the_end(blocks, layer, i, vector):
    """What a vector that attention adds at token i of a layer is behind the last block."""
    for number, (block, x, attention) in enumerate(blocks):
        if number < layer or not block.post_norms:
            continue
        vector = norm_of_part(block.norm_1, residual_sum(block, x, attention, i), vector)
        r = normed(block, x, attention, i)
        vector = norm_of_part(block.norm_2, r + block.feed_forward(r), vector)
    return vector


def logit_of(case, blocks, target, vector):
    """The head's affine map, without what belongs to no vector, of the token that is read."""
    last = [output(*blocks[-1], i) for i in range(len(blocks[-1][1]))]
    if hasattr(case.plain, "score"):  # the last token, behind a last norm
        return case.plain.score.weight[target] @ norm_of_part(case.plain.transformer.ln_f, last[-1], vector)
    pooler = case.plain.bert.pooler.dense
    z = pooler.weight @ last[0] + pooler.bias
    return case.plain.classifier.weight[target] @ (pooler.weight @ vector * z.tanh() / z)


def written(case, row):
    """[L H T T] of one example alone."""
    blocks, target = case.layers(row), int(case.target[row])
    n, heads = LENGTHS[row], blocks[0][0].heads
    read = n - 1 if hasattr(case.plain, "score") else 0
    found = torch.zeros(len(blocks), heads, n, n, dtype=torch.float64)
    with torch.no_grad():
        for layer, (block, x, attention) in enumerate(blocks):
            for j in range(n):
                value = block.value(x[j])
                for h in range(heads):
                    vector = to_the_end(blocks, layer, read, attention[h, read, j] * block.project(h, value[h]))
                    found[layer, h, read, j] = logit_of(case, blocks, target, vector)
    return found


@replicates(DirectLogit)
def test_edges_write_to_the_logit(case):
    found = DirectLogit()(case.model, case.batch, case.target)
    for row, n in enumerate(LENGTHS):
        own = torch.stack([layer[row] for layer in found])
        assert torch.allclose(own[..., :n, :n], written(case, row), atol=1e-9, rtol=1e-9)
        assert not own[..., n:, :].any()
        assert not own[..., n:].any()


def test_all_that_is_written_is_the_logit(case):
    """Of a model whose norms come before the sublayers: with the read token, its networks and the biases."""
    if not hasattr(case.plain, "score"):
        return
    found = DirectLogit()(case.model, case.batch, case.target)
    logits = case.model.run(case.batch).logits
    for row, n in enumerate(LENGTHS):
        blocks = case.layers(row)
        with torch.no_grad():
            rest = [blocks[0][1][n - 1]]
            for block, x, attention in blocks:
                rest += [block.output_bias, block.feed_forward(normed(block, x, attention, n - 1))]
            target = int(case.target[row])
            others = sum(logit_of(case, blocks, target, vector) for vector in rest)
            beta = case.plain.score.weight[target] @ case.plain.transformer.ln_f.bias
        total = sum(float(layer[row].sum()) for layer in found) + float(others + beta)
        assert abs(total - float(logits[row, target])) < 1e-9
