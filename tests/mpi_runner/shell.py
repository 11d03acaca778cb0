"""Commands as a shell sees them, run in this process: stdout, stderr, status; and a store to ask."""

import json

import pytest

from mpi_runner.cli import main

CLICKS = "user_id,item_id,n\n7,70,0.5\n7,71,1.5\n-3,70,2\n7,70,0.5\n9007199254740993,72,1\n"


class Shell:
    """Runs commands in this process."""

    def __init__(self, capsys):
        self.capsys = capsys

    def __call__(self, *arguments):
        """Return status, stdout and stderr of a command."""
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        return int(end.value.code or 0), out, err

    def answer(self, *arguments):
        """Return the one JSON object that a command prints."""
        status, out, err = self(*arguments, "--json")
        assert status == 0, err
        assert out.count("\n") == 1
        return json.loads(out)

    def refusal(self, *arguments, status):
        """Return the one line that a command ends with."""
        found, out, err = self(*arguments)
        assert (found, out, err.count("\n")) == (status, "", 1)
        return err


def make_clicks(folder):
    """Make a store of `CLICKS` in a folder; returns its path."""
    (folder / "clicks.csv").write_text(CLICKS)
    edges = ("--edges", str(folder / "clicks.csv"), "--edge-type", "user:clicks:item", "--reverse", "--weight", "n")
    with pytest.raises(SystemExit) as end:
        main(["ingest", *edges, "--shards", "4", str(folder / "clicks.store")])
    assert not end.value.code
    return folder / "clicks.store"
