"""What every benchmark shares: repeats in turns, medians, printed tables, JSON reports with their origin."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("gossamer", "numpy", "numba", "scipy", "pyarrow", "rocksdict", "mpi4py", "mpich", "duckdb")
MISSING = "-"


def timed(call: Callable[[], Any]) -> Callable[[], float]:
    """Return a callable that runs `call` once and returns the seconds it took."""

    def run() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return run


def interleave(cases: Mapping[str, Callable[[], Any]], repeats: int, *, warmup: int = 1) -> dict[str, list[float]]:
    """Run the cases in turns, so that a busy moment of the machine falls on all of them.

    Parameters
    ----------
    cases : mapping of name to callable
        A callable that returns a float has measured itself (seconds, a peer in its own process say);
        one that returns anything else is timed here.
    repeats : int
        Rounds that count.
    warmup : int
        Rounds before them that do not.

    Returns
    -------
    dict of name to list of float
        Seconds of each counted round, in order. See `medians`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(warmup + repeats):
        for name, call in cases.items():
            start = time.perf_counter()
            answer = call()
            spent = time.perf_counter() - start
            if turn >= warmup:
                seconds[name].append(answer if isinstance(answer, float) else spent)
    return seconds


def medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each case's rounds, in seconds."""
    return {name: statistics.median(rounds) for name, rounds in seconds.items()}


def machine() -> dict[str, Any]:
    """Describe this machine: processor, cores this process may use, memory in bytes, system, load."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "load_1min": os.getloadavg()[0],
    }


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of Python and of those `packages` that are installed here."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """Return the commit the benchmark ran at, with `+changes` when tracked files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    return head + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def print_table(rows: Sequence[Mapping[str, Any]], *, file: Any = None) -> None:
    """Print rows of equal keys as an aligned table; floats get three significant digits."""

    def shown(value: Any) -> str:
        if value is None:
            return MISSING
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    if not rows:
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([shown(row.get(key)) for key in columns] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    numeric = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in columns]
    for line in cells:
        parts = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric)]
        print("  ".join(parts).rstrip(), file=file)


def figure(
    name: str, value: float | None, unit: str = "", *, least: float | None = None, most: float | None = None
) -> dict[str, Any]:
    """Return a row that holds a figure beside its target: at least, or at most, so much (None: there is none)."""
    target, met = MISSING, None
    if least is not None:
        target, met = f"≥ {least:g}", value is not None and value >= least
    elif most is not None:
        target, met = f"≤ {most:g}", value is not None and value <= most
    shown = MISSING if value is None or met is None else "yes" if met else "no"
    return {"figure": name, "value": value, "unit": unit, "target": target, "met": shown}


def ratio(seconds: Mapping[str, float], ours: str, peer: str) -> float | None:
    """Return how many times faster the case `ours` is than `peer`; None where one of them did not run."""
    return seconds[peer] / seconds[ours] if ours in seconds and peer in seconds else None


def write_report(
    area: str,
    rows: Sequence[Mapping[str, Any]],
    extra: Mapping[str, Any] | None = None,
    *,
    figures: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Print the rows and write them to `benchmarks/results/AREA.json`, with commit, machine and versions.

    `figures` are rows made by `figure`, printed below the others.

    Returns
    -------
    Path
        The file written (it replaces the area's last report).
    """
    print_table(rows)
    if figures:
        print()
        print_table(figures)
    report = {
        "area": area,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", f"benchmarks.{area}", *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "rows": [dict(row) for row in rows],
        **({"figures": [dict(row) for row in figures]} if figures else {}),
        **(extra or {}),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{area}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written: {path.relative_to(ROOT)}")
    return path


def peer_python(name: str) -> Path | None:
    """Find the interpreter of a peer's own environment, or None (the peer is then skipped, with a message).

    Looks at the variable `GOSSAMER_PEER_<NAME>` (an environment's folder or its interpreter), then at
    `.venv-<name>` in the repository.
    """
    stated = os.environ.get(f"GOSSAMER_PEER_{name.upper()}")
    place = Path(stated) if stated else ROOT / f".venv-{name}"
    python = place / "bin" / "python" if place.is_dir() else place
    if python.is_file():
        return python
    print(
        f"{name}: skipped, no interpreter at {python}. Make one with "
        f"`python -m venv .venv-{name}` and install {name} in it, or set GOSSAMER_PEER_{name.upper()}.",
        file=sys.stderr,
    )
    return None


class Peer:
    """A peer that runs in its own environment, as a subprocess that answers one JSON line a request.

    Parameters
    ----------
    python : Path
        Its interpreter, from `peer_python`.
    script : Path or str
        A file, or the name of a module of ours, that reads JSON lines from stdin and answers each with one JSON object
        on stdout.
    environment : mapping, optional
        Variables added to this process's (`OMP_NUM_THREADS`, say).
    """

    def __init__(self, python: Path, script: Path | str, *, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [str(python), *(["-m", script] if isinstance(script, str) else [str(script)])],
            cwd=ROOT if isinstance(script, str) else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises
        ------
        RuntimeError
            If the peer ended or answered `{"error": …}`.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(dict(request)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"the peer ended with status {self.process.wait()}"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End the peer by closing its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
