"""Instrumented classifiers: record, edit and differentiate attention without touching a model's class."""

from benchmark.models.attention import AttentionEdit, PruneHeads, hold_constant
from benchmark.models.classifier import Classifier, Trace
from benchmark.models.loading import load_model

__all__ = ["AttentionEdit", "Classifier", "PruneHeads", "Trace", "hold_constant", "load_model"]
