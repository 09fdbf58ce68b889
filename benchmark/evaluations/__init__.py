"""Tests of explanations: one file per test; pure arithmetic in `curves` and `ranks`."""
