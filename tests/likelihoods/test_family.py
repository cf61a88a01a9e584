"""The wider family: densities against scipy and mpmath, expectations, three and five latents."""

import mpmath as mp
import numpy as np
import pytest
from cases import bound_gradient_errors, inputs, kernel, randomise_q, wrong_leaves
from scipy import integrate, stats
from scipy.special import expit, ndtr

import chainedgp as cgp
from chainedgp import likelihoods as liks
from chainedgp.errors import InputError
from chainedgp.expectations import quadrature, reduced, special
from chainedgp.expectations.levels import LEVELS
from chainedgp.likelihoods import Likelihood
from chainedgp.likelihoods.differences import difference
from chainedgp.testing.likelihood import check_likelihood
from chainedgp.testing.report import ContractError

RNG = np.random.default_rng(7)
F, G, H = RNG.normal(size=(3, 30))
EXPOSURE, TRIALS = RNG.uniform(0.5, 3.0, 30), RNG.integers(1, 30, 30).astype(float)
CUTS = {"cutpoint": -1.0, "gap_1": 0.7, "gap_2": 1.1}

# likelihood, keywords, and the distribution of scipy.stats written by hand
CASES = {
    "HetLaplace": (liks.HetLaplace(), {}, lambda f, g: stats.laplace(f, np.exp(g))),
    "AsymmetricLaplace": (
        liks.AsymmetricLaplace(0.2),
        {},
        lambda f, g: stats.laplace_asymmetric(0.5, f, np.exp(g) / 0.4),
    ),
    "SignalNoiseGaussian": (
        liks.SignalNoiseGaussian(),
        {},
        lambda f, s, g: stats.norm(np.exp(s) * f, np.sqrt(np.exp(g))),
    ),
    "HetStudentTNu": (
        liks.HetStudentTNu(),
        {},
        lambda f, g, h: stats.t(np.exp(h), loc=f, scale=np.sqrt(np.exp(g))),
    ),
    "HetGamma": (
        liks.HetGamma(),
        {},
        lambda f, g: stats.gamma(np.exp(g), scale=np.exp(f) / np.exp(g)),
    ),
    "BetaMeanPrecision": (
        liks.BetaMeanPrecision(),
        {},
        lambda f, g: stats.beta(expit(f) * np.exp(g), (1 - expit(f)) * np.exp(g)),
    ),
    "NegativeBinomial": (
        liks.NegativeBinomial(),
        {"exposure": EXPOSURE},
        lambda f, g: stats.nbinom(np.exp(-g), 1 / (1 + np.exp(g) * EXPOSURE * np.exp(f))),
    ),
    "Binomial": (
        liks.Binomial(),
        {"trials": TRIALS},
        lambda f: stats.binom(TRIALS.astype(int), expit(f)),
    ),
    "BetaBinomial": (
        liks.BetaBinomial(),
        {"trials": TRIALS},
        lambda f, g: stats.betabinom(TRIALS, expit(f) * np.exp(g), expit(-f) * np.exp(g)),
    ),
    "HetProbit": (liks.HetProbit(), {}, lambda f, g: stats.bernoulli(ndtr(f / np.exp(g / 2)))),
}
DISCRETE = ("NegativeBinomial", "Binomial", "BetaBinomial", "HetProbit")
CLASSES = {"Softmax": (liks.Softmax(4), {}), "Ordinal": (liks.Ordinal(4, **CUTS), CUTS)}


def latents_of(lik):
    extra = RNG.normal(size=(5, 30))
    return (F, G, H, *extra)[: len(lik.latents)]


def keywords(kw, rows):
    return {k: v[rows] if np.ndim(v) else v for k, v in kw.items()}


@pytest.mark.parametrize("name", CASES)
def test_bulk(name):
    lik, kw, frozen = CASES[name]
    f = latents_of(lik)
    want = frozen(*f)
    for q in (0.02, 0.3, 0.5, 0.9, 0.99):
        y = want.ppf(q)
        y = np.clip(y, 1e-12, 1 - 1e-12) if lik.support == "unit" else y
        log_p = want.logpmf(y) if name in DISCRETE else want.logpdf(y)
        np.testing.assert_allclose(lik.log_density(y, *f, **kw), log_p, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(lik.cdf(y, *f, **kw), want.cdf(y), rtol=1e-10)
        np.testing.assert_allclose(lik.ppf(q, *f, **kw), want.ppf(q), rtol=1e-8)
    mean, variance = want.stats(moments="mv")
    finite = np.isfinite(mean) & np.isfinite(variance)
    assert finite.sum() > 3
    got = lik.conditional_mean(*f, **kw), lik.conditional_variance(*f, **kw)
    np.testing.assert_allclose(got[0][finite], mean[finite], rtol=1e-9)
    np.testing.assert_allclose(got[1][finite], variance[finite], rtol=1e-9)
    draws = lik.sample(np.random.default_rng(0), *f, size=4000, **kw)
    y = want.ppf(0.6)
    share = want.cdf(y)
    error = np.sqrt(share * (1 - share) / 4000) + 1e-9
    assert np.all(np.abs((draws <= y).mean(0) - share) < 5 * error)


@pytest.mark.parametrize("name", ["HetLaplace", "SignalNoiseGaussian", "HetStudentTNu"])
def test_thirty_scales_out(name):
    lik, _, frozen = CASES[name]
    f = latents_of(lik)
    scale = np.exp({"HetLaplace": f[1], "HetStudentTNu": 0.5 * f[1]}.get(name, 0.5 * f[-1]))
    for sign in (-30.0, 30.0):
        y = frozen(*f).median() + sign * scale
        np.testing.assert_allclose(lik.log_density(y, *f), frozen(*f).logpdf(y), rtol=1e-8)


def exact(name, y, f):
    """The log-density in 60 digits."""
    with mp.workdps(60):
        y, f, g, *more = (mp.mpf(float(v)) for v in (y, *f))
        if name == "HetGamma":
            a = mp.exp(g)
            terms = a * (g - f) + (a - 1) * mp.log(y) - a * y * mp.exp(-f) - mp.loggamma(a)
        elif name == "NegativeBinomial":
            r, mean = mp.exp(-g), mp.exp(f)
            terms = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
            terms += r * mp.log(r / (r + mean)) + y * mp.log(mean / (r + mean))
        elif name == "HetStudentTNu":
            nu = mp.exp(more[0])
            terms = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - mp.log(nu * mp.pi) / 2
            terms -= g / 2 + (nu + 1) / 2 * mp.log1p((y - f) ** 2 * mp.exp(-g) / nu)
        elif name == "BetaMeanPrecision":
            m, s = 1 / (1 + mp.exp(-f)), mp.exp(g)
            a, b = m * s, (1 - m) * s
            terms = mp.loggamma(s) - mp.loggamma(a) - mp.loggamma(b)
            terms += (a - 1) * mp.log(y) + (b - 1) * mp.log(1 - y)
        else:
            z = f * mp.exp(-g / 2) * (2 * y - 1)
            terms = mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)
        return float(terms)


FAR = [
    ("HetGamma", 4.0, (1.0, 18.0)),
    ("HetGamma", 2.8, (1.0, 12.0)),
    ("HetGamma", 1e-30, (0.0, -12.0)),
    ("NegativeBinomial", 3.0, (1.0, -25.0)),
    ("NegativeBinomial", 250.0, (4.0, 0.5)),
    ("NegativeBinomial", 7.0, (-20.0, 15.0)),
    ("NegativeBinomial", 0.0, (40.0, -2.0)),
    ("HetStudentTNu", 30.0, (0.0, 0.0, 15.0)),
    ("HetStudentTNu", 1.3, (0.2, -3.0, 25.0)),
    ("HetStudentTNu", 30.0, (0.0, 0.0, -8.0)),
    ("BetaMeanPrecision", 0.3, (-1.0, 12.0)),
    ("BetaMeanPrecision", 1e-9, (-20.0, 2.0)),
    ("HetProbit", 0.0, (30.0, 0.0)),
    ("HetProbit", 1.0, (-3.0, -8.0)),
    ("HetProbit", 1.0, (4.0, -2.0)),
]


@pytest.mark.parametrize("name, y, f", FAR)
def test_far_out(name, y, f):
    got = float(CASES[name][0].log_density(np.float64(y), *map(np.float64, f)))
    # y is known to half an ulp, which a shape of e^18 multiplies
    slack = 4e-16 * np.exp(f[1]) if name in ("HetGamma", "BetaMeanPrecision") else 0.0
    assert got == pytest.approx(exact(name, y, f), rel=1e-10, abs=1e-11 + slack)


def test_poisson_is_the_limit_of_no_dispersion():
    y, f = np.arange(12.0), np.log(4.0)
    got = liks.NegativeBinomial().log_density(y, f, np.float64(-300.0))
    np.testing.assert_allclose(got, stats.poisson(4.0).logpmf(y), rtol=1e-11)
    np.testing.assert_allclose(
        liks.NegativeBinomial().cdf(y, f, np.float64(-300.0)), stats.poisson(4.0).cdf(y), rtol=1e-6
    )


EXTREME = np.array([-300.0, -30.0, 0.0, 2.0, 30.0, 300.0])
TARGETS = {
    "real": [-1e10, 0.0, 300.0],
    "positive": [1e-300, 1.0, 1e300],
    "unit": [1e-300, 0.3, 1 - 1e-16],
    "counts": [0.0, 3.0, 1e6],
    "binary": [0.0, 1.0, 1.0],
    "categories": [0.0, 1.0, 3.0],
}


@pytest.mark.parametrize("name", [*CASES, *CLASSES])
def test_extreme_latents(name):
    lik, kw = {**CASES, **CLASSES}[name][:2]
    y, b = np.array(TARGETS[lik.support]), len(lik.latents)
    kw = {"trials": 1e6} if "trials" in kw else {k: v for k, v in kw.items() if k in CUTS}
    f = [EXTREME.reshape((-1,) + (1,) * (b - j)) for j in range(b)]
    with np.errstate(over="ignore"):
        value = lik.log_density(y, *f, **kw)
        slopes = lik.dlog_density(y, *f, **kw)
    assert value.shape == (6,) * b + (3,)
    assert not np.isnan(value).any() and not np.isposinf(value).any()
    assert not any(np.isnan(s).any() for s in slopes)
    assert np.isfinite(value[(slice(2, 4),) * b + (1,)]).all()


def test_classes():
    f = latents_of(liks.Softmax(4))
    p = np.exp(f) / np.exp(f).sum(0)
    upper = np.cumsum(list(CUTS.values()))[:, None] - f[0]
    ordered = np.diff(np.concatenate([np.zeros((1, 30)), expit(upper), np.ones((1, 30))]), axis=0)
    for (lik, kw), want in zip(CLASSES.values(), (p, ordered), strict=True):
        f = latents_of(lik) if lik.latents == ("score",) else f
        for k in range(4):
            got = lik.log_density(np.full(30, float(k)), *f, **kw)
            np.testing.assert_allclose(np.exp(got), want[k], rtol=1e-10)
            np.testing.assert_allclose(lik.cdf(k, *f, **kw), want[: k + 1].sum(0), rtol=1e-12)
            named = lik.natural_parameters(*f, **kw)
            np.testing.assert_allclose(named[f"probability_{k + 1}"], want[k], rtol=1e-10)
        assert np.all(np.isneginf(lik.log_density(np.full(30, 4.0), *f, **kw)))
        np.testing.assert_allclose(lik.conditional_mean(*f, **kw), np.arange(4) @ want)
        for bad in (1, 2.5, True, "3"):
            with pytest.raises(InputError, match="whole number, at least 2"):
                type(lik)(bad)
    with pytest.raises(InputError, match="classes 0 … 3"):
        liks.Ordinal(4).check_targets(np.array([4.0]))


def test_ordinal_far_out():
    """Differences of logistic functions in the far tails, where they are below rounding."""
    for f in (-500.0, -40.0, 40.0, 500.0):
        with mp.workdps(500):
            low, high = (1 / (1 + mp.exp(mp.mpf(f) - mp.mpf(c))) for c in (-1.0, -0.3))
            want = float(mp.log(high - low))
        got = liks.Ordinal(4).log_density(np.array([1.0]), np.array([f]), **CUTS)
        assert got[0] == pytest.approx(want, rel=1e-12)


# ---- expectations --------------------------------------------------------------------------------

Y = {
    "real": 2.0 * RNG.normal(size=30),
    "positive": RNG.gamma(2.0, size=30),
    "unit": RNG.uniform(0.02, 0.98, 30),
    "counts": np.minimum(RNG.poisson(3.0, 30), TRIALS).astype(float),
    "binary": np.arange(30) % 2.0,
    "categories": np.arange(30) % 4.0,
}
EVERY = {name: case[:2] for name, case in {**CASES, **CLASSES}.items()}


def moments_of(lik, scale=1.0):
    rng = np.random.default_rng(3)
    b = len(lik.latents)
    return rng.normal(size=(b, 30)).T, scale * np.exp(rng.normal(-1.5, 0.8, (b, 30))).T


@pytest.mark.parametrize("name", EVERY)
def test_expectation_is_the_integral(name):
    lik, kw = EVERY[name]
    means, variances = moments_of(lik, 0.03)
    y, b = Y[lik.support], means.shape[1]
    got = lik.expected_log_density(y, means, variances, nodes=20, **kw)
    many = {1: 100, 2: 60, 3: 24}.get(b, 20)
    plain = Likelihood._quadrature(lik, y, means, variances, nodes=many, **kw)
    kink = name.endswith("Laplace")  # a grid is poor there: see the next test
    for part, want in zip(got, plain, strict=True):
        tol = 0.3 if kink else 1e-5
        np.testing.assert_allclose(part, want, rtol=tol, atol=tol)


@pytest.mark.parametrize("v_f", [1e-4, 0.3, 20.0])
def test_kink_is_integrated_exactly(v_f):
    for y in (0.2, 1.0, 9.0):
        sd, inner = np.sqrt(v_f), [(y - 0.2) / np.sqrt(v_f)]
        inner = [t for t in inner if abs(t) < 10.0]

        def integrand(t, y=y, sd=sd):
            return abs(y - 0.2 - sd * t) * np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)

        size = integrate.quad(integrand, -10, 10, points=inner, epsabs=1e-13, epsrel=1e-12)[0]
        want = -np.log(2) + 0.6 - np.exp(0.6 + 0.2) * size
        got = liks.HetLaplace().expected_log_density(
            np.array([y]), np.array([[0.2, -0.6]]), np.array([[v_f, 0.4]])
        )
        assert got[0][0] == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("v", [(0.01, 0.3, 0.2), (4.0, 1.0, 1.5), (100.0, 0.1, 0.5)])
def test_tilted_student_t(v):
    """The one-dimensional form against a fine sum over h of `HetStudentT`, whose ν is a number."""
    y, (m_f, m_g, m_h) = np.array([-0.3, 0.2, 4.0, 60.0]), (0.2, -1.0, 0.8)
    x, step = np.linspace(-11, 11, 221, retstep=True)
    weights = step * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    means, variances = np.tile([m_f, m_g], (4, 1)), np.tile(v[:2], (4, 1))
    student = liks.HetStudentT()
    want = sum(
        w * student.expected_log_density(y, means, variances, nodes=100, nu=np.exp(h))[0]
        for w, h in zip(weights, m_h + np.sqrt(v[2]) * x, strict=True)
    )
    got = liks.HetStudentTNu().expected_log_density(
        y, np.tile([m_f, m_g, m_h], (4, 1)), np.tile(v, (4, 1)), nodes=100
    )[0]
    np.testing.assert_allclose(got, want, rtol=1e-8)


class Untilted(liks.HetStudentTNu):
    def expected_log_density(self, y, means, variances, *, nodes=20):
        value, *slopes = super().expected_log_density(y, means, variances, nodes=nodes)
        return value + 0.01 * variances[:, 2], *slopes


class WrongCut(liks.Ordinal):
    def expected_log_density(self, *args, **kw):
        value, dm, dv, dt = super().expected_log_density(*args, **kw)
        return value, dm, dv, dt[:, ::-1]


def test_mutants_are_refused():
    with pytest.raises(ContractError, match="value differs from quadrature"):
        check_likelihood(Untilted())
    with pytest.raises(ContractError, match="dtheta of cutpoint disagrees"):
        check_likelihood(WrongCut(4))


def differences(function, step):
    d = {k: function(k * step) for k in (-2, -1, 1, 2)}
    return (8 * (d[1] - d[-1]) - (d[2] - d[-2])) / (12 * step)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_those_of_the_sum(name):
    lik, kw = EVERY[name]
    means, variances = moments_of(lik)
    y = Y[lik.support]

    def value(m=means, v=variances, **change):
        return lik.expected_log_density(y, m, v, nodes=8, **{**kw, **change})[0]

    _, dmeans, dvariances, dtheta = lik.expected_log_density(y, means, variances, nodes=8, **kw)
    pairs = []
    for j, unit in enumerate(np.eye(means.shape[1])):
        pairs.append((dmeans[:, j], differences(lambda t, u=unit: value(means + t * u), 1e-3)))
        scaled = differences(lambda t, u=unit: value(v=variances * (1 + t * u)), 1e-3)
        pairs.append((dvariances[:, j] * variances[:, j], scaled))
    for k, key in enumerate(lik.parameter_keys):
        slope = differences(lambda t, key=key: value(**{key: kw[key] + t}), 1e-3)
        pairs.append((dtheta[:, k], slope))
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-7)


PROMISES = {name: EVERY[name] for name in CASES if name != "SignalNoiseGaussian"} | {
    "Softmax": (liks.Softmax(5), {}),
    "ZeroInflatedPoisson": (liks.ZeroInflatedPoisson(), {}),
    "Weibull": (liks.WeibullSurvival(), {"censored": np.arange(30) % 3.0 - 1.0}),
    "LogNormal": (liks.LogNormalSurvival(), {"censored": np.arange(30) % 3.0 - 1.0}),
}


def errors_at_required_nodes(lik, kw, scale):
    """Rows whose nodes suffice, by the likelihood's own word, and errors against 120 nodes."""
    y = np.arange(30) % 5.0 if lik.support == "categories" else Y[lik.support]
    means, variances = moments_of(lik, scale)
    nodes = lik.required_nodes(y, means, variances, **kw)
    assert set(nodes) <= set(LEVELS)
    got = lik.expectation(y, means, variances, nodes, **kw)[0]
    want = lik.expected_log_density(y, means, variances, nodes=120, **kw)[0]
    return ~lik.unmet(y, means, variances, **kw), np.abs(got - want)


@pytest.mark.parametrize("name", PROMISES)
def test_required_nodes_keep_their_promise(name):
    """An error of 1e-6 a row, or a warning."""
    for scale, least in ((0.1, 26), (1.0, 12), (4.0, 4)):
        met, errors = errors_at_required_nodes(*PROMISES[name], scale)
        assert met.sum() >= least
        # the straight line in Weibull's hazard has a kink, at which errors do not fall evenly
        assert errors[met].max() < (2e-6 if name == "Weibull" else 1e-6)


def test_a_promise_can_be_broken():
    class Careless(liks.HetProbit):
        node_limits = (np.inf,)

    met, errors = errors_at_required_nodes(Careless(), {}, 4.0)
    assert met.all() and errors.max() > 1e-4


@pytest.mark.parametrize("spread", [0.02, 0.7, 6.0])
def test_log_sum_exp_in_one_dimension_is_the_product_grid(spread):
    """Value and gradients, for three latents; for five against many Sobol nodes."""
    rng = np.random.default_rng(0)

    def log_total(_, *f):
        return np.logaddexp.reduce(np.broadcast_arrays(*f))

    def shares(rows, *f):
        total = log_total(rows, *f)
        return tuple(np.exp(one - total) for one in f)

    for b, rule, tol in (
        (3, quadrature.product_rule(3, 20), 5e-8),
        (5, quadrature.sobol_rule(5, 2**15), 3e-3 * spread),
    ):
        means = 2.0 * rng.normal(size=(12, b))
        variances = spread * rng.uniform(0.5, 1.0, (12, b))
        want = quadrature.expectation(log_total, shares, means, variances, rule)
        value, dmeans, dvariances = reduced.expected_log_sum_exp(means, variances, 20)
        np.testing.assert_allclose(value, want[0], atol=tol, rtol=0)
        np.testing.assert_allclose(dmeans.T, want[1], atol=2 * tol, rtol=0)
        np.testing.assert_allclose(dvariances.T, want[2], atol=4 * tol + 4e-7, rtol=0)


@pytest.mark.parametrize("level", [-9.0, 0.0, 6.0])
def test_stirling_remainder_of_a_sum_is_the_product_grid(level):
    rng = np.random.default_rng(1)
    means, variances = level + rng.normal(size=(20, 2)), rng.uniform(0.01, 3.0, (20, 2))

    def rho(_, f, g):
        return special.stirling_remainder(np.exp(f) + np.exp(g))[0]

    def slopes(_, f, g):
        total = np.exp(f) + np.exp(g)
        slope = special.stirling_remainder(total)[1] / total
        return np.exp(f) * slope, np.exp(g) * slope

    rule = quadrature.product_rule(2, 16)
    want = quadrature.expectation(rho, slopes, means, variances, rule)
    got = reduced.expected_stirling_sum(means, variances, 16)
    for part, whole in zip(got, want, strict=False):
        np.testing.assert_allclose(part.T, whole, atol=3e-8, rtol=0)


def test_sobol_and_grid_agree():
    """Three latents by both rules, 1e-3 a row; deterministic."""
    lik, y = liks.Softmax(3), np.arange(30) % 3.0
    means, variances = moments_of(lik)
    functions = (
        lambda rows, *f: lik.log_density(y[rows], *f),
        lambda rows, *f: lik.dlog_density(y[rows], *f),
    )
    grid = quadrature.expectation(*functions, means, variances, quadrature.product_rule(3, 12))
    sobol = quadrature.expectation(*functions, means, variances, quadrature.sobol_rule(3, 12**3))
    for a, b in zip(grid, sobol, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    assert not np.allclose(grid[0], sobol[0], atol=1e-9, rtol=0)  # two rules indeed
    five, y = liks.Softmax(5), np.arange(30) % 5.0
    means, variances = moments_of(five)
    one, again, fine = (five._quadrature(y, means, variances, nodes=k)[0] for k in (12, 12, 40))
    np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(one, fine, atol=1e-3)


# ---- starts, files, models -----------------------------------------------------------------------

TRUTH = {
    "HetLaplace": (3.0, -1.0),
    "AsymmetricLaplace": (3.0, -1.0),
    "BetaBinomial": (0.4, 1.0),
    "HetStudentTNu": (3.0, -2.0, 1.4),
    "HetGamma": (1.0, 0.7),
    "BetaMeanPrecision": (-0.7, 2.0),
    "NegativeBinomial": (1.2, -0.6),
    "Binomial": (0.4,),
}


@pytest.mark.parametrize("name", TRUTH)
def test_starts_are_near_the_truth(name):
    lik = CASES[name][0]
    kw = (
        {"trials": np.full(3000, 9.0)}
        if "Binomial" in name[-8:] and name != "NegativeBinomial"
        else {}
    )
    f = tuple(np.full(3000, v) for v in TRUTH[name])
    y = lik.sample(np.random.default_rng(2), *f, **kw)
    np.testing.assert_allclose(lik.initial_latents(y, **kw), TRUTH[name], atol=0.35)
    same = np.full(20, float(y[0]))
    assert np.all(np.isfinite(lik.initial_latents(same, **{k: v[:20] for k, v in kw.items()})))


def test_trials():
    X = np.linspace(0, 1, 6)
    with pytest.raises(InputError, match="needs Y_metadata with trials"):
        cgp.ChainedGP(X, np.ones(6), liks.Binomial())
    with pytest.raises(InputError, match="row 4: Y = 3, trials = 2"):
        cgp.ChainedGP(X, [1, 1, 1, 1, 3, 1], liks.Binomial(), Y_metadata={"trials": 2})
    m = cgp.ChainedGP(X, np.ones(6), liks.Binomial(), Y_metadata={"trials": 2}, num_inducing=3)
    p = m.predictive(X, Y_metadata={"trials": np.full(6, 40.0)})
    assert np.all(p.mean > 2.0)
    assert np.all(p.cdf(40.0) == pytest.approx(1.0))


FILES = [(liks.Softmax(4), None), (liks.Ordinal(5), None), (liks.Binomial(), {"trials": 5.0})]


@pytest.mark.parametrize("lik, metadata", FILES, ids=["Softmax", "Ordinal", "Binomial"])
def test_files(lik, metadata, tmp_path):
    X = np.random.default_rng(0).uniform(size=(20, 1))
    options = {"Y_metadata": metadata, "num_inducing": 3, "num_threads": 1}
    m = cgp.ChainedGP(X, np.arange(20) % 4.0, lik, **options)
    m.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    assert again.likelihood.num_categories == lik.num_categories
    assert again.log_likelihood() == m.log_likelihood()
    means = [model.predictive(X, Y_metadata=metadata).mean for model in (m, again)]
    np.testing.assert_array_equal(*means)


@pytest.mark.parametrize("name", EVERY)
def test_bound_has_its_gradient(name):
    lik, kw = EVERY[name]
    X = inputs(10)
    metadata = {k: v[:10] for k, v in kw.items() if np.ndim(v)}
    Z = np.random.default_rng(3).uniform(-2.0, 2.0, (3, 2))
    options = {"Y_metadata": metadata, "num_threads": 1, "jitter": 1e-3, "num_nodes": 6}
    m = cgp.ChainedGP(X, Y[lik.support][:10], lik, kernel("rbf_ard"), Z, **options)
    assert not wrong_leaves(bound_gradient_errors(randomise_q(m)))


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


@pytest.mark.long
def test_tails_that_vary_are_recovered():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (800, 1))
    x = X[:, 0]
    f, g, h = 2 * np.sin(1.3 * x), -2 + 0.8 * np.cos(x), 1.5 + 1.5 * np.sin(x)
    y = f + np.exp(0.5 * g) * rng.standard_t(np.exp(h))
    m = cgp.ChainedGP(X, y, liks.HetStudentTNu(), num_inducing=15, num_threads=1)
    assert m.optimize().converged
    for mean, want in zip(m.predict_latents(X)[0].T, (f, g, h), strict=True):
        assert correlation(mean, want) > 0.85


@pytest.mark.long
def test_five_latents_are_recovered():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 1))
    F = 2.0 * np.sin(1.2 * X + 2 * np.pi * np.arange(5) / 5)  # (n, 5)
    y = np.argmax(F + rng.gumbel(size=F.shape), axis=1).astype(float)
    m = cgp.ChainedGP(X, y, liks.Softmax(5), num_inducing=7, num_nodes=5, num_threads=1)
    assert m.optimize().converged
    means = m.predict_latents(X)[0]
    means -= means.mean(1, keepdims=True)  # only differences matter
    for k in range(5):
        assert correlation(means[:, k], F[:, k]) > 0.9
    p = m.predictive(X[:5]).pdf(np.arange(5.0))
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-4)


def test_log_sum_exp_of_two_has_the_slopes_of_differences():
    rng = np.random.default_rng(3)
    means, variances = rng.normal(size=(6, 2)), rng.uniform(0.1, 2.0, (6, 2))

    def value(m, v):
        return reduced.expected_log_sum_exp(m, v, 20)[0]

    _, dmeans, dvariances = reduced.expected_log_sum_exp(means, variances, 20)
    for j in range(2):
        step = np.zeros(2)
        step[j] = 1e-5
        by_mean = value(means + step, variances) - value(means - step, variances)
        by_variance = value(means, variances + step) - value(means, variances - step)
        np.testing.assert_allclose(dmeans[j], by_mean / 2e-5, rtol=1e-7)
        np.testing.assert_allclose(dvariances[j], by_variance / 2e-5, rtol=1e-6)


def test_quantiles_of_negative_binomials_end_whatever_the_mean():
    lik = liks.NegativeBinomial()
    f, g = np.meshgrid([-700.0, 0.0, 60.0, 300.0, 1e4], [-1e4, -18.0, 0.0, 18.0, 1e4])
    q = lik.ppf(np.full(f.size, 0.5), f.ravel(), g.ravel())
    assert q.shape == (25,) and not np.isnan(q).any() and (q >= 0.0).all()


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-8])
def test_slopes_by_differences_of_targets_that_hardly_vary(size):
    rng = np.random.default_rng(0)
    y, f = size * rng.normal(size=(2, 200))

    def log_p(f):  # logistic
        z = (y - f) / size
        return -z - 2.0 * np.logaddexp(0.0, -z)

    exact = np.tanh(0.5 * (y - f) / size) / size
    found = difference(log_p, f, 1e-4)
    np.testing.assert_allclose(found, exact, atol=1e-9 / size)


@pytest.mark.parametrize("trials", [1, 7, 20, 400])
def test_beta_binomial_cdf_and_quantiles_are_those_of_scipy(trials):
    rng, lik = np.random.default_rng(trials), liks.BetaBinomial()
    f, g = 2.0 * rng.standard_normal(100), 3.0 * rng.standard_normal(100)
    y, q = rng.integers(0, trials + 1, 100).astype(float), rng.uniform(size=100)
    law = stats.betabinom(trials, np.exp(g) * expit(f), np.exp(g) * expit(-f))
    np.testing.assert_allclose(lik.cdf(y, f, g, trials=float(trials)), law.cdf(y), atol=1e-10)
    assert np.array_equal(lik.ppf(q, f, g, trials=float(trials)), law.ppf(q))
    ends = lik.cdf(np.array([-1.0, trials, trials + 3.0]), 0.1, 0.2, trials=float(trials))
    assert np.array_equal(ends, [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    "f, g", [(-30.0, 30.0), (-5.0, 10.0), (0.3, -2.0), (40.0, -3.0), (2.0, 9.0)]
)
def test_beta_binomial_tails_have_all_digits(f, g):
    """Both tails against sums of 200 digits, to the last trial and beyond both ends."""
    n = 10
    with mp.workdps(200):
        alpha, beta = (mp.exp(g) / (1 + mp.exp(side * f)) for side in (-1, 1))
        p = [mp.binomial(n, k) * mp.beta(alpha + k, beta + n - k) for k in range(n + 1)]
        p = [value / mp.beta(alpha, beta) for value in p]
        below = [float(mp.log(mp.fsum(p[: k + 1]))) for k in range(n)]
        above = [float(mp.log(mp.fsum(p[k + 1 :]))) for k in range(n)]
    y = np.arange(-1.0, n + 2.0)
    lower, upper = liks.BetaBinomial().log_tails(y, np.array(f), np.array(g), trials=float(n))
    np.testing.assert_allclose(lower, [-np.inf, *below, 0.0, 0.0], rtol=1e-10)
    np.testing.assert_allclose(upper, [0.0, *above, -np.inf, -np.inf], rtol=1e-10)


def test_negative_binomial_cdf_is_that_of_scipy():
    rng, lik = np.random.default_rng(0), liks.NegativeBinomial()
    f, g = 2.0 + 2.0 * rng.standard_normal(200), 2.0 * rng.standard_normal(200)
    y = rng.poisson(np.exp(f)) - 0.5 * (rng.uniform(size=200) < 0.3)
    law = stats.nbinom(np.exp(-g), 1.0 / (1.0 + np.exp(f + g)))
    np.testing.assert_allclose(lik.cdf(y, f, g), law.cdf(y), atol=1e-12)


@pytest.mark.parametrize("g", [-30.0, -10.0, 0.0, 3.0])
def test_negative_binomial_of_rare_and_of_many_counts(g):
    """Means of 1e-9 to 1e9 keep the digits of P(Y > 0), of moments and of quantiles."""
    lik, f = liks.NegativeBinomial(), np.array([-20.0, -3.0, 5.0, 20.0])
    mu = np.exp(f)
    np.testing.assert_allclose(lik.conditional_mean(f, g), mu, rtol=1e-13)
    np.testing.assert_allclose(lik.conditional_variance(f, g), mu + np.exp(g) * mu**2, rtol=1e-13)
    log_p0 = -np.log1p(mu * np.exp(g)) * np.exp(-g)
    below, above = lik.log_tails(np.zeros(4), f, g)
    np.testing.assert_allclose(below[:3], log_p0[:3], rtol=1e-10)
    np.testing.assert_allclose(above[:3], np.log(-np.expm1(log_p0[:3])), rtol=1e-10, atol=1e-15)
    q = np.array([0.01, 0.5, 0.99])[:, None]
    k = lik.ppf(q, f, g)
    assert np.all(lik.cdf(k, f, g) >= q - 1e-5) and np.all(lik.cdf(k - 1.0, f, g) < q + 1e-5)
    np.testing.assert_array_equal(lik.cdf(np.array([-1.0, np.inf]), 1.0, g), [0.0, 1.0])
