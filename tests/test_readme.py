"""The README's examples of the store and of the tables work one after the other, as they are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_examples_of_the_store_and_the_tables_work_as_they_are_written(tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    part = page[page.index("## Ingest") : page.index("## Train, evaluate, recommend")]
    blocks = re.findall(r"```(\w*)\n(.*?)```", part, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["", "", "python", "python", "python"]
    (tmp_path / "gossamer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mpi_runner "$@"\n')
    (tmp_path / "gossamer").chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    said = []
    for kind, block in blocks:
        command = [sys.executable, "-W", "error", "-c", block] if kind else ["sh", "-ec", block]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "clicks.store: no fault\n" in said[0]
    assert '{"id": 1, "degree": 2, "neighbors": [10, 11]}' in said[1]
    assert said[2].startswith("[10 11]\nuser:clicks:item [1 1] [10 11]\nitem:rev_clicks:user [10 10 11] [1 2 1]\n")
    assert sorted(re.findall(r"\d+", said[3])) == ["12", "13"]
