"""The blocks of BERT (norms after the sums) and GPT-2 (norms before the sublayers), taken apart token by token."""

import torch
from transformers import AutoModelForSequenceClassification

from benchmark.checking import small_models

LENGTHS = (6, 4, 7)


def layer_norm(norm, x):
    """One vector, as the equation has it."""
    return (x - x.mean()) / (x.var(correction=0) + norm.eps).sqrt() * norm.weight + norm.bias


def norm_of_part(norm, whole, part):
    """LN'(part): the part's own mean, the deviation of the whole, no β."""
    return (part - part.mean()) / (whole.var(correction=0) + norm.eps).sqrt() * norm.weight


class Bert:
    """One block."""

    post_norms = True

    def __init__(self, model, layer):
        self.block = model.bert.encoder.layer[layer]
        self.heads = model.config.num_attention_heads
        self.norm_1, self.norm_2 = self.block.attention.output.LayerNorm, self.block.output.LayerNorm
        self.output_bias = self.block.attention.output.dense.bias

    def value(self, x):
        """v_h of one token, for every head."""
        projection = self.block.attention.self.value
        return (projection.weight @ x + projection.bias).view(self.heads, -1)

    def project(self, head, v):
        """v W_O^h."""
        weight = self.block.attention.output.dense.weight
        return weight[:, head * len(v) : (head + 1) * len(v)] @ v

    def feed_forward(self, r):
        """Without the sum and the norm after it."""
        return self.block.output.dense(self.block.intermediate(r))


class Gpt2:
    """One block."""

    post_norms = False

    def __init__(self, model, layer):
        self.block = model.transformer.h[layer]
        self.heads = model.config.num_attention_heads
        self.output_bias = self.block.attn.c_proj.bias

    def value(self, x):
        """v_h of one token, for every head."""
        weight, bias = self.block.attn.c_attn.weight[:, -len(x) :], self.block.attn.c_attn.bias[-len(x) :]
        return (layer_norm(self.block.ln_1, x) @ weight + bias).view(self.heads, -1)

    def project(self, head, v):
        """v W_O^h."""
        return v @ self.block.attn.c_proj.weight[head * len(v) : (head + 1) * len(v)]

    def feed_forward(self, r):
        """With the norm before it."""
        return self.block.mlp(self.block.ln_2(r))


class Case:
    """A family's model, instrumented and plain, and three inputs of different lengths, padded."""

    def __init__(self, family, folder):
        import benchmark

        self.block_type = {"bert": Bert, "gpt2": Gpt2}[family]
        path = small_models.save(family, folder)
        self.model = benchmark.load_model(path, dtype="float64", device="cpu")
        self.plain = AutoModelForSequenceClassification.from_pretrained(
            path, attn_implementation="eager", dtype=torch.float64
        ).eval()
        self.inputs = small_models.inputs(family, LENGTHS)
        self.batch = self.model.encode(self.inputs)
        self.target = torch.tensor([0, 2, 1])

    def layers(self, row):
        """(block by hand, its input [T D], its attention [H T T]) of every layer of one example alone."""
        ids = torch.tensor([self.inputs[row]["input_ids"]])
        with torch.no_grad():
            output = self.plain(input_ids=ids, output_attentions=True, output_hidden_states=True)
        return [
            (self.block_type(self.plain, layer), output.hidden_states[layer][0], attention[0])
            for layer, attention in enumerate(output.attentions)
        ]


def sublayer_part(block, x, attention, i, j):
    """f_ij = Σ_h A_hij v_hj W_O^h."""
    v = block.value(x[j])
    return sum(attention[h, i, j] * block.project(h, v[h]) for h in range(block.heads))


def residual_part(block, x, attention, i, j):
    return sublayer_part(block, x, attention, i, j) + (x[i] if i == j else 0)


def residual_sum(block, x, attention, i):
    return sum(residual_part(block, x, attention, i, j) for j in range(len(x))) + block.output_bias


def normed(block, x, attention, i):
    """What the feed-forward network's sum takes in."""
    whole = residual_sum(block, x, attention, i)
    return layer_norm(block.norm_1, whole) if block.post_norms else whole


def normed_part(block, x, attention, i, j):
    part = residual_part(block, x, attention, i, j)
    return norm_of_part(block.norm_1, residual_sum(block, x, attention, i), part) if block.post_norms else part


def output(block, x, attention, i):
    r = normed(block, x, attention, i)
    whole = r + block.feed_forward(r)
    return layer_norm(block.norm_2, whole) if block.post_norms else whole


def output_part(block, x, attention, i, j):
    r, part = normed(block, x, attention, i), normed_part(block, x, attention, i, j)
    return norm_of_part(block.norm_2, r + block.feed_forward(r), part) if block.post_norms else part


def by_cell(block, x, attention, score):
    n = len(x)
    return torch.stack([torch.stack([score(block, x, attention, i, j) for j in range(n)]) for i in range(n)])


def norm_by_hand(part):
    return lambda *cell: part(*cell).square().sum().sqrt()


def rows_divided(scores):
    return torch.stack([row / row.sum() if row.sum() > 0 else row for row in scores])


def compare(edges, case, slow, heads=1):
    found = edges(case.model, case.batch, case.target)
    with torch.no_grad():
        for row, n in enumerate(LENGTHS):
            for layer, (block, x, attention) in enumerate(case.layers(row)):
                expected = slow(block, x, attention)
                expected = expected if expected.dim() == 3 else expected[None]
                assert found[layer].shape[1] == len(expected) == heads
                own = found[layer][row, :, :n, :n]
                assert torch.allclose(own, expected, atol=1e-9, rtol=1e-9), float((own - expected).abs().max())
                assert not found[layer][row, :, :n, n:].any()  # no token mixes padding in
