"""Writes densities.json: log-densities and first derivatives of every likelihood at hard points.

The densities are written here once more, from their textbook forms, and evaluated by mpmath with
so many digits that 50 are right; derivatives are mpmath's own. Points reach far
into the tails and to latents where a naive formula overflows, cancels or loses its digits. Run

    python tests/oracles/make_densities.py

after a change; `tests/oracles/test_numerical_truth.py` compares the package with the file.
"""

import itertools
import json
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import mpmath as mp

DIGITS = 50
POINTS = 24  # of each case, drawn from its grid
PATH = Path(__file__).parents[1] / "stored" / "densities.json"
log, exp = mp.log, mp.exp


def logistic(x):
    return 1 / (1 + exp(-x))


def normal(y, mean, log_variance):
    return -(log(2 * mp.pi) + log_variance + (y - mean) ** 2 * exp(-log_variance)) / 2


def student_t(y, f, g, nu):
    constant = mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - log(nu * mp.pi) / 2
    return constant - g / 2 - (nu + 1) / 2 * log(1 + (y - f) ** 2 / (nu * exp(g)))


def gamma(y, f, g):
    shape = exp(g)
    rate = shape / exp(f)
    return shape * log(rate) - mp.loggamma(shape) + (shape - 1) * log(y) - rate * y


def beta(y, a, b):
    constant = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return constant + (a - 1) * log(y) + (b - 1) * log(1 - y)


def poisson(y, rate):
    return y * log(rate) - rate - mp.loggamma(y + 1)


def negative_binomial(y, f, g, exposure):
    r, mean = exp(-g), exposure * exp(f)
    choose = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
    return choose + r * log(r / (r + mean)) + y * log(mean / (r + mean))


def binomial(y, f, trials):
    choose = mp.loggamma(trials + 1) - mp.loggamma(y + 1) - mp.loggamma(trials - y + 1)
    return choose + y * log(logistic(f)) + (trials - y) * log(logistic(-f))


def beta_binomial(y, f, g, trials):
    choose = mp.loggamma(trials + 1) - mp.loggamma(y + 1) - mp.loggamma(trials - y + 1)
    a, b = logistic(f) * exp(g), logistic(-f) * exp(g)
    rising = mp.loggamma(y + a) - mp.loggamma(a) + mp.loggamma(trials - y + b) - mp.loggamma(b)
    return choose + rising + mp.loggamma(a + b) - mp.loggamma(trials + a + b)


def check_loss(tau):
    """The density of the asymmetric Laplace whose quantile of level τ is f."""
    tau = mp.mpf(tau)

    def log_density(y, f, g):
        u = y - f
        return log(tau * (1 - tau)) - g - u * (tau - (u < 0)) * exp(-g)

    return log_density


def shash(y, f, g, k, h):
    """Jones and Pewsey's form, with ε = κ/τ and δ = 1/τ, its location and scale from f and g."""
    tau = exp(h)
    epsilon, delta = k / tau, 1 / tau
    scale = exp(g) * delta / mp.cosh(k)
    x = (y - f) / scale + mp.sinh(k)
    a = delta * mp.asinh(x) - epsilon
    root = log(mp.cosh(a)) - log(1 + x * x) / 2
    return log(delta / scale) - log(2 * mp.pi) / 2 - mp.sinh(a) ** 2 / 2 + root


def box_cox(y, f, g, power):
    """z, and the end 1/(σ|λ|) that y > 0 sets to it."""
    sigma = exp(g)
    if power == 0:
        return log(y / exp(f)) / sigma, mp.inf
    return ((y / exp(f)) ** power - 1) / (power * sigma), 1 / (sigma * abs(power))


def box_cox_normal(y, f, g, power):
    z, end = box_cox(y, f, g, power)
    whole = mp.log1p(-mp.erfc(end / mp.sqrt(2)) / 2)
    return power * (log(y) - f) - log(y) - g - (log(2 * mp.pi) + z * z) / 2 - whole


def box_cox_t(y, f, g, power, h):
    z, end = box_cox(y, f, g, power)
    nu = exp(h)
    beyond = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + end * end), regularized=True) / 2
    rest = student_t(z, 0, 0, nu) - mp.log1p(-beyond)
    return power * (log(y) - f) - log(y) - g + rest


def tweedie(y, f, g, power, exposure):
    """The sum over the number of amounts, from the mode to where terms are nothing."""
    mu, phi = exposure * exp(f), exp(g) * exposure ** (1 - power)
    rate, alpha = mu ** (2 - power) / (phi * (2 - power)), (2 - power) / (power - 1)
    scale = phi * (power - 1) * mu ** (power - 1)
    if y == 0:
        return -rate

    def term(j):
        shape = j * alpha
        return (
            j * log(rate) - mp.loggamma(j + 1)
            + (shape - 1) * log(y) - shape * log(scale) - mp.loggamma(shape)
        )  # fmt: skip

    mode = max(1, int(y ** (2 - power) / (phi * (2 - power))))
    top, total, least = term(mode), mp.mpf(0), -mp.log(10) * (mp.mp.dps + 10)
    for step in (1, -1):
        j = mode if step == 1 else mode - 1
        while j >= 1 and (size := term(j) - top) > least:
            total, j = total + exp(size), j + step
    return top + log(total) - rate - y / scale


def reduced_variate(z, shape):
    """w = log(1 + ξz)/ξ and log dw/dz; beyond its pivot p the polynomial of degree 2 of its own."""
    p = mp.mpf(14 if shape < 0 else -4)
    end = mp.expm1(shape * p) / shape if shape else p
    if (z > end) == (shape < 0) and z != end and shape:
        u = exp(-shape * p) * (z - end)
        return p + u - shape * u**2 / 2, -shape * p + mp.log1p(-shape * u)
    w = mp.log1p(shape * z) / shape if shape else z
    return w, -shape * w


def gev(y, f, g, shape):
    """Gumbel in w; −log F is a straight line in w below −4."""
    w, log_slope = reduced_variate((y - f) * exp(-g), shape)
    a, top = -w, min(-w, mp.mpf(4))
    return -g - exp(top) * (1 + a - top) + top + log_slope


def generalised_pareto(y, g, shape, threshold=0):
    w, log_slope = reduced_variate((y - threshold) * exp(-g), shape)
    return -g - w + log_slope


def linked_shape(h):
    return mp.mpf(3) / 2 / (1 + 2 * exp(-h)) - mp.mpf(1) / 2


def von_mises(y, f, g):
    k = exp(g)
    return k * mp.cos(y - f) - log(2 * mp.pi * mp.besseli(0, k))


def ordinal(y, f, cutpoint, gap_1, gap_2):
    cuts = [cutpoint, cutpoint + gap_1, cutpoint + gap_1 + gap_2]
    below = [mp.mpf(0), *(logistic(c - f) for c in cuts), mp.mpf(1)]
    return log(below[int(y) + 1] - below[int(y)])


def observed(tails, log_pdf):
    """The log-density of a row by how it was seen; tails: t, … -> P(T > t), P(T ≤ t)."""

    def log_density(y, *latents, censored, y_upper, entry, **parameters):
        def ends(t):
            nothing = (mp.mpf(1), mp.mpf(0))
            return tails(t, *latents, **parameters) if t > 0 else nothing

        def between(low, high):
            (S, F), (S_high, F_high) = ends(low), ends(high)
            if F + S_high < 0.5:
                return mp.log1p(-F - S_high)
            return log(F_high - F if F_high < 0.5 else S - S_high)

        value = {
            0: lambda: log_pdf(y, *latents, **parameters),
            1: lambda: log(ends(y)[0]) if ends(y)[1] > 0.5 else mp.log1p(-ends(y)[1]),
            -1: lambda: between(entry, y),
            2: lambda: between(y, y_upper),
        }[int(censored)]()
        return value - mp.log1p(-ends(entry)[1])

    return log_density


def log_logistic_tails(t, f, g):
    u = (t / exp(f)) ** exp(g)
    return 1 / (1 + u), u / (1 + u)


def log_logistic(t, f, g):
    u = (t / exp(f)) ** exp(g)
    return g - log(t) + log(u) - 2 * log(1 + u)


def weibull_tails(t, f, g):
    u = (t / exp(f)) ** exp(g)
    return exp(-u), -mp.expm1(-u)


def weibull(t, f, g):
    u = (t / exp(f)) ** exp(g)
    return g - log(t) + log(u) - u


def log_normal_tails(t, f, g):
    z = (log(t) - f) / exp(g) / mp.sqrt(2)
    return mp.erfc(z) / 2, mp.erfc(-z) / 2


def log_normal(t, f, g):
    return normal(log(t), f, 2 * g) - log(t)


def probit(y, f, g):
    z = f * exp(-g / 2) * (1 if y else -1) / mp.sqrt(2)
    return log(mp.erfc(-z) / 2) if z < 0 else mp.log1p(-mp.erfc(z) / 2)


def inflated(base, atoms, shared):
    """p = (p_base + Σ e^h [y = a])/(1 + Σ e^h); `shared` if the base holds the atoms too."""

    def log_density(y, *latents, **kw):
        odds = [exp(h) for h in latents[len(latents) - len(atoms) :]]
        base_latents = latents[: len(latents) - len(atoms)]
        total = sum((o for o, a in zip(odds, atoms, strict=True) if y == a), mp.mpf(0))
        if y not in atoms or shared:
            total += exp(base(y, *base_latents, **kw))
        return log(total) - log(1 + sum(odds))

    return log_density


def hurdle_poisson(y, f, h, exposure):
    rate = exposure * exp(f)
    value = h if y == 0 else poisson(y, rate) - log(1 - exp(-rate))
    return value - log(1 + exp(h))


WIDE, COUNTS = (-30.0, -3.0, 0.7, 25.0), (0.0, 3.0, 170.0)
SEEN = {"censored": (0.0, 1.0, -1.0, 2.0), "y_upper": (2e8,), "entry": (0.0, 1e-13)}
EXPOSURE = {"exposure": (0.01, 40.0)}
T, F, G = (1e-12, 0.6, 9e7), (-5.0, 0.3, 8.0), (-3.0, 0.2, 1.5)

# how it is built, its log-density, targets, latents, parameters (values of each) and metadata
CASES = {
    "HetGaussian()": (normal, (-1e3, 0.3, 1e5), [(-2.0, 0.1, 40.0), WIDE], {}, {}),
    "Gaussian()": (
        lambda y, f, variance: normal(y, f, log(variance)),
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1, 40.0)],
        {"variance": (1e-9, 0.4, 1e6)},
        {},
    ),
    "SignalNoiseGaussian()": (
        lambda y, f, s, g: normal(y, exp(s) * f, g),
        (-1e3, 0.3),
        [(-2.0, 0.1), (-6.0, 0.4, 8.0), WIDE],
        {},
        {},
    ),
    "HetStudentT()": (
        student_t,
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1, 40.0), WIDE],
        {"nu": (1.01, 4.0, 1e7)},
        {},
    ),
    "StudentT()": (
        lambda y, f, nu, log_scale2: student_t(y, f, log_scale2, nu),
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1, 40.0)],
        {"nu": (1.01, 4.0, 1e7), "log_scale2": (-9.0, 0.7)},
        {},
    ),
    "HetStudentTNu()": (
        lambda y, f, g, h: student_t(y, f, g, exp(h)),
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1), WIDE, (-2.0, 1.3, 14.0)],
        {},
        {},
    ),
    "HetLaplace()": (
        lambda y, f, g: -log(2) - g - abs(y - f) * exp(-g),
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1, 40.0), WIDE],
        {},
        {},
    ),
    "AsymmetricLaplace(0.75)": (
        check_loss(0.75),
        (-1e3, 0.3, 1e5),
        [(-2.0, 0.1, 40.0), WIDE],
        {},
        {},
    ),
    'SHASH(skewness="latent", tail="latent")': (
        shash,
        (-30.0, 0.3, 7.0),
        [(-2.0, 0.1), (-2.0, 0.7, 9.0), (-3.0, 0.0, 0.4, 2.0), (-1.5, 0.0, 0.6)],
        {},
        {},
    ),
    "SHASH()": (
        lambda y, f, g, skewness, tail: shash(y, f, g, skewness, log(tail)),
        (-30.0, 0.3, 7.0),
        [(-2.0, 0.1), (-2.0, 0.7, 9.0)],
        {"skewness": (-1.0, 0.3), "tail": (0.4, 1.0, 3.0)},
        {},
    ),
    'BoxCoxNormal(power="latent")': (
        box_cox_normal,
        (1e-3, 0.7, 30.0),
        [(-2.0, 0.1, 3.0), (-5.0, -1.0, 1.5), (-1.3, -1e-7, 1e-3, 0.6, 2.0)],
        {},
        {},
    ),
    "BoxCoxNormal()": (
        box_cox_normal,
        (1e-3, 0.7, 30.0),
        [(-2.0, 0.1, 3.0), (-5.0, -1.0, 1.5)],
        {"power": (-1.3, 1e-3, 0.6)},
        {},
    ),
    'BoxCoxT(power="latent", nu="latent")': (
        box_cox_t,
        (1e-3, 0.7, 30.0),
        [(-2.0, 0.1, 3.0), (-4.0, -1.0, 1.0), (-1.3, 1e-3, 0.6), (0.7, 2.0, 5.0)],
        {},
        {},
    ),
    "BoxCoxT()": (
        lambda y, f, g, power, nu: box_cox_t(y, f, g, power, log(nu)),
        (1e-3, 0.7, 30.0),
        [(-2.0, 0.1, 3.0), (-4.0, -1.0, 1.0)],
        {"power": (-1.3, 0.6), "nu": (1.5, 10.0, 80.0)},
        {},
    ),
    "Tweedie()": (
        tweedie,
        (0.0, 1e-4, 0.7, 40.0),
        [(-2.0, 0.4, 4.0), (-4.0, 0.3, 3.0)],
        {"power": (1.1, 1.5, 1.9)},
        EXPOSURE,
    ),
    "GEV()": (
        gev,
        (-30.0, 0.3, 50.0),
        [(-2.0, 0.1, 40.0), (-3.0, 0.7, 25.0)],
        {"shape": (-0.45, -0.1, -1e-7, 1e-12, 0.2, 0.9)},
        {},
    ),
    "GEVShape()": (
        lambda y, f, g, h: gev(y, f, g, linked_shape(h)),
        (-30.0, 0.3, 50.0),
        [(-2.0, 0.1, 40.0), (-3.0, 0.7, 25.0), (-3.0, -0.2, 1e-9, 0.5, 5.0)],
        {},
        {},
    ),
    "GeneralisedPareto(0.5)": (
        lambda y, g, shape: generalised_pareto(y, g, shape, mp.mpf("0.5")),
        (0.5000152587890625, 0.75, 3.0, 1e5),
        [(-6.0, 0.2, 9.0)],
        {"shape": (-0.45, -0.1, -1e-7, 1e-12, 0.2, 0.9)},
        {},
    ),
    "GeneralisedParetoShape()": (
        lambda y, g, h: generalised_pareto(y, g, linked_shape(h)),
        (1e-8, 0.7, 3.0, 1e5),
        [(-6.0, 0.2, 9.0), (-3.0, -0.2, 1e-9, 0.5, 5.0)],
        {},
        {},
    ),
    "VonMises()": (
        von_mises,
        (-3.1, 0.3, 2.0),
        [(-20.0, 0.1, 2.5), (-30.0, -1.0, 0.4, 4.5, 12.0)],
        {},
        {},
    ),
    "HetGamma()": (gamma, (1e-8, 0.7, 1e4), [(-6.0, 0.2, 7.0), (-12.0, 0.4, 6.0, 13.0)], {}, {}),
    'HetGamma().with_constant("log_shape")': (
        lambda y, f, log_shape: gamma(y, f, log_shape),
        (1e-8, 0.7, 1e4),
        [(-6.0, 0.2, 7.0)],
        {"log_shape": (-4.0, 0.4, 9.0)},
        {},
    ),
    "Beta()": (
        lambda y, f, g: beta(y, exp(f), exp(g)),
        (1e-12, 0.3, 1 - 2.0**-30),
        [(-12.0, 0.4, 6.0, 14.0)] * 2,
        {},
        {},
    ),
    "BetaMeanPrecision()": (
        lambda y, f, g: beta(y, logistic(f) * exp(g), logistic(-f) * exp(g)),
        (1e-12, 0.3, 1 - 2.0**-30),
        [(-9.0, 0.3, 5.0), (-8.0, 0.4, 12.0)],
        {},
        {},
    ),
    "Poisson()": (
        lambda y, f, exposure: poisson(y, exposure * exp(f)),
        (*COUNTS, 1e7),
        [(-20.0, 0.4, 5.0, 16.0)],
        {},
        EXPOSURE,
    ),
    "AdditivePoisson()": (
        lambda y, f, g, exposure: poisson(y, exposure * (exp(f) + exp(g))),
        (*COUNTS, 1e7),
        [(-20.0, 0.4, 16.0), (-30.0, 1.1, 14.0)],
        {},
        EXPOSURE,
    ),
    "NegativeBinomial()": (
        negative_binomial,
        (*COUNTS, 1e7),
        [(-9.0, 0.4, 13.0), (-16.0, -1.0, 0.5, 9.0)],
        {},
        EXPOSURE,
    ),
    "Binomial()": (
        binomial,
        (0.0, 2.0, 9.0),
        [(-40.0, -3.0, 0.2, 6.0, 50.0)],
        {},
        {"trials": (9.0, 1e6)},
    ),
    "BetaBinomial()": (
        beta_binomial,
        (0.0, 2.0, 9.0),
        [(-4.0, -1.0, 0.2, 5.0), (-8.0, 0.3, 5.0, 12.0)],
        {},
        {"trials": (9.0, 200.0)},
    ),
    "Bernoulli()": (
        lambda y, f: -mp.log1p(exp(-f if y else f)),
        (0.0, 1.0),
        [(-600.0, -40.0, -0.3, 2.0, 37.0, 600.0)],
        {},
        {},
    ),
    "HetProbit()": (probit, (0.0, 1.0), [(-30.0, -0.4, 2.0, 8.0), (-6.0, 0.3, 12.0)], {}, {}),
    "Softmax(3)": (
        lambda y, *f: -mp.log1p(sum(exp(h - f[int(y)]) for i, h in enumerate(f) if i != y)),
        (0.0, 1.0, 2.0),
        [(-40.0, 0.3, 700.0), (-2.0, 35.0), (0.1, 600.0)],
        {},
        {},
    ),
    "Ordinal(4)": (
        ordinal,
        (0.0, 1.0, 2.0, 3.0),
        [(-50.0, -1.2, 0.4, 36.0)],
        {"cutpoint": (-0.8,), "gap_1": (1e-9, 1.3), "gap_2": (0.5, 40.0)},
        {},
    ),
    "LogLogisticSurvival()": (observed(log_logistic_tails, log_logistic), T, [F, G], {}, SEEN),
    "LogLogistic()": (
        observed(
            lambda t, f, log_shape: log_logistic_tails(t, f, log_shape),
            lambda t, f, log_shape: log_logistic(t, f, log_shape),
        ),
        T,
        [F],
        {"log_shape": (-1.0, 1.2)},
        SEEN,
    ),
    "WeibullSurvival()": (
        observed(weibull_tails, weibull),
        (1e-12, 0.6, 30.0),
        [(-1.0, 0.3, 4.0), (-3.0, 0.2, 0.6)],
        {},
        {**SEEN, "y_upper": (31.0, 90.0)},
    ),
    "LogNormalSurvival()": (
        observed(log_normal_tails, log_normal),
        T,
        [F, (-1.0, 0.2, 2.0)],
        {},
        SEEN,
    ),
    "Inflated(Poisson(), (0, 2))": (
        inflated(lambda y, f, exposure: poisson(y, exposure * exp(f)), (0, 2), True),
        (0.0, 2.0, 5.0),
        [(-9.0, 0.4, 6.0), (-50.0, 0.3, 20.0), (-30.0, 1.2)],
        {},
        EXPOSURE,
    ),
    "Inflated(HetGaussian(), (0.5,))": (
        inflated(normal, (0.5,), False),
        (0.5, 0.6, -7.0),
        [(-2.0, 0.1), (-9.0, 1.0), (-40.0, 0.3, 40.0)],
        {},
        {},
    ),
    "Hurdle(Poisson())": (
        hurdle_poisson,
        (0.0, 1.0, 60.0),
        [(-25.0, 0.4, 4.0), (-40.0, 0.2, 40.0)],
        {},
        EXPOSURE,
    ),
    "ZeroInflatedPoisson()": (
        inflated(lambda y, f, exposure: poisson(y, exposure * exp(f)), (0,), True),
        (0.0, 1.0, 60.0),
        [(-25.0, 0.4, 4.0), (-100.0, 0.2, 40.0)],
        {},
        EXPOSURE,
    ),
    "ZeroInflatedNegativeBinomial()": (
        inflated(negative_binomial, (0,), True),
        (0.0, 1.0, 60.0),
        [(-9.0, 0.4, 4.0), (-9.0, -1.0, 2.0), (-40.0, 0.2, 30.0)],
        {},
        EXPOSURE,
    ),
    "ZeroOneInflatedBeta()": (
        inflated(lambda y, f, g: beta(y, exp(f), exp(g)), (0, 1), False),
        (0.0, 1e-9, 0.4, 1.0),
        [(-6.0, 0.4, 9.0), (-5.0, 3.0), (-40.0, 0.3), (-1.0, 30.0)],
        {},
        {},
    ),
    'Likelihood.from_scipy("logistic", loc="identity", scale="exp")': (
        lambda y, f, g: -(y - f) * exp(-g) - g - 2 * log(1 + exp(-(y - f) * exp(-g))),
        (-3.0, 0.3, 40.0),
        [(-2.0, 0.1), (-1.0, 0.4, 3.0)],
        {},
        {},
    ),
}  # fmt: skip


def reference(log_density, y, latents, parameters, metadata):
    """log p and its derivatives in latents and parameters, to 50 digits."""
    names = list(parameters)
    variables = [mp.mpf(v) for v in (*latents, *parameters.values())]
    kw = {key: mp.mpf(value) for key, value in metadata.items()}

    def of(*values):
        own = dict(zip(names, values[len(latents) :], strict=True))
        return log_density(mp.mpf(y), *values[: len(latents)], **own, **kw)

    def slope(k):
        order = tuple(int(i == k) for i in range(len(variables)))
        return mp.diff(of, tuple(variables), order)

    found = []
    for digits in (130, 160):  # more than the worst cancellation takes, and more, to be sure
        with mp.workdps(digits):
            found.append([of(*variables), *(slope(k) for k in range(len(variables)))])
    with mp.workdps(DIGITS):
        for rough, fine in zip(*found, strict=True):
            if abs(rough - fine) > mp.mpf(10) ** (1 - DIGITS) * abs(fine):
                raise ArithmeticError(f"{rough} and {fine} at {y}, {latents}, {metadata}")
    return [float(value) for value in found[1]]


def points(targets, latents, parameters, metadata):
    """Some points of the grid of all values, always the same; a row's interval is not empty."""
    grid = list(itertools.product(targets, *latents, *parameters.values(), *metadata.values()))
    b, p = len(latents), len(parameters)
    rows = []
    for y, *rest in grid:
        kw = dict(zip(metadata, rest[b + p :], strict=True))
        own = dict(zip(parameters, rest[b : b + p], strict=True))
        rows.append((y, rest[:b], own, kw))
    return random.Random(1).sample(rows, min(POINTS, len(rows)))


def table(name):
    """Columns of one case."""
    log_density, *rest = CASES[name]
    rows = points(*rest)
    values = [reference(log_density, *row) for row in rows]
    b = len(rest[1])
    return {
        "y": [row[0] for row in rows],
        "latents": [list(column) for column in zip(*(row[1] for row in rows), strict=True)],
        "parameters": {key: [row[2][key] for row in rows] for key in rest[2]},
        "metadata": {key: [row[3][key] for row in rows] for key in rest[3]},
        "log_density": [value[0] for value in values],
        "dlatents": [[value[1 + j] for value in values] for j in range(b)],
        "dparameters": [[value[1 + b + k] for value in values] for k in range(len(rest[2]))],
    }


def main():
    """Write the file; cases that are not named stay as they are."""
    names = sys.argv[1:] or list(CASES)
    whole = json.loads(PATH.read_text("utf-8"))
    with ProcessPoolExecutor(2) as pool:
        whole |= dict(zip(names, pool.map(table, names), strict=True))
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(whole[key])}" for key in CASES)
    PATH.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
