"""The verb that agrees with its subject, in the stimuli of Open Sesame, as prompts for a causal language model."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from benchmark.annotations import KEYS, Stimulus
from benchmark.errors import UserError
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import ExistingFolder
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.stimuli import Stimuli

_OTHER = {"does": "do", "is": "are", "has": "have", "was": "were"}
_OTHER |= {plural: singular for singular, plural in _OTHER.items()}
"""A verb -> the same verb of the other number."""


@configurable
class AgreementPrompts:
    """Minimal pairs: "your bird with her lions" – does, not do.

    The stimuli of agreement (Lin et al. 2019) up to the verb, which is the answer; the foil is the verb of the other number.
    Left out are stimuli whose verb has one form for both (can, will), and those in which the subject's noun stands right
    before the verb, since the last word of a prompt is not rated. The rationale is that noun, whatever stands between; a
    relative clause may have a verb of its own that tells the number too ("my cat who does jump").

    Attributes:
        root: the folder of the authors' stimuli (`tasks.stimuli.Stimuli`); None: generated sentences of the same form.
        name: the task's name in run folders.
        stimuli: of every condition, of which some are left out.
        seed: determines every generated sentence.

    Raises:
        UserError: a file is missing or ill-formed, or no stimulus is left.
    """

    version: ClassVar[int] = 1

    root: Annotated[str | None, ExistingFolder()] = None
    name: str = "agreement_stimuli"
    stimuli: Count = 60
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """What the candidates are called."""
        return ("answer", "foil")

    @cached_property
    def fingerprint(self) -> str:
        """Of the sentences."""
        settings = {"task": "agreement_prompts", "version": self.version}
        parts = [f"{e.uid}\t{e.inputs}\t{e.candidates}" for split in ("validation", "test") for e in self.split(split)]
        return digest(settings, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Prompts of "train", "validation" or "test"."""
        check_split(self.name, name)
        if name not in self._splits:
            source = Stimuli(self.root, kinds=("agreement",), stimuli=self.stimuli, seed=self.seed)
            self._splits[name] = tuple(self._prompts(source.split(name)))
            if not self._splits[name]:
                raise UserError(
                    f"task {self.name}: no stimulus of the {name} split has a verb of two forms ({', '.join(_OTHER)}) "
                    "behind other words than its subject; raise task.stimuli"
                )
        return self._splits[name]

    @staticmethod
    def _prompts(examples: Sequence[Example]) -> Iterator[Example]:
        for example in examples:
            stimulus: Stimulus = example.meta[KEYS[Stimulus]]
            verb, noun, length = example.inputs[stimulus.target], max(stimulus.antecedent), stimulus.target
            if verb not in _OTHER or noun >= length - 1:
                continue
            places = np.arange(length)
            yield Example(
                uid=example.uid,
                inputs=" ".join(example.inputs[:length]),
                label=0,
                rationale=places == noun,
                rated=places < length - 1,
                candidates=(verb, _OTHER[verb]),
                meta={"kind": "agreement_stimuli", "looked_up": True},
            )
