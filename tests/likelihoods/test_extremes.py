"""GEV and generalised Pareto: scipy and mpmath, the part beyond the support, starts and fits."""

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import chainedgp as cgp
from chainedgp import likelihoods as liks
from chainedgp.errors import ArgumentError, InputError
from chainedgp.expectations import extremes

RNG = np.random.default_rng(7)
F, G, H = RNG.normal(size=(3, 30))
Q = np.array([1e-6, 0.02, 0.3, 0.5, 0.9, 0.99, 1.0 - 1e-5])[:, None]
SHAPES = (-0.4, -0.15, 0.2, 0.45, 0.8)


def shape_of(h):
    return 1.5 / (1.0 + 2.0 * np.exp(-h)) - 0.5


# likelihood, keywords, latents, and the distribution of scipy.stats, in which c is −ξ for the GEV
BULK = {
    **{
        f"GEV {xi}": (liks.GEV(), {"shape": xi}, (F, G), stats.genextreme(-xi, F, np.exp(G)))
        for xi in SHAPES
    },
    **{
        f"GeneralisedPareto {xi}": (
            liks.GeneralisedPareto(3.0), {"shape": xi}, (G,), stats.genpareto(xi, 3.0, np.exp(G)),
        )
        for xi in SHAPES
    },
    "GEVShape": (
        liks.GEVShape(), {}, (F, G, H), stats.genextreme(-shape_of(H), F, np.exp(G)),
    ),
    "GeneralisedParetoShape": (
        liks.GeneralisedParetoShape(), {}, (G, H), stats.genpareto(shape_of(H), 0.0, np.exp(G)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BULK)
def test_the_law_is_that_of_scipy(name):
    lik, kw, f, law = BULK[name]
    y = lik.ppf(Q, *f, **kw)
    np.testing.assert_allclose(y, law.ppf(Q), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(lik.cdf(y, *f, **kw), np.broadcast_to(Q, y.shape), rtol=1e-8)
    np.testing.assert_allclose(lik.log_density(y, *f, **kw), law.logpdf(y), rtol=1e-9, atol=1e-10)
    below, above = lik.log_tails(y, *f, **kw)
    np.testing.assert_allclose(below, law.logcdf(y), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(above, law.logsf(y), rtol=1e-9, atol=1e-14)
    mean, variance = np.broadcast_arrays(*law.stats("mv"), F)[:2]
    exists = np.isfinite(variance)
    np.testing.assert_allclose(lik.conditional_mean(*f, **kw), mean, rtol=1e-9)
    found = lik.conditional_variance(*f, **kw)
    np.testing.assert_allclose(found[exists], variance[exists], rtol=1e-9)
    assert np.isinf(found[~exists]).all()


@pytest.mark.parametrize("xi", [0.0, 1e-300, -1e-12, 1e-9, -1e-5, 1e-3])
def test_shapes_near_zero_have_all_digits(xi):
    """scipy loses digits there; mpmath does not."""
    w = np.array([-3.0, -0.5, 0.0, 1.0, 6.0, 13.0])
    z = extremes.quantile(w, xi)
    with mp.workdps(60):
        exact = [mp.expm1(mp.mpf(xi) * t) / xi if xi else mp.mpf(t) for t in w]
        np.testing.assert_allclose(z, [float(t) for t in exact], rtol=1e-15)
        log_p = [
            -(1 + mp.mpf(xi)) * t - mp.exp(-t)
            for t in (mp.log1p(mp.mpf(xi) * mp.mpf(v)) / xi if xi else mp.mpf(v) for v in z)
        ]
        g1, g2 = mp.gamma(1 - mp.mpf(xi)), mp.gamma(1 - 2 * mp.mpf(xi))
        mean = (g1 - 1) / xi if xi else mp.euler
        variance = (g2 - g1**2) / mp.mpf(xi) ** 2 if abs(xi) > 1e-20 else mp.pi**2 / 6
    found = liks.GEV().log_density(z, 0.0, 0.0, shape=xi)
    np.testing.assert_allclose(found, [float(t) for t in log_p], rtol=1e-13)
    if abs(xi) > 1e-20 or xi == 0.0:
        got = extremes.gev_moments(np.array(xi))
        np.testing.assert_allclose(got, [float(mean), float(variance)], rtol=1e-13)


@pytest.mark.parametrize("xi", [-0.45, -0.2, 0.0, 0.1, 0.7])
@pytest.mark.parametrize("make", [liks.GEV, liks.GeneralisedPareto])
def test_it_is_a_distribution_beyond_the_support_too(make, xi):
    """The integral is 1 to 1e-10, and 1e-6 of it at most is beyond the end of the exact law."""
    lik = make(shape=xi)
    f = (np.zeros(()),) * len(lik.latents)
    pieces = lik.ppf(np.array([1e-300, 1e-20, 1e-6, 0.01, 0.5, 0.99, 1 - 1e-6]), *f, shape=xi)
    far = extremes.quantile(np.array([14.0, 15.0, 17.0, 20.0, 30.0, 60.0]), xi)
    start = [-50.0, *pieces] if make is liks.GEV else [1e-300, *pieces[1:]]
    total = sum(
        integrate.quad(
            lambda y: float(np.exp(lik.log_density(np.array(y), *f, shape=xi))), a, b,
            epsabs=1e-14, epsrel=1e-11, limit=300,
        )[0]
        for a, b in zip([*start, *far][:-1], [*start, *far][1:], strict=True)
        if b > a
    )  # fmt: skip
    assert total == pytest.approx(1.0, abs=1e-9)
    if xi < 0.0:
        assert -np.expm1(lik.log_tails(np.array(-1.0 / xi), *f, shape=xi)[0]) < 1e-6


@pytest.mark.parametrize("xi", [-0.3, -1e-4, 1e-4, 0.25])
def test_nothing_is_impossible_and_slopes_do_not_jump(xi):
    """Across the place where the polynomial begins, density and slope are continuous."""
    lik = liks.GEV()
    pivot = extremes.quantile(np.array(14.0 if xi < 0 else -4.0), xi)
    y = pivot + np.array([-1e-9, 1e-9]) * max(1.0, abs(pivot))
    log_p = lik.log_density(y, 0.0, 0.0, shape=xi)
    df, dg = lik.dlog_density(y, np.zeros(2), np.zeros(2), shape=xi)
    assert np.ptp(log_p) < 1e-5 * (1.0 + abs(log_p[0]))
    kink = 1.1 if xi > 0 else 1e-4  # e^{−w} becomes a straight line there: a change of 1 in 54
    slope = np.exp(-xi * (14.0 if xi < 0 else -4.0))
    assert np.ptp(df) < kink * slope and np.ptp(dg) < kink * slope * (1.0 + abs(pivot))
    wild = np.array([-1e6, -300.0, 0.0, 300.0, 1e6])
    for g in (-300.0, -5.0, 0.0, 300.0):
        for f in (-300.0, 0.0, 300.0):
            found = lik.log_density(wild, f, g, shape=xi)
            slopes = lik.dlog_density(wild, np.full(5, f), np.full(5, g), shape=xi)
            assert np.isfinite(found).all() and np.isfinite(np.array(slopes)).all()


def test_a_q_that_reaches_beyond_the_support_has_a_finite_bound():
    lik, y = liks.GEV(shape=-0.3), np.array([0.0, 3.0, 30.0])
    means, variances = np.zeros((3, 2)), np.ones((3, 2))
    for nodes in (5, 20):
        value, *slopes = lik.expected_log_density(y, means, variances, nodes=nodes, shape=-0.3)
        assert np.isfinite(value).all() and all(np.isfinite(s).all() for s in slopes)


# ---- starts, and maximum likelihood --------------------------------------------------------------


def test_l_moments_find_the_truth():
    rng = np.random.default_rng(3)
    y = stats.genextreme.rvs(-0.12, 40.0, 6.0, size=20_000, random_state=rng)
    lik = liks.GEV()
    xi = lik.initial_parameters(y, shape=0.1)["shape"]
    assert xi == pytest.approx(0.12, abs=0.03)
    np.testing.assert_allclose(lik.initial_latents(y, shape=xi), [40.0, np.log(6.0)], rtol=0.02)
    assert liks.GEV(shape=0.05).initial_parameters(y, shape=0.05) == {}
    excess = stats.genpareto.rvs(0.1, 30.0, 4.0, size=20_000, random_state=rng)
    lik = liks.GeneralisedPareto(30.0)
    xi = lik.initial_parameters(excess, shape=0.1)["shape"]
    assert xi == pytest.approx(0.1, abs=0.03)
    np.testing.assert_allclose(lik.initial_latents(excess, shape=xi), [np.log(4.0)], atol=0.05)
    for same in (np.full(20, 3.0), np.array([3.0]), np.array([3.0, 4.0])):
        assert np.isfinite(liks.GEVShape().initial_latents(same)).all()
        assert np.isfinite(liks.GeneralisedParetoShape(2.0).initial_latents(same)).all()


def constant_model(y, lik):
    """All latents constant, with vague priors: the best fit is that of maximum likelihood."""
    kernels = [cgp.kernels.Bias(1, 1e-8) for _ in lik.latents]
    for kernel in kernels:
        kernel.fix()
    x = np.linspace(0.0, 1.0, len(y))
    return cgp.ChainedGP(x, y, lik, kernels, num_inducing=1, num_threads=1)


def test_constants_are_those_of_maximum_likelihood():
    """A model whose latents are constants, against scipy.stats' fit and its likelihood."""
    y = stats.genextreme.rvs(-0.1, 10.0, 3.0, size=300, random_state=np.random.default_rng(0))
    m = constant_model(y, liks.GEV())
    m.optimize(messages=False)
    c, location, scale = stats.genextreme.fit(y, -0.1, loc=10.0, scale=3.0)
    mine = m.mean_functions.location.value.values[0], m.mean_functions.log_scale.value.values[0]
    xi = float(m.likelihood.shape.values[0])
    np.testing.assert_allclose([*mine, xi], [location, np.log(scale), -c], atol=2e-2)
    best = stats.genextreme.logpdf(y, c, location, scale).sum()
    ours = stats.genextreme.logpdf(y, -xi, mine[0], np.exp(mine[1])).sum()
    assert abs(ours - best) < 0.02


def test_excesses_are_those_of_maximum_likelihood():
    y = stats.genpareto.rvs(0.15, 5.0, 2.0, size=300, random_state=np.random.default_rng(1))
    m = constant_model(y, liks.GeneralisedPareto(5.0))
    m.optimize(messages=False)
    c, _, scale = stats.genpareto.fit(y, floc=5.0)
    mine, xi = m.mean_functions.log_scale.value.values[0], float(m.likelihood.shape.values[0])
    np.testing.assert_allclose([mine, xi], [np.log(scale), c], atol=2e-2)


# ---- arguments -----------------------------------------------------------------------------------


def test_arguments_are_checked():
    for wrong in (-0.5, 1.0, 2.0, np.nan):
        with pytest.raises(InputError, match=r"shape must be finite and between -0\.5 and 1"):
            liks.GEV(shape=wrong)
    lik = liks.GEV()
    with pytest.raises(InputError, match=r"between -0\.5 and 1"):
        lik.shape[:] = 1.5
    with pytest.raises(ArgumentError, match="shape="):
        liks.GEV(shapes=0.1)
    with pytest.raises(InputError, match="threshold must be a number"):
        liks.GeneralisedPareto([1.0, 2.0])
    with pytest.raises(InputError, match="finite number"):
        liks.GeneralisedPareto(np.inf)
    with pytest.raises(InputError, match="above the threshold 30; 1 of 3 are not"):
        cgp.ChainedGP(np.arange(3.0), [31.0, 30.0, 40.0], liks.GeneralisedPareto(30.0))
    with pytest.raises(InputError, match="positive numbers"):
        cgp.ChainedGP(np.arange(3.0), [1.0, 0.0, 2.0], liks.GeneralisedPareto())


def test_a_model_of_exceedances_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    y = 30.0 + rng.exponential(5.0, 40)
    m = cgp.ChainedGP(np.arange(40.0), y, liks.GeneralisedPareto(30.0, shape=0.2), num_inducing=5)
    m.likelihood.shape[:] = 0.3
    m.save(tmp_path / "model.cgp")
    again = cgp.load(tmp_path / "model.cgp")
    assert again.likelihood.threshold == 30.0 and repr(again.likelihood) == repr(m.likelihood)
    assert again.log_likelihood() == m.log_likelihood()


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    x, y = np.arange(12.0), rng.gumbel(size=12)
    counts = rng.integers(1, 4, 12)
    options = {"Z": x[::3, None], "num_threads": 1, "kernels": cgp.kernels.RBF(1, 1.0, 3.0)}
    weighted = cgp.ChainedGP(x, y, liks.GEV(), Y_metadata={"weights": counts}, **options)
    rows = np.repeat(np.arange(12), counts)
    repeated = cgp.ChainedGP(x[rows], y[rows], liks.GEV(), **options)
    for leaf, other in zip(weighted.mean_functions, repeated.mean_functions, strict=True):
        other.value[:] = leaf.value.values
    repeated.likelihood.shape[:] = weighted.likelihood.shape.values
    assert weighted.log_likelihood() == pytest.approx(repeated.log_likelihood(), rel=1e-9)
