"""Readouts: from edge scores to token scores, one file each."""
