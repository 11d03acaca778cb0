"""Checks of arguments that several functions take."""

from typing import Any

import numpy as np

from graph_store.errors import BadInput


def check_integers(**values: Any) -> None:
    """Raise BadInput, by the name of an argument, where a value is no integer; True and False are none."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise BadInput(f"{name} must be an integer, got {value!r}")
