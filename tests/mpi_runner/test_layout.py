"""Ownership: every shard and every sample belongs to exactly one rank."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_runner.layout import Layout

layouts = st.builds(Layout, st.integers(1, 40), st.integers(1, 40))


@given(layouts)
def test_every_shard_has_one_owner(layout: Layout) -> None:
    owned = [list(layout.shards(rank)) for rank in range(layout.num_ranks)]
    assert [shard for shards in owned for shard in shards] == list(range(layout.num_shards))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1
    expected = [rank for rank, shards in enumerate(owned) for _ in shards]
    np.testing.assert_array_equal(layout.owners(), expected)


@given(layouts, st.integers(0, 10_000))
def test_slices_cover_the_samples_in_rank_order(layout: Layout, num_samples: int) -> None:
    slices = [layout.slice(num_samples, rank) for rank in range(layout.num_ranks)]
    assert slices[0][0] == 0
    assert slices[-1][1] == num_samples
    assert all(left[1] == right[0] for left, right in pairwise(slices))
    sizes = [stop - start for start, stop in slices]
    assert max(sizes) - min(sizes) <= 1


def test_three_ranks_share_sixteen_shards_by_the_stated_rule() -> None:
    assert [list(Layout(3, 16).shards(rank)) for rank in range(3)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11, 12, 13, 14, 15],
    ]


@pytest.mark.parametrize(("num_ranks", "num_shards"), [(0, 1), (1, 0)])
def test_a_layout_of_nothing_is_refused(num_ranks: int, num_shards: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more, got 0"):
        Layout(num_ranks, num_shards)
