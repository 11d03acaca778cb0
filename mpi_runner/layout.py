"""Who owns which shards and which samples: a pure function of the numbers of ranks, shards and samples."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Layout:
    """Contiguous ownership: rank r owns shards `num_shards * r // num_ranks` up to the next rank's.

    Parameters
    ----------
    num_ranks : int
        Ranks of the run, 1 or more.
    num_shards : int
        Shards of the store, 1 or more. Ranks beyond `num_shards` own no shard and still train.

    Raises
    ------
    ValueError
        If either number is below 1.
    """

    num_ranks: int
    num_shards: int

    def __post_init__(self) -> None:
        for name in ("num_ranks", "num_shards"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")

    def shards(self, rank: int) -> range:
        """Return the shards that `rank` owns, ascending; none for some where ranks outnumber shards."""
        return range(self.num_shards * rank // self.num_ranks, self.num_shards * (rank + 1) // self.num_ranks)

    def owners(self) -> npt.NDArray[np.int64]:
        """Return the owning rank of each shard: int64[num_shards], ascending."""
        owners = np.empty(self.num_shards, dtype=np.int64)
        for rank in range(self.num_ranks):
            owned = self.shards(rank)
            owners[owned.start : owned.stop] = rank
        return owners

    def slice(self, num_samples: int, rank: int) -> tuple[int, int]:
        """Return the half-open range of samples that `rank` takes; sizes differ by at most one."""
        return num_samples * rank // self.num_ranks, num_samples * (rank + 1) // self.num_ranks
