import sys

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20160506)


@pytest.fixture(autouse=True)
def closed_figures():
    """No figure stays open after its test: matplotlib warns of many."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
