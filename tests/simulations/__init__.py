"""Simulations of the statistics: its modules print the tables of docs/, small ones are tests."""
