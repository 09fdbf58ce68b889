"""Instrumented classifiers: record, edit and differentiate attention without touching a model's class."""

from benchmark.models.attention_interface import AttentionEdit, PruneHeads, ValueEdit, hold_constant
from benchmark.models.classifier import Classifier
from benchmark.models.loading import load_model
from benchmark.models.passes import Trace
from benchmark.models.single_block import run_block

__all__ = [
    "AttentionEdit",
    "Classifier",
    "PruneHeads",
    "Trace",
    "ValueEdit",
    "hold_constant",
    "load_model",
    "run_block",
]
