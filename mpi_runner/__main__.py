"""`python -m mpi_runner`: the `gossamer` command."""

from mpi_runner.cli import main

if __name__ == "__main__":
    main()
