"""Relevance patching, from GPT-2 written out with a stream for every slot."""

from methods.circuits.relp import RelP
from tests.replicas.circuits import by_hand
from tests.replicas.circuits.by_hand import holds, outputs
from tests.replicas.registry import replicates


@replicates(RelP, attention="gradient")
def test_relp(case):
    hand = by_hand.ByHand(case.model.model, norm=by_hand.held_norm, activation=by_hand.line)
    expected = []
    for clean, other, classes in case.examples():
        _, direction = outputs(case, clean, other)
        expected.append(-hand.effects(hand.start(clean), direction, classes))
    holds(case, RelP(), expected)
