"""Run by test_cli under plain mpiexec: `gossamer train`, with something missing on rank 1 only."""

import sys
from pathlib import Path

from mpi_runner import cli, launch

VALID = """
[data]
store = "absent.store"
edge_type = "user:clicks:item"
[model]
name = "bpr"
[train]
[run]
dir = "run"
"""

way, folder = sys.argv[1], Path(sys.argv[2])
path = folder / f"{launch.world_rank()}.toml"
if way == "import" and launch.world_rank() == 1:
    sys.modules["mpi_runner.job"] = None  # type: ignore[assignment]  # Its import fails from now on.
if way == "import" or launch.world_rank() != 1:
    path.write_text(VALID)
cli.main(["train", str(path)])
