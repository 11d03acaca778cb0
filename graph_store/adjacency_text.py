"""Edges from adjacency text, `user item item …` a line: whole blocks at a time, without a loop over words."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_batch import EdgeBatch, Field, fault, shown
from graph_store.schema import NodeType
from graph_store.text_blocks import BLOCK_BYTES, TextBlock, TextFile
from graph_store.text_cells import check_text
from graph_store.text_layout import TextLayout

_SPACES = b" \t\r\n"
_IS_WORD = np.ones(256, np.bool_)
_IS_WORD[list(_SPACES)] = False
_IS_INTEGER = np.zeros(256, np.bool_)
_IS_INTEGER[list(b"-0123456789")] = True
# An int64 has at most 19 digits and a sign; only longer words can be out of range.
_SHORTEST_OUT_OF_RANGE = 19


def read_adjacency(
    path: Path, layout: TextLayout, src_type: NodeType, dst_type: NodeType, *, threads: int
) -> Iterator[EdgeBatch]:
    """Return the edges of an adjacency file in batches; words are separated by any white space.

    Raises
    ------
    BadInput
        From the iterator: a word that is no id of its type, with its line and its place in it.
    """
    parser = _Parser(path, Field("src", "0", 0, src_type), Field("dst", "1", 1, dst_type))
    blocks = _blocks(path, layout)
    return in_order((partial(parser.parse, block) for block in blocks), threads=threads)


def _blocks(path: Path, layout: TextLayout) -> Iterator[TextBlock]:
    """Yield the file in blocks of whole lines; a line longer than a block goes on under its first word."""
    with TextFile(path) as file:
        file.read(layout.skip)
        rest, line = b"", layout.first_line
        last = False
        while not last:
            fresh = file.read(BLOCK_BYTES)
            last = len(fresh) < BLOCK_BYTES
            data = rest + fresh if rest else fresh
            end, again = len(data) if last else data.rfind(b"\n") + 1, b""
            if end == 0 and len(data) > BLOCK_BYTES:
                end, again = _cut_line(path, line, data)
            rest = again + data[end:]
            if end:
                yield TextBlock(data[:end] if end < len(data) else data, line, file.tell())
                line += data.count(b"\n", 0, end)


def _cut_line(path: Path, line: int, data: bytes) -> tuple[int, bytes]:
    """Return where the last whole word of a long line ends, and what its rest is to begin with."""
    end = max(data.rfind(b" "), data.rfind(b"\t")) + 1
    words = data[:BLOCK_BYTES].split(None, 1)
    if end == 0 or len(words) < 2:
        raise BadInput(f"{path}: line {line}: a word of more than {BLOCK_BYTES >> 20} MiB; is this an adjacency file?")
    return end, words[0] + b" "


class _Words(NamedTuple):
    """The words of a block, and how many each line that has any holds."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    per_line: NDArray[np.int64]
    lines: NDArray[np.int64]


def _split(data: bytes) -> _Words:
    raw = np.frombuffer(data, np.uint8)
    is_word = _IS_WORD[raw]
    changes = np.flatnonzero(is_word[1:] != is_word[:-1]) + 1
    edge = np.array([0]) if len(raw) and is_word[0] else np.empty(0, np.int64)
    last = np.array([len(raw)]) if len(raw) and is_word[-1] else np.empty(0, np.int64)
    bounds = np.concatenate([edge, changes, last])
    starts, stops = bounds[0::2], bounds[1::2]
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    ends = np.append(np.flatnonzero(raw == 10), len(raw))
    per_line = np.diff(np.searchsorted(starts, ends), prepend=0)
    lines = np.flatnonzero(per_line)
    return _Words(raw[is_word], offsets, per_line[lines], lines)


class _Parser:
    """Turns blocks of lines into batches; holds no state between blocks."""

    def __init__(self, path: Path, src: Field, dst: Field) -> None:
        self.path = path
        self.src = src
        self.dst = dst

    def parse(self, block: TextBlock) -> EdgeBatch:
        words = _split(block.data)
        texts = pa.LargeStringArray.from_buffers(
            len(words.offsets) - 1, pa.py_buffer(words.offsets), pa.py_buffer(words.data)
        )
        firsts = np.cumsum(words.per_line) - words.per_line
        is_dst = np.ones(len(texts), np.bool_)
        is_dst[firsts] = False
        try:
            src, dst = self._ids(words, texts, firsts, is_dst)
        except pa.ArrowInvalid as error:
            raise self._find_fault(block, words, texts) or BadInput(f"{self.path}: {error}") from None
        degrees = words.per_line - 1
        alone = np.flatnonzero(degrees == 0)
        edges = np.repeat(np.arange(len(degrees)), degrees)
        src_only = src.take(pa.array(alone)) if isinstance(src, pa.Array) else src[alone]
        src = src.take(pa.array(edges)) if isinstance(src, pa.Array) else src[edges]
        return EdgeBatch(src, dst, None, None, len(dst), block.bytes_done, src_only if len(alone) else None)

    def _ids(self, words: _Words, texts: pa.Array, firsts: NDArray[np.int64], is_dst: NDArray[np.bool_]) -> Any:
        """Return the first word of each line and all other words as ids of their types."""
        src_integer, dst_integer = self.src.kind == "integer", self.dst.kind == "integer"
        if src_integer and dst_integer:
            if not _IS_INTEGER[words.data].all():
                raise pa.ArrowInvalid("not integers")
            numbers = texts.cast(pa.int64()).to_numpy(zero_copy_only=True)
            return numbers[firsts], numbers[is_dst]
        texts.validate(full=True)
        if not words.data.all():
            raise pa.ArrowInvalid("a zero byte")
        return _as_ids(texts.take(pa.array(firsts)), src_integer), _as_ids(texts.filter(pa.array(is_dst)), dst_integer)

    def _find_fault(self, block: TextBlock, words: _Words, texts: pa.Array) -> BadInput | None:
        """Return the error for the first word that is no id of its type."""
        suspects = self._suspects(words, texts)
        line_of = np.repeat(words.lines, words.per_line)
        place_of = np.arange(len(texts)) - np.repeat(np.cumsum(words.per_line) - words.per_line, words.per_line)
        for at in suspects.tolist():
            place = int(place_of[at])
            field = self.dst if place else self.src
            raw = words.data[words.offsets[at] : words.offsets[at + 1]].tobytes()
            wrong = _check_word(raw, field)
            if wrong is not None:
                where = Field(field.role, str(place), place, field.node_type)
                return fault(self.path, f"line {block.first_line + int(line_of[at])}", where, *wrong)
        return None

    def _suspects(self, words: _Words, texts: pa.Array) -> NDArray[np.int64]:
        """Return the words, by position, that may be wrong: a superset that is small when few are."""
        lengths = np.diff(words.offsets)
        wrong = np.concatenate([[0], np.cumsum(~_IS_INTEGER[words.data] | (words.data == ord("-")))])
        odd = wrong[words.offsets[1:]] > wrong[words.offsets[:-1]]
        return np.flatnonzero(odd | (lengths >= _SHORTEST_OUT_OF_RANGE))


def _as_ids(texts: pa.Array, integer: bool) -> Any:
    if not integer:
        return texts
    if not pc.all(pc.match_substring_regex(texts, "^-?[0-9]+$")).as_py():
        raise pa.ArrowInvalid("not integers")
    return texts.cast(pa.int64()).to_numpy(zero_copy_only=True)


def _check_word(word: bytes, field: Field) -> tuple[str, str] | None:
    try:
        return check_text(word.decode("utf-8"), field)
    except UnicodeDecodeError:
        return f"{shown(word.decode('utf-8', 'replace'))} is not UTF-8", "write the file as UTF-8"
