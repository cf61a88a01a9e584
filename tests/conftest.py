import sys

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20160506)


@pytest.fixture(autouse=True)
def closed_figures():
    """No figure of one test stays open in the next: matplotlib warns of many, also after a failure."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
