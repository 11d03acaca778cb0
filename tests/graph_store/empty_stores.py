"""Stores without a node or an edge, made without reading files: what updates begin with."""

import uuid
from dataclasses import asdict

import numpy as np

from graph_store.features import empty_sections
from graph_store.generation import GenerationWriter
from graph_store.ids import IdMap
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType
from graph_store.schema import EdgeTypeName, FeatureType
from graph_store.string_ids import StringMap


def node_type(name, id_type="integer", features=()):
    """Describe a node type."""
    return {"name": name, "id_type": id_type, "features": list(features)}


def edge_type(name, *, reverse=False, undirected=False, weighted=False, timed=False, features=(), **rules):
    """Describe an edge type; `rules` are those of the schema, as `duplicates="sum"`."""
    return {
        "name": name,
        "reverse": reverse,
        "undirected": undirected,
        "weighted": weighted,
        "timed": timed,
        "features": list(features),
        "rules": rules,
    }


def _stored(feature):
    kept = {key: value for key, value in asdict(feature).items() if key in ("name", "kind", "dtype", "dim", "scale")}
    assert FeatureType(**kept).kind == feature.kind
    return kept


def _no_ids(name, id_type, num_shards):
    base, none = np.zeros(num_shards + 1, np.int64), np.empty(0, np.int64)
    if id_type == "string":
        return StringMap.restore_strings(name, np.zeros(1, np.int64), np.zeros(1, np.uint8), base)
    return IdMap.restore(name, none, base, id_type=id_type)


def make_empty(path, node_types, edge_types, *, num_shards=2):
    """Write a store of generation 1, version 1."""
    path.mkdir(parents=True)
    writer = GenerationWriter(path, 1, num_shards, threads=1)
    stored_nodes, stored_edges = [], []
    for number, each in enumerate(sorted(node_types, key=lambda each: each["name"])):
        features = each["features"]
        writer.add_nodes(
            number,
            _no_ids(each["name"], each["id_type"], num_shards),
            features,
            [empty_sections(feature, 0) for feature in features],
        )
        kept = [_stored(feature) for feature in features]
        stored_nodes.append(StoredNodeType(each["name"], each["id_type"], 0, [0] * num_shards, kept))
    for each in edge_types:
        back = str(EdgeTypeName.parse(each["name"]).reversed()) if each["reverse"] else None
        names = [(each["name"], back if back else each["name"] if each["undirected"] else None)]
        if back:
            names.append((back, each["name"]))
        for name, reverse in names:
            number = len(stored_edges)
            if each["features"] and name == each["name"]:
                tables = [empty_sections(feature, 0) for feature in each["features"]]
                writer.add_edge_features(number, each["features"], tables)
            writer.add_edges(number, np.zeros(num_shards + 1, np.int64), [])
            stored_edges.append(
                StoredEdgeType(
                    name,
                    each["undirected"],
                    reverse,
                    each["weighted"],
                    each["timed"],
                    1,
                    0,
                    0,
                    0,
                    0,
                    features=[_stored(feature) for feature in each["features"]],
                    rules=each["rules"],
                )
            )
    files = writer.seal()
    Manifest(str(uuid.uuid4()), num_shards, stored_nodes, stored_edges, files=files).save(path)
    return path
