"""The examples of docs/loaders.md work one after the other, as they are written."""

import re
import warnings
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "loaders.md"


def test_the_examples_of_the_page_work_as_they_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    *plain, last = blocks
    for block in plain:
        exec(block, names)
    said = capsys.readouterr().out
    assert "\n['book', 'game', 'toy']\n(256,) (256, 4) []\n[2, 3, 4]\n[[0, 0], [1, 0], [0, 0], [1, 1]]\n" in said
    assert "0 4 44 (" in said
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch_geometric imports what torch calls old
            import torch_geometric  # noqa: F401
    except ImportError:
        pass  # the last block needs the extra 'torch'
    else:
        exec(last, names)
        assert "torch.int64 torch.Size([" in capsys.readouterr().out
    names["store"].close()
