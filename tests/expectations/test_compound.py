"""Tables of sums over a Poisson number of gamma amounts, against the sums."""

import numpy as np
import pytest
from scipy import special, stats

from chainedgp.expectations import compound


def values(alpha, n=6000):
    """Rates that tables serve and rates that they do not, and sums drawn at them; some are 0."""
    rng = np.random.default_rng(0)
    rates = np.exp(rng.uniform(np.log(0.3), np.log(8.0), n))
    rates[:2] = 0.01, 60.0
    counts = rng.poisson(rates)
    amounts = rng.gamma(np.maximum(counts, 1) * alpha) * np.exp(rng.normal(size=n))
    return rates, np.where(counts > 0, np.maximum(amounts, 1e-300), 0.0)


@pytest.mark.parametrize("alpha", [0.4, 1.0, 4.0])
def test_the_cdf_of_many_values_is_the_sum_in_both_tails(alpha):
    rates, x = values(alpha)
    got, some = compound.cdf(rates, alpha, x), np.arange(0, len(x), 20)
    some = np.append(some, 1)
    j = np.arange(1.0, 200.0)[:, None]
    p = stats.poisson.pmf(j, rates[some])
    want = np.exp(-rates[some]) + (p * special.gammainc(j * alpha, x[some])).sum(axis=0)
    tail = (p * special.gammaincc(j * alpha, x[some])).sum(axis=0)
    np.testing.assert_allclose(got[some], want, rtol=1e-9)
    np.testing.assert_allclose(1.0 - got[some], tail, rtol=1e-9, atol=1e-14)
    together = compound.cdf(rates[:, None], alpha, x[:, None])
    np.testing.assert_array_equal(together[:, 0], got)


def test_coarse_tables_are_seen(monkeypatch):
    rates, x = values(1.0)
    exact = np.exp(-rates) + compound.over_counts(rates, np.ones(len(x)), x)
    monkeypatch.setattr(compound, "ORDER", 2)
    compound._table.cache_clear()
    assert np.abs(compound.cdf(rates, 1.0, x) - exact).max() > 1e-9
    compound._table.cache_clear()


@pytest.mark.parametrize("alpha", [0.1, 1.0, 20.0])
def test_the_series_of_many_values_is_that_of_each(alpha):
    log_size = np.random.default_rng(1).uniform(-9.0, 6.0, (40, 300))
    got = compound.series_value(log_size, alpha)
    some = log_size[::10, ::10]
    np.testing.assert_allclose(got[::10, ::10], compound.series(some, alpha)[0], atol=1e-9)
