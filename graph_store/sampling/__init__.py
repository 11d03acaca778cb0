"""Sampling: neighbourhoods, walks, negatives, batches of links, and loaders of them."""
