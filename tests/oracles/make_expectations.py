"""Writes expectations.json: E_q[log p] and its derivatives for every likelihood, at hard points.

The log-densities are written here from their textbook forms as sums of products of functions of one
or two latents, and integrated by mpmath, with 50 digits: trapezoidal sums, which converge
geometrically because everything is analytic, refined around y where q is wider than the noise. Two
steps, one 1.25 times the other, must agree to 1e-6, so that the finer is right to 1e-8 or better.
Derivatives in the moments of q need no
derivatives of the density:

    dE/dm = E[log p · x]/sd,    dE/dv = E[log p · (x² − 1)]/(2 v),    x = (f − m)/sd.

Variances reach from 1e-6 to where no number of nodes of the package suffices. Run

    python tests/oracles/make_expectations.py [CASE …]

after a change; `tests/oracles/test_numerical_truth.py` compares the package with the file.
"""

import itertools
import json
import random
import sys
from functools import cache, partial
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50
POINTS, DOUBLE, SLOW = 14, 8, 4  # of each case, drawn from its grid; where integrals are double
PATH = Path(__file__).parents[1] / "stored" / "expectations.json"
log, exp, sqrt, pi = mp.log, mp.exp, mp.sqrt, mp.pi
LOG_2PI = log(2 * pi)


def softplus(x):
    return mp.log1p(exp(x)) if x < 0 else x + mp.log1p(exp(-x))


def log_normal_cdf(z):
    return log(mp.erfc(-z / sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(z / sqrt(2)) / 2)


# ---- integrals: (value, {latent: d/dm}, {latent: d/dv}) ------------------------------------------


class Near:
    """Where a function of f bends: at `centre`, over e^{log_width + slope · g}."""

    def __init__(self, centre, log_width, slope):
        self.centre, self.log_width, self.slope = map(mp.mpf, (centre, log_width, slope))

    def width(self, g):
        return exp(self.log_width + self.slope * g)


@cache
def plain_nodes(sd, width, coarse, tilt=1):
    """x, weight: a trapezoidal rule of N(0, 1) for functions analytic in |Im f| < width.

    tilt: k for functions that grow as e^{kf}.
    """
    step = coarse * min(mp.mpf("0.6"), mp.mpf("0.23") * width / sd)
    count = int((mp.mpf("8.5") + tilt * sd) / step)
    return [(k * step, step * exp(-((k * step) ** 2) / 2) / sqrt(2 * pi))
            for k in range(-count, count + 1)]  # fmt: skip


def mapped_nodes(m, sd, centre, width, coarse):
    """f = centre + width sinh s: x, weight."""
    narrow = sd / sqrt(width**2 + (centre - m) ** 2)
    step = coarse * min(mp.mpf("0.14"), mp.mpf("0.42") * narrow)
    reach = mp.mpf("8.5")
    low, high = (mp.asinh((m + side * reach * sd - centre) / width) for side in (-1, 1))
    nodes = []
    for k in range(int(mp.ceil(low / step)), int(mp.floor(high / step)) + 1):
        x = (centre + width * mp.sinh(k * step) - m) / sd
        weight = step * exp(-(x**2) / 2) / sqrt(2 * pi) * width * mp.cosh(k * step) / sd
        nodes.append((x, weight))
    return nodes


def nodes_near(m, sd, near, g, coarse):
    if near is None:
        return plain_nodes(sd, pi, coarse)
    width = near.width(g)
    if abs(near.centre - m) > 7.5 * sd:  # q has no weight where the function bends
        return plain_nodes(sd, max(width, 3 * sd), coarse)
    if width > sd / 2:
        return plain_nodes(sd, width, coarse)
    return mapped_nodes(m, sd, near.centre, width, coarse)


def one(q, j, function, coarse, near=None, width=pi):
    """E h(f_j)."""
    m, v = q[j]
    sd = sqrt(v)
    nodes = (
        plain_nodes(sd, width, coarse, 2) if near is None else nodes_near(m, sd, near, 0, coarse)
    )
    total = [mp.mpf(0)] * 3
    for x, w in nodes:
        term = w * function(m + sd * x)
        total = [total[0] + term, total[1] + term * x, total[2] + term * (x**2 - 1)]
    return total[0], {j: total[1] / sd}, {j: total[2] / (2 * v)}


def two(q, i, j, function, coarse, near=None, widths=(pi, pi)):
    """E h(f_i, f_j): sums over f_i within sums over f_j."""
    (m_i, v_i), (m_j, v_j) = q[i], q[j]
    sd_i, sd_j = sqrt(v_i), sqrt(v_j)
    total = [mp.mpf(0)] * 5
    for x_j, w_j in plain_nodes(sd_j, widths[1], coarse):
        f_j = m_j + sd_j * x_j
        if near is None:
            inner = plain_nodes(sd_i, widths[0], coarse)
        else:
            inner = nodes_near(m_i, sd_i, near, f_j, coarse)
        part = [mp.mpf(0)] * 3
        for x, w in inner:
            if w * w_j < mp.mpf(10) ** -45:
                continue
            term = w * function(m_i + sd_i * x, f_j)
            part = [part[0] + term, part[1] + term * x, part[2] + term * (x**2 - 1)]
        total[0] += w_j * part[0]
        total[1] += w_j * part[1]
        total[2] += w_j * part[2]
        total[3] += w_j * part[0] * x_j
        total[4] += w_j * part[0] * (x_j**2 - 1)
    value, d_i, dd_i, d_j, dd_j = total
    return value, {i: d_i / sd_i, j: d_j / sd_j}, {i: dd_i / (2 * v_i), j: dd_j / (2 * v_j)}


def ridge(q, signs, function, coarse, width=pi):
    """E h(Σ s_j f_j), s_j = ±1: one-dimensional."""
    joint = [(sum(s * q[j][0] for j, s in signs.items()), sum(q[j][1] for j in signs))]
    value, dm, dv = one(joint, 0, function, coarse, width=width)
    return value, {j: s * dm[0] for j, s in signs.items()}, dict.fromkeys(signs, dv[0])


def distance(q, j, y, coarse):
    """E |y − f_j|, its kink at y: closed."""
    m, v = q[j]
    sd = sqrt(v)
    u = (y - m) / sd
    side, peak = mp.erf(u / sqrt(2)), exp(-(u**2) / 2) / sqrt(2 * pi)
    return (y - m) * side + 2 * sd * peak, {j: -side}, {j: peak / sd}


def times(*factors):
    """The product of expectations of functions of different latents."""
    value = mp.mpf(1)
    dm, dv = {}, {}
    for factor, dm_factor, dv_factor in factors:
        dm = {j: d * factor for j, d in dm.items()} | {j: d * value for j, d in dm_factor.items()}
        dv = {j: d * factor for j, d in dv.items()} | {j: d * value for j, d in dv_factor.items()}
        value *= factor
    return value, dm, dv


def scaled(c, part):
    value, *slopes = part
    return c * value, *({j: c * d for j, d in slope.items()} for slope in slopes)


def number(c):
    return mp.mpf(c), {}, {}


def identity(f):
    return f


def square(f):
    return f * f


# ---- the expectations: q [(m, v), …], coarse, y, keywords -> parts that are added ----------------


def normal(q, coarse, y, f=0, g=1):
    yield number(-LOG_2PI / 2)
    yield scaled(-0.5, one(q, g, identity, coarse))
    spread = one(q, f, lambda t: (y - t) ** 2, coarse)
    yield scaled(-0.5, times(spread, one(q, g, lambda t: exp(-t), coarse)))


def gaussian(q, coarse, y, variance):
    yield number(-(LOG_2PI + log(variance)) / 2)
    yield scaled(-1 / (2 * variance), one(q, 0, lambda t: (y - t) ** 2, coarse))


def signal_noise(q, coarse, y):
    precision = one(q, 2, lambda t: exp(-t), coarse)
    yield number(-LOG_2PI / 2)
    yield scaled(-0.5, one(q, 2, identity, coarse))
    yield scaled(-(y**2) / 2, precision)
    gain = one(q, 1, exp, coarse)
    yield scaled(y, times(one(q, 0, identity, coarse), gain, precision))
    power = one(q, 1, lambda t: exp(2 * t), coarse)
    yield scaled(-0.5, times(one(q, 0, square, coarse), power, precision))


def student_constant(nu):
    return mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - log(nu * pi) / 2


def student_t(q, coarse, y, nu):
    near = Near(y, log(nu) / 2, 0.5)
    yield number(student_constant(nu))
    yield scaled(-0.5, one(q, 1, identity, coarse))
    tail = two(q, 0, 1, lambda f, g: mp.log1p((y - f) ** 2 * exp(-g) / nu), coarse, near)
    yield scaled(-(nu + 1) / 2, tail)


def constant_student_t(q, coarse, y, nu, log_scale2):
    near = Near(y, (log(nu) + log_scale2) / 2, 0)
    yield number(student_constant(nu) - log_scale2 / 2)
    c2 = nu * exp(log_scale2)
    yield scaled(-(nu + 1) / 2, one(q, 0, lambda f: mp.log1p((y - f) ** 2 / c2), coarse, near))


def student_t_nu(q, coarse, y):
    """With t = g + h: E[(1 + e^h) T(f, t)], and E[e^h | t] is log-normal."""
    (m_g, v_g), (m_h, v_h) = q[1:]
    yield one(q, 2, lambda h: student_constant(exp(h)), coarse)
    yield scaled(-0.5, one(q, 1, identity, coarse))

    def tail(shift):
        joint = [q[0], (m_g + m_h + shift, v_g + v_h)]
        near = Near(y, 0, 0.5)
        return two(joint, 0, 1, lambda f, t: mp.log1p((y - f) ** 2 * exp(-t)), coarse, near)

    value, dm, dv = scaled(-0.5, tail(0))
    yield value, {0: dm[0], 1: dm[1], 2: dm[1]}, {0: dv[0], 1: dv[1], 2: dv[1]}
    value, dm, dv = scaled(-exp(m_h + v_h / 2) / 2, tail(v_h))
    dv_h = value / 2 + dm[1] + dv[1]
    yield value, {0: dm[0], 1: dm[1], 2: dm[1] + value}, {0: dv[0], 1: dv[1], 2: dv_h}


def laplace(q, coarse, y):
    yield number(-log(2))
    yield scaled(-1, one(q, 1, identity, coarse))
    yield scaled(-1, times(distance(q, 0, y, coarse), one(q, 1, lambda t: exp(-t), coarse)))


def check_loss(q, coarse, y):
    """τ = ¾: ρ(u) = u/4 + |u|/2, of which the mean of |u| is closed."""
    yield number(log(mp.mpf(3) / 16))
    yield scaled(-1, one(q, 1, identity, coarse))
    inverse = one(q, 1, lambda t: exp(-t), coarse)
    yield scaled(-mp.mpf(1) / 2, times(distance(q, 0, y, coarse), inverse))
    yield scaled(-mp.mpf(1) / 4, times(one(q, 0, lambda f: y - f, coarse), inverse))


def gamma(q, coarse, y):
    shape = one(q, 1, exp, coarse)
    yield one(q, 1, lambda g: exp(g) * (g + log(y)) - mp.loggamma(exp(g)), coarse)
    yield number(-log(y))
    yield scaled(-1, times(shape, one(q, 0, identity, coarse)))
    yield scaled(-y, times(shape, one(q, 0, lambda f: exp(-f), coarse)))


def constant_gamma(q, coarse, y, log_shape):
    shape = exp(log_shape)
    yield number(shape * (log_shape + log(y)) - mp.loggamma(shape) - log(y))
    yield scaled(-shape, one(q, 0, identity, coarse))
    yield scaled(-y * shape, one(q, 0, lambda f: exp(-f), coarse))


def beta(q, coarse, y):
    for j, t in enumerate((y, 1 - y)):
        alone = one(q, j, lambda f, t=t: (exp(f) - 1) * log(t) - mp.loggamma(exp(f)), coarse)
        yield alone
    yield two(q, 0, 1, lambda f, g: mp.loggamma(exp(f) + exp(g)), coarse)


def beta_mean(q, coarse, y):
    yield number(-log(y) - log(1 - y))
    yield one(q, 1, lambda g: mp.loggamma(exp(g)), coarse)
    for sign, t in ((1, y), (-1, 1 - y)):
        share = one(q, 0, lambda f, s=sign: 1 / (1 + exp(-s * f)), coarse)
        yield scaled(log(t), times(share, one(q, 1, exp, coarse)))
        yield scaled(-1, two(q, 0, 1, partial(shape_part, sign), coarse))


def shape_part(sign, f, g):
    return mp.loggamma(exp(g) / (1 + exp(-sign * f)))


def poisson(q, coarse, y, exposure):
    yield number(y * log(exposure) - mp.loggamma(y + 1))
    yield scaled(y, one(q, 0, identity, coarse))
    yield scaled(-exposure, one(q, 0, exp, coarse))


def additive_poisson(q, coarse, y, exposure):
    yield number(y * log(exposure) - mp.loggamma(y + 1))
    yield scaled(y, one(q, 0, identity, coarse))
    yield scaled(y, ridge(q, {0: -1, 1: 1}, softplus, coarse))
    for j in range(2):
        yield scaled(-exposure, one(q, j, exp, coarse))


def negative_binomial(q, coarse, y, exposure):
    """With r = e^{−g}, t = f + g: −(r + y) softplus(t + log exposure) and functions of g."""
    e = log(exposure)
    yield number(y * e - mp.loggamma(y + 1))
    yield one(q, 1, lambda g: mp.loggamma(y + exp(-g)) - mp.loggamma(exp(-g)) + y * g, coarse)
    yield scaled(y, one(q, 0, identity, coarse))
    yield scaled(-y, ridge(q, {0: 1, 1: 1}, lambda t: softplus(t + e), coarse))
    yield scaled(-1, two(q, 0, 1, lambda f, g: exp(-g) * softplus(f + g + e), coarse))


def binomial(q, coarse, y, trials):
    yield number(mp.loggamma(trials + 1) - mp.loggamma(y + 1) - mp.loggamma(trials - y + 1))
    yield scaled(-y, one(q, 0, lambda f: softplus(-f), coarse))
    yield scaled(y - trials, one(q, 0, softplus, coarse))


def beta_binomial(q, coarse, y, trials):
    yield number(mp.loggamma(trials + 1) - mp.loggamma(y + 1) - mp.loggamma(trials - y + 1))
    yield one(q, 1, lambda g: mp.loggamma(exp(g)) - mp.loggamma(trials + exp(g)), coarse)
    for sign, k in ((1, y), (-1, trials - y)):
        yield two(q, 0, 1, partial(rising_part, sign, k), coarse)


def rising_part(sign, k, f, g):
    shape = exp(g) / (1 + exp(-sign * f))
    return mp.loggamma(k + shape) - mp.loggamma(shape)


def bernoulli(q, coarse, y):
    yield scaled(-1, one(q, 0, lambda f: softplus(-f if y else f), coarse))


def probit(q, coarse, y):
    sign = 1 if y else -1
    near = Near(0, log(2), 0.5)
    yield two(q, 0, 1, lambda f, g: log_normal_cdf(sign * f * exp(-g / 2)), coarse, near,
              (pi, pi / 2))  # fmt: skip


def ordinal(q, coarse, y, cutpoint, gap_1, gap_2):
    cuts = [cutpoint, cutpoint + gap_1, cutpoint + gap_1 + gap_2]
    k = int(y)
    if k < 3:
        yield scaled(-1, one(q, 0, lambda f: softplus(f - cuts[k]), coarse))
    if k > 0:
        yield scaled(-1, one(q, 0, lambda f: softplus(cuts[k - 1] - f), coarse))
    if 0 < k < 3:
        yield number(log(-mp.expm1(cuts[k - 1] - cuts[k])))


def softmax(q, coarse, y):
    """Over the differences d = f_2 − f_1, e = f_3 − f_1: d and what of e is independent of it."""
    v = [pair[1] for pair in q]
    slope = v[0] / (v[0] + v[1])
    sd_d, sd_e = sqrt(v[0] + v[1]), sqrt(v[2] + v[0] * v[1] / (v[0] + v[1]))
    total = [mp.mpf(0)] * 7  # log Σ, p_k, p_k (1 − p_k)
    inner = plain_nodes(sd_e, pi, coarse)
    for x, w in plain_nodes(sd_d, pi, coarse):
        d = q[1][0] - q[0][0] + sd_d * x
        centre = q[2][0] - q[0][0] + slope * sd_d * x
        for x_e, w_e in inner:
            weight = w * w_e
            if weight < mp.mpf(10) ** -40:
                continue
            powers = [mp.mpf(1), exp(d), exp(centre + sd_e * x_e)]
            whole = sum(powers)
            shares = [p / whole for p in powers]
            parts = [log(whole), *shares, *(p * (1 - p) for p in shares)]
            total = [t + weight * part for t, part in zip(total, parts, strict=True)]
    yield one(q, int(y), identity, coarse)
    yield (
        -q[0][0] - total[0],
        {j: -total[1 + j] for j in range(3)},
        {j: -total[4 + j] / 2 for j in range(3)},
    )


def log_logistic(q, coarse, y, censored, y_upper):
    """With a(t) = e^g (log t − f): exact g − log y + a − 2 softplus(a), right −softplus(a)."""

    def term(sign, t):
        near = Near(log(t), log(pi), -1)
        function = partial(lambda c, f, g: softplus(sign * exp(g) * (c - f)), log(t))
        return two(q, 0, 1, function, coarse, near, (pi, pi / 2))

    if censored == 0:
        yield number(-log(y))
        yield one(q, 1, identity, coarse)
        yield times(one(q, 0, lambda f: log(y) - f, coarse), one(q, 1, exp, coarse))
        yield scaled(-2, term(1, y))
    if censored == 1:
        yield scaled(-1, term(1, y))
    if censored == -1:
        yield scaled(-1, term(-1, y))
    if censored == 2:
        yield scaled(-1, term(1, y))
        yield scaled(-1, term(-1, y_upper))
        width = log(y_upper / y)
        yield one(q, 1, lambda g: log(-mp.expm1(-width * exp(g))), coarse, width=pi / 2)


def constant_log_logistic(q, coarse, y, log_shape, censored):
    shape = exp(log_shape)
    near = Near(log(y), log(pi) - log_shape, 0)
    yield scaled(-1, one(q, 0, lambda f: softplus(shape * (log(y) - f)), coarse, near))
    if censored == 0:
        yield number(log_shape - log(y))
        yield scaled(-1, one(q, 0, lambda f: softplus(shape * (f - log(y))), coarse, near))


def weibull(q, coarse, y, censored):
    """e^z, a line from z = 12 on, is integrated over f in closed form, and so is max(z − 12, 0)."""
    (m_f, v_f), shift = q[0], mp.mpf(10) ** -15

    def cost(g, m, v):
        k = exp(g)
        mean, sd = k * (log(y) - m), k * sqrt(v)
        far = (mean - 12) / sd
        below = exp(mean + sd**2 / 2) * mp.erfc((far + sd) / sqrt(2)) / 2
        upper = mp.erfc(-far / sqrt(2)) / 2
        excess = (mean - 12) * upper + sd * exp(-(far**2) / 2) / sqrt(2 * pi)
        hazard = below + exp(mp.mpf(12)) * (upper + excess)
        return hazard + excess if censored == 0 else hazard  # the log-hazard is min(z, 12)

    def whole(m, v):
        return one(q, 1, lambda g: cost(g, m, v), 0.4 * coarse, width=mp.mpf("1.5"))

    value, dm, dv = whole(m_f, v_f)
    for part, at in ((dm, (1, 0)), (dv, (0, 1))):
        ends = [whole(m_f + s * at[0] * shift, v_f + s * at[1] * shift)[0] for s in (1, -1)]
        part[0] = (ends[0] - ends[1]) / (2 * shift)
    yield scaled(-1, (value, dm, dv))
    if censored == 0:
        yield number(-log(y))
        yield one(q, 1, identity, coarse)
        distance_ = one(q, 0, lambda f: log(y) - f, coarse)
        yield times(distance_, one(q, 1, exp, coarse))


def log_normal(q, coarse, y, censored):
    if censored == 0:
        yield number(-LOG_2PI / 2 - log(y))
        yield scaled(-1, one(q, 1, identity, coarse))
        spread = one(q, 0, lambda f: (log(y) - f) ** 2, coarse)
        yield scaled(-0.5, times(spread, one(q, 1, lambda g: exp(-2 * g), coarse)))
    else:
        near = Near(log(y), log(2), 1)
        yield two(q, 0, 1, lambda f, g: log_normal_cdf((f - log(y)) * exp(-g)), coarse, near,
                  (pi, pi / 4))  # fmt: skip


def log_z(q, coarse, first, count):
    """−E log(1 + Σ e^h)."""
    if count == 1:
        return scaled(-1, one(q, first, softplus, coarse))
    return scaled(-1, two(q, first, first + 1, lambda h, k: log(1 + exp(h) + exp(k)), coarse))


def zero_inflated(q, coarse, y, exposure, atoms=1):
    yield log_z(q, coarse, 1, atoms)
    if y == 0:
        yield two(q, 0, 1, partial(share_of_zero, exposure), coarse, widths=(mp.mpf("0.8"), pi))
    else:
        yield from poisson(q, coarse, y, exposure)


def inflated_negative_binomial(q, coarse, y, exposure):
    """Of y > 0; that of a zero is a triple integral, and is compared with a fine grid elsewhere."""
    yield log_z(q, coarse, 2, 1)
    yield from negative_binomial(q, coarse, y, exposure)


def share_of_zero(exposure, f, h):
    rate = exposure * exp(f)
    return softplus(h + rate) - rate


def inflated_poisson(q, coarse, y, exposure):
    yield from zero_inflated(q, coarse, y, exposure, atoms=2)


def inflated_normal(q, coarse, y):
    yield log_z(q, coarse, 2, 1)
    if y == 0.5:
        yield one(q, 2, identity, coarse)
    else:
        yield from normal(q, coarse, y)


def hurdle_poisson(q, coarse, y, exposure):
    yield log_z(q, coarse, 1, 1)
    if y == 0:
        yield one(q, 1, identity, coarse)
    else:
        yield from poisson(q, coarse, y, exposure)
        positive = partial(lambda e, f: log(-mp.expm1(-e * exp(f))), exposure)
        yield scaled(-1, one(q, 0, positive, coarse, width=pi / 2))


def inflated_beta(q, coarse, y):
    yield log_z(q, coarse, 2, 2)
    if y in (0, 1):
        yield one(q, 2 + int(y), identity, coarse)
    else:
        yield from beta(q, coarse, y)


def logistic(q, coarse, y):
    near = Near(y, log(pi), 1)
    yield scaled(-1, one(q, 1, identity, coarse))
    z = times(one(q, 0, lambda f: y - f, coarse), one(q, 1, lambda g: exp(-g), coarse))
    yield scaled(-1, z)
    tail = two(q, 0, 1, lambda f, g: softplus((f - y) * exp(-g)), coarse, near, (pi, pi / 2))
    yield scaled(-2, tail)


def shash(q, coarse, y, skewness, tail):
    """Jones and Pewsey's form, at the location and scale that the median and its scale ask for."""

    def part(f, g):
        x = (y - f) * tail * mp.cosh(skewness) * exp(-g) + mp.sinh(skewness)
        a = (mp.asinh(x) - skewness) / tail
        return log(mp.cosh(a)) - log(1 + x * x) / 2 - mp.sinh(a) ** 2 / 2

    near = Near(y, -log(2 * tail * mp.cosh(skewness)), 1)
    yield number(log(mp.cosh(skewness)) - LOG_2PI / 2)
    yield scaled(-1, one(q, 1, identity, coarse))
    yield two(q, 0, 1, part, coarse, near, (pi, pi / 4))


def box_cox_normal(q, coarse, y, power):
    """z² from powers of e^f; the integral over y > 0 is a function of g."""
    yield number((power - 1) * log(y) - LOG_2PI / 2)
    yield scaled(-power, one(q, 0, identity, coarse))
    yield scaled(-1, one(q, 1, identity, coarse))
    precision = one(q, 1, lambda g: exp(-2 * g), coarse)
    for factor, k in ((1, 2), (-2, 1)):
        grown = one(q, 0, partial(lambda k, f: exp(k * power * (log(y) - f)), k), coarse)
        yield scaled(-factor / (2 * power**2), times(grown, precision))
    yield scaled(-1 / (2 * power**2), precision)
    end = one(q, 1, lambda g: log_normal_cdf(exp(-g) / abs(power)), coarse, width=mp.mpf("0.7"))
    yield scaled(-1, end)


def box_cox_t(q, coarse, y, power, nu):
    def tail(f, g):
        return mp.log1p((mp.expm1(power * (log(y) - f)) / (power * exp(g))) ** 2 / nu)

    def log_whole(g):
        share = nu / (nu + exp(-2 * g) / power**2)
        return mp.log1p(-mp.betainc(nu / 2, mp.mpf(1) / 2, 0, share, regularized=True) / 2)

    yield number((power - 1) * log(y) + student_constant(nu))
    yield scaled(-power, one(q, 0, identity, coarse))
    yield scaled(-1, one(q, 1, identity, coarse))
    near = Near(log(y), log(nu) / 2 - 1, 1)
    yield scaled(-(nu + 1) / 2, two(q, 0, 1, tail, coarse, near, (pi, pi / 4)))
    yield scaled(-1, one(q, 1, log_whole, coarse, width=mp.mpf("0.7")))


def tweedie(q, coarse, y, power, exposure):
    """All but the sum over the number of amounts is a power of μ, divided by φ."""
    two_, e = 2 - power, log(exposure)
    inverse = one(q, 1, lambda g: exp((power - 1) * e - g), coarse)
    rate = one(q, 0, lambda f: exp(two_ * (f + e)), coarse)
    yield scaled(-1 / two_, times(rate, inverse))
    if y == 0:
        return
    pull = one(q, 0, lambda f: exp((1 - power) * (f + e)), coarse)
    yield scaled(-y / (power - 1), times(pull, inverse))
    yield number(-log(y))
    alpha = two_ / (power - 1)

    def series(g):
        g = g - (power - 1) * e
        step = alpha * (log(y) - log(power - 1)) - (1 + alpha) * g - log(two_)
        mode = max(1, int(exp((step - alpha * log(alpha)) / (1 + alpha))))
        sizes = []
        for way in (1, -1):
            j = mode if way == 1 else mode - 1
            while j >= 1:
                sizes.append(j * step - mp.loggamma(j + 1) - mp.loggamma(j * alpha))
                if sizes[-1] < sizes[0] - 80:
                    break
                j += way
        return sizes[0] + log(sum(exp(size - sizes[0]) for size in sizes))

    yield one(q, 1, series, coarse, width=mp.mpf("0.7"))


def reduced_variate(z, shape):
    """w = log(1 + ξz)/ξ and log dw/dz; beyond its pivot p the polynomial of degree 2 of its own."""
    p = mp.mpf(14 if shape < 0 else -4)
    end = mp.expm1(shape * p) / shape
    if (z > end) == (shape < 0):
        u = exp(-shape * p) * (z - end)
        return p + u - shape * u**2 / 2, -shape * p + mp.log1p(-shape * u)
    w = mp.log1p(shape * z) / shape
    return w, -shape * w


def gev_density(y, f, g, shape):
    w, log_slope = reduced_variate((y - f) * exp(-g), shape)
    a, top = -w, min(-w, mp.mpf(4))
    return -g - exp(top) * (1 + a - top) + top + log_slope


def pareto_density(y, g, shape):
    w, log_slope = reduced_variate(y * exp(-g), shape)
    return -g - w + log_slope


def linked_shape(h):
    return mp.mpf(3) / 2 / (1 + 2 * exp(-h)) - mp.mpf(1) / 2


def gev(q, coarse, y, shape):
    """Of a q so narrow that nothing bends inside it."""
    yield two(q, 0, 1, lambda f, g: gev_density(y, f, g, shape), coarse, None, (1, 1))


def gev_shape(q, coarse, y):
    """The shape is summed over the five nodes of a rule for a q that is far narrower than it."""
    m, v = q[2]
    sd = sqrt(v)
    nodes = plain_nodes(sd, mp.mpf("0.5"), coarse)
    total, dm, dv = mp.mpf(0), [mp.mpf(0)] * 3, [mp.mpf(0)] * 3
    for x, w in nodes:
        xi = linked_shape(m + sd * x)
        part = two(q, 0, 1, lambda f, g, xi=xi: gev_density(y, f, g, xi), coarse, None, (1, 1))
        total += w * part[0]
        for j in (0, 1):
            dm[j] += w * part[1][j]
            dv[j] += w * part[2][j]
        dm[2] += w * part[0] * x / sd
        dv[2] += w * part[0] * (x**2 - 1) / (2 * v)
    yield total, dict(enumerate(dm)), dict(enumerate(dv))


def generalised_pareto(q, coarse, y, shape):
    yield one(q, 0, lambda g: pareto_density(y, g, shape), coarse, width=mp.mpf(1))


def generalised_pareto_shape(q, coarse, y):
    yield two(
        q, 0, 1, lambda g, h: pareto_density(y, g, linked_shape(h)), coarse, None,
        (1, mp.mpf("0.5")),
    )  # fmt: skip


def von_mises(q, coarse, y):
    yield number(-LOG_2PI)
    yield scaled(-1, one(q, 1, lambda g: log(mp.besseli(0, exp(g))), coarse, width=mp.mpf("0.8")))
    cosine = one(q, 0, lambda f: mp.cos(y - f), coarse, width=mp.mpf(1))
    yield times(cosine, one(q, 1, exp, coarse))


COUNTS = dict.fromkeys((student_t, beta, negative_binomial, probit, log_logistic), DOUBLE)
COUNTS |= dict.fromkeys((student_t_nu, beta_mean, softmax, log_normal, zero_inflated, beta_binomial,
                         inflated_poisson, inflated_beta, logistic, inflated_negative_binomial,
                         shash, box_cox_t, tweedie,
                         gev, gev_shape, generalised_pareto_shape), SLOW)  # fmt: skip

# likelihood: function, targets, (means, variances) of each latent, parameters, metadata
SMALL, WIDE = (1e-6, 0.04, 0.5), (0.04, 0.7, 3.0, 9.0, 18.0)
MIDDLE = (0.04, 0.7, 3.0, 9.0)
EXPOSURE = {"exposure": (0.3, 40.0)}
SEEN = {"censored": (0.0, 1.0)}
CASES = {
    "HetGaussian()": (normal, (0.3, 40.0), [((0.1, 5.0), WIDE), ((-4.0, 2.0), WIDE)], {}, {}),
    "Gaussian()": (gaussian, (0.3, 40.0), [((0.1, 5.0), WIDE)], {"variance": (1e-4, 2.0)}, {}),
    "SignalNoiseGaussian()": (
        signal_noise,
        (0.3, -6.0),
        [((0.1, 2.0), WIDE), ((-1.0, 1.0), MIDDLE), ((-3.0, 1.0), MIDDLE)],
        {},
        {},
    ),
    "HetStudentT()": (
        student_t,
        (0.3, 2.0, 40.0),
        [((0.1,), (0.04, 1.0, 20.0)), ((-4.0, 0.5), (0.04, 0.7, 3.0, 9.0, 14.0, 22.0, 40.0))],
        {"nu": (1.5, 4.0, 60.0)},
        {},
    ),
    "StudentT()": (
        constant_student_t,
        (0.3, 2.0, 40.0),
        [((0.1, 5.0), WIDE)],
        {"nu": (1.5, 4.0, 60.0), "log_scale2": (-9.0, 0.7)},
        {},
    ),
    "HetStudentTNu()": (
        student_t_nu,
        (0.3, 7.0),
        [((0.1,), (0.04, 2.0)), ((-3.0, 0.5), (0.04, 0.7, 6.0, 14.0)), ((1.2,), (0.04, 1.0, 8.0))],
        {},
        {},
    ),
    "HetLaplace()": (laplace, (0.1, 0.3, 40.0), [((0.1, 5.0), WIDE), ((-4.0, 1.0), WIDE)], {}, {}),
    "AsymmetricLaplace(0.75)": (
        check_loss,
        (0.1, 0.3, 40.0),
        [((0.1, 5.0), WIDE), ((-4.0, 1.0), WIDE)],
        {},
        {},
    ),
    "SHASH()": (
        shash,
        (0.3, 2.0),
        [((0.1,), (0.04, 0.5, 2.0)), ((-2.0, 0.5), (0.04, 0.3, 1.0))],
        {"skewness": (-0.7, 0.3), "tail": (0.7, 1.0, 1.6)},
        {},
    ),
    "BoxCoxNormal()": (
        box_cox_normal,
        (0.05, 0.7, 8.0),
        [((0.1, 2.0), (0.04, 0.5)), ((-3.0, -1.0, 0.5), (0.04, 0.5, 2.0))],
        {"power": (-1.2, 0.3, 1.0)},
        {},
    ),
    "BoxCoxT()": (
        box_cox_t,
        (0.7, 3.0),
        [((0.1,), (0.04, 0.3)), ((-1.4, -0.5), (0.04, 0.2))],
        {"power": (-0.8, 0.5), "nu": (3.0, 10.0)},
        {},
    ),
    "Tweedie()": (
        tweedie,
        (0.0, 0.7, 8.0),
        [((-1.0, 1.5), (0.04, 0.7)), ((-1.0, 0.7), (0.04, 0.7, 3.0))],
        {"power": (1.2, 1.5, 1.8)},
        {"exposure": (0.3, 2.0)},
    ),
    "GEV()": (
        gev,
        (0.3, 2.0, 4.0),
        [((0.1, 0.5), (1e-6, 0.01, 0.04)), ((0.2, 0.7), (0.005, 0.02))],
        {"shape": (-0.1, 0.2)},
        {},
    ),
    "GEVShape()": (
        gev_shape,
        (0.3, 2.0),
        [((0.1,), (0.001, 0.01)), ((0.7,), (0.001, 0.01)), ((-0.3, 0.5), (0.001, 0.01))],
        {},
        {},
    ),
    "GeneralisedPareto()": (
        generalised_pareto,
        (0.02, 0.6, 30.0),
        [((0.1, 2.0), (1e-6, 0.04, 0.5, 1.5))],
        {"shape": (1e-3, 0.2, 0.6)},
        {},
    ),
    "GeneralisedParetoShape()": (
        generalised_pareto_shape,
        (0.02, 0.6, 3.0),
        [((0.1, 1.0), (0.01, 0.1)), ((0.5, 1.0), (0.001, 0.01))],
        {},
        {},
    ),
    "VonMises()": (
        von_mises,
        (-3.0, 0.3, 2.0),
        [((0.1, 7.0), (1e-6, 0.04, 0.7, 9.0)), ((-2.0, 1.0, 3.0), (0.04, 0.7, 3.0))],
        {},
        {},
    ),
    "HetGamma()": (
        gamma,
        (1e-4, 0.7, 80.0),
        [((-1.0, 2.0), MIDDLE), ((-2.0, 3.0), (0.04, 0.9, 4.0, 11.0, 16.0, 25.0, 40.0))],
        {},
        {},
    ),
    'HetGamma().with_constant("log_shape")': (
        constant_gamma,
        (1e-4, 0.7, 80.0),
        [((-1.0, 2.0), WIDE)],
        {"log_shape": (-2.0, 4.0)},
        {},
    ),
    "Beta()": (
        beta,
        (1e-4, 0.3, 0.98),
        [((-2.0, 3.0), (0.04, 0.9, 4.0, 11.0, 16.0, 22.0))] * 2,
        {},
        {},
    ),
    "BetaMeanPrecision()": (
        beta_mean,
        (1e-3, 0.3, 0.98),
        [((-2.0, 1.0), (0.04, 0.7, 3.0, 8.0)), ((0.5, 4.0), (0.04, 0.7, 3.0, 8.0))],
        {},
        {},
    ),
    "Poisson()": (poisson, (0.0, 7.0, 900.0), [((-3.0, 1.0, 6.0), WIDE)], {}, EXPOSURE),
    "AdditivePoisson()": (
        additive_poisson,
        (0.0, 7.0, 900.0),
        [((-3.0, 1.0, 6.0), WIDE), ((0.0, 3.0), WIDE)],
        {},
        EXPOSURE,
    ),
    "NegativeBinomial()": (
        negative_binomial,
        (0.0, 7.0, 900.0),
        [((-2.0, 1.0, 5.0), (0.04, 0.7, 3.0, 9.0)), ((-4.0, 0.0), (0.04, 0.7, 3.0, 9.0))],
        {},
        EXPOSURE,
    ),
    "Binomial()": (
        binomial,
        (0.0, 2.0, 9.0),
        [((-6.0, 0.2, 30.0), WIDE)],
        {},
        {"trials": (9.0, 1000.0)},
    ),
    "BetaBinomial()": (
        beta_binomial,
        (0.0, 2.0, 9.0),
        [((-2.0, 0.4), (0.04, 0.7, 3.0)), ((0.5, 3.0), (0.04, 0.7, 3.0))],
        {},
        {"trials": (9.0, 60.0)},
    ),
    "Bernoulli()": (bernoulli, (0.0, 1.0), [((-30.0, -2.0, 0.3, 6.0), WIDE)], {}, {}),
    "HetProbit()": (
        probit,
        (0.0, 1.0),
        [((-6.0, 0.3, 2.0), (0.04, 0.7, 6.0)), ((-3.0, 0.0, 3.0), (0.04, 0.7, 3.0, 9.0))],
        {},
        {},
    ),
    "Softmax(3)": (
        softmax,
        (0.0, 1.0, 2.0),
        [((0.0,), (0.04, 2.0, 9.0, 30.0)), ((-1.0,), (0.1, 3.0, 25.0)), ((2.0,), (0.5, 12, 20))],
        {},
        {},
    ),
    "Ordinal(4)": (
        ordinal,
        (0.0, 1.0, 2.0, 3.0),
        [((-9.0, -1.2, 0.4, 20.0), WIDE)],
        {"cutpoint": (-0.8,), "gap_1": (1e-6, 1.3), "gap_2": (0.5, 20.0)},
        {},
    ),
    "LogLogisticSurvival()": (
        log_logistic,
        (0.02, 0.6, 30.0),
        [((0.1,), (0.04, 1.0, 6.0)), ((-0.5, 1.0), (0.04, 0.5, 1.5, 3.0, 4.5, 8.0))],
        {},
        {"censored": (0.0, 1.0, -1.0, 2.0), "y_upper": (45.0,)},
    ),
    "LogLogistic()": (
        constant_log_logistic,
        (0.02, 0.6, 30.0),
        [((0.1, 2.0), WIDE)],
        {"log_shape": (-1.0, 2.0)},
        SEEN,
    ),
    "WeibullSurvival()": (
        weibull,
        (0.05, 0.6, 4.0),
        [((0.1, 1.5), (0.01, 0.1, 0.5, 3.0)), ((-0.5, 0.7), (0.01, 0.1, 0.5, 2.0))],
        {},
        SEEN,
    ),
    "LogNormalSurvival()": (
        log_normal,
        (0.02, 0.6, 30.0),
        [((0.1,), (0.04, 1.0, 3.0)), ((-2.0, 0.5), (0.04, 0.2, 0.5, 2.0))],
        {},
        SEEN,
    ),
    "Inflated(Poisson(), (0, 2))": (
        inflated_poisson,
        (0.0, 5.0),
        [((-2.0, 1.0), (0.04, 0.7, 3.0)), ((-2.0, 1.0), (0.04, 3.0, 12.0)), ((-1.0,), (0.7, 20.0))],
        {},
        {"exposure": (1.0,)},
    ),
    "Inflated(HetGaussian(), (0.5,))": (
        inflated_normal,
        (0.5, 0.6, -7.0),
        [((0.1,), MIDDLE), ((-3.0, 1.0), MIDDLE), ((-4.0, 0.3), WIDE)],
        {},
        {},
    ),
    "Hurdle(Poisson())": (
        hurdle_poisson,
        (0.0, 1.0, 60.0),
        [((-3.0, 0.4, 4.0), (0.04, 0.7, 3.0, 9.0)), ((-4.0, 0.2), WIDE)],
        {},
        EXPOSURE,
    ),
    "ZeroInflatedPoisson()": (
        zero_inflated,
        (0.0, 0.0, 4.0),
        [((-3.0, 0.4, 2.0), (0.04, 0.7, 3.0)), ((-4.0, 0.2), (0.04, 3.0, 12.0))],
        {},
        {"exposure": (0.3, 2.0)},
    ),
    "ZeroInflatedNegativeBinomial()": (
        inflated_negative_binomial,
        (1.0, 7.0),
        [((-1.0, 2.0), (0.04, 0.7)), ((-1.0, 0.5), (0.04, 0.7)), ((-4.0, 0.2), (0.04, 3.0, 12.0))],
        {},
        {"exposure": (0.3, 2.0)},
    ),
    "ZeroOneInflatedBeta()": (
        inflated_beta,
        (0.0, 1e-3, 0.4, 1.0),
        [((-1.0,), (0.04, 3.0, 16.0)), ((1.0,), (0.04, 3.0, 16.0)), ((-1.0,), (0.7, 20.0)),
         ((0.5,), (0.7, 9.0))],
        {},
        {},
    ),
    'Likelihood.from_scipy("logistic", loc="identity", scale="exp")': (
        logistic,
        (0.3, 2.0, 10.0),
        [((0.1,), (0.04, 0.5, 3.0)), ((-2.0, 0.5), (0.04, 0.3, 1.0, 2.0))],
        {},
        {},
    ),
}  # fmt: skip


def added(parts, b):
    """Value, dmeans (b), dvariances (b)."""
    total = [mp.mpf(0)] * (1 + 2 * b)
    for value, dm, dv in parts:
        total[0] += value
        for j, d in dm.items():
            total[1 + j] += d
        for j, d in dv.items():
            total[1 + b + j] += d
    return total


def expectation(function, q, coarse, y, parameters, metadata):
    """Value, derivatives in means, variances and parameters (by differences, with 50 digits)."""
    kw = {**parameters, **metadata}
    b, shift = len(q), mp.mpf(10) ** -16
    total = added(function(q, coarse, y, **kw), b)
    for key, value in parameters.items():
        ends = []
        for sign in (1, -1):
            changed = {**kw, key: value * (1 + sign * shift)}
            ends.append(added(function(q, coarse, y, **changed), b)[0])
        total.append((ends[0] - ends[1]) / (2 * shift * value))
    return total


def reference(function, y, q, parameters, metadata):
    """The fine sums, which the coarse ones confirm."""
    y, q = mp.mpf(y), [(mp.mpf(m), mp.mpf(v)) for m, v in q]
    parameters = {key: mp.mpf(value) for key, value in parameters.items()}
    metadata = {key: mp.mpf(value) for key, value in metadata.items()}
    fine, coarse = (
        expectation(function, q, step, y, parameters, metadata)
        for step in (mp.mpf(1), mp.mpf("1.25"))
    )
    for a, c in zip(fine, coarse, strict=True):
        if abs(a - c) > mp.mpf("1e-6") * (1 + abs(a)):
            raise ArithmeticError(f"{mp.nstr(a, 15)}, {mp.nstr(c, 15)} at {y}, {q}, {metadata}")
    return [float(value) for value in fine]


def points(targets, latents, parameters, metadata, count):
    """Some points of the grid of all values, always the same."""
    pairs = [list(itertools.product(*latent)) for latent in latents]
    grid = list(itertools.product(targets, *pairs, *parameters.values(), *metadata.values()))
    b, p = len(latents), len(parameters)
    rows = []
    for y, *rest in random.Random(2).sample(grid, min(count, len(grid))):
        own = dict(zip(parameters, rest[b : b + p], strict=True))
        kw = dict(zip(metadata, rest[b + p :], strict=True))
        rows.append((y, rest[:b], own, kw))
    return rows


def table(name):
    """Columns of one case."""
    function, *rest = CASES[name]
    rows = points(*rest, COUNTS.get(function, POINTS))
    values = [reference(function, *row) for row in rows]
    b, p = len(rest[1]), len(rest[2])
    columns = [list(column) for column in zip(*values, strict=True)]
    return {
        "y": [row[0] for row in rows],
        "means": [[row[1][j][0] for row in rows] for j in range(b)],
        "variances": [[row[1][j][1] for row in rows] for j in range(b)],
        "parameters": {key: [row[2][key] for row in rows] for key in rest[2]},
        "metadata": {key: [row[3][key] for row in rows] for key in rest[3]},
        "value": columns[0],
        "dmeans": columns[1 : 1 + b],
        "dvariances": columns[1 + b : 1 + 2 * b],
        "dparameters": columns[1 + 2 * b : 1 + 2 * b + p],
    }


def main():
    """Write the file; cases that are not named stay as they are."""
    whole = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    easy_first = sorted(CASES, key=lambda name: -COUNTS.get(CASES[name][0], POINTS))
    for name in sys.argv[1:] or easy_first:
        whole[name] = table(name)
        print(name, flush=True)
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(whole[key])}" for key in CASES if key in whole
        )
        PATH.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
