"""The command `python -m benchmark`."""

import sys

from benchmark.commands.entry import compare_or_plan

if __name__ == "__main__":
    compare_or_plan(sys.argv[1:], "python -m benchmark")
