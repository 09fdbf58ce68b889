"""Two nodes of Ray, one of which is killed in the middle: `python -m tests.load nodes`."""

import threading
import time
from collections import Counter
from pathlib import Path

from tests.load.jobs import Place, differences, fresh

PER_NODE = 2
KILLED_AFTER = 10  # batches


def killed_node(place: Place, whole: Path, alone: Counter[str], took: float) -> list[str]:
    """A comparison on two nodes; one is killed while it works, and what is left is that of one undisturbed job."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": PER_NODE, "include_dashboard": False})
    second = cluster.add_node(num_cpus=PER_NODE)
    out, found = fresh(place.folder / "nodes" / "out"), list[str]()

    def kill() -> None:
        while not place.log.exists() or len(place.log.read_text().splitlines()) < KILLED_AFTER:
            time.sleep(0.01)
        cluster.remove_node(second, allow_graceful=False)
        found.append("killed")

    killer = threading.Thread(target=kill, daemon=True)
    place.log.unlink(missing_ok=True)
    killer.start()
    start = time.monotonic()
    more = (f"engine.address={cluster.address}", f"engine.workers={2 * PER_NODE}", "engine.methods_at_once=3")
    place.run(out, "engine=ray", *more)
    killer.join(10)
    explained = sum(Counter(place.log.read_text().splitlines()).values())
    print(
        f"two nodes, one {''.join(found) or 'NOT killed'} after {KILLED_AFTER} batches: {time.monotonic() - start:.1f} s, "
        f"{explained} batches explained, {len(alone)} are needed",
        flush=True,
    )
    cluster.shutdown()
    place.log.unlink(missing_ok=True)
    names = ("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "curves.csv", "comparison.json")
    wrong = differences(out, whole, names) + _rows(out, whole)
    return wrong if found else [*wrong, "the node was not killed"]


def _rows(out: Path, whole: Path) -> list[str]:
    """Files of rows that differ in a byte."""
    tables = sorted(path.relative_to(whole) for path in whole.rglob("rows.parquet"))
    return [f"{path}: bytes" for path in tables if (out / path).read_bytes() != (whole / path).read_bytes()]
