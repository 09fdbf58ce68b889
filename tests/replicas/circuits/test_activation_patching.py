"""Activation patching, from GPT-2 written out with a stream for every slot."""

import pytest
import torch

from methods.circuits.activation_patching import ActivationPatching
from tests.replicas.circuits.by_hand import outputs
from tests.replicas.registry import replicates


def without(case, clean, others, gone):
    """The logits where some edges carry ũ in the place of what is written now."""

    def added(slot, name, written):
        return others[name] - written if (name, slot) in gone else torch.zeros_like(written)

    with torch.no_grad():
        return case.hand.run(case.hand.start(clean), added)[0]


@replicates(ActivationPatching)
@pytest.mark.parametrize("ablation", ["patching", "zero"])
def test_activation_patching(case, ablation):
    found = ActivationPatching(ablation=ablation)(case.model, case.batch, case.target)
    graph = case.hand.graph
    edges = [(graph.nodes[s], graph.slots[d]) for s, d in graph.edges.nonzero().tolist()]
    for row, (clean, other, (one, against)) in enumerate(case.examples()):
        own, direction = outputs(case, clean, other, ablation)
        others = {name: value + direction[name] for name, value in own.items()}

        def lost(gone, clean=clean, others=others, one=one, against=against):
            whole, left = (without(case, clean, others, some) for some in (set(), gone))
            return float(whole[one] - whole[against] - left[one] + left[against])

        for name, slot in edges[::7]:
            score = float(found.components[row, graph.nodes.index(name), graph.slots.index(slot)])
            assert score == pytest.approx(lost({(name, slot)}), abs=1e-10)
        for place, name in enumerate(graph.nodes):
            gone = {edge for edge in edges if edge[0] == name}
            assert float(found.nodes[row, place]) == pytest.approx(lost(gone), abs=1e-10)
