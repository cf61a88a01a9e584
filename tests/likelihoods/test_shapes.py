"""Shapes that are learnt: SHASH, BoxCoxNormal, BoxCoxT and Tweedie against scipy and brute force.

Densities and their derivatives are held against 50 digits in tests/oracles/test_numerical_truth.py.
"""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammainc, gammaincc, ndtri

import chainedgp as cgp
from chainedgp import likelihoods as liks
from chainedgp.errors import ArgumentError, InputError
from chainedgp.expectations import compound

L = cgp.likelihoods
F, G = np.array([-0.5, 0.2, 1.0, 2.0]), np.array([-1.0, -0.3, 0.2, -2.0])
LEVELS = np.array([1e-6, 0.03, 0.4, 0.9, 0.999])[:, None]


# ---- sinh-arcsinh --------------------------------------------------------------------------------


def test_shash_is_normal_without_a_shape():
    lik, law = L.SHASH(), stats.norm(F, np.exp(G))
    kw, y = {"skewness": 0.0, "tail": 1.0}, law.ppf(LEVELS)
    np.testing.assert_allclose(lik.log_density(y, F, G, **kw), law.logpdf(y), rtol=1e-11)
    np.testing.assert_allclose(lik.cdf(y, F, G, **kw), law.cdf(y), rtol=1e-10)
    np.testing.assert_allclose(lik.ppf(LEVELS, F, G, **kw), y, rtol=1e-11)
    np.testing.assert_allclose(lik.conditional_mean(F, G, **kw), F, rtol=1e-12)
    np.testing.assert_allclose(lik.conditional_variance(F, G, **kw), np.exp(2 * G), rtol=1e-11)


@pytest.mark.parametrize("skewness, tail", [(0.6, 1.5), (-1.2, 0.5), (0.0, 3.0), (2.0, 1.0)])
def test_shash_is_a_function_of_a_normal_number(skewness, tail):
    """Quantiles by Jones and Pewsey's own transformation, moments by integrals over z."""
    lik, kw = L.SHASH(), {"skewness": skewness, "tail": tail}
    epsilon, delta = skewness / tail, 1.0 / tail
    scale = np.exp(G) * delta / np.cosh(skewness)
    location = F - np.exp(G) * delta * np.tanh(skewness)

    def y_of(z):
        return location + scale * np.sinh((np.arcsinh(z) + epsilon) / delta)

    want = y_of(ndtri(LEVELS))
    np.testing.assert_allclose(lik.ppf(LEVELS, F, G, **kw), want, rtol=1e-10)
    np.testing.assert_allclose(lik.cdf(want, F, G, **kw), LEVELS + 0 * F, rtol=1e-9)
    np.testing.assert_allclose(lik.ppf(0.5, F, G, **kw), F, rtol=1e-12)
    density = np.exp(lik.log_density(F, F, G, **kw))
    np.testing.assert_allclose(density, stats.norm.pdf(0.0) * np.exp(-G), rtol=1e-12)
    z, w = np.polynomial.hermite_e.hermegauss(200)
    y, w = y_of(z[:, None]), w / w.sum()
    mean = w @ y
    np.testing.assert_allclose(lik.conditional_mean(F, G, **kw), mean, rtol=1e-6)
    variance = w @ (y - mean) ** 2
    np.testing.assert_allclose(lik.conditional_variance(F, G, **kw), variance, rtol=1e-5)


def test_moments_of_shash_with_endless_tails():
    lik, zero = L.SHASH(skewness="latent", tail="latent"), np.zeros(3)
    h = np.array([30.0, 100.0, 900.0])
    np.testing.assert_array_equal(lik.conditional_mean(zero + 2.0, zero, zero, h), 2.0)
    np.testing.assert_array_equal(lik.conditional_mean(zero, zero, zero + 0.1, h), np.inf)
    np.testing.assert_array_equal(lik.conditional_mean(zero, zero, zero - 0.1, h), -np.inf)
    np.testing.assert_array_equal(lik.conditional_variance(zero, zero, zero, h), np.inf)


def test_the_skewness_compares_the_tails():
    far = stats.norm.cdf(np.array([-37.0, 37.0]))
    low, high = L.SHASH().ppf(np.array([far[0], 1.0 - 1e-16]), 0.0, 0.0, skewness=0.0, tail=2.0)
    assert low < 0.0 < high
    up, down = (L.SHASH().ppf(q, 0.0, 0.0, skewness=0.5, tail=4.0) for q in (1 - 1e-14, 1e-14))
    assert up / -down == pytest.approx(np.exp(2 * 0.5), rel=1e-3)


# ---- Box–Cox -------------------------------------------------------------------------------------


def test_box_cox_normal_of_power_0_is_log_normal():
    lik, law = L.BoxCoxNormal(), stats.lognorm(np.exp(G), scale=np.exp(F))
    y = law.ppf(LEVELS)
    np.testing.assert_allclose(lik.log_density(y, F, G, power=0.0), law.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(lik.cdf(y, F, G, power=0.0), law.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(lik.ppf(LEVELS, F, G, power=0.0), y, rtol=1e-10)
    near = lik.log_density(y, F, G, power=1e-9)
    np.testing.assert_allclose(near, law.logpdf(y), rtol=1e-6)


@pytest.mark.parametrize("name", ["BoxCoxNormal", "BoxCoxT"])
@pytest.mark.parametrize("power", [1.0, 0.6, -0.8, -2.0])
def test_box_cox_is_a_truncated_law(name, power):
    """z has a truncated normal, or Student-t, law of scipy.stats; y is a power of it."""
    lik = getattr(liks, name)()
    kw = {"power": power} if name == "BoxCoxNormal" else {"power": power, "nu": 5.0}
    base = stats.norm() if name == "BoxCoxNormal" else stats.t(5.0)
    sigma, mu = np.exp(G), np.exp(F)
    end = -1.0 / (sigma * power)
    low, high = (end, np.inf) if power > 0 else (-np.inf, end)
    share = base.cdf(high) - base.cdf(low)
    y = lik.ppf(LEVELS, F, G, **kw)
    z = ((y / mu) ** power - 1.0) / (power * sigma)
    F_z = (base.cdf(z) - base.cdf(low)) / share
    np.testing.assert_allclose(F_z, LEVELS + 0 * F, rtol=2e-8)
    np.testing.assert_allclose(lik.cdf(y, F, G, **kw), F_z, rtol=1e-8)
    slope = y ** (power - 1.0) / (mu**power * sigma)
    np.testing.assert_allclose(
        lik.log_density(y, F, G, **kw), base.logpdf(z) + np.log(slope / share), rtol=1e-9, atol=1e-9
    )
    tails = np.exp(lik.log_tails(y, F, G, **kw))
    np.testing.assert_allclose(tails.sum(axis=0), 1.0, rtol=1e-9)


def test_box_cox_densities_integrate_to_one():
    for lik, kw in ((L.BoxCoxNormal(), {"power": -1.1}), (L.BoxCoxT(), {"power": 0.7, "nu": 3.0})):

        def density(t, lik=lik, kw=kw):
            return np.exp(lik.log_density(np.exp(t), 0.3, -0.4, **kw) + t)

        total = integrate.quad(density, -60.0, 60.0, limit=400)[0]
        assert total == pytest.approx(1.0, abs=1e-8)


# ---- Tweedie -------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.15, 1.5, 1.85])
def test_tweedie_is_a_sum_of_amounts(power):
    """Zeros, cdf, moments and exposure against sums over the number of amounts."""
    lik, mu, phi = L.Tweedie(), np.exp(F), np.exp(G)
    rate = mu ** (2 - power) / (phi * (2 - power))
    alpha, scale = (2 - power) / (power - 1), phi * (power - 1) * mu ** (power - 1)
    zero = lik.log_density(np.zeros(4), F, G, power=power)
    np.testing.assert_allclose(zero, -rate, rtol=1e-13)
    j = np.arange(1, 400)[:, None]
    for y in (0.05, 0.7, 4.0):
        want = stats.poisson.pmf(0, rate)
        want += (stats.poisson.pmf(j, rate) * stats.gamma.cdf(y, j * alpha, scale=scale)).sum(0)
        got = lik.cdf(np.full(4, y), F, G, power=power)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-15)
        density = (stats.poisson.pmf(j, rate) * stats.gamma.pdf(y, j * alpha, scale=scale)).sum(0)
        np.testing.assert_allclose(
            lik.log_density(np.full(4, y), F, G, power=power), np.log(density), rtol=1e-10
        )
        seen = got > 1e-9
        found = lik.ppf(got[seen], F[seen], G[seen], power=power)
        np.testing.assert_allclose(found, y, rtol=1e-6)
    assert np.all(lik.ppf(0.99 * np.exp(-rate), F, G, power=power) == 0.0)
    np.testing.assert_array_equal(lik.conditional_mean(F, G, power=power), mu)
    want = rate * alpha * scale**2 * (1.0 + alpha)
    np.testing.assert_allclose(lik.conditional_variance(F, G, power=power), want, rtol=1e-12)
    twice = lik.log_density(np.zeros(4), F, G, power=power, exposure=2.0)
    np.testing.assert_allclose(twice, -2.0 * rate, rtol=1e-12)
    draws = lik.sample(np.random.default_rng(0), F, G, size=4000, power=power, exposure=2.0)
    error = np.sqrt(2.0 * want / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - 2.0 * mu) < 5.0 * error)
    assert np.all(np.abs((draws == 0).mean(axis=0) - np.exp(-2.0 * rate)) < 0.04)


def test_tweedie_of_many_amounts():
    """Sums over a lattice about the mode are those over all counts."""
    lik = L.Tweedie()
    for power, rate in ((1.3, 300.0), (1.7, 3000.0)):
        alpha, f = (2 - power) / (power - 1), 0.4
        g = (2 - power) * f - np.log(rate * (2 - power))
        scale = np.exp(g) * (power - 1) * np.exp((power - 1) * f)
        spread = np.sqrt(np.exp(g + power * f))
        y = np.exp(f) + spread * np.array([-2.0, 0.0, 1.5])
        j = np.arange(1.0, 6000.0)[:, None]
        terms = stats.poisson.logpmf(j, rate) + stats.gamma.logpdf(y, j * alpha, scale=scale)
        want = np.logaddexp.reduce(terms, axis=0)
        np.testing.assert_allclose(lik.log_density(y, f, g, power=power), want, rtol=1e-9)
        cdf = (stats.poisson.pmf(j, rate) * stats.gamma.cdf(y, j * alpha, scale=scale)).sum(0)
        np.testing.assert_allclose(lik.cdf(y, f, g, power=power), cdf, rtol=1e-9)


def test_tweedie_far_along():
    """10¹² amounts are normal to the eye, and nothing is lost to rounding."""
    g = -np.log(1e12)
    y = 1.0 + np.array([-2.0, 0.0, 1.0]) * 1e-6
    want = stats.norm.logpdf(y, 1.0, 1e-6)
    np.testing.assert_allclose(L.Tweedie().log_density(y, 0.0, g, power=1.5), want, rtol=1e-5)


@pytest.mark.parametrize("power", [1.05, 1.2, 1.8])
@pytest.mark.parametrize("rate", [20.0, 2000.0])
def test_tweedie_tails_far_out(power, rate):
    """Tails of fifteen deviations against sums over all counts, and quantiles of 1e-12."""
    lik, f, alpha = L.Tweedie(), 0.4, (2 - power) / (power - 1)
    g = (2 - power) * f - np.log(rate * (2 - power))
    scale, spread = np.exp(g + (power - 1) * f) * (power - 1), np.exp(0.5 * (g + power * f))
    steps = np.array([-15.0, -10.0, -5.0, 5.0, 15.0])
    y = np.exp(f) + spread * steps
    y = y[y > 0.0]
    j = np.arange(1.0, 3.0 * rate + 200.0)[:, None]
    weights, x = stats.poisson.logpmf(j, rate), y / scale
    with np.errstate(divide="ignore"):
        below = np.logaddexp.reduce(weights + np.log(gammainc(j * alpha, x)), axis=0)
        above = np.logaddexp.reduce(weights + np.log(gammaincc(j * alpha, x)), axis=0)
    got = lik.log_tails(y, f, g, power=power)
    np.testing.assert_allclose(got[0], np.logaddexp(below, -rate), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got[1], above, rtol=1e-9, atol=1e-12)
    q = np.array([1e-12, 1e-6]) + np.exp(-rate)
    np.testing.assert_allclose(lik.cdf(lik.ppf(q, f, g, power=power), f, g, power=power), q, 1e-7)


def test_tweedie_sums_no_more_terms_than_count(monkeypatch):
    """Rates of 0.1 to 3 need about 20 terms a row; the others are below rounding."""
    lik, seen = L.Tweedie(), []
    f, g, kw = np.linspace(-3.0, 0.8, 200), np.zeros(200), {"power": 1.5}
    y = np.geomspace(1e-3, 30.0, 200)
    monkeypatch.setattr(compound, "gammainc", lambda a, x: seen.append(a.size) or gammainc(a, x))
    got = lik.cdf(y, f, g, **kw)
    assert sum(seen) < 25 * 200
    rate, scale, j = 2.0 * np.exp(0.5 * f), 0.5 * np.exp(0.5 * f), np.arange(1.0, 60.0)[:, None]
    want = np.exp(-rate) + (stats.poisson.pmf(j, rate) * gammainc(j, y / scale)).sum(0)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_tweedie_targets():
    with pytest.raises(InputError, match="0 or positive; 1 of 2 are not"):
        cgp.ChainedGP([0.0, 1.0], [0.0, -1.0], L.Tweedie())
    with pytest.raises(InputError, match="power must be finite and between 1 and 2"):
        L.Tweedie(power=2.5)


# ---- extremes, constants, models -----------------------------------------------------------------

EVERY = {
    "SHASH": (L.SHASH(skewness="latent", tail="latent"), [-1e10, 0.0, 300.0], {}),
    "BoxCoxNormal": (L.BoxCoxNormal(power="latent"), [1e-300, 1.0, 1e300], {}),
    "BoxCoxT": (L.BoxCoxT(power="latent", nu="latent"), [1e-300, 1.0, 1e300], {}),
    "Tweedie": (L.Tweedie(), [0.0, 1.0, 1e300], {"power": 1.3}),
}


@pytest.mark.parametrize("name", EVERY)
def test_extreme_latents(name):
    lik, y, kw = EVERY[name]
    y, b = np.array(y), len(lik.latents)
    grid = np.array([-400.0, -30.0, 0.0, 2.0, 30.0, 400.0])
    f = [grid.reshape((-1,) + (1,) * (b - j)) for j in range(b)]
    value = lik.log_density(y, *f, **kw)
    assert value.shape == (6,) * b + (3,)
    assert not np.isnan(value).any() and not np.isposinf(value).any()
    with np.errstate(all="ignore"):
        rest = *lik.dlog_density(y, *f, **kw), lik.cdf(y, *f, **kw), *lik.log_tails(y, *f, **kw)
    assert not any(np.isnan(part).any() for part in rest)


def test_a_scale_that_vanishes():
    """A log-scale of −90,000, at the median: −g, and no NaN of 0 · ∞."""
    y, g = np.array([3.0]), np.array([-9e4])
    value = L.SHASH().log_density(y, y, g, skewness=0.2, tail=1.0)
    assert value[0] == pytest.approx(9e4, rel=1e-3)
    for lik in (L.BoxCoxNormal(), L.BoxCoxT()):
        assert not np.isnan(lik.log_density(y, np.log(y), g, **lik.parameter_values())).any()
    edge = L.Tweedie().log_density(y, y, np.zeros(1), power=1.0)
    assert np.isfinite(edge).all()


CONSTANTS = [
    ("SHASH", {"skewness": 0.4, "tail": 1.3}, "skewness"),
    ("BoxCoxNormal", {"power": -0.4}, "power"),
    ("BoxCoxT", {"power": -0.4, "nu": 6.0}, "power"),
]


@pytest.mark.parametrize("name, shapes, key", CONSTANTS)
def test_a_shape_is_a_constant_or_a_latent(name, shapes, key):
    one, other = (getattr(liks, name)(**{**shapes, key: v}) for v in (shapes[key], "latent"))
    assert one.parameter_values() == shapes and other.latents == (*one.latents, key)
    assert key not in other.parameter_values() and key not in other.default_priors
    y, third = np.array([0.7, 1.2, 2.0, 8.0]), np.full(4, shapes[key])
    rest = {k: v for k, v in shapes.items() if k != key}
    want = one.log_density(y, F, G, **shapes)
    np.testing.assert_allclose(other.log_density(y, F, G, third, **rest), want, rtol=1e-13)
    constant = other.with_constant(key, shapes[key])
    np.testing.assert_allclose(constant.log_density(y, F, G, **shapes), want, rtol=1e-13)
    assert set(other.natural_parameters(F, G, third, **rest)) == set(
        one.natural_parameters(F, G, **shapes)
    )
    with pytest.raises(InputError, match="or 'latent' for a function"):
        getattr(liks, name)(**{key: "function"})


@pytest.mark.parametrize("name, shapes, key", CONSTANTS)
def test_a_wrong_shape_is_told(name, shapes, key):
    make = getattr(liks, name)
    for wrong in (None, [3.0], True, np.array([0.4, 0.5]), 1j):
        with pytest.raises(InputError, match=f"{name}: {key} must be a number"):
            make(**{key: wrong})
    with pytest.raises(ArgumentError, match=f"write {key}="):
        make(**{f"{key}s": 2.0})
    for args in (("latent",), ("latent", "latent"), (None, 0.5)):
        with pytest.raises(ArgumentError, match=f"by keyword, {name}\\(.*{key}=…"):
            make(*args)
    for right in (np.float32(1.5), np.int64(2), np.array(1.5)):
        assert make("own", **{key: right}).parameter_values()[key] == right


def test_a_quantile_may_be_any_number():
    assert L.AsymmetricLaplace(np.float32(0.5)).quantile == 0.5
    for wrong in (True, "0.5", None, [0.5], np.nan, 1.0):
        with pytest.raises(InputError, match="quantile must be a number between 0 and 1"):
            L.AsymmetricLaplace(wrong)


@pytest.mark.parametrize("name, shapes, key", CONSTANTS)
def test_files_and_copies(name, shapes, key, tmp_path):
    x = np.linspace(0.0, 1.0, 12)
    y = np.exp(0.1 * np.random.default_rng(0).normal(size=12)) + x
    for lik in (getattr(liks, name)(**shapes), getattr(liks, name)(**{**shapes, key: "latent"})):
        m = cgp.ChainedGP(x, y, lik, num_inducing=3, num_threads=1)
        m.save(tmp_path / "m.cgp")
        again = cgp.load(tmp_path / "m.cgp")
        assert again.log_likelihood() == m.log_likelihood()
        assert again.likelihood.latents == lik.latents
        assert repr(again.likelihood) == repr(m.likelihood)
    assert f"{key}='latent'" in repr(lik)


MODELS = {
    "SHASH": (L.SHASH(), lambda rng, n: rng.standard_t(5, n)),
    "BoxCoxNormal": (L.BoxCoxNormal(), lambda rng, n: np.exp(0.2 * rng.normal(size=n))),
    "BoxCoxT": (L.BoxCoxT(), lambda rng, n: np.exp(0.2 * rng.normal(size=n))),
    "Tweedie": (L.Tweedie(), lambda rng, n: np.maximum(rng.normal(size=n), 0.0)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_weights_count_rows(name, posterior):
    """A row of weight 2 is a row that stands there twice; gradients are those of the bound."""
    lik, draw = MODELS[name]
    rng = np.random.default_rng(5)
    x, y = np.linspace(0.0, 1.0, 10), draw(rng, 10)
    Z, options = x[::4, None], {"num_threads": 1, "posterior": posterior, "ties": None}
    weights = np.where(np.arange(10) < 5, 2.0, 1.0)
    one = cgp.ChainedGP(x, y, lik, Z=Z, Y_metadata={"weights": weights}, **options)
    rows = np.repeat(np.arange(10), weights.astype(int))
    two = cgp.ChainedGP(x[rows], y[rows], lik, Z=Z, **options)
    for m in (one, two):
        m.likelihood.param_array[:] = lik.param_array
        for kernel in m.kernels:
            kernel.variance = 0.5
            kernel.lengthscale = 0.3
        for mean in m.mean_functions:
            mean.param_array[:] = 0.1
    assert one.log_likelihood() == pytest.approx(two.log_likelihood(), rel=1e-9)
    assert one.checkgrad(tolerance=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_starts(name):
    lik = MODELS[name][0]
    truth = {"SHASH": (3.0, -1.0), "Tweedie": (1.0, 0.3)}.get(name, (1.0, -1.5))
    f = tuple(np.full(3000, v) for v in truth)
    y = lik.sample(np.random.default_rng(2), *f, **lik.parameter_values())
    start = lik.initial_latents(y, **lik.parameter_values())
    np.testing.assert_allclose(start, truth, atol=0.2)
    same = np.full(20, 2.0)
    assert np.isfinite(lik.initial_latents(same, **lik.parameter_values())).all()


def test_a_skewed_fit_finds_its_shape():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 10.0, 200))
    sim = L.SHASH(skewness=0.7, tail=1.0)
    f, g = np.sin(x), -1.0 + 0.0 * x
    y = sim.sample(rng, f, g, **sim.parameter_values())
    m = cgp.ChainedGP(x, y, L.SHASH(), num_inducing=10, num_threads=1)
    m.optimize()
    assert m.likelihood.skewness[0] == pytest.approx(0.7, abs=0.4)
    truth = -np.mean(sim.log_density(y, f, g, **sim.parameter_values()))
    assert -np.mean(m.log_predictive_density(x, y)) < truth + 0.05
