"""What attention looks at: patterns of heads, attention to separators as a no-op, clusters of heads and of words."""
