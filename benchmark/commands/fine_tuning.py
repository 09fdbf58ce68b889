"""Fine-tuning from the command line."""

from collections.abc import Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from benchmark.commands.running import prepare
from benchmark.errors import UserError
from benchmark.exits import Kept, guarded
from benchmark.progress import step
from benchmark.settings.checking import check_parts
from benchmark.settings.early import Checkpoint, Surroundings


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="train")  # type: ignore[untyped-decorator]
def fine_tune(config: DictConfig) -> None:
    """Fine-tune and say where the checkpoint lies."""
    out = Path(str(config.get("out")))
    sentence = f"the last checkpoint is kept beside {out}; the same command goes on from it"
    guarded(lambda: _run(config), Kept(sentence, out.absolute().parent))


def looked_at(words: Sequence[str]) -> tuple[list[str], DictConfig | None]:
    """The command line as Hydra takes it, and its configuration, after a look for mistakes.

    Raises:
        UserError: the first mistake.
    """
    overrides, config = prepare(words, "train")
    if config is not None:
        for key in ("model.path", "out"):
            if OmegaConf.is_missing(config, key) or OmegaConf.select(config, key) is None:
                raise UserError(f"{key} is not set; give it on the command line: {key}=...")
        if problem := Checkpoint().mistake("model.path", str(config.model.path), Surroundings()):
            raise UserError(problem)
        check_parts(config, ("task", "recipe"))
    return overrides, config


def _run(config: DictConfig) -> None:
    from benchmark.progress.bar import shown

    with shown():
        with step("starting"):  # transformers' trainer takes seconds to import
            from benchmark.training.finetune import run_training
        run_training(config)
