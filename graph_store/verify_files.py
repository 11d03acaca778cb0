"""Checks the files of a store against the checksums that go with them."""

from collections.abc import Iterator
from pathlib import Path

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.feature_records import feature_file
from graph_store.manifest import Manifest, sealed_entry
from graph_store.resident import arena_folder, edge_file, featured, node_file


def sealed_faults(manifest: Manifest, store: Path) -> Iterator[str]:
    """Yield the faults of a generation's sealed files."""
    for name, expected in manifest.files.items():
        try:
            found = sealed_entry(store / name)
        except OSError as error:
            yield f"{store / name}: cannot read it: {error.strerror}"
            continue
        if found["bytes"] != expected["bytes"]:
            yield f"{store / name}: {found['bytes']} bytes, the manifest says {expected['bytes']}"
        elif found["crc32"] != expected["crc32"]:
            yield f"{store / name}: its crc32 is not that of the manifest"


def base_files(manifest: Manifest, store: Path) -> list[Path]:
    """Return the arena files of a generation, without those of overlays, there or not."""
    generation = manifest.generation
    nodes = [node_file(store, generation, number) for number in range(len(manifest.node_types))]
    edges = [edge_file(store, generation, number) for number in range(len(manifest.edge_types))]
    features = [feature_file(store, generation, kind, number) for kind, number, _ in featured(manifest)]
    return nodes + edges + features


def overlay_files(manifest: Manifest, store: Path) -> list[Path]:
    """Return the overlays of a generation that are there."""
    found = arena_folder(store).glob(f"gen-{manifest.generation}.overlay-*")
    return sorted(path for path in found if path.suffix != ".partial")


def sound_file(path: Path, faults: list[str]) -> ArenaFile | None:
    """Map an arena file and compare all of it with its checksums.

    None where it is damaged, which is a fault, or absent, which is none: it is rebuilt when the store is opened.
    """
    try:
        file = ArenaFile(path)
    except FileNotFoundError:
        return None
    except (CorruptBlock, OSError) as error:
        faults.append(str(error))
        return None
    damaged = file.damaged_sections()
    faults += [f"{path}: section {name!r} fails its checksum; delete the file, it is rebuilt" for name in damaged]
    return None if damaged else file
