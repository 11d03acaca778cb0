"""Published data sets as stores: the schemas of examples/, their conversions run once, each store made once."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import graph_store
from graph_store import Schema

EXAMPLES = Path(__file__).parents[2] / "examples"

# What some schemas need besides the data: the script that makes it, run from the folder of examples/.
CONVERSIONS = {
    "beauty": "json_lists.py ../shared/data/beauty/Beauty_item2attributes.json attributes examples/beauty-items.jsonl",
    "heco-acm": "heco_acm.py ../shared/data/heco-acm examples/heco-acm-papers.parquet",
    "wikipedia": "json_lists.py ../shared/data/wikipedia/chameleon/chameleon_features.json nouns "
    "examples/chameleon.jsonl --csv ../shared/data/wikipedia/chameleon/chameleon_target.csv",
}


class Published:
    """A copy of the schemas with the data where their paths lead, so that nothing is written beside the originals."""

    def __init__(self, folder, data):
        self.folder = folder / "checkout"
        self._schemas, self._made = {}, {}
        (folder / "shared").mkdir()
        (folder / "shared" / "data").symlink_to(data)
        shutil.copytree(EXAMPLES, self.folder / "examples", ignore=shutil.ignore_patterns("*.store", "runs"))

    def run(self, command):
        """Run a script of examples/ in a process of its own."""
        script, *arguments = command.split()
        environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
        subprocess.run([sys.executable, EXAMPLES / script, *arguments], cwd=self.folder, env=environment, check=True)

    def schema(self, name, *, source=None, **options):
        """Return the schema of a data set, with `options` for its edge types and `source` for their sources."""
        if name not in self._schemas:
            if name in CONVERSIONS:
                self.run(CONVERSIONS[name])
            self._schemas[name] = Schema.from_toml(self.folder / "examples" / f"{name}.toml")
        schema = self._schemas[name]
        edge_types = {}
        for key, edge_type in schema.edge_types.items():
            sources = [replace(each, **(source or {})) for each in edge_type.sources]
            edge_types[key] = replace(edge_type, sources=sources, **options)
        return Schema(schema.node_types, edge_types)

    def report(self, name, **options):
        """Return what the ingest of a data set says; options are those of `schema`."""
        key = repr((name, sorted(options.items())))
        if key not in self._made:
            path = self.folder / f"{len(self._made)}.store"
            report = graph_store.ingest(self.schema(name, **options), path, num_shards=3)
            assert graph_store.verify(path) == []
            self._made[key] = path, report
        return self._made[key][1]

    def path(self, name, **options):
        """Return the path of the store of a data set."""
        self.report(name, **options)
        return self._made[repr((name, sorted(options.items())))][0]


def edges_of(store, edge_type=None, **options):
    """Return the columns of all edges: int64 or object."""
    return [column.to_numpy() for column in store.scan(edge_type, features=[], **options).read_all().columns]


def assert_same_rows(found, expected):
    """Compare the columns int64[n] of two tables, whatever the order of their rows."""
    np.testing.assert_array_equal(*(rows[:, np.lexsort(rows)] for rows in (np.stack(found), np.stack(expected))))
