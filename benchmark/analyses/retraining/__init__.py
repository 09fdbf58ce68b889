"""Models that are trained again without what explanations put first."""
