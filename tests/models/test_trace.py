"""A trace adds up seconds and counts until it is reset."""

import time

import pytest

from models import Trace


def test_spans_and_counts_add_up() -> None:
    trace = Trace()
    for _ in range(2):
        with trace.span("pull"):
            time.sleep(0.002)
        trace.count("pulled_rows", 3)
    assert trace.seconds["pull"] >= 0.004
    assert trace.counts == {"pulled_rows": 6}
    trace.reset()
    assert trace.seconds == trace.counts == {}


def test_a_span_that_raises_is_counted() -> None:
    trace = Trace()
    with pytest.raises(KeyError), trace.span("push"):
        raise KeyError
    assert "push" in trace.seconds
