"""Patterns over a corpus: what explanations put first again and again, and whether it was planted."""
