"""What makes two explainers, tests or analyses the same, and what does not."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import benchmark
from benchmark.errors import UserError
from benchmark.evaluations.convergence import Convergence
from benchmark.settings.configuration import options
from benchmark.settings.declared import of_file
from benchmark.settings.identity import digest_of, identity
from tests.conftest import GIVEN
from tests.covering import one_in


@dataclass(frozen=True)
class Inner:
    size: int = 1
    version: ClassVar[int] = 1


@dataclass(frozen=True)
class Other:
    size: int = 1
    version: ClassVar[int] = 1


@dataclass(frozen=True)
class Outer:
    inner: Any = Inner()
    settings: Any = None
    version: ClassVar[int] = 1


class Plain:
    def __init__(self, alpha):
        self.alpha = alpha

    @cached_property
    def kept(self):
        return object()


class Estimator:
    def __init__(self, depth=1):
        self.depth, self.fitted_ = depth, object()

    def get_params(self, *, deep):
        return {"depth": self.depth}


@dataclass(frozen=True)
class Listed:
    words: str | None = of_file()
    version: ClassVar[int] = 1


def test_a_file_counts_by_its_content_wherever_it_lies(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("good")
    two.write_text("good")
    before = digest_of(Listed(str(one)))
    assert before == digest_of(Listed(str(two)))
    one.write_text("bad")
    assert len({before, digest_of(Listed(str(one))), digest_of(Listed()), digest_of(Listed("sentiment"))}) == 4


def test_nested_parts_of_another_class_differ():
    """With `asdict` all three had the settings {"inner": {"size": 1}}."""
    found = [digest_of(Outer(inner)) for inner in (Inner(), Other(), {"size": 1})]
    assert len(set(found)) == 3
    assert digest_of(Outer([Inner()])) != digest_of(Outer([Other()]))
    assert digest_of(Outer({"a": Inner()})) != digest_of(Outer({"a": Other()}))
    references = [benchmark.build(f"methods/{name}") for name in ("rollout", "globenc")]
    assert digest_of(Convergence(references[0])) != digest_of(Convergence(references[1]))


def test_nested_parts_of_another_version_differ(monkeypatch):
    before = digest_of(Outer()), digest_of(Outer([{"deep": Inner()}]))
    monkeypatch.setattr(Inner, "version", 2)
    assert not {*before} & {digest_of(Outer()), digest_of(Outer([{"deep": Inner()}]))}


def test_how_settings_are_written_makes_no_difference():
    plain = {"a": [1, 2], "b": {"c": "d"}}
    assert identity(OmegaConf.create(plain)) == identity(plain) == identity({"b": {"c": "d"}, "a": (1, 2)})
    assert digest_of(Outer(settings=OmegaConf.create(plain))) == digest_of(Outer(settings=plain))
    assert identity({1: "a"}) != identity({"1": "a"})
    assert identity(Counter(b=2, a=1)) == identity({"a": 1, "b": 2})


def test_objects_of_other_libraries():
    assert identity(Plain(1)) != identity(Plain(2))
    used = Plain(1)
    assert used.kept
    assert identity(used) == identity(Plain(1)), "what a property keeps is no setting"
    assert identity(Estimator(1)) == identity(Estimator(1))
    assert identity(Estimator(1)) != identity(Estimator(2))
    assert identity(np.arange(3)) == identity(np.arange(3)) != identity(np.arange(3.0))
    assert identity(torch.zeros(2)) != identity(torch.ones(2))
    assert identity(partial(max, 1)) != identity(partial(max, 2))
    assert identity(len) != identity(max)
    assert identity(Inner) != identity(Other)
    assert identity(Path("a")) == identity(Path("a")) != identity("a")
    assert identity(lambda x: x + 1) != identity(lambda x: x + 2)
    sentinel = [1, 2]
    assert identity({3, 1}) == identity({1, 3})
    assert identity(lambda x: sentinel) != identity(lambda x: used)


def test_what_cannot_be_told_apart_is_an_error():
    with pytest.raises(UserError, match="has no settings that can be read"):
        identity(re.compile("a"))


@pytest.mark.parametrize(
    "name",
    one_in(3, [f"{group}/{name}" for group in ("evaluations", "analyses", "methods") for name in options(group)]),
)
def test_every_setting_of_ours_has_an_identity(name):
    first, second = (benchmark.build(name, *GIVEN.get(name, ())) for _ in range(2))
    assert digest_of(first) == digest_of(second)
