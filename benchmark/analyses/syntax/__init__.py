"""Heads as parsers: dependencies and coreference in attention, probes over all heads, and whether parsing heads matter."""
