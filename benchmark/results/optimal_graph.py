"""The best tree that the construction of attribution graphs allows, by mixed-integer programming, and trees at random.

With the cells (l, i, j) of a graph in the order of its walk, layer L − 2 first and row by row, a *tree below top* is a set
of cells in which every token is a key at most once, `top` never, and i is `top` or the key of a cell (l', i', i) that comes
before: l' > l, or l' = l and i' < i. Every attribution graph is one (docs/protocols.md, section 4).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from benchmark.results.graph import Construction, walk

Cell = tuple[int, int, int]
"""Layer, query, key."""


def allowed_cells(
    chosen: Bool[NDArray, "L T T"], construction: Construction, top: int, terminal: int | None
) -> list[Cell]:
    """The chosen cells that the construction may add, in the order of the walk."""
    rows = walk(chosen, construction, top, terminal)
    return [(layer, query, key) for layer, query, keys in rows for key in keys if key != top]


def comes_before(first: Cell, second: Cell) -> bool:
    """Whether the key of the first cell has appeared when the second, whose query it is, is walked."""
    return (-first[0], first[1]) < (-second[0], second[1])


def best_tree(cells: Sequence[Cell], weights: Float[NDArray, " n"], top: int) -> list[int]:
    """The places of the cells of a tree below `top` with the largest sum of weights, which may be empty.

        max Σ_e w_e x_e,  x_e ∈ {0, 1},  Σ_{e into j} x_e ≤ 1 for every key j,
        x_(l,i,j) ≤ Σ_{e before (l,i,j), e into i} x_e for i ≠ top

    It is solved exactly (HiGHS, with no gap).

    Raises:
        RuntimeError: the solver found no optimum.

    Source: Hao et al. 2021, whose objective `Σ_l Σ_{(i,j) ∈ E_l} α_l[i,j] − λ Σ_l |E_l|` their heuristic approaches: here
    w = α − λ. The conditions are those of their heuristic.
    """
    if not len(cells):
        return []
    into: dict[int, list[int]] = {}
    for place, cell in enumerate(cells):
        into.setdefault(cell[2], []).append(place)
    entries = [(row, place, 1.0) for row, places in enumerate(into.values()) for place in places]
    limits = [1.0] * len(into)
    for place, cell in enumerate(cells):
        if cell[1] == top:
            continue
        earlier = [other for other in into.get(cell[1], []) if comes_before(cells[other], cell)]
        entries += [(len(limits), place, 1.0), *((len(limits), other, -1.0) for other in earlier)]
        limits.append(0.0)
    rows, columns, values = zip(*entries, strict=True)
    matrix = coo_array((values, (rows, columns)), shape=(len(limits), len(cells))).tocsr()
    found = milp(
        -np.asarray(weights, dtype=np.float64),
        integrality=np.ones(len(cells)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, limits),
        options={"mip_rel_gap": 0},
    )
    if found.status != 0:
        raise RuntimeError(f"no optimum was found: {found.message}")
    return np.flatnonzero(found.x > 0.5).tolist()


class RandomTrees:
    """Trees below `top` over the cells that exist, at most one cell for every token but `top`, drawn cell by cell.

    Each cell is drawn uniformly from those that keep it a tree of the construction.

    Args:
        exists: the cells that may be drawn.
        construction: `paper` or `script`.
        top: the node above all.
        terminal: the token that the classifier reads, or None.
    """

    def __init__(
        self, exists: Bool[NDArray, "L T T"], construction: Construction, top: int, terminal: int | None
    ) -> None:
        n_layers, self._n_tokens = exists.shape[:2]
        may = exists[:-1] & ~np.eye(self._n_tokens, dtype=bool)
        may[:, :, top] = False
        if construction == "script":
            may[-1, np.arange(self._n_tokens) != top] = False
            if terminal is not None:
                may[:, terminal] = False
        layers, self._queries, self._keys = np.nonzero(may[::-1])  # in the order of the walk
        self._layers, self._top = n_layers - 2 - layers, top
        self._order = -self._layers * self._n_tokens + self._queries  # the smaller comes before
        self._of_query: dict[int, NDArray[np.int64]] = {}

    def draw(self, size: int, random: np.random.Generator) -> list[Cell]:
        """A tree of `size` cells, or of as many as fit."""
        arrived = {self._top: self._order.min(initial=0) - 1}
        fresh = np.ones(self._n_tokens, dtype=bool)
        fresh[self._top] = False
        tree: list[Cell] = []
        while len(tree) < size:
            possible = np.sort(np.concatenate([self._open(query, since, fresh) for query, since in arrived.items()]))
            if not len(possible):
                break
            chosen = int(random.choice(possible))
            key = int(self._keys[chosen])
            tree.append((int(self._layers[chosen]), int(self._queries[chosen]), key))
            arrived[key], fresh[key] = self._order[chosen], False
        return tree

    def _open(self, query: int, since: int, fresh: Bool[NDArray, " T"]) -> NDArray[np.int64]:
        """Places of the cells of a query that come behind its arrival and lead to a token that has not arrived."""
        if query not in self._of_query:
            self._of_query[query] = np.flatnonzero(self._queries == query)
        places = self._of_query[query]
        open_ones: NDArray[np.int64] = places[fresh[self._keys[places]] & (self._order[places] > since)]
        return open_ones
