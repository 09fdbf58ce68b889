"""The command `python -m benchmark.train`: fine-tune a base model for a task."""

import os
import sys

import hydra
from omegaconf import DictConfig

from benchmark.command import guarded, prepare


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="train")  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """Fine-tune and say where the checkpoint lies."""
    from benchmark.training import run_training  # transformers' trainer takes seconds to import: not for --help

    guarded(lambda: run_training(config))


if __name__ == "__main__":
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # a bug keeps its traceback; a user's mistake never gets there
    prepare(sys.argv[1:], "train")
    main()
