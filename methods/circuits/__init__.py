"""Explainers of components: scores of the nodes and edges of a model's computation graph."""
