"""Transformers whose weights are written by hand, so that what causes their answer is known."""
