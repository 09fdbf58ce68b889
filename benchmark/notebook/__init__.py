"""A few texts at a time, from Python: explain, show, test and list, without folders and configurations."""
