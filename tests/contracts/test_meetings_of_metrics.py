"""Every survival likelihood and wrapper meets every way of being seen, at every measure of rows.

The cases are generated: each likelihood that takes `censored`, alone and inside one wrapper or two,
with rows that are exact, right-, left- or interval-censored, left-truncated, or all of these. The
rows are drawn from the predictive distribution itself, so that it is the truth. At each case the
laws below hold, which need no formula: the PIT of own draws is uniform, the cdf belongs to the
density, scores of the truth beat those of a shifted truth, the order of rows is nothing, a row of
weight 2 is two rows, and units change nothing but logarithms.
"""

import itertools
import warnings
import zlib

import numpy as np
import pytest
from scipy import stats
from stacks import Exponential, Stacks

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp import metrics
from chainedgp.assessment.censoring import Known
from chainedgp.errors import ChainedGPWarning, InputError, MomentWarning
from chainedgp.predictive import Predictive
from chainedgp.predictive.observed import ObservedLaw, pit_ends

EXACT, RIGHT, LEFT, INTERVAL = 0.0, 1.0, -1.0, 2.0
WAYS = ("exact", "right", "left", "interval", "entry", "entry right", "all")
SCORED = ("exact", "right", "entry", "entry right")
"""Ways that scores of a time, beside the density, can take; others they refuse."""
MOST_LATENTS = 3


LEAVES = {
    name: cls
    for name, cls in ((name, getattr(L, name)) for name in L.__all__)
    if name not in ("Survival", "ConstantLatent", "Inflated", "Hurdle", "ScipyLikelihood")
    and name not in ("Likelihood", "Ordinal", "Softmax", "Rounded")
    and "censored" in cls().metadata_names
}
LEAVES["Exponential"] = Exponential
WRAPPERS = {
    "first constant": lambda base: base.with_constant(0, 0.2),
    "last constant": lambda base: base.with_constant(len(base.latents) - 1, 0.2),
    "Hurdle": L.Hurdle,
    "Inflated": lambda base: L.Inflated(base, (1.3,)),
}


STACKS = Stacks(LEAVES, WRAPPERS, MOST_LATENTS)
build = STACKS.build
CASES = [(*stack, way) for stack in STACKS for way in WAYS]


def heavy(case):
    """Whether a cdf is a sum over many nodes of three latents: point masses, given an entry."""
    return bool(case[-1] in ("entry", "entry right", "all") and {"Hurdle", "Inflated"} & set(case))


def seed_of(case):
    return zlib.crc32(" / ".join(case).encode())


class Truth:
    """Rows drawn from a predictive distribution, each seen in one way, and that distribution."""

    def __init__(self, case, n, latents=None):
        *stack, self.way = case
        self.lik = build(*stack)
        self.n = n
        rng = np.random.default_rng(seed_of(case))
        b = len(self.lik.latents)
        self.means = 0.2 + 0.4 * rng.standard_normal((n, b))
        self.variances = np.tile(np.linspace(0.3, 0.1, b), (n, 1))
        noise = np.sqrt(self.variances) * rng.standard_normal((n, b))
        latents = (self.means + noise).T if latents is None else latents
        kw = self.lik.parameter_values()
        late = self.way in ("entry", "entry right", "all")
        entry = 0.4 * rng.exponential(size=n) * (rng.uniform(size=n) < 0.8) * late
        # T given T > entry, by the inverse of the cdf
        start = np.where(entry > 0.0, self.lik.cdf(np.maximum(entry, 1e-9), *latents, **kw), 0.0)
        draws = start + (1.0 - start) * rng.uniform(size=n)
        self.times = self.lik.ppf(np.minimum(draws, 1.0 - 1e-12), *latents, **kw)
        self.y, self.codes, upper = self._seen(rng, entry)
        self.metadata = {"censored": self.codes, "y_upper": upper} if self.way != "exact" else {}
        if late:
            self.metadata["entry"] = entry
        self.entry = entry

    def _seen(self, rng, entry):
        """What is seen of the times: targets, codes and the ends of intervals."""
        T, n = self.times, self.n
        kind = {"right": RIGHT, "left": LEFT, "interval": INTERVAL, "entry right": RIGHT}
        kinds = np.full(n, kind.get(self.way, EXACT))
        if self.way == "all":
            kinds = np.resize([EXACT, RIGHT, LEFT, INTERVAL], n)
        end = entry + rng.exponential(2.0, n)
        limit = entry + rng.exponential(0.7, n)
        right, left = (kinds == RIGHT) & (end < T), (kinds == LEFT) & (limit >= T)
        width, shift = rng.uniform(0.3, 1.5, n), rng.uniform(0.0, 0.3, n)
        low = entry + shift + width * np.floor((T - entry - shift) / width)
        inside = (kinds == INTERVAL) & (low > entry)
        first = (kinds == INTERVAL) & ~inside  # before the first look: left-censored by it
        y = np.where(right, end, np.where(left, limit, np.where(inside, low, T)))
        y = np.where(first, entry + shift + width * (T > entry + shift), y)
        codes = np.select([right, left | first, inside], [RIGHT, LEFT, INTERVAL], EXACT)
        return y, codes, np.where(inside, low + width, y)

    def predictive(self, shift=0.0, metadata=None, rows=slice(None)):
        """The truth, or with latents moved by `shift` (b,)."""
        metadata = self.metadata if metadata is None else metadata
        metadata = {key: value[rows] for key, value in metadata.items()}
        return Predictive(self.lik, (self.means + shift)[rows], self.variances[rows], metadata)


# ---- the laws ------------------------------------------------------------------------------------


def calibrated(case, n):
    """The PIT of own draws is uniform, their D-calibration passes, intervals hold their level."""
    truth = Truth(case, n)
    p, y = truth.predictive(), truth.y
    u = metrics.pit(p, y)
    assert ((u >= 0.0) & (u <= 1.0)).all()
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    assert metrics.d_calibration(p, y).p_value > 1e-4
    level = 0.8
    error = np.sqrt(level * (1.0 - level) / n)
    coverage = metrics.interval_coverage(p, y, level)
    # an atom that holds a quantile makes the interval hold more than its level
    assert coverage > level - 4.5 * error
    if not truth.lik.atoms:
        assert coverage < level + 4.5 * error


def cdf_belongs_to_the_density(case, n):
    """P(T ≤ t) + P(T > t) = 1 by the density of censored rows, given the entry, and by the PIT."""
    truth = Truth(case, min(n, 12))
    tolerance = 2e-6 if len(truth.lik.latents) < 3 else 2e-5  # of sums over lattices
    t = truth.entry + np.abs(truth.y - truth.entry) + 0.1
    seen = {"entry": truth.entry} if "entry" in truth.metadata else {}
    sides = []
    for code in (LEFT, RIGHT):
        told = {**seen, "censored": np.full(truth.n, code), "y_upper": t}
        sides.append(truth.predictive(metadata=told).pdf(t[:, None])[:, 0])
    np.testing.assert_allclose(sides[0] + sides[1], 1.0, atol=tolerance)
    law = ObservedLaw(truth.predictive())
    np.testing.assert_allclose(law.cdf(t[:, None])[:, 0], sides[0], atol=tolerance)
    inside = law.ppf(np.array([0.1, 0.5, 0.9]))
    F = law.cdf(inside)
    below = law.cdf(np.nextafter(inside, -np.inf))
    q = np.array([0.1, 0.5, 0.9])
    # Few nodes serve quantiles where two numbers of them agree in logit F: once in 400 cases both
    # are off by as much as 2e-5 of it.
    assert (below <= q + 5e-6).all() and (F >= q - 5e-6).all()
    # the ends of what was seen hold the probability that the density gives to it
    p = truth.predictive()
    lower, upper = pit_ends(p, truth.y)
    wide = truth.codes != EXACT
    probability = p.pdf(truth.y[:, None])[:, 0]
    np.testing.assert_allclose((upper - lower)[wide], probability[wide], atol=tolerance)


def scores_of(p, truth):
    """Measures of which less is better: name -> (n,) whose mean is the score."""
    y = truth.y
    named = {"nlpd": -p.logpdf(y[:, None])[:, 0]}
    if truth.way not in SCORED:
        return named
    named["crps"] = metrics.crps(p, y)
    horizon = np.quantile(truth.times, 0.7)
    times = np.linspace(0.3, 1.0, 4) * horizon
    named["brier"] = np.array([metrics.integrated_brier_score(p, times, y, truth.codes)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MomentWarning)
        for score in (metrics.mae, metrics.rmse):
            named[score.__name__] = np.array([score(p, y, tau=float(horizon))])
    return named


def truth_scores_best(case, n):
    """On average, up to four standard errors, whichever latent is moved to either side."""
    n = min(n, 60) if heavy(case) else n
    truth = Truth(case, n)
    best = scores_of(truth.predictive(), truth)
    assert all(np.isfinite(score).all() for score in best.values())
    b = truth.means.shape[1]
    gains = dict.fromkeys(best, 0.0)
    for j, step in itertools.product(range(b), (-1.0, 1.0)):
        for name, score in scores_of(truth.predictive(step * np.eye(b)[j]), truth).items():
            gap = score - best[name]
            if gap.size > 1:
                assert gap.mean() > -4.0 * gap.std() / np.sqrt(n), (name, j, step)
            else:  # a mean already: its noise is that of n rows whose spread is like the mean,
                # or a few times it where many rows are at an atom
                spread = (3.0 if truth.lik.atoms else 1.0) * best[name][0]
                assert gap[0] > -spread / np.sqrt(n), (name, j, step)
            gains[name] = max(gains[name], gap.mean())
    assert gains["nlpd"] > 0.01
    if not truth.lik.atoms:  # else an atom may be the best guess whatever the latents are
        assert all(gain > 0.005 * abs(best[name].mean()) for name, gain in gains.items())


def order_is_nothing(case, n):
    """Permuted rows have permuted scores and the same means."""
    truth = Truth(case, min(n, 24))
    order = np.random.default_rng(0).permutation(truth.n)
    measures = {
        "logpdf": lambda p, y, codes: p.logpdf(y[:, None])[:, 0],
        "ends": lambda p, y, codes: np.stack(pit_ends(p, y), axis=1),
        "coverage": lambda p, y, codes: metrics.interval_coverage(p, y, 0.6),
        "calibration": lambda p, y, codes: metrics.d_calibration(p, y).counts,
    }
    if truth.way in SCORED:
        measures |= {
            "crps": lambda p, y, codes: metrics.crps(p, y),
            "mae": lambda p, y, codes: metrics.mae(p, y, tau=2.0),
            "rmse": lambda p, y, codes: metrics.rmse(p, y, tau=2.0),
            "brier": lambda p, y, codes: metrics.brier_score(p, [0.5, 1.0], y, codes),
            "harrell": lambda p, y, codes: metrics.concordance_harrell(-p.ppf(0.5), y, codes),
            "uno": lambda p, y, codes: metrics.concordance_uno(-p.ppf(0.5), y, codes, tau=1.0),
        }
    for name, measure in measures.items():
        rows = slice(None), order
        one, two = (
            told(measure, truth.predictive(rows=r), truth.y[r], truth.codes[r]) for r in rows
        )
        if isinstance(one, str):  # No event may lie before a horizon: refused in any order.
            assert one == two and name in ("mae", "rmse", "uno", "crps", "brier")
            continue
        one = one[order] if name in ("logpdf", "ends", "crps") else one
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-7, err_msg=name)


def told(measure, *given):
    """What a measure says of rows, or the words with which it refuses them."""
    try:
        return np.asarray(measure(*given))
    except InputError as error:
        return str(error)


def refused_or_right(case, n):
    """Scores of a time refuse rows of which they cannot know it, and say what takes them."""
    truth = Truth(case, min(n, 40))
    if truth.way in SCORED:
        return
    p = truth.predictive()
    for score in (metrics.crps, metrics.mae, metrics.rmse):
        with pytest.raises(InputError, match=r"left- or interval-censored\. nlpd"):
            score(p, truth.y)
    with pytest.raises(InputError, match=r"censored must be 0"):
        metrics.brier_score(p, [1.0], truth.y, truth.codes)


def unit_of_y_is_nothing(case, n):
    """Times in another unit, the scale with them: scores in that unit, all else but log p as is."""
    *stack, way = case
    if "Inflated" in stack:  # whose atom would have to move
        return
    truth, unit = Truth(case, min(n, 24)), 1e3
    rate = stack[0] == "Exponential"
    move = -np.log(unit) if rate else np.log(unit)
    scale = LEAVES[stack[0]]().latents[0]
    other = Truth(case, truth.n)
    if scale in other.lik.latents:
        other.means[:, other.lik.latents.index(scale)] += move
    else:
        getattr(other.lik, scale)[:] += move
    times = ("y_upper", "entry")
    other.metadata = {k: unit * v if k in times else v for k, v in truth.metadata.items()}
    p, q, y = truth.predictive(), other.predictive(), truth.y
    exact = ((truth.codes == EXACT) & ~np.isin(y, truth.lik.atoms)).mean()
    nlpd = metrics.nlpd(p, y), metrics.nlpd(q, unit * y)
    assert nlpd[1] - exact * np.log(unit) == pytest.approx(nlpd[0], abs=1e-5)
    np.testing.assert_allclose(pit_ends(q, unit * y), pit_ends(p, y), atol=1e-6)
    coverage = [metrics.interval_coverage(*pair, 0.6) for pair in ((p, y), (q, unit * y))]
    assert coverage[0] == pytest.approx(coverage[1], abs=1e-5)
    np.testing.assert_allclose(
        metrics.d_calibration(q, unit * y).counts, metrics.d_calibration(p, y).counts, atol=1e-4
    )
    if way not in SCORED:
        return
    np.testing.assert_allclose(
        metrics.crps(q, unit * y), unit * metrics.crps(p, y), rtol=1e-4, atol=unit * 1e-6
    )
    for score in (metrics.mae, metrics.rmse):
        assert score(q, unit * y, tau=2.0 * unit) == pytest.approx(
            unit * score(p, y, tau=2.0), rel=1e-5
        )
    brier = [
        metrics.brier_score(r, u * np.array([0.5, 1.0]), u * y, truth.codes)
        for r, u in ((p, 1.0), (q, unit))
    ]
    np.testing.assert_allclose(*brier, atol=1e-6)
    risks = [
        metrics.concordance_harrell(-r.ppf(0.5), u * y, truth.codes)
        for r, u in ((p, 1.0), (q, unit))
    ]
    assert risks[0] == pytest.approx(risks[1], abs=2e-3)  # ties at atoms, by rounding


# ---- laws of fitted models -----------------------------------------------------------------------


def model_of(lik, X, Y, Y_metadata, length=1.0):
    """A model whose starts do not depend on the rows."""
    b = len(lik.latents)
    return cgp.ChainedGP(
        X,
        Y,
        lik,
        kernels=[cgp.kernels.RBF(1, 0.3, length) for _ in range(b)],
        mean_functions=[cgp.means.Constant(0.1) for _ in range(b)],
        Z=length * np.linspace(0.0, 3.0, 4)[:, None],
        Y_metadata=Y_metadata,
        num_threads=1,
    )


def find_q(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        model.optimize(only="variational", messages=False, max_iters=200)


def folds_know_rows(case, n):
    """In cross-validation a row of weight 2 is two rows; order and the unit of X are nothing."""
    truth = Truth(case, 24)
    X = np.random.default_rng(1).uniform(0.0, 3.0, (24, 1))
    weights = 1.0 + np.arange(24) % 2
    many = np.repeat(np.arange(24), weights.astype(int))
    order = np.random.default_rng(2).permutation(24)
    half = np.arange(24) < 12

    def table(rows, length=1.0, **more):
        train, test = np.flatnonzero(half[rows]), np.flatnonzero(~half[rows])
        given = {key: value[rows] for key, value in {**truth.metadata, **more}.items()}
        found = cgp.cross_validate(
            lambda X, Y, Y_metadata=None: model_of(build(*case[:-1]), X, Y, Y_metadata, length),
            length * X[rows],
            truth.y[rows],
            [(train, test)],
            Y_metadata=given,
            fit=find_q,
            num_threads=1,
        )
        names = ("nlpd", "mae", "rmse", "coverage", "width")
        return np.array([found[name][0] for name in names])

    weighted = table(np.arange(24), weights=weights)
    assert np.isnan(weighted[1:3]).all() == (truth.way not in SCORED)
    for same in (
        table(many),
        table(order, weights=weights),
        table(np.arange(24), 100.0, weights=weights),
    ):
        np.testing.assert_allclose(same, weighted, rtol=1e-4, atol=1e-5)
    assert np.abs(table(np.arange(24)) - weighted)[[0, 4]].max() > 1e-6


def rows_left_out_know_weights(case, n):
    """Σ w log p(y | y) = elpd + p_loo; a row of weight 0 is none; the order of rows is nothing."""
    truth = Truth(case, 16)
    X = np.random.default_rng(1).uniform(0.0, 3.0, (16, 1))
    weights = np.resize([1.0, 2.0, 0.5, 0.0], 16)
    order = np.random.default_rng(2).permutation(16)

    def model(rows, **more):
        given = {key: value[rows] for key, value in {**truth.metadata, **more}.items()}
        m = model_of(build(*case[:-1]), X[rows], truth.y[rows], given)
        find_q(m)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChainedGPWarning)
            return m, m.loo(0), given

    m, found, given = model(np.arange(16), weights=weights)
    within = m.log_predictive_density(m.X, m.Y, given)[:, 0]
    assert found.elpd + found.p_loo == pytest.approx(weights @ within, abs=1e-8)
    for rows in (np.flatnonzero(weights), order):
        other = model(rows, weights=weights)[1]
        assert other.elpd == pytest.approx(found.elpd, abs=1e-4)
        assert other.p_loo == pytest.approx(found.p_loo, abs=1e-4)


def estimators_know_rows(case, n):
    """scikit-learn's weights are rows, and the unit of y adds a logarithm to the score."""
    from chainedgp.sklearn import ChainedGPRegressor

    truth = Truth(case, 24)
    X = np.random.default_rng(1).uniform(0.0, 3.0, (24, 1))
    weights = 1.0 + np.arange(24) % 2
    many = np.repeat(np.arange(24), weights.astype(int))

    def estimator(standardize=False):
        lik = build(*case[:-1])
        parts = {
            "kernels": [cgp.kernels.RBF(1, 0.3, 1.0) for _ in lik.latents],
            "mean_functions": [cgp.means.Constant(0.1) for _ in lik.latents],
        }
        return ChainedGPRegressor(lik, **parts, max_iter=2, standardize=standardize)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        one, two = estimator(), estimator()
        one.fit(X, truth.y, sample_weight=weights, **truth.metadata)
        repeated = {key: value[many] for key, value in truth.metadata.items()}
        two.fit(X[many], truth.y[many], **repeated)
        score = one.score(X, truth.y, weights, **truth.metadata)
        assert score == pytest.approx(one.score(X[many], truth.y[many], **repeated), rel=1e-9)
        assert score == pytest.approx(two.score(X[many], truth.y[many], **repeated), rel=1e-6)
        if truth.lik.atoms or not truth.metadata.keys() <= {"censored", "y_upper", "entry"}:
            return
        scores = []
        for unit in (1.0, 100.0):
            given = {k: v if k == "censored" else unit * v for k, v in truth.metadata.items()}
            scores.append(
                estimator(True).fit(X, unit * truth.y, **given).score(X, unit * truth.y, **given)
            )
        exact = (truth.codes == EXACT).mean()
        assert scores[1] + exact * np.log(100.0) == pytest.approx(scores[0], abs=1e-6)


def left_out_rows_are_calibrated(case, n):
    """The PIT of rows left out, in a model that its own rows were drawn from."""
    lik, n = build(*case[:-1]), 120
    rng = np.random.default_rng(seed_of(case))
    X = np.sort(rng.uniform(0.0, 6.0, n))[:, None]
    kernel = cgp.kernels.RBF(1, 0.3, 2.0)
    root = np.linalg.cholesky(kernel.K(X) + 1e-8 * np.eye(n))
    truth = Truth(case, n, latents=0.2 + (root @ rng.standard_normal((n, len(lik.latents)))).T)
    m = cgp.ChainedGP(
        X,
        truth.y,
        lik,
        kernels=[kernel.copy() for _ in lik.latents],
        mean_functions=[cgp.means.Constant(0.2) for _ in lik.latents],
        num_inducing=12,
        Y_metadata=truth.metadata,
        num_threads=1,
    )
    find_q(m)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        assert m.check()["calibration"].values["p_value"] > 1e-4


LAWS = (
    calibrated,
    cdf_belongs_to_the_density,
    truth_scores_best,
    order_is_nothing,
    unit_of_y_is_nothing,
    refused_or_right,
)
OF_MODELS = (
    folds_know_rows,
    rows_left_out_know_weights,
    estimators_know_rows,
    left_out_rows_are_calibrated,
)
PAIRS = [
    *((law, case) for law in LAWS for case in CASES),
    *((law, case) for law in OF_MODELS for case in CASES if len(case) <= 3),
]


def chosen(law, case, one_in):
    """Whether a pair belongs to a fixed sample: one in so many."""
    return zlib.crc32(f"{law.__name__} {' / '.join(case)}".encode()) % one_in == 0


def named(pair):
    return f"{pair[0].__name__}: {' / '.join(pair[1])}"


SAMPLE = [
    (law, case)
    for law, case in PAIRS
    if chosen(law, case, 50) and not (heavy(case) and law in (truth_scores_best, order_is_nothing))
]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, id=named(pair), marks=[] if chosen(*pair, 150) else pytest.mark.long)
        for pair in SAMPLE
    ],
)
def test_a_sample_of_meetings(pair):
    law, case = pair
    law(case, 100 if law is calibrated else 30)


def test_the_laws_reject_what_is_wrong(monkeypatch):
    """Measures that forget an entry, or take the time of a censoring for that of an event."""
    with pytest.raises(AssertionError):
        truth = Truth(("LogNormalSurvival", "entry"), 300)
        monkeypatch.setattr(truth, "metadata", {})
        assert stats.kstest(metrics.pit(truth.predictive(), truth.y), "uniform").pvalue > 1e-4
    seen = ("WeibullSurvival", "right")
    monkeypatch.setattr(metrics, "pit_ends", lambda p, y, *codes: (p.cdf(y[:, None])[:, 0],) * 2)
    with pytest.raises(AssertionError):
        calibrated(seen, 300)
    monkeypatch.undo()
    calibrated(seen, 300)
    plain = lambda p, y, name, *rest: Known(y, np.ones(len(y)), np.inf)  # noqa: E731
    monkeypatch.setattr(metrics, "known_rows", plain)
    with pytest.raises(AssertionError):
        truth_scores_best(("WeibullSurvival", "last constant", "right"), 300)
    monkeypatch.undo()
    truth_scores_best(("WeibullSurvival", "last constant", "right"), 300)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_meetings(pair):
    law, case = pair
    law(case, 300)
