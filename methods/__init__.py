"""Explainers: attention explainers are an edge score and a readout; others score tokens directly."""
