"""The command `python -m benchmark`."""

import hydra
from omegaconf import DictConfig

from benchmark.command import run_guarded, start


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """Run one comparison and print its leaderboard."""
    run_guarded(config)


if __name__ == "__main__":
    start(main, "config")
