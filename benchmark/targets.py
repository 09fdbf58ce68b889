"""What is explained of an example: a number made of the model's logits, for a class or for one class rather than another.

Notation: B examples, C classes, y the logits. F is the number that is explained.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmark.errors import NotApplicable

TargetName = Literal["predicted", "label", "contrast", "margin", "log_probability"]
"""What a setting asks for: the class that the model predicts; the annotated one; the predicted class rather than the one
with the second largest logit; the annotated class rather than the other one with the largest logit; or the logarithm of the
annotated one's probability."""


class Target(ABC):
    """What is explained of each of B examples: a number F of its logits.

    A method starts its backward pass at `seed`, and a test watches `value` and `probability`; neither has to know what kind
    of target it is.
    """

    classes: Int[Tensor, "B"]
    """The class that each example is explained for; −1 where it is not known."""

    @abstractmethod
    def value(self, logits: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """F of logits, or of anything else that there is one of for each class."""

    @abstractmethod
    def seed(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """`∂F/∂y`: where a backward pass starts."""

    def of_parts(self, parts: Float[Tensor, "*n B C"], logits: Float[Tensor, "B C"]) -> Float[Tensor, "*n B"]:
        """`Σ_c ∂F/∂y_c · part_c`: what parts of the logits give to F; to first order where F is not linear in them."""
        return (parts * self.seed(logits)).sum(-1)

    @abstractmethod
    def probability(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """F on the scale of probabilities; with `multilabel` each class has one of its own."""

    def likelihood(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """What methods explain that explain probabilities: `probability`, or its logarithm where that is what F is."""
        return self.probability(logits, multilabel=multilabel)

    @abstractmethod
    def among(self, probabilities: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`probability` from the probabilities of all classes."""

    @abstractmethod
    def log_probability(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B"]:
        """The logarithm of `probability` of a distribution over classes."""

    @abstractmethod
    def holds(self, logits: Float[Tensor, "*n B C"]) -> Bool[Tensor, "*n B"]:
        """Whether the model answers so."""

    @abstractmethod
    def names(self, labels: Sequence[str]) -> list[str]:
        """What each example is explained for, in words."""

    @property
    @abstractmethod
    def stored(self) -> Mapping[str, Int[Tensor, "B"]]:
        """The numbers that say what is explained, by the name under which they are stored: some of `TARGET_FIELDS`."""

    @property
    def known(self) -> Bool[Tensor, "B"]:
        """Which examples have a class to be explained."""
        return self.classes >= 0

    @property
    def ids(self) -> list[tuple[int, ...]]:
        """What tells the target of an example from others."""
        return list(zip(*(numbers.tolist() for numbers in self.stored.values()), strict=True))

    def differs(self, other: "Target") -> Bool[Tensor, "B"]:
        """Which examples are explained for something else than in another target of the same examples."""
        own, others = self.stored, other.stored
        if own.keys() != others.keys():
            return torch.ones_like(self.classes, dtype=torch.bool)
        pairs = [numbers != others[name].to(numbers.device) for name, numbers in own.items()]
        return torch.stack(pairs).any(0)

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, rows: Any) -> Self:
        return self._each(lambda numbers: numbers[rows])

    def repeat(self, times: int) -> Self:
        """The target of the batch that many times over, one after the other."""
        return self._each(lambda numbers: numbers.repeat(times))

    def clone(self) -> Self:
        """A copy that shares no memory."""
        return self._each(torch.clone)

    def to(self, device: torch.device | str) -> Self:
        """The same on a device."""
        return self._each(lambda numbers: numbers.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        held: Any = self  # subclasses are data classes whose fields are tensors
        changed: Self = replace(held, **{one.name: change(getattr(held, one.name)) for one in fields(held)})
        return changed


@dataclass(frozen=True)
class ClassTarget(Target):
    """A class: `F = y_c`, whose probability is p_c.

    Attributes:
        classes: the class c of each example, in the model's order; −1 where it is not known, whose F is that of class 0.
    """

    classes: Int[Tensor, "B"]

    def value(self, logits: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`y_c`."""
        return picked(logits, self.classes.clamp(min=0))

    def of_parts(self, parts: Float[Tensor, "*n B C"], logits: Float[Tensor, "B C"]) -> Float[Tensor, "*n B"]:
        """The parts of `y_c`."""
        return self.value(parts)

    def seed(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """1 at c, 0 elsewhere."""
        return nn.functional.one_hot(self.classes.to(logits.device), logits.shape[-1]).to(logits.dtype)

    def probability(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """`p_c`: softmax over classes, or `σ(y_c)`."""
        return self.among(probabilities_of(logits, multilabel=multilabel))

    def among(self, probabilities: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`p_c`."""
        return self.value(probabilities)

    def log_probability(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B"]:
        """`ln p_c`."""
        classes = self.classes.clamp(min=0).to(logits.device)
        return -nn.functional.cross_entropy(logits, classes, reduction="none")

    def holds(self, logits: Float[Tensor, "*n B C"]) -> Bool[Tensor, "*n B"]:
        """Whether c is predicted."""
        return logits.argmax(-1) == self.classes.to(logits.device)

    def names(self, labels: Sequence[str]) -> list[str]:
        """The names of the classes."""
        return [labels[c] for c in self.classes.tolist()]

    @property
    def stored(self) -> Mapping[str, Int[Tensor, "B"]]:
        """The class."""
        return {"target": self.classes}


@dataclass(frozen=True)
class Contrast(Target):
    """Why class c rather than class d: `F = y_c − y_d` (Yin & Neubig 2022).

    Its probability is that of c where only c and d are possible, `p_c / (p_c + p_d) = σ(y_c − y_d)`, within [0, 1] like that
    of a class. Of a model of two classes it is p_c.

    Attributes:
        classes: c of each example.
        against: d.
    """

    classes: Int[Tensor, "B"]
    against: Int[Tensor, "B"]

    def value(self, logits: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`y_c − y_d`."""
        return picked(logits, self.classes) - picked(logits, self.against)

    def of_parts(self, parts: Float[Tensor, "*n B C"], logits: Float[Tensor, "B C"]) -> Float[Tensor, "*n B"]:
        """The parts of `y_c` less those of `y_d`."""
        return self.value(parts)

    def seed(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """1 at c, −1 at d, 0 elsewhere."""
        return ClassTarget(self.classes).seed(logits) - ClassTarget(self.against).seed(logits)

    def probability(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """`σ(y_c − y_d)`; NotApplicable where each class has a probability of its own."""
        if multilabel:
            raise NotApplicable(NO_CONTRAST)
        return self.value(logits).sigmoid()

    def among(self, probabilities: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`p_c / (p_c + p_d)`."""
        own, other = picked(probabilities, self.classes), picked(probabilities, self.against)
        return own / (own + other)

    def log_probability(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B"]:
        """`ln σ(y_c − y_d)`."""
        return nn.functional.logsigmoid(self.value(logits))

    def holds(self, logits: Float[Tensor, "*n B C"]) -> Bool[Tensor, "*n B"]:
        """Whether c has the larger logit of the two."""
        return self.value(logits) > 0

    def names(self, labels: Sequence[str]) -> list[str]:
        """Both names."""
        pairs = zip(self.classes.tolist(), self.against.tolist(), strict=True)
        return [f"{labels[c]} rather than {labels[d]}" for c, d in pairs]

    @property
    def stored(self) -> Mapping[str, Int[Tensor, "B"]]:
        """Both classes."""
        return {"target": self.classes, "against": self.against}


@dataclass(frozen=True)
class LogProbability(Target):
    """How probable a class is: `F = ln p_c = y_c − ln Σ_k exp y_k`. Of a language model the classes are the tokens.

    F is not linear in the logits: what a linear decomposition of them gives to F is so to first order (`of_parts`).

    Attributes:
        classes: the class c of each example, in the model's order; −1 where it is not known, whose F is that of class 0.
    """

    classes: Int[Tensor, "B"]

    def value(self, logits: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`ln p_c`."""
        return picked(logits, self.classes.clamp(min=0)) - logits.logsumexp(-1)

    def seed(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """1 at c, less the probability of each class."""
        return ClassTarget(self.classes.clamp(min=0)).seed(logits) - logits.detach().softmax(-1)

    def probability(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """`p_c`; NotApplicable where each class has a probability of its own."""
        return self.likelihood(logits, multilabel=multilabel).exp()

    def likelihood(self, logits: Float[Tensor, "*n B C"], *, multilabel: bool = False) -> Float[Tensor, "*n B"]:
        """`ln p_c`, so that explanations of several tokens add up; NotApplicable as `probability`."""
        if multilabel:
            raise NotApplicable(NO_DISTRIBUTION)
        return self.value(logits)

    def among(self, probabilities: Float[Tensor, "*n B C"]) -> Float[Tensor, "*n B"]:
        """`p_c`."""
        return picked(probabilities, self.classes.clamp(min=0))

    def log_probability(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B"]:
        """`ln p_c`."""
        return self.value(logits)

    def holds(self, logits: Float[Tensor, "*n B C"]) -> Bool[Tensor, "*n B"]:
        """Whether c is predicted."""
        return ClassTarget(self.classes).holds(logits)

    def names(self, labels: Sequence[str]) -> list[str]:
        """The names of the classes."""
        return [f"probability of {labels[c].strip() or labels[c]}" for c in self.classes.tolist()]

    @property
    def stored(self) -> Mapping[str, Int[Tensor, "B"]]:
        """The class, under a name of its own."""
        return {"target": self.classes, "logarithm": torch.ones_like(self.classes)}


TARGET_FIELDS = ("target", "against", "logarithm")
"""The names of what is stored of a target."""

NO_DISTRIBUTION = (
    "the log-probability of a class is that of a distribution over classes, and each label of this model has a probability "
    "of its own"
)

NO_CONTRAST = (
    "a contrast is between classes that exclude each other, and each label of this model has a probability of its own"
)


def target_from(stored: Mapping[str, Int[Tensor, "B"]]) -> Target:
    """The target whose `stored` numbers these are."""
    if "against" in stored:
        return Contrast(stored["target"], stored["against"])
    return LogProbability(stored["target"]) if "logarithm" in stored else ClassTarget(stored["target"])


def runner_up(logits: Float[Tensor, "B C"], *, multilabel: bool = False) -> Contrast:
    """The predicted class rather than the one with the second largest logit.

    Raises:
        NotApplicable: there is a single class, or each has a probability of its own.
    """
    if multilabel:
        raise NotApplicable(NO_CONTRAST)
    if logits.shape[-1] < 2:
        raise NotApplicable("the model has a single class, so that there is no other to contrast it with")
    predicted = logits.argmax(-1)
    others = logits.scatter(-1, predicted[:, None], -torch.inf)
    return Contrast(predicted, others.argmax(-1))


def margin(label: Int[Tensor, "B"], logits: Float[Tensor, "B C"], *, multilabel: bool = False) -> Contrast:
    """The annotated class rather than the other one with the largest logit; where it is not known, as `runner_up`.

    Raises:
        NotApplicable: as `runner_up`.
    """
    predicted = runner_up(logits, multilabel=multilabel)
    own = torch.where(label < 0, predicted.classes, label.to(logits.device))
    return Contrast(own, logits.scatter(-1, own[:, None], -torch.inf).argmax(-1))


def target_of(
    which: TargetName,
    label: Int[Tensor, "B"],
    logits: Callable[[], Float[Tensor, "B C"]],
    *,
    multilabel: bool = False,
) -> Target:
    """What a setting asks for, of examples with these labels; the model is asked for their logits where they matter.

    Raises:
        NotApplicable: as `runner_up`; the logarithm of a probability is asked for where each class has one of its own.
    """
    if which == "log_probability":
        if multilabel:
            raise NotApplicable(NO_DISTRIBUTION)
        return LogProbability(label)
    if which == "label":
        return ClassTarget(label)
    if which == "margin":
        return margin(label, logits(), multilabel=multilabel)
    return runner_up(logits(), multilabel=multilabel) if which == "contrast" else ClassTarget(logits().argmax(-1))


def joined(targets: Sequence[Target]) -> Target:
    """The targets of several batches, one after the other."""
    numbers = [target.stored for target in targets]
    return target_from({name: torch.cat([each[name] for each in numbers]) for name in numbers[0]})


def picked(values: Float[Tensor, "*n C"], classes: Int[Tensor, "*m"]) -> Float[Tensor, "*n"]:
    """The value of one class of each row of classes; `classes` may lack leading dimensions of `values`, which share them."""
    return values.gather(-1, classes.to(values.device).expand(values.shape[:-1])[..., None])[..., 0]


def probabilities_of(logits: Float[Tensor, "*n C"], *, multilabel: bool) -> Float[Tensor, "*n C"]:
    """`softmax(y)` over the classes; with several labels at a time `σ(y_c)` of each label c, and no sum of 1."""
    return logits.sigmoid() if multilabel else logits.softmax(-1)


@dataclass(frozen=True)
class OneClass:
    """The same class is explained for every example.

    Attributes:
        index: of the class, in the model's order.
    """

    index: int

    def __str__(self) -> str:
        return f"class-{self.index}"


@dataclass(frozen=True)
class DrawnClass:
    """The class that is explained is drawn for every example, each of the model's classes alike; nothing else is asked.

    Attributes:
        seed: of the draws; an example's also hangs on its identifier, and on nothing else.
    """

    seed: int

    def __str__(self) -> str:
        return f"drawn-{self.seed}"


Explained = TargetName | OneClass | DrawnClass
"""What is explained of every example; its text names what is stored."""
