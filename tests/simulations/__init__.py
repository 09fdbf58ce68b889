"""Simulations of the statistics: the tables of docs/statistics.md are printed by its modules, small ones are tests."""
