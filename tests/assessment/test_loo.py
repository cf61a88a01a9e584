"""Leave-one-out densities against closed forms, refits and arviz; parts of a latent; folds."""

import numpy as np
import pytest
from scipy import stats
from stacks import Logistic

from chainedgp import ChainedGP, kernels, likelihoods, means, metrics
from chainedgp.assessment.censoring import Censoring
from chainedgp.assessment.cross_validation import cross_validate
from chainedgp.assessment.loo import LOO, LeftOut, compare
from chainedgp.errors import ChainedGPWarning, ConvergenceWarning, InputError
from chainedgp.sampling.pareto import fit_pareto, tail_shape


def wave(n, seed=3):
    """Noisy rows of a sine whose noise grows."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 6.0, n))
    return x[:, None], np.sin(x) + (0.1 + 0.08 * x) * rng.standard_normal(n)


def exact_gp(n=30, kernel=None):
    """A GP with Gaussian noise and Z = X, whose q is the exact posterior, and K, noise, mean."""
    X, y = wave(n)
    kernel = kernels.RBF(1, 1.3, 2.0) if kernel is None else kernel
    m = ChainedGP(
        X, y, likelihoods.Gaussian(), kernel, Z=X, mean_functions=means.Constant(0.2), jitter=1e-10
    )
    m.likelihood.variance = 0.2
    m.optimize(only="variational", messages=False)
    return m, kernel.K(X), 0.2, 0.2


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize("refit", [False, True])
def test_gaussian_row_is_that_of_the_closed_form(refit):
    """With Gaussian noise a site does not depend on other rows: removing it is exact."""
    m, K, noise, mean = exact_gp()
    P = np.linalg.inv(K + noise * np.eye(len(K)))
    y = m.Y[:, 0] - mean
    exact = stats.norm.logpdf(y, y - (P @ y) / np.diag(P), 1.0 / np.sqrt(np.diag(P)))
    result = m.loo(refit=refit)
    np.testing.assert_allclose(result.pointwise, exact, atol=1e-5)
    assert (result.refitted == refit).all()
    assert result.num_bad == 0 and result.pareto_k.shape == (30,)
    within = m.log_predictive_density(m.X, m.Y)[:, 0]
    assert within.sum() - exact.sum() > 2.0  # the fit's own density would not have passed
    assert result.p_loo == pytest.approx(within.sum() - exact.sum(), abs=1e-3)
    assert result.se == pytest.approx(np.sqrt(30) * np.std(result.pointwise))
    assert "elpd" in str(result)


def left_out(m, i):
    """log p(y_i) of a copy of the model whose q comes from the other rows."""
    others, row = np.arange(len(m.Y)) != i, slice(i, i + 1)
    one, metadata = m.copy(), m.Y_metadata
    one.set_data(m.X[others], m.Y[others], {k: v[others] for k, v in metadata.items()})
    one.optimize(only="variational", messages=False)
    left = {k: v[row] for k, v in metadata.items()}
    return one.log_predictive_density(m.X[row], m.Y[row], left)[0, 0]


def problem(name, seed, n=24):
    """A likelihood, inputs, targets and metadata of a small set."""
    X, y = wave(n, seed)
    x, rng = X[:, 0], np.random.default_rng(seed)
    if name == "HetStudentT":
        y = np.sin(x) + (0.1 + 0.08 * x) * rng.standard_t(3.0, n)
    if name == "Poisson":
        y = rng.poisson(np.exp(1.0 + np.sin(x))).astype(float)
    if name == "Beta":
        y = rng.beta(np.exp(1.0 + np.sin(x)), np.exp(1.0 + np.cos(x)))
    metadata = None
    if name == "LogLogisticSurvival":
        time = np.exp(np.sin(x) + rng.logistic(size=n) / (1.5 + 0.3 * x))
        end = rng.uniform(0.3, 6.0, n)
        y, metadata = np.minimum(time, end), {"censored": (time > end).astype(float)}
    return getattr(likelihoods, name)(), X, y, metadata


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize(
    ("name", "seed", "posterior"),
    [
        ("HetGaussian", 0, "mean_field"),
        pytest.param("HetGaussian", 3, "mean_field", marks=pytest.mark.long),
        pytest.param("HetStudentT", 1, "mean_field", marks=pytest.mark.long),
        pytest.param("LogLogisticSurvival", 0, "mean_field", marks=pytest.mark.long),
        ("Poisson", 0, "mean_field"),
        ("HetGaussian", 0, "joint"),
        pytest.param("Beta", 0, "joint", marks=pytest.mark.long),
        pytest.param("LogLogisticSurvival", 0, "joint", marks=pytest.mark.slow),
    ],
)
def test_refits_without_each_row_agree(name, seed, posterior):
    likelihood, X, y, metadata = problem(name, seed)
    options = {"num_inducing": 8, "num_threads": 1, "posterior": posterior}
    options["hyperparameters"] = "fixed"  # Leave-one-out is at the fitted hyperparameters.
    m = ChainedGP(X, y, likelihood, Y_metadata=metadata, **options)
    m.optimize(messages=False)
    result, quick = m.loo(), m.loo(refit=False)
    refitted = np.array([left_out(m, i) for i in range(24)])
    gap = result.pointwise - refitted
    error = np.sqrt(24 * gap.var())  # of the difference; below 1e-3 it is only the tolerance's
    assert abs(gap.sum()) < max(error, 1e-3)
    assert np.abs(gap).max() < 1e-3 and result.num_bad == 0
    # sites alone: most of what the fit flatters its own rows by is gone, with some bias left
    within = m.log_predictive_density(X, y, m.Y_metadata)[:, 0].sum()
    assert abs(quick.elpd - refitted.sum()) < 0.4 * (within - refitted.sum())
    assert within - refitted.sum() > 2.0 and not quick.refitted.any()
    some = m.loo(refit=5)
    assert some.refitted.sum() == 5
    assert some.pareto_k[some.refitted].min() >= some.pareto_k[~some.refitted].max()
    np.testing.assert_allclose(
        some.pointwise, np.where(some.refitted, result.pointwise, quick.pointwise), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_seed_weights_and_metadata():
    X, y = wave(40)
    m = ChainedGP(X, y, likelihoods.HetGaussian(), kernels.RBF(1, 1.0, 4.0), num_inducing=8)
    m.optimize(only="variational", messages=False)
    first, again, other = m.loo(3), m.loo(3, 0), m.loo(3, 1)
    np.testing.assert_array_equal(first.pareto_k, again.pareto_k)
    assert (first.pareto_k != other.pareto_k).all()
    np.testing.assert_allclose(first.pareto_k, other.pareto_k, atol=0.4)
    # a weight of 1 changes nothing; one of 0 leaves the row out already; one of 2 is two rows
    weights = np.ones(40)
    weights[7], weights[9] = 0.0, 2.0
    m.set_data(X, y, {"weights": weights})
    m.optimize(only="variational", messages=False)
    for refit in (0, 40):
        weighted = m.loo(refit)
        within = m.log_predictive_density(X, y)[:, 0]
        assert weighted.pointwise[7] == pytest.approx(within[7], abs=1e-4)
        assert weighted.pareto_k[7] == -np.inf and weighted.contributions[7] == 0.0
        assert weighted.elpd == pytest.approx(weights @ weighted.pointwise)
    assert weighted.pointwise[9] == pytest.approx(left_out(m, 9), abs=1e-3)
    # the exposure of each row enters its density
    counts = np.round(np.exp(1.0 + np.sin(X[:, 0])) * np.linspace(1.0, 9.0, 40))
    exposure = {"exposure": np.linspace(1.0, 9.0, 40)}
    p = ChainedGP(X, counts, likelihoods.Poisson(), Y_metadata=exposure)
    p.optimize(only="variational", messages=False)
    assert p.loo(0).pointwise[20] == pytest.approx(left_out(p, 20), abs=0.05)


def test_sites_that_cannot_be_removed_are_refitted(monkeypatch):
    # as if q without the site were none
    monkeypatch.setattr("chainedgp.posterior.mean_field.CAVITY_FLOOR", 0.8)
    m, *_ = exact_gp()
    result = m.loo(refit=False)
    assert 0 < result.refitted.sum() < 30
    monkeypatch.undo()
    np.testing.assert_allclose(result.pointwise, m.loo(refit=False).pointwise, atol=1e-5)


def test_bad_tails_are_told():
    X, y = wave(30)
    y[10] = 40.0
    m = ChainedGP(X, y, likelihoods.HetGaussian(), kernels.RBF(1, 1.0, 0.3), Z=X)
    m.optimize(only="variational", messages=False)
    with pytest.warns(ChainedGPWarning, match="Pareto k"):
        result = m.loo(refit=False)
    assert result.num_bad >= 1 and result.pareto_k[10] > result.threshold
    assert result.threshold == 0.7
    m.loo(refit=result.num_bad)  # no warning: these rows were refitted
    for size in (0, 99, 2.5):
        with pytest.raises(InputError, match="size"):
            m.loo(size=size)
    for refit in (-1, 2.5, "all"):
        with pytest.raises(InputError, match="refit"):
            m.loo(refit)


# ---- the generalised Pareto distribution ---------------------------------------------------------


@pytest.mark.parametrize("k", [-0.4, 0.1, 0.5, 0.9])
def test_fit_finds_the_shape(k):
    x = np.sort(stats.genpareto.rvs(k, scale=2.0, size=(20, 4000), random_state=5), axis=1)
    shape, scale = fit_pareto(x)
    np.testing.assert_allclose(shape.mean(), k, atol=0.02)
    np.testing.assert_allclose(scale.mean(), 2.0, rtol=0.03)


def naive_k(log_ratios):
    """One row, by the papers' text: loops, no vectors over the grid."""
    S = len(log_ratios)
    w = np.exp(log_ratios - max(log_ratios))
    M = int(np.ceil(min(0.2 * S, 3 * S**0.5)))
    order = sorted(range(S), key=lambda s: w[s])
    cut = w[order[S - M - 1]]
    x = [w[s] - cut for s in order[S - M :]]
    m, star = 30 + int(M**0.5), x[int(M / 4 + 0.5) - 1]
    thetas = [1 / x[-1] + (1 - (m / (j - 0.5)) ** 0.5) / (3 * star) for j in range(1, m + 1)]

    def profile(theta):
        k = np.mean([np.log(1 - theta * value) for value in x])
        return M * (np.log(-theta / k) - k - 1)

    values = [profile(theta) for theta in thetas]
    weights = [1 / sum(np.exp(other - one) for other in values) for one in values]
    theta = sum(a * b for a, b in zip(thetas, weights, strict=True))
    return (M * np.mean([np.log(1 - theta * value) for value in x]) + 5) / (M + 10)


def test_shape_of_the_tail_is_that_of_a_naive_loop(rng):
    ratios = rng.standard_normal((4, 400)) * np.array([0.2, 0.7, 1.5, 3.0])[:, None]
    k = tail_shape(ratios)
    np.testing.assert_allclose(k, [naive_k(row) for row in ratios], atol=1e-9)
    assert (np.diff(k) > 0.0).all()
    assert (tail_shape(np.full((2, 400), -3.0)) == -np.inf).all()


# of np.random.default_rng(11).standard_normal((5, 2000)) * [[0.1], [0.5], [1.0], [2.0], [3.0]]
ARVIZ_K = (
    -0.04943811003320172,
    0.17989491410422878,
    0.24634248323112928,
    0.5542720073654795,
    1.085993208858475,
)


def test_shape_of_the_tail_is_that_of_arviz():
    """k of `arviz.psislw(ratios, reff=1.0)`, computed with arviz 0.23.4."""
    ratios = np.random.default_rng(11).standard_normal((5, 2000))
    ratios *= np.array([[0.1], [0.5], [1.0], [2.0], [3.0]])
    np.testing.assert_allclose(tail_shape(ratios), ARVIZ_K, atol=1e-8)


# ---- comparison ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_comparison_of_models():
    X, y = wave(90)
    kernel, fitted = kernels.RBF(1, 1.0, 2.0), {}
    for name, likelihood in (("hom", likelihoods.Gaussian()), ("het", likelihoods.HetGaussian())):
        fitted[name] = ChainedGP(X, y, likelihood, kernel, num_inducing=10)
        fitted[name].optimize(max_iters=60, messages=False)
    table = compare(fitted, refit=10)
    assert table.index == ("het", "hom") and table["difference"][0] == 0.0
    one, two = (fitted[name].loo(refit=10) for name in table.index)
    gap = two.pointwise - one.pointwise
    np.testing.assert_allclose(table["difference"][1], gap.sum())
    np.testing.assert_allclose(table["se_difference"][1], np.sqrt(90 * gap.var()))
    np.testing.assert_allclose(table["elpd"], [one.elpd, two.elpd])
    assert "difference" in str(table).splitlines()[0] and str(table).splitlines()[1][:3] == "het"
    same = compare({"a": one, "b": two})
    np.testing.assert_array_equal(same["elpd"], table["elpd"])
    frame = pytest.importorskip("pandas").DataFrame
    assert isinstance(table.frame(), frame) and list(table.frame().index) == ["het", "hom"]
    for wrong in (
        {},
        [one],
        {"a": one, "b": LOO(np.zeros(3), np.zeros(3), np.zeros(3, bool), 0.0, 0.7)},
    ):
        with pytest.raises(InputError, match="models"):
            compare(wrong)
    other = ChainedGP(X, -y, likelihoods.Gaussian(), num_inducing=10)
    with pytest.raises(InputError, match="same targets"):
        compare({"a": fitted["hom"], "b": other})


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_models_of_other_rows_are_not_compared():
    X, y = wave(30)
    times, ones, half = np.exp(y), np.ones(30), np.arange(30) % 2.0
    end = {"censored": 2.0 * half, "y_upper": np.where(half, times + 1.0, 5.0)}

    def model(rows=slice(None), likelihood=None, **metadata):
        likelihood = likelihood or likelihoods.LogLogisticSurvival()
        m = ChainedGP(X[rows], times[rows], likelihood, num_inducing=6, Y_metadata=metadata)
        m.optimize(only="variational", messages=False)
        return m

    plain = model()
    for wrong, words in (
        (model(censored=half), "same censored.*differ in 15 of 30"),
        (model(entry=0.5 * times), "same entry.*differ in 30 of 30"),
        (model(weights=1.0 + half), "same weights.*differ in 15 of 30"),
        (model(slice(None, None, -1)), "same targets"),
        (model(slice(20)), "'a' has 30 and 'b' 20"),
    ):
        for a in (plain, plain.loo(0)):
            for b in (wrong, wrong.loo(0)):
                with pytest.raises(InputError, match=words):
                    compare({"a": a, "b": b}, refit=0)
    one, two = model(**end), model(**{**end, "y_upper": end["y_upper"] + half})
    with pytest.raises(InputError, match=r"same y_upper.*differ in 15 of 30"):
        compare({"a": one, "b": two})
    # the same rows: what is said of them in other words, and what only one model asks for
    same = {"censored": 0 * half, "entry": 0 * half, "weights": ones}
    table = compare({"a": model(), "b": model(**same)}, refit=0)
    assert table["difference"][1] == pytest.approx(0.0, abs=1e-9)
    other = model(**{**end, "y_upper": np.where(half, times + 1.0, 9.0)})
    compare({"a": one, "b": other}, refit=0)


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_effective_parameters_count_a_row_by_its_weight():
    """Every row three times is every row with weight 3: Σ w (log p(y | y) − log p(y | y_−i))."""
    X, y = wave(40)
    kernel = kernels.RBF(1, 1.0, 2.0)
    given = {"Y_metadata": {"weights": np.full(40, 3.0)}}
    m = ChainedGP(X, y, likelihoods.Gaussian(variance=0.2), kernel, num_inducing=8, **given)
    m.optimize(only="variational", messages=False)
    found = m.loo(0)
    within = m.log_predictive_density(X, y)[:, 0]
    assert found.p_loo == pytest.approx(3.0 * (within - found.pointwise).sum(), rel=1e-9)
    # w log p behaves as noise of a third of the variance, whose effective parameters are known
    thrice = ChainedGP(
        np.repeat(X, 3, axis=0), np.repeat(y, 3), likelihoods.Gaussian(variance=0.2), kernel, Z=m.Z
    )
    thrice.optimize(only="variational", messages=False)
    assert thrice.log_likelihood() == pytest.approx(m.log_likelihood(), abs=1e-6)
    whole = thrice.log_predictive_density(np.repeat(X, 3, axis=0), np.repeat(y, 3)).sum()
    assert found.elpd + found.p_loo == pytest.approx(whole, abs=1e-5)


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_a_model_that_was_not_fitted_says_so():
    X, y = wave(40)
    m = ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=8)
    with pytest.warns(ConvergenceWarning, match=r"not fitted.*optimize\(\)"):
        assert isinstance(m.loo(0), LOO)
    m.optimize(messages=False)
    m.loo(0)  # no warning, which would be an error here
    m.kernels[0].variance[:] = 1e3 * float(m.kernels[0].variance[0])
    m.kernels[0].lengthscale[:] = 1e-2 * float(m.kernels[0].lengthscale[0])
    with pytest.warns(ConvergenceWarning, match=r"nats from the best"):
        m.loo(0)


# ---- parts of a latent ---------------------------------------------------------------------------


def three_parts():
    return kernels.RBF(1, 0.8, 0.7, name="short") + (
        kernels.RBF(1, 0.5, 4.0, name="long") + kernels.Linear(1, 0.1, name="trend")
    )


def test_parts_are_those_of_the_exact_posterior():
    kernel = three_parts()
    m, K, noise, mean = exact_gp(25, kernel)
    Xnew = np.linspace(-1.0, 8.0, 17)[:, None]
    solve = np.linalg.inv(K + noise * np.eye(25))
    total = np.zeros((17, 1))
    for index, part in enumerate(kernel.parts):
        cross = part.K(Xnew, m.X)
        exact_mean = cross @ solve @ (m.Y[:, 0] - mean)
        exact_variance = np.diag(part.K(Xnew) - cross @ solve @ cross.T)
        got_mean, got_variance = m.predict_component(Xnew, 0, index)
        assert got_mean.shape == got_variance.shape == (17, 1)
        np.testing.assert_allclose(got_mean[:, 0], exact_mean, atol=2e-5)
        np.testing.assert_allclose(got_variance[:, 0], exact_variance, atol=2e-5)
        by_name = m.predict_component(Xnew, m.latents[0], part.name)
        np.testing.assert_array_equal(by_name[0], got_mean)
        total += got_mean
    np.testing.assert_allclose(total + mean, m.predict_latents(Xnew)[0], atol=1e-10)


def test_parts_add_up_for_each_latent_and_need_a_sum():
    X, y = wave(40)
    m = ChainedGP(X, y, likelihoods.HetGaussian(), [three_parts(), kernels.RBF(1)], num_inducing=9)
    m.optimize(only="variational", messages=False)
    Xnew = np.linspace(0.0, 6.0, 5000)[:, None]  # more than one block
    f, v = m.predict_latents(Xnew)
    constants = [part.evaluate(Xnew)[0] for part in m.mean_functions]
    total = sum(m.predict_component(Xnew, "mean", part)[0] for part in ("short", "long", "trend"))
    np.testing.assert_allclose(total[:, 0] + constants[0], f[:, 0], atol=1e-9)
    whole, variance = m.predict_component(Xnew, "log_variance", 0)
    np.testing.assert_allclose(whole[:, 0] + constants[1], f[:, 1], atol=1e-9)
    np.testing.assert_allclose(variance[:, 0], v[:, 1], rtol=1e-9)
    for latent, part, words in (
        ("mean", 3, "short, long, trend"),
        ("mean", "medium", "short, long, trend"),
        ("mean", True, "part must"),
        ("log_variance", 1, "not a sum"),
        ("scale", 0, "latent must"),
    ):
        with pytest.raises(InputError, match=words):
            m.predict_component(Xnew, latent, part)


def test_bands_and_natural_scale():
    X, _ = wave(40)
    y = np.random.default_rng(2).poisson(2.0 + X[:, 0]).astype(float)
    kernel = kernels.RBF(1, 0.4, 1.0, name="short") + kernels.RBF(1, 0.5, 4.0, name="long")
    m = ChainedGP(X, y, likelihoods.AdditivePoisson(), [kernel, kernels.RBF(1)], num_inducing=9)
    m.optimize(only="variational", messages=False)
    z, Xnew = stats.norm.ppf(0.95), X[::7]
    mean, variance = m.predict_component(Xnew, 0, "short")
    middle, lower, upper = m.predict_component(Xnew, 0, "short", bands=(5, 95))
    np.testing.assert_allclose(middle, mean)
    np.testing.assert_allclose(lower, mean - z * np.sqrt(variance))
    np.testing.assert_allclose(upper, mean + z * np.sqrt(variance))
    factor = m.predict_component(Xnew, 0, "short", bands=(95, 5), natural=True)
    np.testing.assert_allclose(np.hstack(factor), np.exp(np.hstack([middle, lower, upper])))
    # whole latents are the likelihood's own rates, as the predictive has them
    rates = m.predictive(Xnew).parameters((50.0, 2.5, 97.5))
    for j, key in enumerate(("rate_1", "rate_2")):
        found = m.predict_component(Xnew, j, natural=True)
        np.testing.assert_allclose(np.hstack(found), rates[key], rtol=1e-9)
    f, v = m.predict_latents(Xnew)
    np.testing.assert_array_equal(np.hstack(m.predict_component(Xnew, 1)), np.c_[f[:, 1], v[:, 1]])
    with pytest.raises(InputError, match="bands"):
        m.predict_component(Xnew, 0, bands=(5, 50, 95))
    p = ChainedGP(X, np.arange(40.0) % 3, likelihoods.Softmax(3), num_inducing=5)
    with pytest.raises(InputError, match="alone"):
        p.predict_component(Xnew, 0, natural=True)


def test_a_falling_scale_keeps_the_order_of_its_bands():
    class Rate(likelihoods.Likelihood):
        latents = ("log_mean",)
        support = "positive"

        def log_density(self, y, f):
            return -f - y * np.exp(-f)

        def natural_parameters(self, f):
            return {"rate": np.exp(-f)}

    X, y = wave(20)
    m = ChainedGP(X, np.exp(y), Rate(), num_inducing=5)
    middle, lower, upper = m.predict_component(X, 0, natural=True)
    assert (lower < middle).all() and (middle < upper).all()


def test_nested_sums_are_counted_through():
    class Inner(kernels.Sum):
        """A sum that the outer one does not take apart."""

    inner = Inner([kernels.RBF(1, name="a"), kernels.Bias(1, name="b")])
    outer = kernels.Sum([inner, kernels.RBF(1, name="c") * kernels.Bias(1)])
    assert [part.name for part in outer.additive_parts] == ["a", "b", "product"]


# ---- folds ---------------------------------------------------------------------------------------


def make(X, Y):
    return ChainedGP(X, Y, likelihoods.HetGaussian(), num_inducing=6)


def test_folds_are_those_of_a_naive_loop():
    X, y = wave(50)
    fit = lambda m: m.optimize(only="variational", messages=False)  # noqa: E731
    table = cross_validate(make, X, y, 3, fit=fit, level=0.8, rng=4)
    rows = np.random.default_rng(4).permutation(50)
    tests = [rows[:17], rows[17:34], rows[34:]]
    for k, test in enumerate(tests):
        train = np.array([i for i in range(50) if i not in set(test)])
        m = make(X[train], y[train])
        fit(m)
        mean, _ = m.predict(X[test])
        low, middle, high = m.predict_quantiles(X[test], (10, 50, 90))
        log_p = m.log_predictive_density(X[test], y[test])[:, 0]
        assert table["rows"][k] == len(test) and table["seconds"][k] > 0.0
        assert table["nlpd"][k] == pytest.approx(-log_p.mean(), abs=1e-6)
        assert table["mae"][k] == pytest.approx(np.abs(middle[:, 0] - y[test]).mean(), abs=1e-6)
        assert table["rmse"][k] == pytest.approx(((mean[:, 0] - y[test]) ** 2).mean() ** 0.5)
        assert table["width"][k] == pytest.approx((high - low).mean())
        inside = [low[i, 0] <= value <= high[i, 0] for i, value in enumerate(y[test])]
        assert table["coverage"][k] == pytest.approx(np.mean(inside))
        np.testing.assert_allclose(table.log_density[test], log_p, atol=1e-6)
    lines = str(table).splitlines()
    assert len(lines) == 5 and lines[1].startswith("fold 1") and lines[-1].startswith("mean")
    assert len(table) == 3 and table.frame().shape == (3, 7)


def test_metadata_are_sliced_and_folds_can_be_given(capsys):
    X, _ = wave(30)
    exposure = np.linspace(1.0, 9.0, 30)
    counts = np.round(np.exp(1.0 + np.sin(X[:, 0])) * exposure)
    seen = []

    def counting(X, Y, Y_metadata):
        seen.append((X[:, 0], Y_metadata["exposure"]))
        return ChainedGP(X, Y, likelihoods.Poisson(), Y_metadata=Y_metadata, num_inducing=6)

    folds = [(np.arange(20), np.arange(20, 30)), (np.arange(10, 30), np.arange(5))]
    table = cross_validate(
        counting, X, counts, folds, Y_metadata={"exposure": exposure}, num_threads=1, messages=True
    )
    assert "folds" in capsys.readouterr().err
    for (train, _), (x, values) in zip(folds, seen, strict=True):
        np.testing.assert_array_equal(x, X[train, 0])
        np.testing.assert_array_equal(values, exposure[train])
    first = counting(X[:20], counts[:20], {"exposure": exposure[:20]})
    first.optimize(messages=False)
    held = first.log_predictive_density(X[20:], counts[20:], {"exposure": exposure[20:]})
    np.testing.assert_allclose(table.log_density[20:], held[:, 0], atol=1e-6)
    assert np.isnan(table.log_density[5:20]).all()
    assert np.isfinite(np.delete(table.log_density, np.s_[5:20])).all()
    assert table.footer["mean"][1] == pytest.approx(table["nlpd"].mean())


@pytest.mark.parametrize(
    "folds",
    [1, 0, 31, True, [], [(np.arange(9), np.arange(5, 12))], [(np.arange(9), np.arange(28, 31))]],
)
def test_folds_that_cannot_be_used(folds):
    X, y = wave(30)
    with pytest.raises(InputError, match="folds"):
        cross_validate(make, X, y, folds)


def test_errors_of_a_fold_reach_the_caller():
    X, y = wave(30)

    def fail(model):
        raise RuntimeError("no fit")

    with pytest.raises(RuntimeError, match="no fit"):
        cross_validate(make, X, y, 3, fit=fail)
    with pytest.raises(InputError, match="level"):
        cross_validate(make, X, y, 3, level=95)


def censored_rows(n=60, seed=6):
    """Inputs, times and codes of right-censored rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, 1))
    times, ends = np.exp(X[:, 0]) * rng.exponential(size=n), rng.exponential(6.0, n)
    return X, np.minimum(times, ends), 1.0 * (ends < times)


def times_model(X, Y, Y_metadata):
    Z = np.linspace(0.0, 3.0, 5)[:, None]
    parts = {"kernels": kernels.RBF(1, 1.0, 1.0), "mean_functions": means.Constant(1.0), "Z": Z}
    return ChainedGP(X, Y, likelihoods.LogLogistic(), Y_metadata=Y_metadata, **parts)


def find_q(model):
    model.likelihood.log_shape[:] = 0.3
    model.optimize(only="variational", messages=False)


def test_folds_do_not_take_censoring_times_for_events():
    X, y, censored = censored_rows()
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    options = {"fit": find_q, "num_threads": 1}
    table = cross_validate(times_model, X, y, folds, Y_metadata={"censored": censored}, **options)
    tau = Censoring(y, censored).horizon
    for k, (train, test) in enumerate(folds):
        m = times_model(X[train], y[train], {"censored": censored[train]})
        find_q(m)
        p = m.predictive(X[test], {"censored": censored[test]})
        rows = (y, censored)  # all rows tell the censoring
        assert table["mae"][k] == pytest.approx(metrics.mae(p, y[test], rows, tau))
        assert table["rmse"][k] == pytest.approx(metrics.rmse(p, y[test], rows, tau))
        assert table["coverage"][k] == pytest.approx(metrics.interval_coverage(p, y[test]))
    # what no score of a point can say is not said
    left = {"censored": -censored}
    table = cross_validate(times_model, X, y, folds, Y_metadata=left, **options)
    assert np.isnan(table["mae"]).all() and np.isnan(table["rmse"]).all()
    assert np.isfinite(table["nlpd"]).all() and (table["coverage"] > 0.5).all()


def test_a_row_of_weight_two_is_two_rows_in_folds():
    X, y, censored = censored_rows()
    weights = 1.0 + np.arange(60) % 3
    many = np.repeat(np.arange(60), weights.astype(int))
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    repeated = [tuple(np.flatnonzero(np.isin(many, part)) for part in fold) for fold in folds]
    options = {"fit": find_q, "num_threads": 1}
    given = {"censored": censored, "weights": weights}
    one = cross_validate(times_model, X, y, folds, Y_metadata=given, **options)
    given = {"censored": censored[many]}
    two = cross_validate(times_model, X[many], y[many], repeated, Y_metadata=given, **options)
    plain = cross_validate(times_model, X, y, folds, Y_metadata={"censored": censored}, **options)
    for column in ("nlpd", "mae", "rmse", "coverage", "width"):
        np.testing.assert_allclose(one[column], two[column], rtol=1e-6)
        assert (np.abs(one[column] - plain[column]) > 1e-4).all()


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize(("name", "atol"), [("HetStudentT", 1e-5), ("density alone", 1e-4)])
def test_few_passes_find_what_a_search_finds(monkeypatch, name, atol):
    """Accelerated steps without a safeguard end at the q of the search that has one."""

    _, X, y, _ = problem("HetStudentT", 1, 60)
    likelihood = Logistic() if name == "density alone" else likelihoods.HetStudentT()
    m = ChainedGP(X, y, likelihood, num_inducing=8, num_threads=1)
    m.optimize(messages=False)
    quick, few = m.loo(refit=12), []
    given = LeftOut._by_few_passes
    monkeypatch.setattr(LeftOut, "_by_few_passes", lambda left: few.append(given(left)))
    search = m.loo(refit=12)
    assert sum(q is not None for q in few) >= 8  # they did not all have to be searched for
    np.testing.assert_allclose(quick.pointwise, search.pointwise, rtol=atol, atol=atol)


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_few_passes_serve_classes_without_noise(monkeypatch):
    """Full steps overshoot there: the second is larger than the first, later ones shrink."""
    x = np.linspace(0.0, 6.0, 30)
    m = ChainedGP(x, np.floor(x / 2.001), likelihoods.Softmax(3), num_inducing=10, num_threads=1)
    for kernel in m.kernels:
        kernel.variance = 30.0
    m.optimize(only="variational", messages=False)
    few, given = [], LeftOut._by_few_passes

    def passes(left):
        few.append(given(left))
        few.append(left.first_step)
        return few[-2]

    monkeypatch.setattr(LeftOut, "_by_few_passes", passes)
    quick = m.loo(refit=6)
    assert sum(q is None for q in few[::2]) <= 1 and few[-1] < 1.0
    monkeypatch.setattr(LeftOut, "_by_few_passes", lambda left: None)
    np.testing.assert_allclose(quick.pointwise, m.loo(refit=6).pointwise, atol=1e-4)
