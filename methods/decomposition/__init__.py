"""Vector decomposition: a tensor carried through the unmodified model together with the parts it is the sum of."""

from methods.decomposition.decomposed import Decomposed, decomposed
from methods.decomposition.local import Through, decompose_block
from methods.decomposition.part_rules import BiasShare, Rules, frozen_activations

__all__ = ["BiasShare", "Decomposed", "Rules", "Through", "decompose_block", "decomposed", "frozen_activations"]
