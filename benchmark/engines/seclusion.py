"""A cluster of Ray that is this process's alone: it listens on the loopback interface, and asks for a token.

Ray runs the code of whoever joins it. By itself it listens on every interface of the machine, and keeps one token for all
clusters in the user's home, or none (before 2.60). What it is told here are environment variables that the processes inherit
which it starts; the caller takes them back.
"""

import ctypes
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_ON_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0: no cluster of several machines, and therefore no other interface."""


@contextmanager
def environment_kept() -> Iterator[None]:
    """Environment variables are afterwards what they were; processes that were started meanwhile keep theirs."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def secluded() -> Iterator[None]:
    """Whatever cluster is started in the block is on loopback, with a token of its own.

    A mode or a token that the user has set in the environment stays.
    """
    from ray._private import ray_constants

    os.environ[_ON_LOOPBACK] = "0"
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and not any(name in os.environ for name in _TOKENS):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    read_again()
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # what the variable says, for a module that was imported before
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def read_again() -> None:
    """Have Ray forget the mode and the token that it has read; versions without tokens know neither."""
    from ray import _raylet

    loader = getattr(_raylet, "AuthenticationTokenLoader", None)
    if loader is not None:
        getattr(_raylet, "Config").initialize("")  # noqa: B009 - types of compiled modules are not known
        loader.instance().reset_cache()


@contextmanager
def signals_kept() -> Iterator[None]:
    """SIGTERM does afterwards what it did.

    Ray puts a handler of its own before Python's, which writes a trace and aborts the process three seconds later, whatever
    the process does meanwhile. Python changes handlers in its main thread alone, its C interface in any.
    """
    python = ctypes.pythonapi
    python.PyOS_getsig.restype = ctypes.c_void_p
    python.PyOS_setsig.restype, python.PyOS_setsig.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    handler, has_alarm = python.PyOS_getsig(signal.SIGTERM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    try:
        yield
    finally:
        python.PyOS_setsig(signal.SIGTERM, handler)
        if not has_alarm:
            signal.alarm(0)  # that of a SIGTERM in the block
