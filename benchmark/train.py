"""The command `python -m benchmark.train`: fine-tune a base model for a task."""

import sys

from benchmark.commands.entry import train

if __name__ == "__main__":
    train(sys.argv[1:], "python -m benchmark.train")
