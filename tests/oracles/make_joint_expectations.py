"""Writes joint_expectations.json: E[log p] of every likelihood under correlated latents.

The log-densities are written here from their textbook forms and integrated by mpmath over rotated
coordinates, f_j = m_j + Σ_k R_jk x_k with the Cholesky factor R of V. The sums are trapezoidal
with 30 digits, and converge geometrically because everything is analytic; the step is halved until
two sums agree to 1e-10. The Laplace density has a kink in its location, over which E|y − f| given
the scale is closed. Of three latents one is left out where that is exact: classes see differences
of logits, and a normal target is quadratic in its signal. Correlations reach ±0.999, variances from
1e-4 to 2. Run

    python tests/oracles/make_joint_expectations.py [CASE …]

after a change; `tests/expectations/test_correlated_forms.py` compares the package with the file.
"""

import json
import random
import sys
from pathlib import Path

import mpmath as mp

mp.mp.dps = 30
PATH = Path(__file__).parents[1] / "stored" / "joint_expectations.json"
log, exp, sqrt, pi = mp.log, mp.exp, mp.sqrt, mp.pi
REACH = mp.mpf(8)  # the weight beyond is 1e-15
TINY = mp.mpf(10) ** -18  # nodes of less weight are left out
RHOS = (-0.999, -0.9, -0.4, 0.3, 0.8, 0.999)
SPREADS = (1e-4, 0.05, 0.4, 1.2)
POINTS = 6


def softplus(x):
    return mp.log1p(exp(x)) if x < 0 else x + mp.log1p(exp(-x))


def log_normal_cdf(z):
    return log(mp.erfc(-z / sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(z / sqrt(2)) / 2)


def normal(y, f, g):
    return -(log(2 * pi) + g + (y - f) ** 2 * exp(-g)) / 2


@mp.memoize
def student_constant(nu):
    return mp.loggamma((nu + 1) / 2) - mp.loggamma(nu / 2) - log(nu * pi) / 2


def student_t(y, f, g, nu):
    constant = student_constant(nu) - g / 2
    return constant - (nu + 1) / 2 * mp.log1p((y - f) ** 2 * exp(-g) / nu)


def student_t_nu(y, f, g, h):
    return student_t(y, f, g, exp(h))


def gamma(y, f, g):
    shape = exp(g)
    return shape * (g - f) + (shape - 1) * log(y) - mp.loggamma(shape) - y * exp(g - f)


def beta(y, f, g):
    a, b = exp(f), exp(g)
    both = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return both + (a - 1) * log(y) + (b - 1) * mp.log1p(-y)


def beta_mean(y, f, g):
    return beta(y, g - softplus(-f), g - softplus(f))


def additive_poisson(y, f, g, exposure):
    rate = exposure * (exp(f) + exp(g))
    return y * log(rate) - rate - mp.loggamma(y + 1)


def negative_binomial(y, f, g, exposure):
    r, rate = exp(-g), exposure * exp(f)
    count = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
    return count + r * log(r / (r + rate)) + (y * log(rate / (r + rate)) if y else 0)


def probit(y, f, g):
    return log_normal_cdf((2 * y - 1) * f * exp(-g / 2))


def seen(log_density, log_survival, y, censored, y_upper, entry):
    """A row of event times: exact, right, left or interval, given T > entry."""
    if censored == 0:
        value = log_density(y)
    elif censored == 1:
        value = log_survival(y)
    else:
        low, high = (entry, y) if censored == -1 else (y, y_upper)
        start = exp(log_survival(low)) if low else mp.mpf(1)
        value = log(start - exp(log_survival(high)))
    return value - (log_survival(entry) if entry else 0)


def log_logistic(y, f, g, censored, y_upper, entry):
    def survival(t):
        return -softplus(exp(g) * (log(t) - f))

    def density(t):
        a = exp(g) * (log(t) - f)
        return g - log(t) + a - 2 * softplus(a)

    return seen(density, survival, y, censored, y_upper, entry)


def weibull(y, f, g, censored, y_upper, entry):
    def survival(t):
        z = exp(g) * (log(t) - f)
        return -exp(z) if z < 12 else -exp(12) * (1 + z - 12)

    def density(t):
        z = exp(g) * (log(t) - f)
        return g - log(t) + min(z, 12) + survival(t)

    return seen(density, survival, y, censored, y_upper, entry)


def log_normal(y, f, g, censored, y_upper, entry):
    def survival(t):
        return log_normal_cdf(-exp(-g) * (log(t) - f))

    def density(t):
        z = exp(-g) * (log(t) - f)
        return -log(2 * pi) / 2 - g - log(t) - z * z / 2

    return seen(density, survival, y, censored, y_upper, entry)


def inflated_poisson(y, f, h):
    log_p = y * f - exp(f) - mp.loggamma(y + 1)
    return (log_p if y else log(exp(log_p) + exp(h))) - softplus(h)


TIMES = [
    (y, {"censored": c, "y_upper": u, "entry": e})
    for y, c, u, e in (
        (0.6, 0, mp.inf, 0), (1.7, 1, mp.inf, 0), (0.8, -1, mp.inf, 0), (1.2, 2, 2.5, 0),
        (1.4, 0, mp.inf, 0.5), (0.9, -1, mp.inf, 0.3), (1.1, 2, 1.9, 0.7),
    )
]  # fmt: skip
REAL = [(y, {}) for y in (-1.5, 0.2, 2.4)]
UNIT = [(y, {}) for y in (0.02, 0.4, 0.93)]
COUNTS = [(y, {"exposure": e}) for y, e in ((0, 0.7), (3, 1.0), (11, 2.5))]
CASES = {  # log-density, targets with keywords, means
    "HetGaussian": (normal, REAL, (0.1, -0.4)),
    "SignalNoiseGaussian": (None, REAL, (0.4, 0.1, -0.3)),
    "HetStudentT": (student_t, [(y, {"nu": 3.0}) for y, _ in REAL], (0.2, -0.5)),
    "HetStudentTNu": (student_t_nu, REAL[1:], (0.2, -0.5, 1.1)),
    "HetLaplace": (None, REAL, (0.1, -0.2)),
    "HetGamma": (gamma, [(y, {}) for y in (0.2, 1.1, 3.0)], (0.3, 0.5)),
    "Beta": (beta, UNIT, (0.4, 0.8)),
    "BetaMeanPrecision": (beta_mean, UNIT, (0.3, 1.1)),
    "AdditivePoisson": (additive_poisson, COUNTS, (0.7, 0.2)),
    "NegativeBinomial": (negative_binomial, COUNTS, (0.8, -0.6)),
    "ZeroInflatedPoisson": (inflated_poisson, [(0, {}), (2, {})], (0.5, -0.3)),
    "HetProbit": (probit, [(0, {}), (1, {})], (0.6, -0.1)),
    "Softmax": (None, [(0, {}), (2, {})], (0.3, -0.2, 0.4)),
    "LogLogisticSurvival": (log_logistic, TIMES, (0.2, 0.3)),
    "WeibullSurvival": (weibull, TIMES, (0.2, 0.1)),
    "LogNormalSurvival": (log_normal, TIMES, (0.1, -0.2)),
}
FEWER = {"HetStudentTNu"}
"""Of three latents, whose integrals take long: made where they are named."""
NARROW = {  # largest variances, where functions bend sharply in the tails of a wide q
    "HetStudentT": 0.4,
    "HetStudentTNu": 0.3,
    "SignalNoiseGaussian": 0.4,
    "HetProbit": 0.4,
    "LogLogisticSurvival": 0.4,
    "WeibullSurvival": 0.05,
    "LogNormalSurvival": 0.06,
}


def factor(V):
    """The Cholesky factor of a list of lists."""
    return mp.cholesky(mp.matrix(V))


def trapezoid(step):
    count = int(REACH / step)
    weights = [exp(-((k * step) ** 2) / 2) for k in range(-count, count + 1)]
    total = sum(weights)
    return [((k - count) * step, w / total) for k, w in enumerate(weights)]


def integral(function, means, R, nodes):
    """Σ w function(m + R x), over the product of nodes."""

    def over(j, x, weight):
        if weight < TINY:
            return mp.mpf(0)
        if j == len(means):
            f = [m + sum(R[i, k] * x[k] for k in range(i + 1)) for i, m in enumerate(means)]
            return weight * function(*f)
        return sum(over(j + 1, (*x, t), weight * w) for t, w in nodes)

    return over(0, (), mp.mpf(1))


def refined(function, means, V):
    R, step, last = factor(V), mp.mpf("0.8"), None
    while True:
        now = integral(function, means, R, trapezoid(step))
        if last is not None and abs(now - last) < mp.mpf(10) ** -10:
            return now
        last, step = now, step / 2
        if step < mp.mpf("0.02"):
            raise ArithmeticError("the sums do not agree")


def laplace(y, means, V):
    """−log 2 − E g − E[e^{−g} E|y − f| given g]."""
    (m_f, m_g), (v_f, v_g), c = means, (V[0][0], V[1][1]), V[0][1]
    sd = sqrt(v_f - c * c / v_g)

    def given(g):
        r = y - m_f - c / v_g * (g - m_g)
        return r * mp.erf(r / sd / sqrt(2)) + 2 * sd * exp(-(r**2) / v_sd / 2) / sqrt(2 * pi)

    v_sd = sd * sd
    inner = refined(lambda g: exp(-g) * given(g), [m_g], [[v_g]])
    return -log(2) - m_g - inner


def softmax(y, means, V):
    """m_y − m_0 − E log(1 + e^{f_1 − f_0} + e^{f_2 − f_0})."""
    spread = [[V[j][k] - V[j][0] - V[0][k] + V[0][0] for k in (1, 2)] for j in (1, 2)]
    gaps = [means[j] - means[0] for j in (1, 2)]
    inner = refined(lambda a, b: log(1 + exp(a) + exp(b)), gaps, spread)
    return means[int(y)] - means[0] - inner


def signal_noise(y, means, V):
    """E over scale s and noise g of the closed E[log N(y; e^s f, e^g) | s, g]."""
    others = mp.matrix([row[1:] for row in V[1:]])
    slopes = mp.lu_solve(others, mp.matrix(V[0][1:]))
    rest = V[0][0] - slopes[0] * V[0][1] - slopes[1] * V[0][2]

    def given(s, g):
        f = means[0] + slopes[0] * (s - means[1]) + slopes[1] * (g - means[2])
        return -(log(2 * pi) + g + exp(-g) * ((y - exp(s) * f) ** 2 + exp(2 * s) * rest)) / 2

    return refined(given, means[1:], [row[1:] for row in V[1:]])


REDUCED = {"HetLaplace": laplace, "Softmax": softmax, "SignalNoiseGaussian": signal_noise}


def points(name):
    """Targets, keywords, means and covariances, drawn from a grid."""
    _, targets, means = CASES[name]
    rng = random.Random(name)
    b, count = len(means), 3 if name in FEWER else max(POINTS, len(targets))
    top = NARROW.get(name, 2.0)
    for i in range(count):
        y, kw = targets[i % len(targets)]
        v = [min(rng.choice(SPREADS) * rng.uniform(0.7, 1.5), top) for _ in range(b)]
        rho = RHOS[i % len(RHOS)]
        far = rho * rho / 2
        lean = [[1.0, rho, far], [rho, 1.0, rho / 2], [far, rho / 2, 1.0]]
        V = [[round(lean[j][k] * (v[j] * v[k]) ** 0.5, 9) for k in range(b)] for j in range(b)]
        yield y, kw, [m + round(rng.uniform(-0.4, 0.4), 3) for m in means], V


def rows(name):
    log_density = CASES[name][0]
    for y, kw, means, V in points(name):
        exact = [[mp.mpf(repr(c)) for c in row] for row in V]
        m = [mp.mpf(repr(c)) for c in means]
        if log_density is None:
            value = REDUCED[name](mp.mpf(repr(y)), m, exact)
        else:
            own = {key: mp.mpf(repr(c)) if c != mp.inf else c for key, c in kw.items()}
            target = mp.mpf(repr(y))
            value = refined(lambda *f, y=target, own=own: log_density(y, *f, **own), m, exact)
        keywords = {key: float(c) for key, c in kw.items()}
        yield {"y": y, "kw": keywords, "means": means, "V": V, "value": float(value)}
        print(name, y, V[0][1], float(value), flush=True)


def main():
    whole = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    for name in sys.argv[1:] or (name for name in CASES if name not in FEWER):
        whole[name] = list(rows(name))
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in whole.items())
        PATH.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
