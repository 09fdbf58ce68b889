"""Run folders in, tables, figures and pages out; loads no model.

`python -m benchmark.report RUNS [--out DIR]` does the same from the command line.
"""

from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import read_leaderboard
from benchmark.report.terminal import terminal_table
from benchmark.report.write import write_report

__all__ = ["load_cells", "read_leaderboard", "terminal_table", "write_report"]
