"""Benchmarks, one file an area: `python -m benchmarks.<area>`."""
