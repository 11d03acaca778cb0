"""Edges from adjacency text, `user item item …` a line: whole blocks at a time, without a loop over words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_batch import EdgeBatch, Field, Rejected, cell_reason, shown
from graph_store.row_plan import RowPlan
from graph_store.text_blocks import BLOCK_BYTES, LONGEST_ROW_BYTES, TextBlock, TextFile, shown_row
from graph_store.text_columns import field_type, take_field
from graph_store.text_layout import TextLayout

_SPACES = b" \t\r\n"
_IS_WORD = np.ones(256, np.bool_)
_IS_WORD[list(_SPACES)] = False
_IS_PLAIN = np.zeros(256, np.bool_)
_IS_PLAIN[list(b"-0123456789")] = True


def read_adjacency(
    plan: RowPlan, layout: TextLayout, *, threads: int, batch_rows: int | None = None
) -> Iterator[EdgeBatch]:
    """Return the edges of an adjacency file in batches; words are separated by any white space.

    Parameters
    ----------
    plan : RowPlan
        Says the types of the two ends, and what becomes of a line with a word that cannot be taken.
    layout : TextLayout
        As `tell_layout` says of the file.
    threads : int
        Blocks that are converted at once; as many and one more wait in memory.
    batch_rows : int or None
        Edges that a batch aims at; None for as many as stand in 16 MiB.

    Raises
    ------
    BadInput
        From the iterator: a word that is no id of its type, with its line and its place in it; not where such lines
        are set aside.
    """
    parser = _Parser(plan, layout.timed)
    blocks = _blocks(plan, layout, layout.block_bytes(batch_rows) or BLOCK_BYTES)
    return in_order((partial(parser.parse, block) for block in blocks), threads=threads)


@dataclass(frozen=True)
class _Block(TextBlock):
    """Lines, of which the first may go on one that was cut: it then begins with its first word again.

    Attributes
    ----------
    items_before : int
        Items of the first line in blocks before.
    """

    items_before: int = 0


def _blocks(plan: RowPlan, layout: TextLayout, aim: int) -> Iterator[_Block]:
    """Yield the file in blocks of whole lines.

    A line longer than a block is cut, unless lines may be set aside, which go as a whole.
    """
    longest = LONGEST_ROW_BYTES if plan.aside else aim
    with TextFile(plan.path, layout.member) as file:
        file.skip(layout.skip)
        rest, line, items = b"", layout.first_line, 0
        last = False
        while not last:
            fresh = file.read(aim)
            last = len(fresh) < aim
            data = rest + fresh if rest else fresh
            end, again = len(data) if last else data.rfind(b"\n") + 1, b""
            if end == 0 and len(data) > longest:
                end, again = _cut_line(plan, line, data, longest)
            rest = again + data[end:]
            if end:
                yield _Block(data[:end] if end < len(data) else data, line, file.size if last else file.tell(), items)
                line += data.count(b"\n", 0, end)
                items = items + len(_split(data[:end]).offsets) - 2 if again else 0


def _cut_line(plan: RowPlan, line: int, data: bytes, longest: int) -> tuple[int, bytes]:
    """Return where the last whole word of a long line ends, and what its rest is to begin with."""
    end = max(data.rfind(b" "), data.rfind(b"\t")) + 1
    words = data[:longest].split(None, 1)
    if end == 0 or len(words) < 2:
        raise BadInput(f"{plan.path}: line {line}: a word of more than {longest >> 20} MiB; is this an adjacency file?")
    if plan.aside:
        raise BadInput(f"{plan.path}: line {line}: more than {longest >> 20} MiB; say bad_rows = 'stop' to read it")
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

    def __init__(self, plan: RowPlan, timed: bool) -> None:
        self.plan = plan
        self.timed = timed
        self.src, self.dst = (Field(wanted.role, "", 0, wanted.node_type) for wanted in plan.wanted[:2])

    def parse(self, block: _Block, rejected: tuple[Rejected, ...] = ()) -> EdgeBatch:
        words = _split(block.data)
        texts = pa.LargeStringArray.from_buffers(
            len(words.offsets) - 1, pa.py_buffer(words.offsets), pa.py_buffer(words.data)
        )
        firsts = np.cumsum(words.per_line) - words.per_line
        is_dst = np.ones(len(texts), np.bool_)
        is_dst[firsts] = False
        ids = self._plain_integers(words, texts, firsts, is_dst)
        if ids is None:
            wrong, ids = self._take(texts, firsts, is_dst)
            if wrong is not None:
                return self._without(block, words, texts, np.flatnonzero(wrong))
        src, dst = ids
        degrees = words.per_line - 1
        alone = np.flatnonzero(degrees == 0)
        edges = np.repeat(np.arange(len(degrees)), degrees)
        src_only = _at(src, alone) if len(alone) else None
        time = self._times(words, block) if self.timed else None
        return EdgeBatch(
            _at(src, edges), dst, None, time, len(dst), block.bytes_done, src_only=src_only, rejected=rejected
        )

    def _plain_integers(
        self, words: _Words, texts: pa.Array, firsts: NDArray[np.int64], is_dst: NDArray[np.bool_]
    ) -> tuple[Any, Any] | None:
        """Return the ids of both ends when both are integers of one kind, written as plain digits; None otherwise."""
        kind = field_type(self.src)
        if kind != field_type(self.dst) or not pa.types.is_integer(kind) or not _IS_PLAIN[words.data].all():
            return None
        try:
            numbers = texts.cast(kind).to_numpy(zero_copy_only=True).view(np.int64)
        except pa.ArrowInvalid:
            return None
        return numbers[firsts], numbers[is_dst]

    def _take(
        self, texts: pa.Array, firsts: NDArray[np.int64], is_dst: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_] | None, tuple[Any, Any]]:
        """Return the words that cannot be taken, bool[m], and the ids of both ends."""
        wrong = np.zeros(len(texts), np.bool_)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            decoded = [_decoded(word) for word in texts.cast(pa.large_binary()).to_pylist()]
            wrong = np.array([word is None for word in decoded])
            texts = pa.array([word or "" for word in decoded], pa.large_string())
        src = take_field(self.plan, self.src, texts.take(pa.array(firsts)))
        dst = take_field(self.plan, self.dst, texts.filter(pa.array(is_dst)))
        if src.wrong is not None:
            wrong[firsts[src.wrong]] = True
        if dst.wrong is not None:
            wrong[np.flatnonzero(is_dst)[dst.wrong]] = True
        return wrong if wrong.any() else None, (src.values, dst.values)

    def _times(self, words: _Words, block: _Block) -> NDArray[np.int64]:
        """Return the place of each item in its line, from 0."""
        degrees = words.per_line - 1
        times = np.arange(degrees.sum()) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        if block.items_before:
            times[: degrees[0]] += block.items_before
        return times

    def _without(self, block: _Block, words: _Words, texts: pa.Array, wrong: NDArray[np.int64]) -> EdgeBatch:
        """Return the batch of the lines without a wrong word, the others set aside; or raise for the first word."""
        ends = np.cumsum(words.per_line)
        rows, at = np.unique(np.searchsorted(ends, wrong, side="right"), return_index=True)
        lines = block.data.split(b"\n") if self.plan.aside else []
        rejected = []
        for row, word in list(zip(rows.tolist(), wrong[at].tolist()))[: self.plan.limit + 1]:
            line = int(words.lines[row])
            place = word - int(ends[row] - words.per_line[row])
            if place and line == 0:
                place += block.items_before
            raw = words.data[words.offsets[word] : words.offsets[word + 1]].tobytes()
            where, reason = f"line {block.first_line + line}", self._reason(raw, place)
            if not self.plan.aside:
                raise BadInput(f"{self.plan.path}: {where}, {reason}")
            rejected.append(Rejected(self.plan.path, where, reason, shown_row(lines[line])))
        for line in words.lines[rows].tolist():
            lines[line] = b""
        return self.parse(replace(block, data=b"\n".join(lines)), tuple(rejected))

    def _reason(self, word: bytes, place: int) -> str:
        field = replace(self.dst if place else self.src, label=str(place), position=place)
        text = _decoded(word)
        if text is None:
            found = f"{shown(word.decode('utf-8', 'replace'))} is not UTF-8"
            return cell_reason(field, found, "write the file as UTF-8")
        return take_field(self.plan, field, pa.array([text], pa.large_string())).reason(0)


def _at(ids: Any, places: NDArray[np.int64]) -> Any:
    return ids.take(pa.array(places)) if isinstance(ids, pa.Array) else ids[places]


def _decoded(word: bytes) -> str | None:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return None
