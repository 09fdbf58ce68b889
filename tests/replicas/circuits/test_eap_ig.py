"""Edge attribution patching along the way between both inputs, from GPT-2 written out with a stream for every slot."""

import pytest

from methods.circuits.eap_ig import EapIg
from tests.replicas.circuits.by_hand import holds, outputs
from tests.replicas.registry import replicates


@replicates(EapIg)
@pytest.mark.parametrize("steps", [1, 4])
def test_eap_ig(case, steps):
    expected = []
    for clean, other, classes in case.examples():
        _, direction = outputs(case, clean, other)
        ends = [case.hand.start(ids) for ids in (other, clean)]
        each = [
            case.hand.effects(ends[0] + step / steps * (ends[1] - ends[0]), direction, classes) for step in range(steps)
        ]
        expected.append(-sum(each) / steps)
    holds(case, EapIg(steps=steps), expected)
