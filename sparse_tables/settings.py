"""A table's config as the arrays that kernels take."""

import numpy as np

from sparse_tables.config import INITIALS, OPTIMIZERS, TableConfig
from sparse_tables.draws import table_key
from sparse_tables.index import PLAN_FIELDS


def plan_of(config: TableConfig) -> np.ndarray:
    """Return int64[PLAN_FIELDS], a config's integers as the kernels take them."""
    plan = np.zeros(PLAN_FIELDS, np.int64)
    plan[:] = (
        config.num_shards,
        config.num_shards - 1 if config.num_shards & (config.num_shards - 1) == 0 else -1,
        config.placement == "mix",
        config.dim,
        config.state_width,
        INITIALS.index(config.initial),
        table_key(config.name, config.seed),
        OPTIMIZERS.index(config.optimizer),
    )
    return plan


def rates_of(config: TableConfig) -> np.ndarray:
    """Return float64[RATE_FIELDS], a config's real numbers as the kernels take them."""
    assert config.eps is not None
    accumulator = config.initial_accumulator if "adagrad" in config.optimizer else 0.0
    return np.array([config.scale, config.learning_rate, config.l2, config.eps, *config.betas, accumulator], np.float64)
