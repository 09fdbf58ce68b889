"""A method asked in another process, which has seen nothing of what was asked before.

One process is started that has imported what is needed; it forks for each question, so that no two share anything. The
user's own script is not run again there: what is defined in it cannot be sent.
"""

import atexit
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import IO, Any

import torch
from torch import Tensor

from benchmark.checking.subject import FIELDS, Place, Subject
from benchmark.models.precision import Twin, WeightParts
from benchmark.types import Batch
from benchmark.working_folder import importable_from, own_classes_importable

_FOLDER = "ATTENTION_BENCHMARK_CLASSES"
"""Where the process is told in which folder a configuration may name classes."""


@dataclass(frozen=True)
class NotAsked:
    """The method cannot be asked there.

    Attributes:
        why: in words.
    """

    why: str


Answer = dict[str, Tensor] | str | NotAsked
"""Scores by field, what went wrong, or why it could not be asked."""


def asked_elsewhere(subject: Subject) -> Answer:
    """What the method says of the inputs there, or why it cannot be asked."""
    place = subject.place
    model = replace(place.model, twin=Twin(), weight_parts=WeightParts())
    try:
        there = Place(place.name, model, (), _encodes, place.family)
        told = pickle.dumps((subject.method, subject.name, there, place.batch, torch.get_num_threads()))
    except Exception as error:  # whatever a class of somebody's raises when it is pickled
        return NotAsked(f"the method cannot be sent there ({type(error).__name__})")
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        _send(server.stdin, told)
        answer: Answer = pickle.load(server.stdout)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # the last of an answer that is cut off
        _server.cache_clear()
        return NotAsked("the process ended without an answer")
    return answer


@cache
def _server() -> subprocess.Popen[bytes]:
    """The process that answers; it ends with this one."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        _FOLDER: importable_from() or "",
    }
    server = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    atexit.register(server.kill)
    return server


def _encodes(*_: Any) -> Batch:
    raise NotImplementedError("the batch is sent as it is")


def _send(stream: IO[bytes], content: Any) -> None:
    stream.write(pickle.dumps(content))  # whole or not at all
    stream.flush()


def _answer(told: bytes) -> Answer:
    try:
        method, name, place, batch, threads = pickle.loads(told)
        torch.set_num_threads(threads)
    except Exception as error:  # a module that is not there, the script of the user
        return NotAsked(f"the method cannot be read there ({type(error).__name__}: {error})")
    try:
        own = Subject(method, name, place).explain(batch, place.target_of(batch))
    except Exception as error:  # whatever a method of somebody's raises
        return f"it raised {type(error).__name__} there: {error}"
    return {field: value.detach() for field in FIELDS if (value := getattr(own, field)) is not None}


def serve() -> None:
    """Answer what comes in, each in a process of its own where there are forks."""
    if os.environ.get(_FOLDER):
        own_classes_importable(os.environ[_FOLDER])
    import_module("methods.attention_explainer")  # what most methods need, before the first question

    torch.set_num_threads(1)  # a pool of threads does not outlive a fork
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints is no answer
    while True:
        try:
            told = pickle.load(questions)  # bytes, which the child reads: what fails there ends no server
        except EOFError:
            return
        if not hasattr(os, "fork"):
            _send(answers, _answer(told))
            return
        child = os.fork()
        if child == 0:
            _send(answers, _answer(told))
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            _send(answers, NotAsked("the process ended without an answer"))
