"""Explain a sample of every submitted method anew, and hold the stored explanations to it.

A share f of exchanged explanations is found with probability 1 − (1 − f)^k by k examples that nobody knew before: they are
drawn by SHA-256 of the submission's seal, the bundle's seal and a text that did not exist when the submission was made.
"""

import math
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy

from benchmark.bundles.recomputing import REFUSED, Request
from benchmark.bundles.repository import AUDIT, AUDIT_SCHEMA, Repository, Result
from benchmark.errors import UserError, near, printable, shorter
from benchmark.report.run_folders import read_config
from benchmark.results import store
from benchmark.results.digests import DAMAGE, digest, sealed
from benchmark.results.store import Ragged
from benchmark.settings.sources import NoSuchTarget, outline_of

TOLERANCE = 1e-4
"""Of the largest magnitude of an example's scores: by how much a score may differ."""

LEAST_RANK = 0.99
"""Spearman's ρ of an example's scores that a method which draws has to reach."""

_LONGEST = 3600  # seconds that explaining the sample may take


@dataclass(frozen=True)
class Auditing:
    """How an audit is made.

    Attributes:
        k: examples of each method.
        nonce: text that was published after the submissions; empty for a random one, which the audit notes.
        network: whether the method may reach a network, where it cannot be kept from it here.
        overrides: folders of this machine that bundles ask for.
        date: of the events, as YYYY-MM-DD.
    """

    k: int
    nonce: str
    network: bool
    overrides: Sequence[str]
    date: str


def share_found(k: int, probability: float = 0.95) -> float:
    """The smallest share of exchanged explanations that k examples find with a probability: 1 − (1 − probability)^(1/k)."""
    return float(1 - (1 - probability) ** (1 / k))


def seed_of(submission_seal: str, bundle_seal: str, nonce: str) -> int:
    """What draws the examples: SHA-256 of the three, one after the other."""
    return int(sha256(f"{submission_seal}{bundle_seal}{nonce}".encode()).hexdigest(), 16)


def audit(repository: Repository, asked: Auditing, methods: Sequence[str] = ()) -> Iterator[tuple[str, bool]]:
    """Audit every result that a class explains, or those of some methods; a line for each, and whether it held.

    One whose scores were others stays so: a smaller sample of another day would say less.

    Raises:
        UserError: the repository is not what it was, or a method would reach a network.
    """
    if not asked.network and not _can_be_cut_off():
        raise UserError(
            "the network cannot be cut off here (`unshare` with a user, a mount and a network namespace fails), and audits "
            "run strangers' code: use a machine where it can, or a container without network and network=allowed"
        )
    with repository.held():
        results = repository.results()
        known = sorted({result.submission.method for result in results if result.submission is not None})
        if strange := sorted(set(methods) - set(known)):
            raise UserError(
                f"methods={strange[0]} was not submitted; {near(strange[0], known) if known else 'none was'}"
            )
        for result in results:
            chosen = not methods or result.record.method.name in methods
            if result.submission is None or result.withdrawn or not chosen:
                continue
            name = result.submission.method
            if result.submission.kind != "method":
                yield f"{name}: scores that were made elsewhere cannot be computed again: it stays retested", True
            elif result.audit.get("finished") and not result.audit["ok"]:
                yield f"{name}: was not reproduced on {result.audit['date']}, and stays so", False
            elif not is_there(result.submission.target):
                yield f"{name}: not audited: its package is not installed here ({_whence(result)})", True
            else:
                said = _audited(result, repository, asked)
                with repository.changed(result.folder, asked.date, "audited", said["words"]) as made:
                    store.write_json(made / AUDIT, sealed(said))
                yield f"{name}: {said['words']}", bool(said["ok"])


def is_there(target: str) -> bool:
    """Whether a class can be found; its module is not executed."""
    try:
        outline_of(target)
    except NoSuchTarget:
        return False
    return True


def _whence(result: Result) -> str:
    assert result.submission is not None
    return f"pip install {result.submission.package}" if result.submission.package else result.submission.target


def _audited(result: Result, repository: Repository, asked: Auditing) -> Mapping[str, Any]:
    """What explaining again found; of a method that does not get that far, why."""
    assert result.submission is not None
    bundle, nonce = result.bundle, asked.nonce or secrets.token_hex(16)
    seed = seed_of(result.submission.seal, bundle.seal, nonce)
    k = min(asked.k, bundle.task.n)
    uids = tuple(sorted(Random(seed).sample(bundle.task.uids, k), key=bundle.task.uids.index))
    settings = read_config(result.run)["method"]
    folder = repository.newest()[bundle.place][1]
    known = digest(result.record.method.identity)
    told = result.submission.method, settings, known, result.submission.source
    request = Request(str(folder.resolve()), tuple(asked.overrides), *told, uids, whole=False)
    worst, rank, failure = math.inf, -1.0, ""
    try:
        for whole in (False, True):  # as a part of its batch, and where that differs as it was explained
            again = replace(request, whole=whole)
            worst, rank = _explained(again, result.run, repository.root, network=asked.network)
            if worst <= TOLERANCE:
                break
    except UserError as error:
        failure = str(error)
    ok = not failure and (worst <= TOLERANCE or (_has_seed(settings) and rank >= LEAST_RANK))
    return {
        "schema": AUDIT_SCHEMA,
        "ok": ok,
        "finished": not failure,
        "k": k,
        "n": bundle.task.n,
        "least_share_found": share_found(k),
        "worst": worst,
        "least_rank_correlation": rank,
        "uids": list(uids),
        "nonce": nonce,
        "seed": f"{seed:064x}",
        "submission": result.submission.seal,
        "date": asked.date,
        "harness": version("attention-explainer-benchmark"),
        "network": "allowed" if asked.network else "cut off",
        "words": failure or _words(k, bundle.task.n, worst, rank, ok=ok),
    }


def _words(k: int, n: int, worst: float, rank: float, *, ok: bool) -> str:
    how = "scores are equal to the last digit" if not worst else f"scores differ by at most {worst:.1e} of the largest"
    if worst > TOLERANCE:
        how += f", and the least rank correlation is {rank:.3f}"
    if not ok:
        return f"{k} of {n} explanations computed again are others: {how}"
    if k == n:
        return f"all {n} explanations computed again: {how}"
    least = 100 * share_found(k)
    return (
        f"{k} of {n} explanations computed again: {how}; exchanged ones would be found with probability 0.95 where they are "
        f"at least {least:.0f} % of all"
    )


def _has_seed(settings: Any) -> bool:
    """Whether a method, or a part of it, has a setting `seed`: it draws."""
    if isinstance(settings, Mapping):
        return "seed" in settings or any(map(_has_seed, settings.values()))
    return isinstance(settings, list) and any(map(_has_seed, settings))


def _explained(request: Request, run: Path, results: Path, *, network: bool) -> tuple[float, float]:
    """How far explanations of another process are from the stored ones (`_worst`).

    It has neither this one's environment nor, where that can be, a network, the results, or a disk to write to.

    Raises:
        UserError: the method, or the bundle, ended the process, or it gave nothing.
    """
    with tempfile.TemporaryDirectory(prefix="audit-") as scratch:
        place = Path(scratch).resolve()
        request.write(place / "request.json")
        module = [
            sys.executable,
            "-m",
            "benchmark.bundles.recomputing",
            str(place / "request.json"),
            str(place / "out"),
        ]
        command = module if network else [*_APART, str(place), str(results.resolve()), *module]
        failed = "explaining again"
        try:
            done = subprocess.run(
                command, env=_environment(place), capture_output=True, text=True, timeout=_LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"{failed} did not end within an hour") from None
        if done.returncode != 0:
            said = done.stdout if done.returncode == REFUSED else done.stderr
            told = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise UserError(f"{failed} ended with status {done.returncode}: {printable(shorter(told[0]))}")
        try:
            return _worst(run, place / "out", request.uids)
        except (*DAMAGE, AssertionError) as error:
            raise UserError(f"{failed} gave something else: {error}") from error


def _worst(run: Path, out: Path, uids: Sequence[str]) -> tuple[float, float]:
    """The largest difference of a score over the largest magnitude in its example, and the least rank correlation.

    Compared are all files of scores that the run folder has.
    """
    worst, rank = 0.0, 1.0
    for path in sorted(run.glob("*.safetensors")):
        before, after = (_by_example(Ragged.read(folder / path.name)) for folder in (run, out))
        if not set(uids) & set(before) <= set(after):
            return math.inf, -1.0
        for uid in set(uids) & set(before):
            off, correlation = _apart(before[uid], after[uid])
            worst, rank = max(worst, off), min(rank, correlation)
    return worst, rank


def _apart(old: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    """The same of one example."""
    if old.shape != new.shape or not np.isfinite(new).all():
        return math.inf, -1.0
    scale = max(float(np.abs(old).max(initial=0.0)), float(np.abs(new).max(initial=0.0)))
    off = float(np.abs(old - new).max(initial=0.0)) / scale if scale else 0.0
    if off <= TOLERANCE:
        return off, 1.0
    correlation = float(scipy.stats.spearmanr(old.ravel(), new.ravel()).statistic)
    return off, -1.0 if math.isnan(correlation) else correlation


def _by_example(ragged: Ragged) -> dict[str, np.ndarray]:
    """The scores of each example: one for each token, or for each token and class."""
    scores = ragged.arrays["classes" if "classes" in ragged.arrays else "tokens"].astype(float)
    ends = np.cumsum(ragged.arrays["lengths"].astype(int))
    return dict(zip(ragged.uids, np.split(scores, ends[:-1]), strict=True))


_KEPT = ("PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "SYSTEMROOT")
"""What of the environment a submitted method sees: nothing that holds a credential."""


def _environment(place: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {"HOME": str(place), "TMPDIR": str(place), "ATTENTION_BENCHMARK_CACHE": str(place / "cache")}
    return {**kept, **own, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


_SETUP = """
set -e
place=$1 results=$2
shift 2
mount --bind "$place" "$place"
mount -t tmpfs none "$results"
mount -o remount,bind,ro /
cd "$PWD"
exec "$@"
"""
"""In namespaces of its own: the scratch folder can be written to, the results are not there, and the disk is read-only."""

_APART = ("unshare", "--map-root-user", "--net", "--mount", "sh", "-c", _SETUP, "sh")


def _can_be_cut_off() -> bool:
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory(prefix="audit-") as scratch, tempfile.TemporaryDirectory() as other:
        done = subprocess.run([*_APART, scratch, other, "true"], capture_output=True, check=False)
    return done.returncode == 0
