"""Slow twins of the store, in plain Python: checksums, draws, the block format, and a graph of dicts."""

import struct
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def crc32c(data):
    """Divide bit by bit by the polynomial of Castagnoli, reflected."""
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mix64(value):
    """The finaliser of splitmix64, as its authors wrote it."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def splitmix64(seed, number):
    """Output `number` (from 0) of the splitmix64 generator seeded with `seed`."""
    return mix64(seed + (number + 1) * GOLDEN & MASK)


def draw(unit_key, number, bound):
    """Scale an output of splitmix64 to 0 … bound − 1."""
    return splitmix64(unit_key, number) * bound >> 64


def floyd(unit_key, degree, fanout):
    """Bentley and Floyd's sample, with a set."""
    chosen, order = set(), []
    for number, top in enumerate(range(degree - fanout, degree)):
        value = draw(unit_key, number, top + 1)
        value = top if value in chosen else value
        chosen.add(value)
        order.append(value)
    return order


def read_bits(words, start, count, bits):
    """Read `count` numbers of `bits` bits that lie one after the other from word `start` on."""
    data = int.from_bytes(np.asarray(words[start : start + (count * bits + 63) // 64 + 1]).tobytes(), "little")
    return [data >> (i * bits) & ((1 << bits) - 1) for i in range(count)]


def signed(value):
    """Read 64 bits as a signed number."""
    return value - 2**64 if value >> 63 else value


def _payload(words, at, count, bits, flags, time_bits, guard):
    neighbors = read_bits(words, at, count, bits)
    at += (count * bits + 63) // 64 + guard
    weights, times = [None] * count, [None] * count
    if flags & 1:
        weights = list(struct.unpack(f"<{count}f", np.asarray(words[at:]).tobytes()[: 4 * count]))
        at += (count + 1) // 2
    if time_bits:
        base = int(words[at])
        times = [signed(base + value & MASK) for value in read_bits(words, at + 1, count, time_bits)]
        at += 1 + (count * time_bits + 63) // 64 + guard
    if not flags & 16:
        return list(zip(neighbors, weights, times)), at
    if count == 0:
        return [], at
    base, id_bits = int(words[at]) & (1 << 56) - 1, int(words[at]) >> 56
    edge_ids = [base + value for value in read_bits(words, at + 1, count, id_bits)]
    return list(zip(neighbors, weights, times, edge_ids)), at + 1 + (count * id_bits + 63) // 64 + guard


def decode(words, records):
    """Read records by the description of the format; returns {local id: [(neighbour, weight, time), …]}; with edge ids
    they come fourth.

    Every record's magic, version, length and crc32c are asserted on the way.
    """
    lists, hubs = {}, {}
    for offset, length, first, ordinal, chunk in np.asarray(records).tolist():
        record = words[offset : offset + length]
        magic, version, flags, bits, time_bits = struct.unpack("<IBBBB", record[0].tobytes())
        assert (magic, version) == (0x42415347, 2)
        crc, stated = struct.unpack("<II", record[3].tobytes())
        assert stated == length
        assert crc == crc32c(record[:3].tobytes() + record[4:].tobytes())
        low, size = struct.unpack("<II", record[2].tobytes())
        if ordinal:
            assert flags & 8
            assert chunk == low
            assert int(record[1]) == hubs[first][ordinal - 1]
            part, end = _payload(record, 4, size, bits, flags, time_bits, 0)
            lists[int(record[1])] += part
            assert end == length
            continue
        assert int(record[1]) == first
        assert first % 16 == 0
        marks = np.frombuffer(record[4:].tobytes(), np.uint32)[: low + 1].tolist()
        at = 4 + (low + 2) // 2
        hubs[first] = [first + i for i in range(low) if marks[i] >> 31]
        assert bool(hubs[first]) == bool(flags & 4)
        degrees = [int(record[at + 4 * i]) for i in range(len(hubs[first]))]
        at += 4 * len(hubs[first])
        part, end = _payload(record, at, size, bits, flags, time_bits, 1)
        assert end == length
        starts = [mark & 0x7FFFFFFF for mark in marks]
        for i in range(low):
            lists[first + i] = part[starts[i] : starts[i + 1]]
        for hub, degree in zip(hubs[first], degrees):
            assert lists[hub] == []
            assert degree > 512
    return lists


@dataclass
class Twin:
    """An edge type in dicts: what a store must answer for the rows it was made of.

    `rows` are (src, dst, weight or None, time or None). Duplicates have the same ends and time (either order of the
    ends when undirected); the first row's weight stays.
    """

    rows: list
    undirected: bool = False
    lists: dict = field(init=False)
    num_edges: int = field(init=False)
    duplicates: int = field(init=False)
    self_loops: int = field(init=False)

    def __post_init__(self):
        first = {}
        for src, dst, weight, time in self.rows:
            ends = tuple(sorted((src, dst))) if self.undirected else (src, dst)
            first.setdefault((*ends, time), weight)
        self.num_edges, self.duplicates = len(first), len(self.rows) - len(first)
        self.self_loops = sum(src == dst for src, dst, _ in first)
        self.lists = defaultdict(list)
        for (src, dst, time), weight in first.items():
            self.lists[src].append((dst, weight, time))
            if self.undirected and src != dst:
                self.lists[dst].append((src, weight, time))
        for entries in self.lists.values():
            entries.sort(key=lambda entry: (0 if entry[2] is None else entry[2], entry[0]))

    @property
    def reversed(self):
        """The lists the other way."""
        return Twin([(dst, src, weight, time) for src, dst, weight, time in self.rows]).lists


def lists_of(store, edge_type, ids=None):
    """Ask a store for whole lists; returns {id: [(neighbour, weight, time), …]}, sorted by time, then id."""
    ids = store.ids(store.edge_types[edge_type].src).tolist() if ids is None else ids
    found = store.neighbors(ids, edge_type=edge_type)
    lists = {}
    for i, node in enumerate(ids):
        span = slice(found.indptr[i], found.indptr[i + 1])
        neighbors = found.ids[span].tolist()
        none = [None] * len(neighbors)
        weights = none if found.weights is None else found.weights[span].tolist()
        times = none if found.times is None else found.times[span].tolist()
        assert times == none or times == sorted(times)
        entries = list(zip(neighbors, weights, times))
        lists[node] = entries if times == none else sorted(entries, key=lambda entry: (entry[2], entry[0]))
    return lists


def chi_square(counts, expected=None):
    """Return the standardised chi-square statistic: about normal (0, 1) for many cells."""
    counts = np.asarray(counts, float)
    expected = counts.sum() / counts.size if expected is None else expected
    statistic, freedom = ((counts - expected) ** 2 / expected).sum(), counts.size - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)
