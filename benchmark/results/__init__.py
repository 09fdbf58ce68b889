"""What lies on disk and what may be said of it: files, cells, tables, statistics, attribution graphs. No model, no torch."""
