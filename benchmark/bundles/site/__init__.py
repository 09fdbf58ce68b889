"""The static site of a repository of results: one folder, no server, no request."""
