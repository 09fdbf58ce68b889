"""Edge attribution patching along interpolated outputs of groups of nodes, from GPT-2 written out."""

from methods.circuits.eap_ig_activations import EapIgActivations
from tests.replicas.circuits.by_hand import holds, outputs
from tests.replicas.registry import replicates


@replicates(EapIgActivations)
def test_eap_ig_of_activations(case):
    expected, steps = [], 3
    for clean, other, classes in case.examples():
        own, direction = outputs(case, clean, other)
        graph = case.hand.graph
        groups = [["input"]]
        for layer in range(graph.n_layers):
            groups += [list(graph.nodes[graph.heads(layer)]), [f"m{layer}"]]
        each = []
        for step in range(1, steps + 1):
            for group in groups:
                replaced = {name: own[name] + (1 - step / steps) * direction[name] for name in group}
                each.append(case.hand.effects(case.hand.start(clean), direction, classes, replaced))
        expected.append(-sum(each) / len(each))
    holds(case, EapIgActivations(steps=steps), expected)
