"""Data sets: planted (embedded), ERASER directories, text classification."""
