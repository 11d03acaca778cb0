"""The store under updates against a twin of dicts, whatever comes in whatever order: hypothesis chooses."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import graph_store
from graph_store.commit_log import log_folder, read_head, segment_file
from graph_store.errors import BadInput, UnknownVersion
from graph_store.schema import FeatureType
from graph_store.writer import GraphWriter
from tests.graph_store import live_model
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

IDS = {
    "integer": [-(2**63), -3, 0, 1, 2, 7, 2**40, 2**63 - 1],
    "unsigned": [0, 1, 2, 3, 9, 2**63, 2**64 - 2, 2**64 - 1],
    "string": ["a", "b", "Ärger", "日本", "x" * 300, "0", "a b", "é"],
}
NODE_FEATURES = (
    FeatureType("vec", "vector", dim=2),
    FeatureType("small", "vector", dtype="int8", dim=2, scale=0.5),
    FeatureType("age", "scalar", dtype="int16"),
    FeatureType("word", "category"),
    FeatureType("tags", "ids"),
    FeatureType("text", "string"),
)
EDGE_FEATURES = (FeatureType("score", "scalar", dtype="float64"), FeatureType("word", "category"))
VALUES = {
    "vec": st.tuples(st.sampled_from([0.0, 1.5, -2.0]), st.sampled_from([0.5, 3.0])),
    "small": st.tuples(st.sampled_from([0.0, 1.5, -2.0]), st.sampled_from([0.5, 3.0])),
    "age": st.integers(-5, 300),
    "word": st.sampled_from(["red", "green", "blau", "ü"]),
    "tags": st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    "text": st.sampled_from(["", "hello", "größe"]),
    "score": st.sampled_from([0.25, 4.0]),
}
RULES = ("first", "all", "sum", "max", "error")
VIEWS, LOOPS, TYPES = "user:views:item", "user:knows:user", ("item", "user")
COPIES = {}


def empty_store(path, config):
    """Put an empty store at a path; those of equal configuration are made once."""
    key = repr(config)
    if key not in COPIES:
        COPIES[key] = Path(tempfile.mkdtemp(prefix="gossamer-test-")) / "empty"
        make_empty(COPIES[key], *config)
    shutil.copytree(COPIES[key], path)


@st.composite
def configs(draw):
    """Draw node types and edge types; sum and max need weights."""
    rules = draw(st.sampled_from(RULES)), draw(st.sampled_from(RULES))
    both_ways = draw(st.booleans())
    nodes = [
        node_type("item", draw(st.sampled_from(sorted(IDS)))),
        node_type("user", draw(st.sampled_from(sorted(IDS))), NODE_FEATURES),
    ]
    views = edge_type(
        VIEWS,
        reverse=both_ways,
        weighted=rules[0] in ("sum", "max") or draw(st.booleans()),
        timed=draw(st.booleans()),
        features=EDGE_FEATURES if draw(st.booleans()) else (),
        duplicates=rules[0],
    )
    knows = edge_type(
        LOOPS,
        undirected=draw(st.booleans()),
        weighted=rules[1] in ("sum", "max"),
        timed=draw(st.booleans()),
        features=EDGE_FEATURES[:1] if draw(st.booleans()) else (),
        duplicates=rules[1],
    )
    return nodes, [views, knows]


def id_lists(name, *, smallest=1):
    """Draw places of ids in the pool of a type."""
    return st.lists(st.integers(0, 7), min_size=smallest, max_size=6)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.integers(0, 7),
        st.integers(-1, 4).map(float),
        st.integers(-2, 3),
        st.tuples(st.none() | VALUES["score"], st.none() | VALUES["word"]),
    ),
    min_size=1,
    max_size=8,
)
OPERATIONS = st.one_of(
    st.tuples(st.just("add_edges"), st.sampled_from([VIEWS, LOOPS]), ROWS, st.booleans()),
    st.tuples(st.just("add_edges"), st.sampled_from([VIEWS, LOOPS]), ROWS, st.booleans()),
    st.tuples(st.just("delete_edges"), st.sampled_from([VIEWS, LOOPS]), ROWS, st.booleans()),
    st.tuples(st.just("expire"), st.sampled_from([VIEWS, LOOPS]), st.integers(-3, 4), st.none()),
    st.tuples(st.just("add_nodes"), st.sampled_from(TYPES), id_lists("n"), st.none()),
    st.tuples(st.just("delete_nodes"), st.sampled_from(TYPES), id_lists("n"), st.none()),
    st.tuples(
        st.just("set_features"),
        st.just("user"),
        id_lists("n"),
        st.fixed_dictionaries({}, optional={each.name: st.none() | VALUES[each.name] for each in NODE_FEATURES}),
    ),
    st.tuples(st.just("hub"), st.just(VIEWS), st.integers(0, 7), st.integers(500, 1100)),
)


class LiveStore(RuleBasedStateMachine):
    """A writer, a reader that lags behind, and the twin at every version."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gossamer-test-"))
        self.path = self.folder / "live.store"
        self.writer = self.reader = None

    @initialize(config=configs())
    def make(self, config):
        empty_store(self.path, config)
        self.id_types = {each["name"]: each["id_type"] for each in config[0]}
        self.config = {each["name"]: each for each in config[1]}
        self.versions = {1: live_model.Model(*config)}
        self.writer = GraphWriter(self.path, threads=1, fold_rows=0)
        self.reader = graph_store.open(self.path, threads=1)
        self.hubs, self.heads = 0, []

    @property
    def newest(self):
        return self.versions[max(self.versions)]

    def ids(self, name, places):
        return [IDS[self.id_types[name]][place] for place in places]

    def given(self, name, ids):
        """Return ids as users pass them."""
        kinds = {"integer": np.int64, "unsigned": np.uint64}
        kind = kinds.get(self.id_types[name])
        return ids if kind is None else np.array(ids, kind)

    def apply(self, batch, model, operation):
        """Do an operation on a batch and on the twin; returns whether the batch must be refused."""
        kind, name, what, more = operation
        if kind in ("add_nodes", "delete_nodes"):
            ids = self.ids(name, what)
            getattr(batch, kind)(name, self.given(name, ids))
            getattr(model, kind)(name, ids)
        elif kind == "set_features":
            ids = [each for each in self.ids(name, what) if each in model.nodes[name]]
            values = {key: [value] * len(ids) for key, value in more.items()}
            batch.set_features(name, self.given(name, ids), values)
            model.set_features(name, ids, values)
        elif kind == "expire":
            if self.config[name]["timed"]:
                batch.expire(name, what)
                model.expire(name, what)
        elif kind == "hub":
            self.add_hub(batch, model, name, what, more)
        else:
            return self.edges(batch, model, kind, name, what, more)
        return False

    def add_hub(self, batch, model, name, place, size):
        if self.hubs or self.id_types["item"] == "string" or self.config[name]["rules"]["duplicates"] == "error":
            return
        self.hubs += 1
        config = self.config[name]
        rows = [
            (
                *self.ids("user", [place]),
                1000 + number,
                1.0 if config["weighted"] else None,
                number % 3 if config["timed"] else None,
                tuple(None for _ in config["features"]),
            )
            for number in range(size)
        ]
        self.add_rows(batch, name, rows, {})
        model.add_edges(name, rows)

    def add_rows(self, batch, name, rows, features):
        src, _, dst = name.split(":")
        config = self.config[name]
        batch.add_edges(
            name,
            self.given(src, [row[0] for row in rows]),
            self.given(dst, [row[1] for row in rows]),
            weight=[row[2] for row in rows] if config["weighted"] else None,
            time=[row[3] for row in rows] if config["timed"] else None,
            features=features,
        )

    def edges(self, batch, model, kind, name, what, more):
        src, _, dst = name.split(":")
        config = self.config[name]
        size = len(config["features"])
        rows = [
            (
                self.ids(src, [row[0]])[0],
                self.ids(dst, [row[1]])[0],
                row[2] if config["weighted"] else None,
                row[3] if config["timed"] else None,
                row[4][:size] if more else (None,) * size,
            )
            for row in what
        ]
        if kind == "delete_edges":
            with_time = bool(more and config["timed"])
            ends = self.given(src, [row[0] for row in rows]), self.given(dst, [row[1] for row in rows])
            batch.delete_edges(name, *ends, time=[row[3] for row in rows] if with_time else None)
            model.delete_edges(name, [(row[0], row[1], row[3]) for row in rows], timed=with_time)
            return False
        features = {
            feature.name: [row[4][place] for row in rows] for place, feature in enumerate(config["features"]) if more
        }
        if config["rules"]["duplicates"] == "error":
            kinds = [operation.kind for operation in batch.operations]
            if {"add_edges", "delete_edges", "expire", "delete_nodes"} & set(kinds):
                return False  # they may change what is there
            if model.has_duplicate(name, rows):
                with pytest.raises(BadInput, match="is there already"):
                    self.add_rows(batch, name, rows, features)
                return True
        self.add_rows(batch, name, rows, features)
        model.add_edges(name, rows)
        return False

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=4), ends=st.sampled_from(["commit", "commit", "raise"]))
    def commit(self, operations, ends):
        model, version = self.newest.copy(), self.writer.version
        try:
            with self.writer.batch() as batch:
                refused = [self.apply(batch, model, operation) for operation in operations]
                if any(refused) or ends == "raise":
                    raise KeyError("on purpose")
        except KeyError:
            assert self.writer.version == version
            return
        if not batch.operations:
            assert batch.report.version == version
            return
        assert batch.report.version == self.writer.version == version + 1
        self.versions[version + 1] = model
        self.heads.append((log_folder(self.path) / "head").read_bytes())

    @rule()
    def refresh(self):
        live_model.check(self.reader, self.versions[self.reader.version])
        assert self.reader.refresh() == self.writer.version
        live_model.check(self.reader, self.newest)

    @rule(back=st.integers(0, 6))
    def look_back(self, back):
        version = max(1, max(self.versions) - back)
        try:
            assert live_model.check_path(self.path, self.versions[version], as_of=version) == version
        except UnknownVersion:
            assert version < self.writer.manifest.version

    @rule(back=st.integers(1, 6))
    def ask_for_changes(self, back):
        since = max(1, max(self.versions) - back)
        try:
            found = graph_store.changes(self.path, since, threads=1)
        except UnknownVersion:
            assert since < self.writer.manifest.version
            return
        assert (found.since, found.until) == (since, max(self.versions))
        live_model.check_changes(found, self.versions[since], self.newest)

    @rule(keep=st.integers(0, 2))
    def fold(self, keep):
        self.writer._keep = keep
        assert self.writer.fold() == max(self.versions)
        live_model.check_path(self.path, self.newest)

    @rule()
    def reopen(self):
        self.writer.close()
        self.writer = GraphWriter(self.path, threads=1, fold_rows=0)
        assert self.writer.version == max(self.versions)

    @rule(tail=st.binary(max_size=40), cut=st.integers(0, 60), stale=st.integers(0, 6), no_arena=st.booleans())
    def crash(self, tail, cut, stale, no_arena):
        """Take up a copy made while the writer was at work, with the beginning of a record behind the last."""
        copy = self.folder / "copy.store"
        shutil.copytree(self.path, copy)
        head = read_head(copy)
        if head is not None:
            path = segment_file(copy, head.segment)
            whole = path.read_bytes()
            begun = whole[-60:-1][:cut] if cut and whole.startswith(b"GSLR") else b""
            path.write_bytes(whole + (begun if begun.startswith(b"GSLR") else tail))
        if stale and self.heads:
            # The head is not synced: a loss of power may leave any earlier one.
            (log_folder(copy) / "head").write_bytes(self.heads[-min(stale, len(self.heads))])
        if no_arena:
            shutil.rmtree(copy / "arena")
        live_model.check_path(copy, self.newest)
        with GraphWriter(copy, threads=1, fold_rows=0) as writer:
            assert writer.version == max(self.versions)
            writer.add_nodes("user", self.given("user", self.ids("user", [0])))
            model = self.newest.copy()
            model.add_nodes("user", self.ids("user", [0]))
            live_model.check_path(copy, model)
            writer.fold()
        live_model.check_path(copy, model)
        assert graph_store.verify(copy) == []
        shutil.rmtree(copy)

    def teardown(self):
        try:
            if self.writer is not None:
                live_model.check(self.reader, self.versions[self.reader.version])
                self.reader.close()
                self.writer.close()
                live_model.check_path(self.path, self.newest)
                assert graph_store.verify(self.path) == []
        finally:
            shutil.rmtree(self.folder)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


def test_a_store_under_updates_is_as_its_twin():
    run_state_machine_as_test(LiveStore, settings=settings(max_examples=12, stateful_step_count=12, **QUIET))


@pytest.mark.long
def test_a_store_under_many_updates_is_as_its_twin():
    run_state_machine_as_test(LiveStore, settings=settings(max_examples=400, stateful_step_count=40, **QUIET))
