"""Every likelihood and wrapper meets every way in which rows are fitted, kept and scored.

The cases are those of `test_meetings_of_likelihoods`: rows that are exact, censored, truncated,
with exposures or trials. Each row has a weight too. At each case the laws below hold, which need no
formula: a cluster has the bound and the gradient of one process; the estimates of the batches of an
epoch have the bound and the gradient of all rows as their mean; a row of weight 2 is two rows and
the order of rows is nothing, in batches, in scores of held-out rows, in folds, in estimators, in
starts and in `update`; a file brings back log-densities and what is left out. The same holds for
what bands add to q: the linear response, and uncertain hyperparameters and constants.
"""

import warnings
import zlib
from itertools import islice

import numpy as np
import pytest
from test_meetings_of_likelihoods import (
    CASES,
    ROWS,
    STACKS,
    Discrete,
    Exponential,
    Logistic,
    Meeting,
    model_of,
)

import chainedgp as cgp
from chainedgp.errors import ChainedGPWarning, UnfittedWarning
from chainedgp.inference.steps import NaturalSteps, PlainSteps
from chainedgp.inference.stochastic import Batches, Settings
from chainedgp.posterior.evaluator import Evaluator
from chainedgp.sampling.density import LogJoint
from chainedgp.sampling.widening import Widening

WEIGHTS = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 1.0])
MANY = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
TURNED = np.arange(ROWS)[::-1]
X = np.linspace(-1.0, 1.0, ROWS)[:, None]


def quietly(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        return work()


def find_q(model):
    quietly(lambda: model.optimize(only="variational", messages=False, max_iters=100))
    return model


def metadata_of(m, rows=slice(None), **more):
    """What is known of some rows beside their targets."""
    return {key: value[rows] for key, value in {**m.own, **m.seen, **more}.items()}


def off_the_prior(model):
    """The model with a q whose means and roots are none of the prior's, the same for all rows."""
    rng = np.random.default_rng(7)
    model.q_mu[:] = 0.3 * rng.standard_normal(model.q_mu.shape)
    model.q_sqrt[:] = model.q_sqrt.values + 0.1 * rng.standard_normal(model.q_sqrt.shape)
    return model


def three_ways(m):
    """Models of the same data: with weights, with rows repeated, with weights and rows turned."""
    return (
        off_the_prior(model_of(m, weights=WEIGHTS)),
        off_the_prior(model_of(m, MANY)),
        off_the_prior(model_of(m, TURNED, weights=WEIGHTS)),
    )


# ---- the laws ------------------------------------------------------------------------------------


def a_cluster_is_one_process(m):
    """Dask arrays in blocks that match neither workers nor each other: bound and gradient."""
    import dask.array as da

    local = off_the_prior(model_of(m, weights=WEIGHTS))
    lazy = {
        key: da.from_array(value, chunks=4)
        for key, value in metadata_of(m, weights=WEIGHTS).items()
    }
    far = cgp.ChainedGP(
        da.from_array(X, chunks=(2, 1)),
        da.from_array(m.y, chunks=5),
        STACKS.build(*m.stack),
        kernels=[cgp.kernels.RBF(1) for _ in range(m.b)],
        Z=np.array([[-0.7], [0.4]]),
        mean_functions=[cgp.means.Constant(0.1 * j) for j in range(m.b)],
        Y_metadata=lazy,
        num_nodes=10,
    )
    for key, value in m.parameters.items():
        getattr(far.likelihood, key)[:] = value
    off_the_prior(far)
    assert far.problem.starts.score == pytest.approx(local.problem.starts.score, rel=1e-9)
    assert far.log_likelihood() == pytest.approx(local.log_likelihood(), rel=1e-9)
    ours, theirs = (model.objective_function_gradients() for model in (far, local))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * np.abs(theirs).max())


def batches_have_the_bound_as_their_mean(m):
    """Σ_k (B_k/N) (estimate of batch k) over an epoch, of bound and gradient, last batch short."""
    model = off_the_prior(model_of(m, weights=WEIGHTS))
    problem = model.problem
    vector = problem.free_vector(with_q=True)
    problem.take_gradient()
    bound, gradient = problem.bound(), vector.gradient().copy()
    batches = Batches(problem, Settings(4, 1.0, np.random.default_rng(0)))
    evaluator = Evaluator([], problem.evaluator.family)
    evaluator.set_hyperparameters(problem.parts.theta())
    mean, slopes, seen = 0.0, 0.0, []
    for rows in islice(batches.epochs(), 2):
        evaluator.take(batches.shard(rows), batches.scale(rows))
        state = evaluator.evaluate(problem.parts.q(), gradient=True)
        problem.write_gradient(evaluator.gradient(state, sites_fixed=False), state)
        mean += rows.size / ROWS * state.bound
        slopes = slopes + rows.size / ROWS * vector.gradient()
        seen.extend(rows)
    assert sorted(seen) == list(range(ROWS))
    assert mean == pytest.approx(bound, rel=1e-9)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-7, atol=1e-8 * np.abs(gradient).max())


def a_batch_knows_weights(m):
    """A step on a batch of all rows, by a plain rule and by natural gradients: all leaves."""
    for make in (
        lambda problem: PlainSteps(problem, "adam", 0.01),
        lambda problem: NaturalSteps(problem, problem.parts.q(), None),
    ):
        after = []
        for model in three_ways(m):
            problem = model.problem
            steps = make(problem)
            bound = steps.step(problem.shard(np.arange(problem.num_rows)), 1.0, 1.0)
            steps.put_back()
            after.append(np.hstack([bound, *(leaf.ravel() for leaf in problem.snapshot())]))
        for other in after[1:]:
            # Adam divides a slope by its size: at a kink one that is 0 but for rounding counts.
            np.testing.assert_allclose(other, after[0], rtol=1e-6, atol=1e-7 + m.kink)


def held_out_rows_know_weights(m):
    """The score by which a fit in batches stops, of rows that it does not see."""
    scores = []
    for model, held in zip(three_ways(m), (3, 6, 3), strict=True):
        batches = Batches(model.problem, Settings(4, 1.0, np.random.default_rng(0)))
        rows = np.arange(model.problem.num_rows)
        batches.held = rows[:held] if len(scores) < 2 else rows[-held:]
        scores.append(batches.held_out_score())
    np.testing.assert_allclose(scores, scores[0], rtol=1e-9)


SEARCHED = [("HetLaplace", "first constant"), ("HetLaplace", "last constant")]
SEARCHED += [("WeibullSurvival", "Inflated")]
"""Their constants are the end of a search along a kink, or towards a density without a limit: six
rows do not say where it ends, and the last digits of sums do."""


def starts_know_weights(m):
    """Default kernels, means, parameters of the likelihood, Z and scores of constants."""

    def made(rows, **more):
        given = metadata_of(m, rows, **more)
        lik = STACKS.build(*m.stack)
        model = cgp.ChainedGP(X[rows], m.y[rows], lik, Y_metadata=given, ties=None, num_threads=1)
        starts = model.problem.starts
        total = starts.score * model.problem.num_rows
        if m.stack in SEARCHED:
            return np.hstack([kernel.param_array for kernel in model.kernels])
        leaves = [leaf.ravel() for leaf in model.problem.snapshot()]
        return np.hstack([starts.constants, starts.scales, total, *leaves, model.log_prior()])

    weighted = made(np.arange(ROWS), weights=WEIGHTS)
    for same in (made(MANY), made(TURNED, weights=WEIGHTS)):
        # Some constants are the end of a search, whose last digits depend on rounding.
        np.testing.assert_allclose(same, weighted, rtol=1e-4, atol=1e-3)


def wide(model):
    """The model with q found, and what its bands add to it, at hyperparameters as they are."""
    find_q(model).hyperparameters = "uncertain"
    quietly(model._widen)
    return model


def bands_of(model, m):
    """Variances of latents, and bands of natural parameters of the first rows."""
    found = quietly(lambda: model.predictive(X, metadata_of(m)).parameters((5, 95)))
    return np.hstack([model.predict_latents(X)[1], *(found[key] for key in sorted(found))])


def bands_know_weights(m):
    """What the linear response and uncertain constants add, whatever way rows are given."""
    found, narrow = [], None
    for model in (
        model_of(m, weights=WEIGHTS),
        model_of(m, MANY),
        model_of(m, TURNED, weights=WEIGHTS),
    ):
        found.append(bands_of(wide(model), m))
        added = model._widening is not None
        model.hyperparameters = "fixed"
        narrow = model.predict_latents(X)[1]
    assert added and (found[-1][:, : m.b] >= narrow * (1.0 - 1e-9)).all()
    for same in found[:2]:
        np.testing.assert_allclose(same, found[-1], rtol=0.01, atol=1e-3)


def bands_are_kept(m, path):
    """Files, copies and `update` keep bands; a parameter that is set takes them back and warns."""
    first, last = np.arange(4), np.arange(4, ROWS)
    model = wide(model_of(m, first, weights=WEIGHTS))
    quietly(lambda: model.update(X[last], m.y[last], metadata_of(m, last, weights=WEIGHTS)))
    model.save(path)
    again = cgp.load(path, classes=(Exponential, Discrete, Logistic))
    wanted = bands_of(model, m)
    for other in (model.copy(), again):
        np.testing.assert_allclose(bands_of(other, m), wanted, rtol=1e-9)
    for other in (model, model.copy(), again):
        quietly(lambda other=other: other.predict_latents(X))
        other.kernels[0].lengthscale[:] *= 1.5
        with pytest.warns(UnfittedWarning, match="parameters were set after the fit"):
            variance = other.predict_latents(X)[1]
        other.hyperparameters = "fixed"
        np.testing.assert_array_equal(other.predict_latents(X)[1], variance)


def files_know_rows(m, path):
    """A fitted model with weights and metadata: log-densities and what leaving out a row gives."""
    model = find_q(model_of(m, weights=WEIGHTS))
    model.save(path)
    again = cgp.load(path, classes=(Exponential, Discrete, Logistic))
    given = metadata_of(m)
    for one, two in (
        (model.log_likelihood(), again.log_likelihood()),
        (
            model.log_predictive_density(X, m.y, given),
            again.log_predictive_density(X, m.y, given),
        ),
    ):
        np.testing.assert_array_equal(one, two)
    assert again.Y_metadata.keys() == {*given, "weights"}
    one, two = (quietly(lambda part=part: part.loo(0)) for part in (model, again))
    assert (one.elpd, one.p_loo) == (two.elpd, two.p_loo) and np.isfinite(one.elpd)


def left_out_rows_know_weights(m):
    """Σ w log p(y | y) = elpd + p_loo, and the order of rows is nothing."""
    model = find_q(model_of(m, weights=WEIGHTS))
    found = quietly(lambda: model.loo(0))
    within = model.log_predictive_density(X, m.y, metadata_of(m))[:, 0]
    assert found.elpd + found.p_loo == pytest.approx(WEIGHTS @ within, abs=1e-7)
    other = quietly(lambda: find_q(model_of(m, TURNED, weights=WEIGHTS)).loo(0))
    assert other.elpd == pytest.approx(found.elpd, abs=1e-3 + 1e-3 * abs(found.elpd))


def folds_know_weights(m):
    """Cross-validation: a row of weight 2 is two rows, the order of rows is nothing."""

    def table(rows, **more):
        half = rows % 2 == 0
        splits = [(np.flatnonzero(half), np.flatnonzero(~half))]

        def model(X, Y, Y_metadata=None):
            own = cgp.ChainedGP(
                X,
                Y,
                STACKS.build(*m.stack),
                kernels=[cgp.kernels.RBF(1) for _ in range(m.b)],
                Z=np.array([[-0.7], [0.4]]),
                mean_functions=[cgp.means.Constant(0.1 * j) for j in range(m.b)],
                Y_metadata=Y_metadata,
                num_threads=1,
                num_nodes=10,
            )
            for key, value in m.parameters.items():
                getattr(own.likelihood, key)[:] = value
            return own

        found = quietly(
            lambda: cgp.cross_validate(
                model,
                X[rows],
                m.y[rows],
                splits,
                Y_metadata=metadata_of(m, rows, **more) or None,
                fit=find_q,
                num_threads=1,
            )
        )
        skipped = ("rows", "seconds")
        return {key: float(found[key][0]) for key in found.columns if key not in skipped}

    weighted = table(np.arange(ROWS), weights=WEIGHTS)
    assert np.isfinite(weighted["nlpd"])
    for same in (table(MANY), table(TURNED, weights=WEIGHTS)):
        for key, value in weighted.items():
            np.testing.assert_allclose(same[key], value, rtol=2e-4, atol=1e-5, err_msg=key)


def estimators_know_weights(m):
    """scikit-learn: fit and score with weights and metadata, against rows repeated."""
    from chainedgp.sklearn import ChainedGPRegressor

    def fitted(rows, **weights):
        lik = STACKS.build(*m.stack)
        parts = {
            "kernels": [cgp.kernels.RBF(1, 0.3, 1.0) for _ in lik.latents],
            "mean_functions": [cgp.means.Constant(0.1) for _ in lik.latents],
        }
        own = ChainedGPRegressor(lik, **parts, max_iter=2, num_threads=1)
        return own.fit(X[rows], m.y[rows], **weights, **metadata_of(m, rows))

    every, given = np.arange(ROWS), metadata_of(m)
    one = quietly(lambda: fitted(every, sample_weight=WEIGHTS))
    score = one.score(X, m.y, WEIGHTS, **given)
    repeated = X[MANY], m.y[MANY]
    assert score == pytest.approx(one.score(*repeated, **metadata_of(m, MANY)), rel=1e-9)
    two = quietly(lambda: fitted(MANY))
    assert score == pytest.approx(two.score(*repeated, **metadata_of(m, MANY)), rel=1e-7, abs=1e-9)


def units_are_nothing_to_estimators(m):
    """In standardised units 100 y has the score of y, less log 100 for every density."""
    from chainedgp.sklearn import ChainedGPRegressor

    line = m.lik.target_support
    if m.lik.atoms or not line.continuous or line.bounded or "rounding" in m.lik.metadata_names:
        return  # Atoms, widths and ends of the support would have to move.
    scores = []
    for unit in (1.0, 100.0):
        lik = STACKS.build(*m.stack)
        parts = {
            "kernels": [cgp.kernels.RBF(1, 0.3, 1.0) for _ in lik.latents],
            "mean_functions": [cgp.means.Constant(0.1) for _ in lik.latents],
        }
        own = ChainedGPRegressor(lik, **parts, max_iter=2, num_threads=1, standardize=True)
        times = ("y_upper", "entry")
        given = {k: unit * v if k in times else v for k, v in metadata_of(m).items()}
        quietly(lambda own=own, unit=unit, given=given: own.fit(unit * X, unit * m.y, **given))
        scores.append(own.score(unit * X, unit * m.y, **given))
    exact = np.mean(m.seen.get("censored", np.zeros(ROWS)) == 0.0)
    assert scores[1] + exact * np.log(100.0) == pytest.approx(scores[0], rel=1e-5, abs=1e-5)


def new_rows_are_rows(m):
    """`update` has the bound of a model that had all rows; of weight 2 it is two rows."""
    first, last = np.arange(4), np.arange(4, ROWS)
    again = MANY[MANY >= 4]
    bounds = []
    for rows, more in ((last, {"weights": WEIGHTS}), (again, {"weights": np.ones(ROWS)})):
        model = find_q(model_of(m, first, weights=WEIGHTS))
        given = metadata_of(m, rows, **more)
        quietly(lambda m_=model, r=rows, g=given: m_.update(X[r], m.y[r], g, tolerance=1e-5))
        bounds.append(model.log_likelihood())
    whole = find_q(model_of(m, weights=WEIGHTS)).log_likelihood()
    np.testing.assert_allclose(bounds, whole, rtol=1e-5, atol=2e-3)


LAWS = (
    a_cluster_is_one_process,
    batches_have_the_bound_as_their_mean,
    a_batch_knows_weights,
    held_out_rows_know_weights,
    starts_know_weights,
    bands_know_weights,
    bands_are_kept,
    files_know_rows,
    left_out_rows_know_weights,
    folds_know_weights,
    estimators_know_weights,
    units_are_nothing_to_estimators,
    new_rows_are_rows,
)
DEEP = (a_cluster_is_one_process, batches_have_the_bound_as_their_mean, a_batch_knows_weights)
"""Laws that are tried with two wrappers around each other too; others with one at most."""
PAIRS = [(law, case) for law in LAWS for case in CASES if len(case) <= 3 or law in DEEP]
ONE_IN = 230


def chosen(law, case, one_in):
    """Whether a pair belongs to a fixed sample: one in so many."""
    return zlib.crc32(f"{law.__name__} {' / '.join(case)}".encode()) % one_in == 0


def named(pair):
    return f"{pair[0].__name__}: {' / '.join(pair[1])}"


def check(pair, tmp_path):
    law, case = pair
    m = Meeting(*case)
    m.stack = case[:-1]
    law(m, tmp_path / "model.npz") if law in (files_know_rows, bands_are_kept) else law(m)


def sample_of(laws, one_in):
    return [pair for pair in PAIRS if pair[0] in laws and chosen(*pair, one_in)]


@pytest.mark.parametrize("pair", sample_of(LAWS[1:], ONE_IN), ids=named)
def test_a_sample_of_meetings(pair, tmp_path):
    check(pair, tmp_path)


@pytest.mark.parametrize("pair", sample_of(LAWS[:1], 2 * ONE_IN), ids=named)
def test_a_sample_of_meetings_on_a_cluster(pair, tmp_path, cluster):
    check(pair, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::chainedgp.errors.QuadratureWarning")  # four latents, a tail
@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_all_meetings(pair, tmp_path, cluster):
    check(pair, tmp_path)


def test_a_q_without_slopes_is_no_place_to_go(tmp_path):
    """With ten nodes a step from the prior reaches a finite bound whose derivatives are none."""
    check((new_rows_are_rows, ("WeibullSurvival", "Hurdle", "entry")), tmp_path)


def test_the_laws_reject_what_is_wrong(monkeypatch, tmp_path):
    """Scores, batches and bands that forget weights, or a wrong scale; bands kept too long."""
    case = ("Poisson", "exposure")
    plain = Batches.held_out_score
    monkeypatch.setattr(
        Batches,
        "held_out_score",
        lambda self: plain(self) + 0.01 * self.held.size,
    )
    with pytest.raises(AssertionError):
        check((held_out_rows_know_weights, case), tmp_path)
    monkeypatch.setattr(Batches, "scale", lambda self, rows: self.rows.size / self.size)
    with pytest.raises(AssertionError):
        check((batches_have_the_bound_as_their_mean, case), tmp_path)
    plain_joint = LogJoint.__init__

    def without_weights(self, problem):
        plain_joint(self, problem)
        self.weights = None

    monkeypatch.setattr(LogJoint, "__init__", without_weights)
    with pytest.raises(AssertionError):
        check((bands_know_weights, case), tmp_path)
    monkeypatch.setattr(Widening, "holds_for", lambda self, parts: True)
    with pytest.raises(AssertionError):
        check((bands_are_kept, case), tmp_path)
    monkeypatch.undo()
    tried = held_out_rows_know_weights, batches_have_the_bound_as_their_mean
    for law in (*tried, bands_know_weights, bands_are_kept):
        check((law, case), tmp_path)
