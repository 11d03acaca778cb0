"""The packages import one way only, and nothing heavy when they are imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "graph_store": {"graph_store"},
    "sparse_tables": {"sparse_tables"},
    "models": {"models", "graph_store", "sparse_tables"},
    "mpi_runner": {"mpi_runner", "models", "graph_store", "sparse_tables"},
}


def imported(path: Path) -> set[str]:
    """Return the top-level names that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): sorted(found)
        for path in (ROOT / package).glob("**/*.py")
        if (found := (imported(path) & set(ALLOWED)) - ALLOWED[package])
    }
    assert wrong == {}


@pytest.mark.parametrize("package", ["graph_store", "sparse_tables", "models"])
def test_only_mpi_runner_imports_mpi4py(package: str) -> None:
    assert [str(path) for path in (ROOT / package).glob("**/*.py") if "mpi4py" in imported(path)] == []


def test_packages_are_flat() -> None:
    inside = {path.parent.relative_to(ROOT) for package in ALLOWED for path in (ROOT / package).glob("*/**/*.py")}
    assert inside == {Path("graph_store/sampling")}


@pytest.mark.parametrize("package", ALLOWED)
def test_importing_a_package_imports_neither_mpi_nor_torch(package: str) -> None:
    code = f"import sys, {package}; print(sorted({{'mpi4py', 'torch', 'tqdm'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_each_file_says_what_it_is_for() -> None:
    without = [
        str(path.relative_to(ROOT))
        for folder in [*ALLOWED, "benchmarks"]
        for path in (ROOT / folder).glob("*.py")
        if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert without == []
