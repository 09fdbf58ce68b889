"""The command `python -m benchmark`."""

import sys

from benchmark.commands.entry import compare

if __name__ == "__main__":
    compare(sys.argv[1:], "python -m benchmark")
