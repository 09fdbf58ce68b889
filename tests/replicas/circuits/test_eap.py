"""Edge attribution patching, from GPT-2 written out with a stream for every slot."""

import pytest

from methods.circuits.eap import Eap
from tests.replicas.circuits.by_hand import holds, outputs
from tests.replicas.registry import replicates


@replicates(Eap)
@pytest.mark.parametrize("ablation", ["patching", "zero"])
def test_eap(case, ablation):
    expected = []
    for clean, other, classes in case.examples():
        _, direction = outputs(case, clean, other, ablation)
        expected.append(-case.hand.effects(case.hand.start(clean), direction, classes))
    holds(case, Eap(ablation=ablation), expected)
