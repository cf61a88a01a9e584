"""Every likelihood and wrapper, two deep, meets every way in which a row can be seen.

The cases are generated: each shipped likelihood, alone and inside one wrapper or two, with rows
that are exact, right-, left- or interval-censored, left-truncated, with exposures or trials. At
each of them the laws below hold, which need no formula of the likelihood in question: probabilities
of complementary events add to 1, the integral of the density is the cdf, derivatives are slopes,
expectations are sums over a fine grid, a row of weight 2 is two rows. Targets are rounded too.
"""

import itertools
import warnings
import zlib

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, roots_hermitenorm
from stacks import Exponential, Stacks

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.likelihoods import Likelihood
from chainedgp.posterior.evaluator import Evaluator
from chainedgp.posterior.shards import Shard
from chainedgp.predictive.distribution import Predictive

ROWS = 6
RIGHT, LEFT, INTERVAL = 1.0, -1.0, 2.0


class Discrete(L.Survival):
    """Times 1, 2, …, each survived with probability 1/(1 + e^f)."""

    latents = ("log_odds",)
    support = "counts"

    def log_survival(self, t, f, **metadata):
        return -np.floor(np.maximum(t, 0.0)) * np.logaddexp(0.0, f)

    def log_cdf(self, t, f, **metadata):
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(self.log_survival(t, f)))

    def _log_event(self, t, f):
        at = -t * np.logaddexp(0.0, f) + f
        return np.where(t > 0.0, at, -np.inf)

    def cdf(self, t, f, **metadata):
        return -np.expm1(self.log_survival(t, f))

    ppf = Likelihood.ppf


class Logistic(Likelihood):
    """Known by its density alone."""

    latents = ("location", "log_scale")
    parameters = {"tau": 0.8}

    def log_density(self, y, f, g, *, tau):
        z = np.abs(y - f) * np.exp(-g) / tau
        return -z - g - np.log(tau) - 2.0 * np.log1p(np.exp(-z))


LEAVES = {
    **{
        name: getattr(L, name)
        for name in L.__all__
        if name
        not in (
            *("Likelihood", "Survival", "ConstantLatent", "Inflated", "Hurdle", "ScipyLikelihood"),
            *("Rounded", "Ordinal", "Softmax", "ZeroInflatedPoisson", "ZeroOneInflatedBeta"),
            "ZeroInflatedNegativeBinomial",
        )
    },
    "Ordinal": lambda: L.Ordinal(3),
    "Softmax": lambda: L.Softmax(3),
    "scipy gamma": lambda: Likelihood.from_scipy("gamma", a="exp", scale="exp"),
    "scipy binom": lambda: Likelihood.from_scipy("binom", n=7, p="logistic"),
    "Exponential": Exponential,
    "Discrete": Discrete,
    "Logistic": Logistic,
}
ATOMS = {
    "real": (0.0, 0.7),
    "positive": (0.0, 1.3),
    "unit": (0.0, 1.0),
    "counts": (0.0, 3.0),
    "binary": (0.0, 1.0),
    "categories": (0.0, 2.0),
    L.VonMises.support: (0.0, 1.3),
}
WRAPPERS = {
    "first constant": lambda base: base.with_constant(0, 0.2),
    "last constant": lambda base: base.with_constant(len(base.latents) - 1, 0.2),
    "Hurdle": L.Hurdle,
    "Inflated": lambda base: L.Inflated(base, ATOMS[base.support][1:]),
    "Inflated twice": lambda base: L.Inflated(base, ATOMS[base.support]),
    "Rounded": lambda base: L.Rounded(base, 0.3),
}


def ways_of(likelihood):
    """In which ways a row of the likelihood can be seen."""
    names = likelihood.metadata_names
    ways = ["exact"]
    if "exposure" in names:
        ways.append("exposure")
    if "censored" in names:
        ways += ["right", "left", "interval", "entry", "all"]
    return ways


STACKS = Stacks(LEAVES, WRAPPERS, most=5)
CASES = [(*stack, way) for stack in STACKS for way in ways_of(STACKS.build(*stack))]
ONE_IN = 30
FEW = 4  # One in so many of the sample is in the default suite; .ci/run has all of it.


def chosen(case, one_in):
    """Whether a case belongs to a fixed sample: one in so many, of every leaf and wrapper."""
    return zlib.crc32(" / ".join(case).encode()) % one_in == 0


class Meeting:
    """A likelihood, rows that were seen in one way, and latents to look at them."""

    def __init__(self, leaf, *rest):
        *wrappers, self.way = rest
        self.lik = STACKS.build(leaf, *wrappers)
        self.rng = rng = np.random.default_rng(zlib.crc32(" / ".join((leaf, *rest)).encode()))
        self.b = len(self.lik.latents)
        self.smooth = self.lik.target_support.continuous
        # A sum over nodes is not better than this at a kink, and scattered nodes in four latents.
        self.kink = 1e-3 if leaf.endswith("Laplace") else 0.0  # what differences across it are off
        self.rough = 5e-3 if self.kink else 1e-3 if self.b > 3 else 1e-5
        self.latents = 0.1 + 0.35 * rng.standard_normal((self.b, ROWS))
        self.parameters = self.lik.parameter_values()
        self.own = {}  # metadata that change the distribution of y itself
        if "trials" in self.lik.metadata_names:
            self.own["trials"] = 4.0 + np.arange(ROWS)
        if self.way == "exposure":
            self.own["exposure"] = np.linspace(0.5, 2.0, ROWS)
        self.y, self.seen = self._targets()

    def _targets(self):
        """Targets, atoms among them, and what was seen of them."""
        y = self.lik.ppf(self.rng.uniform(0.25, 0.9, ROWS), *self.latents, **self.kw)
        atoms = list(self.lik.atoms)[: ROWS - 2]
        if self.smooth:
            y = np.where(np.isin(y, atoms), np.abs(y) + 0.4, y)
            y = np.minimum(y, 0.95) if self.lik.support == "unit" else y
            y[: len(atoms)] = atoms
        code = {"right": RIGHT, "left": LEFT, "interval": INTERVAL}.get(self.way, 0.0)
        codes = np.full(ROWS, code)
        if self.way in ("entry", "all"):
            codes = np.resize([0.0, RIGHT, LEFT, INTERVAL], ROWS)
        if self.way in ("exact", "exposure") or "censored" not in self.lik.metadata_names:
            return y, {}
        entry = np.zeros(ROWS)
        if self.way in ("entry", "all"):
            entry = np.where(np.arange(ROWS) % 3 == 2, 0.0, 0.5 * np.abs(y) + 0.05)
            y = np.where((codes == 0.0) & (y <= entry), y + entry + 0.11, y)
        if not self.smooth:
            entry, y = np.floor(entry), np.maximum(np.floor(y), np.floor(entry) + 1.0)
        y = np.where(entry >= y, entry + (0.2 if self.smooth else 1.0), y)
        y = np.where((codes == LEFT) & (y <= 0.0) & (0.0 not in atoms), 0.5, y)
        upper = y + (1.0 if not self.smooth else 0.8)
        seen = {"censored": codes, "y_upper": upper}
        return y, {**seen, "entry": entry} if self.way in ("entry", "all") else seen

    @property
    def kw(self):
        """Keywords of the distribution of y itself, before it was rounded."""
        fine = {"rounding": 1e-300} if "rounding" in self.lik.metadata_names else {}
        return {**self.parameters, **self.own, **fine}

    @property
    def all_kw(self):
        """Keywords of the rows as they were seen."""
        return {**self.parameters, **self.own, **self.seen}

    def probability(self, y, code, **seen):
        """Of one kind of event at all rows, (n,)."""
        codes = np.full(ROWS, code)
        y = np.broadcast_to(y, ROWS).astype(float)
        kw = {**self.kw, "censored": codes, **seen}
        return np.exp(self.lik.log_density(y, *self.latents, **kw))

    def moments(self):
        """Means and variances (n, b) of a q."""
        return self.latents.T, self.rng.uniform(0.02, 0.06, (ROWS, self.b))

    def correlated(self, variances):
        """Covariances (n, b, b): latents k apart have a correlation of 0.8ᵏ, with signs."""
        apart = np.abs(np.subtract.outer(range(self.b), range(self.b)))
        signs = np.resize([1.0, 1.0, -1.0], self.b)
        sds = signs * np.sqrt(variances)
        return sds[:, :, None] * 0.8**apart * sds[:, None, :]


# ---- the laws ----------------------------------------------------------------------------------


def events_add_to_one(m):
    """Left and right of a time, an interval and what lies beside it; with an entry and without."""
    if "censored" not in m.lik.metadata_names:
        return
    step = 0.5 if m.smooth else 1.0
    low = np.abs(m.y) + (0.0 if m.smooth else np.ceil(-m.y % 1.0))
    for entry in (None, np.where(low > step, low - step, 0.0)):
        seen = {} if entry is None else {"entry": entry}
        a = low + (0.0 if entry is None else 0.25 if m.smooth else 1.0)
        ends = [a, a + step, np.full(ROWS, 1.3) + a]
        for b in ends:
            left, right = (m.probability(b, code, **seen) for code in (LEFT, RIGHT))
            np.testing.assert_allclose(left + right, 1.0, rtol=1e-9)
        inside = m.probability(a, INTERVAL, y_upper=ends[1], **seen)
        beside = m.probability(a, LEFT, **seen), m.probability(ends[1], RIGHT, **seen)
        np.testing.assert_allclose(inside + sum(beside), 1.0, rtol=1e-9)
        if entry is None:
            np.testing.assert_allclose(
                m.probability(a, LEFT), m.lik.cdf(a, *m.latents, **m.kw), rtol=1e-8
            )
            for name, code in (("log_survival", RIGHT), ("log_cdf", LEFT)):
                curve = np.exp(getattr(m.lik, name)(a, *m.latents, **m.kw))
                np.testing.assert_allclose(curve, m.probability(a, code), rtol=1e-9)


def between(edges):
    """Nodes and weights between edges, dense near each: a density may be infinite there."""
    t = np.linspace(-3.6, 3.6, 721)
    near = 1.0 / (1.0 + np.exp(np.pi * np.sinh(t)))  # distance from an end, as a share
    slope = np.pi * np.cosh(t) * near * (1.0 - near) * (t[1] - t[0])
    parts = [(np.empty(0), np.empty(0))]
    for low, high in itertools.pairwise(edges):
        y = np.where(t < 0.0, high - (high - low) * near[::-1], low + (high - low) * near)
        inside = (y > low) & (y < high)
        parts.append((y[inside], (high - low) * slope[inside]))
    return np.hstack(parts)


def density_adds_to_the_cdf(m):
    """P(a < y ≤ b) from the density and the atoms, against the cdf and that of an interval."""
    a, b = (m.lik.ppf(np.full(ROWS, q), *m.latents, **m.kw) for q in (0.15, 0.85))
    if not m.smooth:
        counts = np.arange(b.max() + 1.0)[:, None]
        p = np.exp(m.lik.log_density(counts + np.zeros(ROWS), *m.latents, **m.kw))
        got = np.array([p[counts[:, 0] <= b[i], i].sum() for i in range(ROWS)])
        np.testing.assert_allclose(got, m.lik.cdf(b, *m.latents, **m.kw), rtol=1e-7)
        return
    total = np.zeros(ROWS)
    for i in range(ROWS):
        kw = {k: v[i] if np.ndim(v) else v for k, v in m.kw.items()}
        atoms = [t for t in m.lik.atoms if a[i] < t <= b[i]]
        y, w = between(np.union1d([a[i], b[i]], atoms))
        total[i] = np.sum(w * np.exp(m.lik.log_density(y, *m.latents[:, i], **kw)))
        for t in atoms:
            total[i] += np.exp(m.lik.log_density(np.array(t), *m.latents[:, i], **kw))
    want = np.subtract(*(m.lik.cdf(t, *m.latents, **m.kw) for t in (b, a)))
    tol = 1e-4 if m.lik.support == "unit" or m.rough > 1e-3 else 1e-6  # 1 − y is rounded; kinks
    np.testing.assert_allclose(total, want, atol=tol)
    if "censored" in m.lik.metadata_names:
        known = m.probability(a, INTERVAL, y_upper=np.where(b > a, b, np.inf))
        np.testing.assert_allclose(known[b > a], total[b > a], atol=tol)


def slope(function, x, step=1e-4):
    one, two = ((function(x + k * step) - function(x - k * step)) / (2 * k * step) for k in (1, 2))
    return (4.0 * one - two) / 3.0


def derivatives_are_slopes(m):
    """In every latent and every parameter, at the rows as they were seen."""
    got = m.lik.dlog_density(m.y, *m.latents, **m.all_kw)
    for j in range(m.b):

        def moved(x, j=j):
            return m.lik.log_density(m.y, *m.latents[:j], x, *m.latents[j + 1 :], **m.all_kw)

        want = slope(moved, m.latents[j])
        np.testing.assert_allclose(
            np.broadcast_to(got[j], ROWS), want, rtol=2e-6 + m.kink, atol=2e-7 + 0.1 * m.kink
        )
    got = m.lik.dlog_density_dtheta(m.y, *m.latents, **m.all_kw)
    for part, (key, now) in zip(got, m.parameters.items(), strict=True):

        def other(x, key=key):
            return m.lik.log_density(m.y, *m.latents, **{**m.all_kw, key: x})

        np.testing.assert_allclose(
            np.broadcast_to(part, ROWS),
            slope(other, now),
            rtol=2e-6 + m.kink,
            atol=2e-7 + 0.1 * m.kink,
        )


def average(m, function, means, variances, size):
    """E function(latents) under q, (n,), on a product grid, and how far a coarser one is off."""
    values = []
    for nodes in (size, size - 2):
        x, w = roots_hermitenorm(nodes)
        w = w / w.sum()
        x = np.stack(np.meshgrid(*[x] * m.b, indexing="ij")).reshape(m.b, -1)
        w = np.prod(np.stack(np.meshgrid(*[w] * m.b, indexing="ij")), axis=0).ravel()
        if variances.ndim == 2:
            f = means.T[:, None] + np.sqrt(variances.T)[:, None] * x[:, :, None]
        else:  # along the axes of the ellipse
            length, axes = np.linalg.eigh(variances)
            f = means.T[:, None] + np.einsum("njk,nk,ki->jin", axes, np.sqrt(length), x)
        values.append(w @ function(*f))
    error = float(np.max(np.abs(np.subtract(*values)) / (1.0 + np.abs(values[0]))))
    assert error < 0.01
    return values[0], error


SIZES = {1: 60, 2: 30, 3: 16, 4: 9, 5: 6}


def expectations_are_sums(m):
    """E log p on the nodes that the likelihood asks for, and its gradients by differences."""
    means, variances = m.moments()
    want, error = average(
        m, lambda *f: m.lik.log_density(m.y, *f, **m.all_kw), means, variances, SIZES[m.b]
    )
    nodes = m.lik.required_nodes(m.y, means, variances, **m.all_kw)
    got = m.lik.expectation(m.y, means, variances, nodes, **m.all_kw)
    tol = m.rough + 5.0 * error
    np.testing.assert_allclose(got[0], want, rtol=tol, atol=tol)

    def value(means, variances, **other):
        return m.lik.expectation(m.y, means, variances, nodes, **{**m.all_kw, **other})[0]

    for j in range(m.b):
        e = np.eye(m.b)[j]
        want = slope(lambda t, e=e: value(means + t * e, variances), 0.0)
        np.testing.assert_allclose(got[1][:, j], want, rtol=2e-6 + m.kink, atol=2e-7 + 0.1 * m.kink)
        want = slope(lambda t, e=e: value(means, variances + t * e), 0.0)
        np.testing.assert_allclose(got[2][:, j], want, rtol=5e-6 + m.kink, atol=5e-7 + 0.1 * m.kink)
    for k, (key, now) in enumerate(m.parameters.items()):
        want = slope(lambda t, key=key: value(means, variances, **{key: t}), now)
        np.testing.assert_allclose(got[3][:, k], want, rtol=2e-6 + m.kink, atol=2e-7 + 0.1 * m.kink)


def draws_follow_the_cdf(m, size=500):
    draws = m.lik.sample(np.random.default_rng(3), *m.latents, size=size, **m.kw)
    assert draws.shape == (size, ROWS)
    m.lik.check_targets(draws.ravel())
    for level in (0.2, 0.5, 0.85):
        y = m.lik.ppf(np.full(ROWS, level), *m.latents, **m.kw)
        want = m.lik.cdf(y, *m.latents, **m.kw)
        assert np.all(want >= level - 1e-7)
        error = np.sqrt(want * (1.0 - want) / size) + 1.0 / size
        assert np.all(np.abs(np.mean(draws <= y, axis=0) - want) < 5.0 * error)


def predictions_are_mixtures(m):
    """pdf of what was seen, cdf, sf: averages over q of those given the latents, correlated too."""
    means, variances = m.moments()
    averages_under(m, means, variances)
    if m.b > 1:
        averages_under(m, means, m.correlated(variances))


def averages_under(m, means, variances):
    """`predictions_are_mixtures` of one q, which has variances or covariances."""
    p = Predictive(m.lik, means, variances, {**m.own, **m.seen})

    def agrees(got, function):
        want, error = average(m, function, means, variances, SIZES[m.b])
        tol = m.rough + 5.0 * error
        np.testing.assert_allclose(got[:, 0], want, rtol=tol, atol=tol)

    y = m.y[:, None]
    agrees(p.pdf(y), lambda *f: np.exp(m.lik.log_density(m.y, *f, **m.all_kw)))
    agrees(p.cdf(y), lambda *f: m.lik.cdf(m.y, *f, **m.kw))
    if m.lik.event_times:
        agrees(1.0 - p.sf(y), lambda *f: m.lik.cdf(m.y, *f, **m.kw))
        agrees(1.0 - p.sf(0.0), lambda *f: m.lik.cdf(np.zeros(ROWS), *f, **m.kw))
    if {"y_upper", "entry"} & m.seen.keys():
        codes = {
            code: {**m.own, **m.seen, "censored": np.full(ROWS, code)} for code in (LEFT, RIGHT)
        }
        inside = np.maximum(m.y, m.seen.get("entry", 0.0) + (0.1 if m.smooth else 1.0))
        total = sum(
            Predictive(m.lik, means, variances, kw).pdf(inside[:, None])[:, 0]
            for kw in codes.values()
        )
        np.testing.assert_allclose(total, 1.0, rtol=1e-4)


def model_of(m, rows=slice(None), **metadata):
    X = np.linspace(-1.0, 1.0, ROWS)[:, None]
    given = {k: v[rows] for k, v in {**m.own, **m.seen, **metadata}.items()}
    Z = np.array([[-0.7], [0.4]])
    kernels = [cgp.kernels.RBF(1) for _ in range(m.b)]
    means = [cgp.means.Constant(0.1 * j) for j in range(m.b)]
    model = cgp.ChainedGP(
        X[rows],
        m.y[rows],
        m.lik,
        kernels=kernels,
        Z=Z,
        mean_functions=means,
        Y_metadata=given,
        num_threads=1,
        num_nodes=10,
    )
    for key, value in m.parameters.items():  # a start of their own would depend on the rows
        getattr(model.likelihood, key)[:] = value
    return model


def rows_are_rows(m):
    """Weight 2 is the row twice, weight 0 no row, order is nothing, a file brings back the same."""
    plain = model_of(m).log_likelihood()
    assert np.isfinite(plain)
    turned = model_of(m, np.arange(ROWS)[::-1])
    np.testing.assert_allclose(turned.log_likelihood(), plain, rtol=1e-10)
    weights = np.array([2.0, 1.0, 0.0, 1.0, 2.0, 1.0])
    weighted = model_of(m, weights=weights)
    again = model_of(m, np.repeat(np.arange(ROWS), weights.astype(int)))
    np.testing.assert_allclose(weighted.log_likelihood(), again.log_likelihood(), rtol=1e-10)


def parts_of_the_rows_add_up(m):
    """Two shards, as two workers have them, give the bound and the gradient of all rows."""
    models = [model_of(m, weights=np.array([2.0, 1.0, 0.5, 1.0, 3.0, 1.0])) for _ in range(2)]
    (whole,) = models[1].problem.evaluator.shards
    halves = [Shard(whole.rows[part], nodes=10) for part in (slice(2), slice(2, None))]
    models[1].problem.evaluator = Evaluator(halves, models[1].problem.evaluator.family)
    bounds, gradients = [], []
    for model in models:
        model.Z[:] += 0.01  # so that nothing is known of the old rows
        bounds.append(model.log_likelihood())
        gradients.append(model.objective_function_gradients().copy())
    np.testing.assert_allclose(*bounds, rtol=1e-10)
    np.testing.assert_allclose(*gradients, rtol=1e-7, atol=1e-8)


def batches_see_whole_rows(m):
    """Steps on batches of two rows, each with its own metadata, end with a finite bound."""
    model = model_of(m, weights=np.array([2.0, 1.0, 0.5, 1.0, 3.0, 1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.optimize(method="natgrad", batch_size=2, epochs=3, rng=0)
    assert np.isfinite(model.log_likelihood())


def files_bring_back_the_same(m, tmp_path):
    model = model_of(m)
    model.save(tmp_path / "model.cgp")
    other = cgp.load(tmp_path / "model.cgp", classes=(Exponential, Discrete, Logistic))
    assert other.log_likelihood() == model.log_likelihood()
    assert str(other.likelihood) == str(model.likelihood)


def starts_are_starts(m):
    """Finite, one for each latent."""
    start = m.lik.initial_latents(m.y, **m.all_kw)
    assert start.shape == (m.b,) and np.isfinite(start).all()


def law_of_all(case, tmp_path):
    m = Meeting(*case)
    m.lik.check_rows(m.y, **m.own, **m.seen)
    events_add_to_one(m)
    density_adds_to_the_cdf(m)
    derivatives_are_slopes(m)
    expectations_are_sums(m)
    draws_follow_the_cdf(m)
    predictions_are_mixtures(m)
    starts_are_starts(m)
    rows_are_rows(m)
    parts_of_the_rows_add_up(m)
    batches_see_whole_rows(m)
    files_bring_back_the_same(m, tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id="/".join(c), marks=[] if chosen(c, FEW * ONE_IN) else pytest.mark.long)
        for c in CASES
        if chosen(c, ONE_IN)
    ],
)
def test_sample_of_meetings(case, tmp_path):
    law_of_all(case, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")  # four latents, a tail
@pytest.mark.parametrize("case", CASES, ids="/".join)
def test_all_meetings(case, tmp_path):
    law_of_all(case, tmp_path)


# ---- atoms in the probability of a censored row ------------------------------------------------


def mixture(f, g, h):
    """P(T ≤ t), with P(T = 0) = 1/(1 + e^{−h}) beside a log-normal time, by scipy.stats."""
    base, zero = stats.lognorm(np.exp(g), 0.0, np.exp(f)), expit(h)
    return lambda t: (zero + (1.0 - zero) * base.cdf(t)) * (t >= 0.0), zero, base


@pytest.mark.parametrize(
    "way, probability",
    [
        ({"censored": 1.0}, lambda F, zero, base: 1.0 - F(2.0)),
        ({"censored": -1.0}, lambda F, zero, base: F(2.0)),
        ({"censored": 2.0, "y_upper": 3.0}, lambda F, zero, base: F(3.0) - F(2.0)),
        ({"censored": 2.0, "y_upper": np.inf}, lambda F, zero, base: 1.0 - F(2.0)),
        ({"censored": 1.0, "entry": 1.0}, lambda F, zero, base: (1.0 - F(2.0)) / (1.0 - F(1.0))),
        ({"censored": -1.0, "entry": 1.0}, lambda F, zero, base: (F(2) - F(1)) / (1.0 - F(1))),
        ({"entry": 1.0}, lambda F, zero, base: (1 - zero) * base.pdf(2.0) / (1.0 - F(1.0))),
        ({"entry": 0.0}, lambda F, zero, base: (1 - zero) * base.pdf(2.0)),
    ],
)
def test_probability_of_a_censored_row_with_an_atom_at_zero(way, probability):
    f, g, h = 0.2, 0.3, 0.5
    want = probability(*mixture(f, g, h))
    got = L.Hurdle(L.LogNormalSurvival()).log_density(np.array(2.0), f, g, h, **way)
    np.testing.assert_allclose(np.exp(got), want, rtol=1e-12)


@pytest.mark.parametrize(
    "low, high, atoms",
    [(0.0, 1.0, (1.0,)), (0.5, 2.0, (1.0, 2.0)), (1.0, 2.0, (2.0,)), (2.0, 5.0, ())],
)
def test_an_interval_holds_its_upper_end_and_not_its_lower(low, high, atoms):
    lik, latents = L.Inflated(L.WeibullSurvival(), (0.0, 1.0, 2.0)), (0.2, 0.3, -0.4, 0.1, 0.6)
    f, g, *odds = latents
    weights = np.exp(odds) / (1.0 + np.exp(odds).sum())
    base = stats.weibull_min(np.exp(g), 0.0, np.exp(f))
    want = (1.0 - weights.sum()) * (base.cdf(high) - base.cdf(low))
    want += sum(w for a, w in zip(lik.at, weights, strict=True) if a in atoms)
    got = lik.log_density(np.array(low), *latents, censored=np.array(2.0), y_upper=np.array(high))
    np.testing.assert_allclose(np.exp(got), want, rtol=1e-12)


def test_detection_limit_is_fitted_with_the_share_of_true_zeros():
    """Half zeros, else log-normal, all below 1 known as such only: against maximum likelihood."""
    rng = np.random.default_rng(0)
    n = 300
    t = np.where(rng.uniform(size=n) < 0.5, 0.0, np.exp(rng.normal(0.5, 0.7, size=n)))
    y, censored = np.maximum(t, 1.0), np.where(t < 1.0, LEFT, 0.0)

    def loss(theta):
        F, zero, base = mixture(*theta)
        return -np.sum(np.where(t < 1.0, np.log(F(1.0)), np.log1p(-zero) + base.logpdf(y)))

    best = minimize(loss, [0.0, 0.0, 0.0])
    lik = L.Hurdle(L.LogNormalSurvival())
    start = lik.initial_latents(y, censored=censored)
    np.testing.assert_allclose(start, best.x, atol=0.01)
    for latent in ("log_median", "log_sigma"):
        lik = lik.with_constant(latent)
    m = cgp.ChainedGP(
        np.zeros((n, 1)),
        y,
        lik,
        kernels=cgp.kernels.RBF(1, variance=1e-6),
        Z=np.zeros((1, 1)),
        Y_metadata={"censored": censored},
    )
    m.kernels[0].variance.fix()
    m.optimize()
    zero = m.predictive(np.zeros((1, 1))).cdf(0.0)[0, 0]
    np.testing.assert_allclose(zero, expit(best.x[2]), atol=0.01)


class WithoutAtoms(L.Hurdle):
    """A mutant: the atom is missing from the probability of a censored row."""

    def _asked(self, event):
        hit, none, y = super()._asked(event)
        return hit & event.exact, none, y


def test_missing_atoms_are_noticed():
    m = Meeting("LogNormalSurvival", "Hurdle", "left")
    events_add_to_one(m)
    m.lik = WithoutAtoms(L.LogNormalSurvival())
    with pytest.raises(AssertionError):
        events_add_to_one(m)


def test_restricted_mean_with_an_atom():
    p = Predictive(
        L.Inflated(L.WeibullSurvival(), (0.0, 0.7)), np.full((1, 4), 0.3), np.full((1, 4), 0.1)
    )
    draws = np.minimum(p.sample(400_000, rng=5), 2.0)
    error = draws.std() / np.sqrt(draws.size)
    assert abs(p.restricted_mean(2.0)[0, 0] - draws.mean()) < 5.0 * error
    np.testing.assert_allclose(p.sf([-1.0, 0.0]), [[1.0, 1.0 - p.cdf(0.0)[0, 0]]])


def test_atoms_below_the_support_count():
    p = Predictive(L.Inflated(L.HetGamma(), (-1.0,)), np.zeros((1, 3)), np.full((1, 3), 0.1))
    np.testing.assert_allclose(p.cdf([-2.0, -1.0, -0.5, 0.0]), [[0.0, 0.5, 0.5, 0.5]], atol=1e-9)
    np.testing.assert_allclose(p.pdf([-1.0]), 0.5)


@pytest.mark.parametrize(
    "lik", [L.Beta(), L.HetGamma(), Likelihood.from_scipy("beta", a="exp", b="exp")], ids=str
)
def test_draws_that_round_to_an_end_are_targets(lik):
    """With shapes of 0.002 most draws lie closer to 0 or 1 than the next number does."""
    draws = lik.sample(np.random.default_rng(0), *np.full((2, 200), np.log(0.002)))
    lik.check_targets(draws)
