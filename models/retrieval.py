"""Retrieval: the exact top k by dot product, in blocks, so that queries × items is never dense in memory."""

from typing import NamedTuple

import numpy as np

from graph_store.kernels import kernel, run_ranges

# Scores in flight at a time: 512 × 8,192 float32 are 16 MiB, which the caches share with the rows.
QUERY_BLOCK = 512
ITEM_BLOCK = 8192


class Top(NamedTuple):
    """The best items of each query, best first."""

    indices: np.ndarray
    """int64[q, k]; −1 where a query has fewer than k candidates."""
    scores: np.ndarray
    """float32[q, k]; −inf where the index is −1."""


@kernel
def _mask(scores, indptr, indices, first_item, start, stop):
    for row in range(start, stop):
        for at in range(indptr[row], indptr[row + 1]):
            column = indices[at] - first_item
            if 0 <= column < scores.shape[1]:
                scores[row, column] = -np.inf


@kernel
def _select(scores, first_item, top, best, start, stop):
    """Insert a block's scores into the sorted lists `top`, `best`; items come in ascending order."""
    num_items, k = scores.shape[1], top.shape[1]
    for row in range(start, stop):
        least = best[row, k - 1]
        for begin in range(0, num_items, 64):
            end = min(begin + 64, num_items)
            better = 0
            for column in range(begin, end):  # branch-free, so that it runs in vectors
                better += scores[row, column] > least
            if better == 0:
                continue
            for column in range(begin, end):
                score = scores[row, column]
                if score > least:
                    place = k - 1  # an equal score that is there already has the lower index and stays before
                    while place > 0 and best[row, place - 1] < score:
                        best[row, place] = best[row, place - 1]
                        top[row, place] = top[row, place - 1]
                        place -= 1
                    best[row, place] = score
                    top[row, place] = first_item + column
                    least = best[row, k - 1]


def top_k(
    queries: np.ndarray,
    items: np.ndarray,
    k: int,
    *,
    exclude: tuple[np.ndarray, np.ndarray] | None = None,
    threads: int | None = None,
) -> Top:
    """Return the k items of the largest dot product with each query.

    Parameters
    ----------
    queries : float32[q, dim]
    items : float32[m, dim]
    k : int
        At least 1.
    exclude : (int64[q + 1], int64[e]), optional
        `indptr` and indices of the items never to return for each query, in any order.
    threads : int, optional
        Most threads of the selection, by default the cores of this process; the products use BLAS's own.

    Returns
    -------
    Top
        Best first; equal scores by ascending index.

    Raises
    ------
    ValueError
        If shapes do not fit, k is below 1, or a row holds a value that is not finite.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    items = np.ascontiguousarray(items, np.float32)
    if queries.ndim != 2 or items.ndim != 2 or queries.shape[1] != items.shape[1]:
        raise ValueError(
            f"top_k: queries and items must be [q, dim] and [m, dim], got {queries.shape} and {items.shape}"
        )
    if k < 1:
        raise ValueError(f"top_k: k must be at least 1, got {k}")
    for name, rows in (("queries", queries), ("items", items)):
        if not np.isfinite(rows).all():
            row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"top_k: {name} row {row} holds a value that is not finite")
    indptr, indices = _checked_lists(exclude, len(queries))
    top = np.full((len(queries), k), -1, np.int64)
    best = np.full((len(queries), k), -np.inf, np.float32)
    for begin in range(0, len(queries), QUERY_BLOCK):
        block = slice(begin, begin + QUERY_BLOCK)
        marks = indptr[begin : begin + QUERY_BLOCK + 1]
        _scan(queries[block], items, (marks, indices), Top(top[block], best[block]), threads)
    return Top(top, best)


def _scan(
    queries: np.ndarray,
    items: np.ndarray,
    exclude: tuple[np.ndarray, np.ndarray],
    found: Top,
    threads: int | None,
) -> None:
    scores = np.empty((len(queries), min(ITEM_BLOCK, len(items))), np.float32)
    for first in range(0, len(items), ITEM_BLOCK):
        block = items[first : first + ITEM_BLOCK]
        part = (
            scores[:, : len(block)]
            if len(block) == scores.shape[1]
            else np.empty((len(queries), len(block)), np.float32)
        )
        np.matmul(queries, block.T, out=part)

        def select(start: int, stop: int, part: np.ndarray = part, first: int = first) -> None:
            _mask(part, *exclude, first, start, stop)
            _select(part, first, found.indices, found.scores, start, stop)

        run_ranges(select, len(queries), threads=threads, grain=32)


def _checked_lists(exclude: tuple[np.ndarray, np.ndarray] | None, num_queries: int) -> tuple[np.ndarray, np.ndarray]:
    if exclude is None:
        return np.zeros(num_queries + 1, np.int64), np.zeros(0, np.int64)
    indptr, indices = (np.ascontiguousarray(part, np.int64) for part in exclude)
    if indptr.shape != (num_queries + 1,) or (np.diff(indptr) < 0).any() or indptr[0] < 0 or indptr[-1] > indices.size:
        raise ValueError(
            f"top_k: exclude must be indptr[{num_queries + 1}] (rising) into indices, "
            f"got indptr of shape {indptr.shape} and {indices.size} indices"
        )
    return indptr, indices
