"""A living leaderboard: bundles in which methods are compared, submissions to them, and a repository of results.

Explanations and rows are stored, numbers are derived from them, versions of a test never share a column, and each row says
how it is known. Defined in docs/leaderboard.md.
"""
