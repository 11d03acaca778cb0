"""The examples of docs/links.md work one after the other, as they are written."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "links.md"


def test_the_examples_of_the_page_work_as_they_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    for block in blocks:
        exec(block, names)
    names["store"].close()
    said = capsys.readouterr().out
    assert "(256, 5) 0\n" in said
    assert said.endswith("reverse at hop 2 " + said.split("target at hop 1 1 ")[1].split("\n")[0] + " 1\n")
    assert "\n[]\ntarget at hop 1 1 " in said
