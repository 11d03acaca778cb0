"""The papers of HeCo's ACM: labels, split and words, which lie in NumPy files without ids, to one Parquet file."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse


def papers(folder: Path) -> pa.Table:
    """Return a row for each paper: its number, label, part of the split (null for most) and the words it has."""
    labels = np.load(folder / "labels.npy")
    split = np.full(labels.size, None, object)
    for part in ("train", "val", "test"):
        split[np.load(folder / f"{part}_20.npy")] = part
    words = scipy.sparse.load_npz(folder / "p_feat.npz").tocsr()
    return pa.table(
        {
            "id": np.arange(labels.size),
            "label": labels.astype(np.uint8),
            "split": pa.array(split, pa.string()),
            "words": pa.ListArray.from_arrays(words.indptr, words.indices),
        }
    )


def main() -> None:
    """Convert the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    pq.write_table(papers(options.folder), options.target)


if __name__ == "__main__":
    main()
