"""Explain a sample of every submitted method anew, and hold the stored explanations to it.

A share f of replaced explanations is found with probability 1 − (1 − f)^k by k examples that nobody knew before: they are
drawn by SHA-256 of the submission's seal, the bundle's seal and a text that was published after the submission.
"""

import json
import os
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
from scipy.stats import spearmanr

from benchmark.bundles import history
from benchmark.bundles.recomputing import ABSENT, REFUSED, Request
from benchmark.bundles.repository import AUDIT, AUDIT_SCHEMA, Repository, Result
from benchmark.errors import UserError, shorter
from benchmark.report.run_folders import read_config
from benchmark.results import store
from benchmark.results.digests import sealed
from benchmark.results.locks import beside
from benchmark.results.store import Ragged
from benchmark.run.stages import PREDICTED

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
        nonce: text that was published after the submissions; empty for SHA-256 of the last line of the history.
        network: whether the method may reach a network, where it cannot be kept from it here.
        overrides: folders of this machine that bundles ask for.
        date: of the events, as YYYY-MM-DD.
    """

    k: int
    nonce: str
    network: bool
    overrides: Sequence[str]
    date: str


def found_with(share: float, k: int) -> float:
    """Probability that k examples, drawn at random, show that a share of the explanations is replaced: 1 − (1 − share)^k."""
    return float(1 - (1 - share) ** k)


def share_found(k: int, probability: float = 0.95) -> float:
    """The smallest share of replaced explanations that k examples find with a probability: 1 − (1 − probability)^(1/k)."""
    return float(1 - (1 - probability) ** (1 / k))


def audit(repository: Repository, asked: Auditing, methods: Sequence[str] = ()) -> Iterator[tuple[str, bool]]:
    """Audit every result that a class explains, or those of some methods; a line for each, and whether it held.

    Raises:
        UserError: the repository is not what it was, or a method would reach a network.
    """
    if not asked.network and not _can_be_cut_off():
        raise UserError(
            "the network cannot be cut off here (`unshare --map-root-user --net` fails), and an audit runs strangers' code: "
            "use a machine where it can, or a container without network and network=allowed"
        )
    with beside(repository.root / "merging", "audit"):
        nonce = asked.nonce or history.head(repository.root)
        for result in repository.results():
            chosen = not methods or result.record.method.name in methods
            if result.submission is None or result.withdrawn or not chosen:
                continue
            if result.submission.kind != "method":
                yield (
                    f"{result.submission.method}: scores that were made elsewhere cannot be computed again: it stays "
                    "retested",
                    True,
                )
                continue
            said = _audited(result, repository, replace(asked, nonce=nonce))
            if said is None:
                yield (
                    f"{result.submission.method}: not audited: its package is not installed here ({_whence(result)})",
                    True,
                )
                continue
            store.write_json(repository.root / result.folder / AUDIT, sealed(said))
            repository.note(asked.date, "audited", result.folder, said["words"])
            yield f"{result.submission.method}: {said['words']}", bool(said["ok"])


def _whence(result: Result) -> str:
    assert result.submission is not None
    return f"pip install {result.submission.package}" if result.submission.package else result.submission.target


def seed_of(submission_seal: str, bundle_seal: str, nonce: str) -> int:
    """What draws the examples: SHA-256 of the three, one after the other."""
    return int(sha256(f"{submission_seal}{bundle_seal}{nonce}".encode()).hexdigest(), 16)


def _audited(result: Result, repository: Repository, asked: Auditing) -> Mapping[str, Any] | None:
    """What explaining again found; None where the method is not there."""
    assert result.submission is not None
    bundle = result.bundle
    seed = seed_of(result.submission.seal, bundle.seal, asked.nonce)
    k = min(asked.k, bundle.task.n)
    uids = tuple(sorted(Random(seed).sample(bundle.task.uids, k), key=bundle.task.uids.index))
    stored = Ragged.read(result.run / f"{PREDICTED.name}.safetensors")
    settings = read_config(result.run)["method"]
    folder = repository.newest()[bundle.place][1]
    request = Request(
        str(folder.resolve()), tuple(asked.overrides), result.submission.method, settings, uids, whole=False
    )
    found = _explained(request, network=asked.network)
    if found is not None and _worst(stored, found, uids)[0] > TOLERANCE:
        found = _explained(replace(request, whole=True), network=asked.network)
    if found is None:
        return None
    worst, rank = _worst(stored, found, uids)
    draws = "seed" in json.dumps(settings)
    ok = worst <= TOLERANCE or (draws and rank >= LEAST_RANK)
    how = "scores are equal to the last digit" if not worst else f"scores differ by at most {worst:.1e} of the largest"
    if worst > TOLERANCE:
        how += f", and the least rank correlation is {rank:.3f}"
    least = share_found(k)
    words = (
        f"{k} of {bundle.task.n} explanations computed again{'' if ok else ' are others'}: {how}; replaced ones would "
        f"be found with probability 0.95 where they are at least {100 * least:.0f} % of all"
    )
    return {
        "schema": AUDIT_SCHEMA,
        "ok": ok,
        "k": k,
        "n": bundle.task.n,
        "least_share_found": least,
        "worst": worst,
        "least_rank_correlation": rank,
        "uids": list(uids),
        "nonce": asked.nonce,
        "seed": f"{seed:064x}",
        "submission": result.submission.seal,
        "date": asked.date,
        "harness": version("attention-explainer-benchmark"),
        "network": "allowed" if asked.network else "cut off",
        "words": words,
    }


def _worst(stored: Ragged, found: Ragged, uids: Sequence[str]) -> tuple[float, float]:
    """The largest difference of a score over the largest magnitude in its example, and the least rank correlation."""
    before, after = _tokens(stored), _tokens(found)
    worst, rank = 0.0, 1.0
    for uid in uids:
        old, new = before[uid].astype(float), after[uid].astype(float)
        if old.shape != new.shape:
            return np.inf, -1.0
        scale = max(float(np.abs(old).max(initial=0.0)), float(np.abs(new).max(initial=0.0)))
        if scale == 0.0:
            continue
        off = float(np.abs(old - new).max()) / scale
        worst = max(worst, off)
        if off > TOLERANCE:
            correlation = float(spearmanr(old, new).statistic)
            rank = min(rank, -1.0 if np.isnan(correlation) else correlation)
    return worst, rank


def _tokens(ragged: Ragged) -> dict[str, np.ndarray]:
    ends = np.cumsum(ragged.arrays["lengths"].astype(int))
    return dict(zip(ragged.uids, np.split(ragged.arrays["tokens"], ends[:-1]), strict=True))


def _explained(request: Request, *, network: bool) -> Ragged | None:
    """The explanations, from a process that has neither this one's environment nor, where it can be, a network.

    Raises:
        UserError: the method, or the bundle, ended the process.
    """
    with tempfile.TemporaryDirectory(prefix="audit-") as scratch:
        place = Path(scratch)
        request.write(place / "request.json")
        module = [sys.executable, "-m", "benchmark.bundles.recomputing"]
        cut = [] if network else ["unshare", "--map-root-user", "--net"]
        command = [*cut, *module, str(place / "request.json"), str(place / "explained.safetensors")]
        environment = _environment(place)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False)
        if done.returncode == 0:
            return Ragged.read(place / "explained.safetensors")
        if done.returncode == ABSENT:
            return None
        told = (done.stdout if done.returncode == REFUSED else done.stderr).strip().splitlines()[-1:] or [
            "it said nothing"
        ]
        raise UserError(f"{request.name}: explaining again ended with status {done.returncode}: {shorter(told[0])}")


_KEPT = ("PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "ATTENTION_BENCHMARK_CACHE", "SYSTEMROOT")
"""What of the environment a submitted method sees: nothing that holds a credential."""


def _environment(place: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": str(place), "TMPDIR": str(place), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _can_be_cut_off() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, check=False)
    return done.returncode == 0
