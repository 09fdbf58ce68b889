"""Nodes and edges of the computation graph of a transformer, and runs of a part of them."""

from benchmark.models.components.graph import Graph
from benchmark.models.components.runs import Ablation, Components, Of, Outputs, Value, corrupted_of

__all__ = ["Ablation", "Components", "Graph", "Of", "Outputs", "Value", "corrupted_of"]
