"""The command `python -m benchmark.train`: fine-tune a base model for a task."""

from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from benchmark.command import start
from benchmark.errors import UserError
from benchmark.exits import Kept, guarded
from benchmark.progress import step


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="train")  # type: ignore[untyped-decorator]
def main(config: DictConfig) -> None:
    """Fine-tune and say where the checkpoint lies."""
    out = Path(str(config.get("out")))
    sentence = f"the last checkpoint is kept beside {out}; the same command goes on from it"
    guarded(lambda: _run(config), Kept(sentence, out.absolute().parent))


def _run(config: DictConfig) -> None:
    for key in ("model.path", "out"):
        if OmegaConf.is_missing(config, key) or OmegaConf.select(config, key) is None:
            raise UserError(f"{key} is not set; give it on the command line: {key}=...")
    from benchmark.progress.bar import shown

    with shown():
        with step("starting"):  # transformers' trainer takes seconds to import: not for --help
            from benchmark.training.finetune import run_training
        run_training(config)


if __name__ == "__main__":
    start(main, "train")
