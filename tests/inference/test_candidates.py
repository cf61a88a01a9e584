"""Where the fit of a new model begins: the screen of the inputs, the candidates, and who wins."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import chainedgp as cgp
from chainedgp import kernels, likelihoods
from chainedgp.errors import NumericalError
from chainedgp.inference import candidates, screen
from chainedgp.inference.monitor import Monitor
from chainedgp.inference.profile import _fit_roughly
from chainedgp.inference.screen import (
    LENGTHSCALES,
    NOISE_SHARES,
    Screen,
    all_inputs,
    one_input,
    screen_inputs,
    working_targets,
)


def waves(n=100, D=5, omega=4.0, seed=11):
    """One input of D matters, with short waves."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, D))
    return X, np.sin(omega * X[:, min(2, D - 1)]) + 0.1 * rng.standard_normal(n)


# ---- the screen ----


def exact_gain(column, z, lengthscale, share):
    """The gain of one GP over noise alone, by scipy's normal density."""
    v = np.mean(z**2)
    K = np.exp(-0.5 * np.square((column[:, None] - column) / lengthscale))
    noise = np.eye(len(z))
    cov = v * ((1.0 - share) * K + share * noise)
    return multivariate_normal(cov=cov).logpdf(z) - multivariate_normal(cov=v * noise).logpdf(z)


def test_a_screen_is_an_exact_gp_of_one_input():
    rng = np.random.default_rng(0)
    column = rng.uniform(-1.7, 1.7, 80)
    targets = np.stack([np.sin(3.0 * column), np.zeros(80), column])
    targets += 0.3 * rng.standard_normal(targets.shape)
    targets -= targets.mean(axis=1, keepdims=True)
    gains, lengthscales, means = one_input(column, np.ones(80)).fit(targets)
    for z, gain, lengthscale, mean in zip(targets, gains, lengthscales, means, strict=True):
        exact = {
            (length, share): exact_gain(column, z, length, share)
            for length in LENGTHSCALES
            for share in NOISE_SHARES
        }
        assert gain == pytest.approx(max(exact.values()), abs=0.02)
        length, share = max(exact, key=exact.get)
        assert lengthscale == length
        K = (1.0 - share) * np.exp(-0.5 * np.square((column[:, None] - column) / length))
        smoothed = K @ np.linalg.solve(K + share * np.eye(80), z)
        np.testing.assert_allclose(mean, smoothed, atol=0.01)


def test_a_weight_counts_rows_in_the_screen(monkeypatch):
    monkeypatch.setattr(screen, "INDUCING", 200)  # Quantiles of copied rows are others.
    rng = np.random.default_rng(1)
    column = rng.uniform(-1.7, 1.7, 60)
    z = np.sin(3.0 * column)[None] + 0.3 * rng.standard_normal((1, 60))
    count = rng.integers(0, 4, 60)
    weighted = one_input(column, count.astype(float)).fit(z)
    copies = one_input(np.repeat(column, count), np.ones(sum(count)))
    repeated = copies.fit(np.repeat(z, count, axis=1))
    np.testing.assert_allclose(weighted[0], repeated[0], atol=0.01)
    np.testing.assert_allclose(weighted[1], repeated[1])


def test_working_targets_of_a_gaussian_are_its_residuals():
    X, y = waves()
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=5)
    z = working_targets(m.likelihood, m.problem.rows, m.problem.starts.constants, np.ones(len(y)))
    np.testing.assert_allclose(z[0], y - y.mean(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "likelihood", [likelihoods.HetGaussian, likelihoods.HetStudentT, likelihoods.HetLaplace]
)
def test_the_screen_finds_the_input_that_matters(likelihood):
    X, y = waves()
    m = cgp.ChainedGP(X * [1e-3, 1.0, 1e3, 1.0, 1.0], y, likelihood(), num_inducing=5)
    found = screen_inputs(m.likelihood, m.problem.rows, m.problem.starts.constants)
    assert np.argmax(found.gains[0]) == 2 and found.relevant[0, 2]
    assert found.relevant[0].sum() <= 2
    assert 0.1e3 < found.lengthscales[0, 2] < 0.6e3


def waves_together(n=300, seed=0):
    """No input alone shows anything of y."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    return X, 2.0 * np.sin(3.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.05 * rng.standard_normal(n)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
@pytest.mark.long
def test_inputs_that_matter_only_together_are_found():
    X, y = waves_together()
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=100)
    found = screen_inputs(m.likelihood, m.problem.rows, m.problem.starts.constants)
    assert 0.1 < found.together[0].min() and found.together[0].max() < 1.0
    result = m.optimize(max_iters=50)
    assert "inputs together" in result.starts
    fresh = np.random.default_rng(9).uniform(-2.8, 2.8, (300, 2))
    truth = 2.0 * np.sin(3.0 * fresh[:, 0]) * np.cos(3.0 * fresh[:, 1])
    error = m.predict(fresh)[0][:, 0] - truth
    assert np.sqrt(np.mean(error**2)) < 0.5 * truth.std()


def test_all_inputs_are_an_exact_gp():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 3))
    z = np.sin(X[:, 0] * X[:, 1]) + 0.2 * rng.standard_normal(60)
    z -= z.mean()
    (gain,), (length,), _ = all_inputs(X, np.ones(60)).fit(z[None])
    square = np.square(X[:, None] - X).sum(-1)
    v, exact = np.mean(z**2), {}
    for ell in LENGTHSCALES:
        for share in NOISE_SHARES:
            K = v * ((1 - share) * np.exp(-0.5 * square / ell**2) + share * np.eye(60))
            exact[ell, share] = multivariate_normal(cov=K).logpdf(z)
    noise = multivariate_normal(cov=v * np.eye(60)).logpdf(z)
    assert gain == pytest.approx(max(exact.values()) - noise, abs=0.02)
    assert length == max(exact, key=exact.get)[0]


@pytest.mark.long
def test_a_weak_input_is_found_beside_a_strong_one():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((108, 30))
    y = 3.0 * X[:, 4] + np.sin(2.0 * X[:, 9]) + 0.3 * rng.standard_normal(108)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=5)
    given = m.likelihood, m.problem.rows, m.problem.starts.constants
    found = screen_inputs(*given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "ROUNDS", 0)
        once = screen_inputs(*given)
    assert once.gains[0, 9] < 3.0 < 15.0 < found.gains[0, 9]
    assert found.relevant[0, [4, 9]].all() and found.relevant[0].sum() <= 3


def test_an_accident_beside_a_strong_signal_does_not_matter():
    gains = np.array([[-1.9, 1.3, 146.3, 4.8], [2.0, 4.8, 3.5, -1.0]])
    found = Screen(gains, np.ones((2, 4)), np.full((2, 4), np.nan), np.full(2, -np.inf))
    expected = [[False, False, True, False], [False, True, True, False]]
    np.testing.assert_array_equal(found.relevant, expected)


def test_noise_and_constants_tell_nothing():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=300), np.full(300, 7.0)])
    m = cgp.ChainedGP(X, rng.normal(size=300), likelihoods.HetGaussian(), num_inducing=5)
    found = screen_inputs(m.likelihood, m.problem.rows, m.problem.starts.constants)
    assert np.isfinite(found.gains).all() and not found.relevant.any()


# ---- who wins ----


def test_a_signal_in_one_of_many_inputs_is_found():
    X, y = waves(D=8, n=150)
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=50)
    result = m.optimize()
    fresh = np.random.default_rng(0).uniform(-2.0, 2.0, (300, 8))
    error = m.predict(fresh)[0][:, 0] - np.sin(4.0 * fresh[:, 2])
    assert np.sqrt(np.mean(error**2)) < 0.2
    assert result.start != "as given" and result.starts["as given"] < result.starts[result.start]


def test_the_best_start_is_told_and_survives_a_file(tmp_path):
    X, y = waves()
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=20)
    result = m.optimize()
    assert {"as given", "inputs screened", "one latent first"} == set(result.starts)
    assert result.starts[result.start] == max(result.starts.values())
    m.save(tmp_path / "m.npz")
    again = cgp.load(tmp_path / "m.npz").last_result
    assert (again.start, again.starts) == (result.start, result.starts)


def test_fits_from_candidates_are_the_same_every_time():
    X, y = waves(60, 3)
    one, two = (cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=10) for _ in range(2))
    one.optimize()
    two.optimize()
    np.testing.assert_array_equal(one.param_array, two.param_array)


# ---- when candidates are tried ----


def new(**keywords):
    X, y = waves(40, 2)
    return cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=8, **keywords)


def set_lengthscale(m):
    m.kernels[0].lengthscale = 0.7


def give_other_rows(m):
    m.set_data(*waves(50, 2, seed=4))


@pytest.mark.parametrize(
    "touch", [set_lengthscale, give_other_rows, lambda m: m.optimize(max_iters=1)]
)
@pytest.mark.filterwarnings("ignore:.*stopped before convergence")
def test_a_model_that_somebody_has_touched_begins_where_it_is(touch):
    m = new()
    touch(m)
    assert not m.problem.is_new
    assert m.optimize().starts == {}


def test_a_loaded_model_begins_where_it_is(tmp_path):
    new().save(tmp_path / "m.npz")
    assert cgp.load(tmp_path / "m.npz").optimize().starts == {}


@pytest.mark.filterwarnings("ignore:.*stopped before convergence")
@pytest.mark.parametrize(
    "keywords", [{"max_iters": 20}, {"method": "lbfgsb"}, {"only": "variational"}]
)
def test_fits_that_try_no_candidates(keywords):
    assert new().optimize(**keywords).starts == {}


def test_batches_begin_with_the_candidates_of_their_subset():
    result = new().optimize(batch_size=20, epochs=2, rng=0)
    assert "one latent first" in result.starts


def test_fixed_and_bounded_parameters_stay_where_they_may_be():
    m = new(kernels=[kernels.RBF(2, ARD=True), kernels.RBF(2) + kernels.Linear(2)])
    m._parts.given_kernels = False
    m.kernels[0].lengthscale.constrain_bounded(0.5, 1.2)
    m.kernels[1].rbf.variance.constrain_fixed()
    m.kernels[1].rbf.lengthscale.constrain_fixed()
    assert m.problem.is_new
    fixed = [float(leaf.values[0]) for leaf in m.kernels[1].rbf.parameters]
    result = m.optimize()
    assert result.starts
    assert [float(leaf.values[0]) for leaf in m.kernels[1].rbf.parameters] == fixed
    lengthscale = m.kernels[0].lengthscale.values
    assert ((lengthscale >= 0.5) & (lengthscale <= 1.2)).all()


def test_a_fit_begins_with_the_values_of_given_kernels(monkeypatch):
    """No rough fit moves them, but where latents play the same role."""
    m = new(kernels=kernels.Matern32(2, 0.3, [2.0, 0.25], ARD=True))
    assert m.optimize().starts == {}
    counts = np.random.default_rng(0).poisson(3.0, 40).astype(float)
    given = kernels.RBF(2, 0.3, 0.25)
    m = cgp.ChainedGP(m.X, counts, likelihoods.AdditivePoisson(), kernels=given, num_inducing=5)
    tried = set(m.optimize().starts)
    assert "as given" in tried and "inputs screened" not in tried and len(tried) == 5


def test_a_candidate_that_fails_is_left_out(monkeypatch):
    def fail(*_):
        raise cgp.errors.NumericalError("no")

    monkeypatch.setattr(candidates, "_screened", fail)
    result = new().optimize()
    assert result.converged and set(result.starts) == {"as given", "one latent first"}


def test_a_smaller_problem_leaves_z_and_q_alone():
    m = new()
    before = m.param_array.copy()
    small = m.problem.smaller(np.arange(0, 40, 2), 5)
    assert small.num_rows == 20 and small.parts.sizes == (5, 5)
    small.parts.Z[0][:] = 0.0
    np.testing.assert_array_equal(m.param_array, before)
    assert {tuple(z) for z in m.problem.smaller(np.arange(40), 5).parts.Z[0].values} <= {
        tuple(z) for z in m.Z.values
    }


# ---- weights in the values that a model begins with ----

WEIGHTED = {
    "HetGaussian": ("real", {}),
    "HetStudentT": ("real", {}),
    "HetLaplace": ("real", {}),
    "Gaussian": ("real", {}),
    "Beta": ("unit", {}),
    "HetGamma": ("positive", {}),
    "LogLogisticSurvival": ("positive", {"censored": True}),
    "NegativeBinomial": ("counts", {}),
    "Poisson": ("counts", {"exposure": True}),
    "ZeroInflatedPoisson": ("counts", {}),
    "Bernoulli": ("binary", {}),
}


def weighted_rows(support, metadata, n=60):
    rng = np.random.default_rng(5)
    y = {
        "real": rng.normal(size=n),
        "unit": rng.uniform(0.1, 0.9, size=n),
        "positive": rng.gamma(2.0, size=n),
        "counts": rng.poisson(2.0, size=n).astype(float),
        "binary": rng.integers(0, 2, size=n).astype(float),
    }[support]
    own = {"censored": (rng.uniform(size=n) < 0.3).astype(float), "exposure": 1.0 + y}
    return rng.normal(size=(n, 1)), y, {key: own[key] for key in metadata}


def begun(X, y, name, metadata):
    m = cgp.ChainedGP(X, y, getattr(likelihoods, name)(), Y_metadata=metadata, num_inducing=4)
    return [*m.problem.starts.constants, *m.problem.starts.scales, *m.likelihood.param_array]


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_model_begins_with_weights_as_with_copies_of_rows(name):
    X, y, metadata = weighted_rows(*WEIGHTED[name])
    count = np.where(y > np.median(y), 3, np.arange(len(y)) % 2)  # some weights are 0
    copies = {key: np.repeat(value, count) for key, value in metadata.items()}
    weighted = begun(X, y, name, {**metadata, "weights": count.astype(float)})
    np.testing.assert_allclose(
        weighted, begun(np.repeat(X, count, axis=0), np.repeat(y, count), name, copies), rtol=1e-10
    )
    assert not np.allclose(weighted, begun(X, y, name, metadata), rtol=1e-3)


def test_weights_that_are_no_counts():
    X, y, _ = weighted_rows("real", {}, 200)
    weights = np.random.default_rng(0).gamma(1.0, size=200)
    m = cgp.ChainedGP(X, y, likelihoods.HetGaussian(), Y_metadata={"weights": weights})
    mean = np.average(y, weights=weights)
    expected = [mean, np.log(np.average((y - mean) ** 2, weights=weights))]
    np.testing.assert_allclose(m.problem.starts.constants, expected, atol=0.02)
    assert abs(m.problem.starts.constants[0] - y.mean()) > 0.05


def test_a_fit_goes_on_from_the_posterior_of_its_best_start():
    """Sites of a Gaussian are exact at any q: those of the rough fit make the best q there is."""
    X, y = waves(60, D=3)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=15, num_threads=1)
    with Monitor("start") as monitor:
        candidates.choose_start(m.problem, monitor, 1000, _fit_roughly)
    assert monitor.start == "inputs screened" and not m._parts.q_is_prior()
    before = m.log_likelihood()
    m.optimize(only="variational", messages=False)
    assert m.log_likelihood() == pytest.approx(before, abs=1e-6)


def test_a_fit_begins_as_given_unless_another_start_is_clearly_better():
    """Rows of a rough fit do not decide between starts that lead to nearly the same optimum."""
    X, y = waves(60, D=1, omega=1.5)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=15, num_threads=1)
    before = m.problem.snapshot()
    with Monitor("start") as monitor:
        candidates.choose_start(m.problem, monitor, 1000, _fit_roughly)
    assert monitor.start == "as given" and len(monitor.starts) > 1
    assert max(monitor.starts.values()) - monitor.starts["as given"] < candidates.TIE
    for now, then in zip(m.problem.snapshot(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_tie_is_counted_for_all_rows(monkeypatch):
    """What a rough fit to half of the rows gains counts twice."""
    X, y = waves(60, D=3)
    monkeypatch.setattr(candidates, "ROUGH_ROWS", 30)

    def chosen(tie):
        monkeypatch.setattr(candidates, "TIE", tie)
        m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=15, num_threads=1)
        with Monitor("start") as monitor:
            candidates.choose_start(m.problem, monitor, 1000, _fit_roughly)
        return monitor

    starts = chosen(0.0).starts
    worse = max(starts.values()) - starts["as given"]
    assert worse > 0.0
    assert chosen(1.9 * worse).start != "as given" == chosen(2.1 * worse).start


def test_rows_that_make_no_gaussian_leave_the_prior(monkeypatch):
    def refused(*args):
        raise NumericalError("not a Gaussian")

    X, y = waves(60, D=1)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=15, num_threads=1)
    small = m.problem.smaller(np.arange(60), 10)
    monkeypatch.setattr(candidates.Evaluator, "gaussians", refused)
    candidates._take_q(m.problem, small)
    assert m._parts.q_is_prior()
