"""GPT-2 written out, every slot with a residual stream of its own, and a slow loop over nodes, slots and edges."""

from dataclasses import dataclass, replace
from typing import Any

import torch

import benchmark
from benchmark.checking import small_models
from benchmark.models.components import Graph
from benchmark.targets import Contrast
from benchmark.types import Batch

PAIRS = ([5, 9, 7, 12, 6], [5, 14, 7, 12, 8]), ([11, 6, 8, 13, 7], [11, 6, 15, 13, 10])


@dataclass(frozen=True)
class Case:
    """A tiny GPT-2 that classifies, two inputs with counterparts of the same length, and a contrast of two classes."""

    model: Any
    batch: Batch

    @property
    def target(self):
        return Contrast(torch.tensor([0, 2]), torch.tensor([1, 0]))

    @property
    def hand(self):
        return ByHand(self.model.model)

    def examples(self):
        """Clean and corrupted ids of each example, and what is explained of it."""
        for row, (clean, other) in enumerate(PAIRS):
            yield clean, other, (int(self.target.classes[row]), int(self.target.against[row]))


def made(folder):
    model = benchmark.load_model(small_models.save("gpt2", folder), dtype="float64", device="cpu")
    clean, other = (model.encode([{"input_ids": pair[k]} for pair in PAIRS]) for k in (0, 1))
    return Case(model, replace(clean, corrupted=other.tensors))


def plain_norm(x, module):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + module.eps).sqrt() * module.weight + module.bias


def held_norm(x, module):
    """The denominator is a constant."""
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + module.eps).sqrt().detach()
    return centred / deviation * module.weight + module.bias


def line(x, function):
    """A function that is 0 at 0 as the line through the origin that it is at x."""
    return x * (function(x) / x).detach()


class ByHand:
    """One example at a time."""

    def __init__(self, model, norm=plain_norm, activation=lambda x, function: function(x)):
        self.model, self.body, self.norm, self.activation = model, model.transformer, norm, activation
        self.width, self.heads = model.config.n_embd, model.config.n_head
        self.graph = Graph(model.config.n_layer, self.heads)

    def start(self, ids):
        return self.body.wte(torch.tensor(ids)) + self.body.wpe(torch.arange(len(ids)))

    def run(self, start, added=None, replaced=None):
        """(logits at the end, what each node writes, what each slot reads).

        Of each node that a slot reads, `added(slot, name, what it writes)` is read besides.
        """
        graph, bias = self.graph, torch.zeros(len(start), self.width, dtype=start.dtype)
        replaced, written, read = replaced or {}, {}, {}

        def write(name, value):
            written[name] = replaced.get(name, value)

        def stream(slot):
            before = graph.nodes[: graph.behind[graph.slots.index(slot)]]
            read[slot] = bias + sum(written[name] for name in before)
            more = [added(slot, name, written[name]) for name in before] if added is not None else []
            return read[slot] + sum(more) if more else read[slot]

        write("input", start)
        for layer, block in enumerate(self.body.h):
            outputs = [self.head(block, layer, head, stream) for head in range(self.heads)]
            for head, output in enumerate(outputs):
                write(f"a{layer}.h{head}", output)
            bias = bias + block.attn.c_proj.bias
            hidden = self.norm(stream(f"m{layer}"), block.ln_2) @ block.mlp.c_fc.weight + block.mlp.c_fc.bias
            active = self.activation(hidden, block.mlp.act)
            write(f"m{layer}", active @ block.mlp.c_proj.weight + block.mlp.c_proj.bias)
        last = self.norm(stream("logits"), self.body.ln_f)
        return self.model.score(last)[-1], written, read

    def head(self, block, layer, head, stream):
        size = self.width // self.heads
        at = slice(head * size, (head + 1) * size)
        parts = []
        for place, letter in enumerate("qkv"):
            weight = block.attn.c_attn.weight[:, place * self.width : (place + 1) * self.width][:, at]
            offset = block.attn.c_attn.bias[place * self.width : (place + 1) * self.width][at]
            parts.append(self.norm(stream(f"a{layer}.h{head}<{letter}>"), block.ln_1) @ weight + offset)
        query, key, value = parts
        scores = (query @ key.T / size**0.5).masked_fill(torch.ones(len(query), len(query)).triu(1).bool(), -torch.inf)
        return scores.softmax(-1) @ value @ block.attn.c_proj.weight[at]

    def effects(self, start, direction, classes, replaced=None):
        """The derivative of the contrast where a slot reads `ε · direction` of a node more, for every edge [S, D]."""
        epsilon = torch.zeros(len(self.graph.nodes), len(self.graph.slots), dtype=torch.float64, requires_grad=True)

        def added(slot, name, _written):
            return epsilon[self.graph.nodes.index(name), self.graph.slots.index(slot)] * direction[name]

        logits = self.run(start, added, replaced)[0]
        return torch.autograd.grad(logits[classes[0]] - logits[classes[1]], epsilon)[0]


def outputs(case, clean, other, ablation="patching"):
    """u and ũ − u of every node, by name."""
    hand = case.hand
    with torch.no_grad():
        own, others = (hand.run(hand.start(ids))[1] for ids in (clean, other))
    if ablation == "zero":
        others = {name: torch.zeros_like(value) for name, value in own.items()}
        others["input"] = hand.body.wpe(torch.arange(len(clean))).detach()
    return own, {name: others[name] - value for name, value in own.items()}


def holds(case, method, expected):
    """The scores of edges are the expected ones, and those of nodes their sums."""
    found = method(case.model, case.batch, case.target)
    assert torch.allclose(found.components, torch.stack(expected), atol=1e-10)
    assert torch.allclose(found.nodes, found.components.sum(-1), atol=1e-10)
    graph = case.hand.graph
    assert torch.equal(found.heads[:, 1], found.nodes[:, graph.heads(1)])
    alone = replace(method, level="nodes")(case.model, case.batch, case.target)
    assert alone.components is None
    assert torch.allclose(alone.nodes, found.nodes, atol=1e-10)
