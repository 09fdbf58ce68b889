"""Information flow routes between components, from GPT-2 written out with a stream for every slot."""

import torch

from methods.circuits.component_flow import ComponentFlow
from tests.replicas.circuits.by_hand import holds
from tests.replicas.registry import replicates


@replicates(ComponentFlow)
def test_component_flow(case):
    expected = []
    for clean, _, _ in case.examples():
        with torch.no_grad():
            _, own, read = case.hand.run(case.hand.start(clean))
        own = own | {"input": case.hand.body.wte(torch.tensor(clean))}
        graph = case.hand.graph
        scores = torch.zeros(len(graph.nodes), len(graph.slots), dtype=torch.float64)
        for d, slot in enumerate(graph.slots):
            for position in range(len(clean)):
                whole = read[slot][position].abs().sum()
                nearer = [
                    max(0.0, float(whole - (read[slot] - own[name])[position].abs().sum()))
                    for name in graph.nodes[: graph.behind[d]]
                ]
                for s, one in enumerate(nearer):
                    scores[s, d] += one / sum(nearer) / len(clean) if sum(nearer) else 0.0
        expected.append(scores)
    holds(case, ComponentFlow(), expected)
