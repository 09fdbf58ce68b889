"""The command `python -m benchmark`."""

import os
import sys

import hydra
from omegaconf import DictConfig

from benchmark.command import prepare, run_guarded


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """Run one comparison and print its leaderboard."""
    run_guarded(config)


if __name__ == "__main__":
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # a bug keeps its traceback; a user's mistake never gets there
    prepare(sys.argv[1:], "config")
    main()
