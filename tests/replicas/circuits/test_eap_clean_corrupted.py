"""Edge attribution patching with the gradients of both inputs, from GPT-2 written out with a stream for every slot."""

from methods.circuits.eap_clean_corrupted import EapCleanCorrupted
from tests.replicas.circuits.by_hand import holds, outputs
from tests.replicas.registry import replicates


@replicates(EapCleanCorrupted)
def test_eap_of_clean_and_corrupted(case):
    expected = []
    for clean, other, classes in case.examples():
        _, direction = outputs(case, clean, other)
        ends = [case.hand.effects(case.hand.start(ids), direction, classes) for ids in (clean, other)]
        expected.append(-sum(ends) / 2)
    holds(case, EapCleanCorrupted(), expected)
