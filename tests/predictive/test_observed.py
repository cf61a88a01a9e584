"""Probability integral transforms at jumps of the cdf: what they are, and how often it is asked."""

import numpy as np

import chainedgp as cgp
from chainedgp.predictive.distribution import Predictive
from chainedgp.predictive.observed import pit_ends

L = cgp.likelihoods


def test_only_targets_at_jumps_have_two_ends(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = np.linspace(0.0, 1.0, 12), rng.gamma(2.0, size=12)
    y[:4] = 0.0
    m = cgp.ChainedGP(x, y, L.Tweedie(), num_inducing=3, num_threads=1)
    predictive, asked, cdf = m.predictive(x), [], Predictive.cdf

    def counted(self, targets):
        asked.append(np.isfinite(targets).sum())
        return cdf(self, targets)

    want = cdf(predictive, y[:, None])[:, 0]
    monkeypatch.setattr(Predictive, "cdf", counted)
    lower, upper = pit_ends(predictive, y)
    assert sum(asked) <= 12 + 4  # once for every row, and once more below each atom
    np.testing.assert_array_equal(upper, want)
    np.testing.assert_array_equal(lower, np.where(y == 0.0, 0.0, want))


def test_counts_have_a_jump_everywhere():
    x, y = np.linspace(0.0, 1.0, 6), np.array([0.0, 1.0, 0.0, 3.0, 2.0, 5.0])
    m = cgp.ChainedGP(x, y, L.Poisson(), num_inducing=3, num_threads=1)
    predictive = m.predictive(x)
    lower, upper = pit_ends(predictive, y)
    np.testing.assert_array_equal(upper, predictive.cdf(y[:, None])[:, 0])
    np.testing.assert_array_equal(lower, predictive.cdf(y[:, None] - 1.0)[:, 0])
