"""A model whose weights are written by hand: what causes its answers is known (`benchmark.models.written`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmark.errors import UserError
from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.loading import load_model
from benchmark.models.written.families import FAMILIES, FamilyName, write
from benchmark.models.written.program import Program
from benchmark.models.written.truth import check
from benchmark.settings.identity import identity
from benchmark.training.cached import checkpoint_directory, trained_once
from benchmark.training.sources import Dtype, Loading
from benchmark.types import Task

_CHECKED = 4


@dataclass(frozen=True, kw_only=True)
class Written(Loading):
    """The program of the task (`task=mechanism`), written into a plain model of transformers, once; then cached.

    Attributes:
        family: bert, gpt2, llama and vit classify; gpt2_lm and llama_lm are asked for the next token.
        dtype: float64 unless another is given: next to the constant 10⁴ in the residual stream, float32 keeps five digits.
    """

    written_version: ClassVar[int] = 1
    """Enters the cache's key: it is raised when other weights are written."""

    family: FamilyName = "bert"
    dtype: Dtype = "float64"

    @property
    def answers(self) -> Literal["class", "next_token"]:
        """What the model is asked."""
        return "next_token" if FAMILIES[self.family].form == "prompt" else "class"

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint; what it does on some inputs is held to brute force before it is kept.

        Raises:
            UserError: the task has no program, or the model does something else than the task says.
        """
        program: Any = getattr(task, "program", None)
        if not isinstance(program, Program):
            raise UserError(
                f"model=written writes what task=mechanism says, and task {task.name} says nothing of weights"
            )

        def into(folder: Path) -> None:
            with quiet_transformers():
                write(program, self.family, folder)
            model = load_model(folder, dtype="float64", device="cpu", task=self.answers)
            check(model, model.encode_examples(task.split("test")[:_CHECKED], model.label_map(task.labels)))

        covered = [self.written_version, self.family, identity(program), task.fingerprint]  # what is said of it, too
        return trained_once(checkpoint_directory(f"written-{self.family}", covered), "the written model", into)
