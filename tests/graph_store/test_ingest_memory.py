"""Ingest makes the same bytes under any memory budget: rows that spill, ids that outgrow memory, lists in ranges."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import id_collector
from tests.graph_store.budgets import BUDGETS, ROOMY, content
from tests.graph_store.stores import CLICKS, check, many_rows


def id_column(kind, numbers):
    """Return a column of ids of a kind, one for each distinct number."""
    if kind == "string":
        return pa.array([f"{number:x}" * (1 + number % 3) for number in numbers.tolist()])
    if kind == "unsigned":
        return pa.array(numbers.astype(np.uint64) * np.uint64(2**54 + 9))
    return pa.array(numbers if kind == "dense" else numbers * 2**40 - 7)


def rows_file(path, kind, *, weighted, timed, num_rows=20_000, seed=0):
    """Write rows with hubs and duplicates; ids of each end have a distribution of their own."""
    random = np.random.default_rng(seed)
    src = (900 * random.random(num_rows) ** 3).astype(np.int64)
    dst = (1700 * random.random(num_rows) ** 2).astype(np.int64) + 3
    table = {"src": id_column(kind, src), "dst": id_column(kind, dst)}
    if weighted:
        table["weight"] = pa.array(random.integers(0, 1000, num_rows).astype(np.float32))
    if timed:
        table["time"] = pa.array(random.integers(0, 3, num_rows))
    pq.write_table(pa.table(table), path, row_group_size=3000)
    return path


def schema_of(path, kind, *, weighted=False, timed=False, edge_type=CLICKS, **options):
    id_type = "integer" if kind in ("dense", "integer") else kind
    return graph_store.Schema.from_edges(
        path,
        edge_type,
        weight="weight" if weighted else None,
        time="time" if timed else None,
        id_type=id_type,
        **options,
    )


CASES = [
    ("dense", False, False, {"reverse": True}),
    ("integer", True, False, {"reverse": True}),
    ("integer", False, False, {"edge_type": "page:links:page", "undirected": True}),
    ("unsigned", True, True, {"reverse": True, "duplicates": "all"}),
    ("string", False, True, {"edge_type": "page:links:page", "undirected": True, "duplicates": "first"}),
    ("string", True, False, {"reverse": True, "duplicates": "sum"}),
]


@pytest.mark.parametrize(("kind", "weighted", "timed", "options"), CASES)
def test_any_budget_makes_the_same_bytes(tmp_path, budget, kind, weighted, timed, options):
    path = rows_file(tmp_path / "rows.parquet", kind, weighted=weighted, timed=timed)
    schema = schema_of(path, kind, weighted=weighted, timed=timed, **options)
    budget(ROOMY)
    graph_store.ingest(schema, tmp_path / "roomy", num_shards=3)
    expected = content(tmp_path / "roomy")
    for number, (name, parts) in enumerate(BUDGETS.items()):
        budget(parts)
        graph_store.ingest(schema, tmp_path / "other", num_shards=3, threads=1 + number % 2, overwrite=True)
        assert content(tmp_path / "other") == expected, name


@pytest.mark.parametrize("mask", [0, 1, 0xFF])
def test_strings_of_one_hash_are_told_apart_under_any_budget(tmp_path, budget, monkeypatch, mask):
    monkeypatch.setattr(id_collector, "ALL_BITS", mask)
    collector = id_collector.IdCollector.__init__
    monkeypatch.setattr(
        id_collector.IdCollector,
        "__init__",
        lambda self, *args, **kwargs: collector(self, *args, **kwargs, hash_mask=mask),
    )
    path = rows_file(tmp_path / "rows.parquet", "string", weighted=False, timed=False, num_rows=600)
    schema = schema_of(path, "string", reverse=True)
    expected, rows = None, pq.read_table(path).to_pydict()
    for parts in (ROOMY, BUDGETS["ids in many dictionaries"], BUDGETS["ids merged in ranges"]):
        budget(parts)
        graph_store.ingest(schema, tmp_path / "store", num_shards=3, overwrite=True)
        arena = {file.name: file.read_bytes() for file in sorted((tmp_path / "store" / "arena").iterdir())}
        expected = arena if expected is None else expected
        assert arena == expected
        with graph_store.open(tmp_path / "store") as store:
            assert sorted(store.ids("user").tolist()) == sorted(set(rows["src"]))
            degrees = {}
            for src, dst in set(zip(rows["src"], rows["dst"])):
                degrees[src] = degrees.get(src, 0) + 1
                del dst
            assert store.degree(list(degrees), CLICKS).tolist() == list(degrees.values())


def test_a_list_that_fits_no_budget_is_built_all_the_same(make_store, budget):
    budget(BUDGETS["nothing in memory"])
    rows = [(1, node, float(node), None) for node in range(5000)] + many_rows(2000)
    path = make_store(rows, num_shards=2, reverse=True)
    check(path, rows, reverse=True)


def test_batches_are_small_where_memory_is(tmp_path, budget, monkeypatch):
    seen = []
    read = sys.modules["graph_store.intake"].read_edges

    def watched(*args, **options):
        for batch in read(*args, **options):
            seen.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(sys.modules["graph_store.intake"], "read_edges", watched)
    path = rows_file(tmp_path / "rows.parquet", "integer", weighted=False, timed=False)
    budget(BUDGETS["nothing in memory"])
    graph_store.ingest(schema_of(path, "integer"), tmp_path / "store", num_shards=2)
    assert max(seen) <= 4096
    assert sum(seen) == 20_000
