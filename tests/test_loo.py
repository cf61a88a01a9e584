"""Leave-one-out densities against closed forms, refits and arviz; parts of a latent; folds."""

import warnings

import numpy as np
import pytest
from scipy import stats

from chainedgp import ChainedGP, kernels, likelihoods, means
from chainedgp.assessment import _flat
from chainedgp.errors import ChainedGPWarning, InputError
from chainedgp.loo import LOO, compare, fit_pareto, loo, smooth
from chainedgp.validation import cross_validate


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


def test_gaussian_row_is_that_of_the_closed_form():
    m, K, noise, mean = exact_gp()
    P = np.linalg.inv(K + noise * np.eye(len(K)))
    y = m.Y[:, 0] - mean
    exact = stats.norm.logpdf(y, y - (P @ y) / np.diag(P), 1.0 / np.sqrt(np.diag(P)))
    result = m.loo(size=20_000)
    assert np.abs(result.pointwise - exact).max() < 0.02
    assert abs(result.elpd - exact.sum()) < 0.1
    assert result.num_bad == 0 and result.pareto_k.shape == (30,)
    within = m.log_predictive_density(m.X, m.Y)[:, 0]
    assert within.sum() - exact.sum() > 2.0  # the fit's own density would not have passed
    assert result.p_loo == pytest.approx(within.sum() - exact.sum(), abs=0.1)
    assert result.se == pytest.approx(np.sqrt(30) * np.std(result.pointwise))
    assert "elpd" in str(result)


def left_out(m, i):
    """log p(y_i) of a copy of the model whose q comes from the other rows."""
    others = np.arange(len(m.Y)) != i
    one = m.copy()
    one.set_data(m.X[others], m.Y[others])
    one.optimize(only="variational", messages=False)
    return one.log_predictive_density(m.X[i : i + 1], m.Y[i : i + 1])[0, 0]


@pytest.mark.filterwarnings("ignore:The Pareto k")
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_refits_without_each_row_agree(seed):
    X, y = wave(24, seed)
    m = ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=8, num_threads=1)
    m.optimize(max_iters=60, messages=False)
    result, mended = m.loo(), m.loo(refit=True)
    refitted = np.array([left_out(m, i) for i in range(24)])
    bad = result.pareto_k > result.threshold
    assert bad.sum() == result.num_bad and (result.num_bad > 5) == (seed == 0)
    # draws from q are right where their tail says so; the others are found anew
    assert np.abs((result.pointwise - refitted)[~bad]).max() < 0.15
    np.testing.assert_allclose(mended.pointwise[bad], refitted[bad], atol=1e-6)
    np.testing.assert_array_equal(mended.pointwise[~bad], result.pointwise[~bad])
    assert mended.num_bad == 0
    # nats in all, of the several by which the fit flatters its own rows. A q that is not the
    # posterior leaves a bias: the sums need not be within a standard error of their difference
    assert abs(mended.elpd - refitted.sum()) < 0.3
    within = m.log_predictive_density(X, y)[:, 0]
    assert within.sum() - refitted.sum() > 3.0


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_seed_weights_and_metadata():
    X, y = wave(40)
    m = ChainedGP(X, y, likelihoods.HetGaussian(), kernels.RBF(1, 1.0, 4.0), num_inducing=8)
    m.optimize(only="variational", messages=False)
    first, again, other = m.loo(size=500), m.loo(0, 500), m.loo(1, 500)
    np.testing.assert_array_equal(first.pointwise, again.pointwise)
    assert (first.pointwise != other.pointwise).all()
    np.testing.assert_allclose(first.pointwise, other.pointwise, atol=0.5)
    # a weight of 1 changes nothing; one of 0 leaves the row out already
    m.set_data(X, y, {"weights": np.where(np.arange(40) == 7, 0.0, 1.0)})
    m.optimize(only="variational", messages=False)
    weighted = m.loo(size=500)
    left_out = m.log_predictive_density(X, y)[7, 0]
    assert weighted.pointwise[7] == pytest.approx(left_out, abs=0.05)
    assert weighted.contributions[7] == 0.0
    assert weighted.elpd == pytest.approx(np.delete(weighted.pointwise, 7).sum())
    # the exposure of each row enters its density
    counts = np.round(np.exp(1.0 + np.sin(X[:, 0])) * np.linspace(1.0, 9.0, 40))
    p = ChainedGP(
        X, counts, likelihoods.Poisson(), Y_metadata={"exposure": np.linspace(1.0, 9.0, 40)}
    )
    p.optimize(only="variational", messages=False)
    f, _ = p.predict_latents(X)
    plain = stats.poisson.logpmf(counts, np.exp(f[:, 0]) * np.linspace(1.0, 9.0, 40))
    assert np.abs(p.loo(size=500).pointwise - plain).max() < 0.6


def test_bad_tails_are_told():
    X, y = wave(30)
    y[10] = 40.0
    m = ChainedGP(X, y, likelihoods.HetGaussian(), kernels.RBF(1, 1.0, 0.3), Z=X)
    m.optimize(only="variational", messages=False)
    with pytest.warns(ChainedGPWarning, match="Pareto k"):
        result = m.loo()
    assert result.num_bad >= 1 and result.pareto_k[10] > result.threshold
    assert result.threshold == 0.7
    for size in (0, 99, 2.5):
        with pytest.raises(InputError, match="size"):
            m.loo(size=size)


# ---- the generalised Pareto distribution ---------------------------------------------------------


@pytest.mark.parametrize("k", [-0.4, 0.1, 0.5, 0.9])
def test_fit_finds_the_shape(k):
    x = np.sort(stats.genpareto.rvs(k, scale=2.0, size=(20, 4000), random_state=5), axis=1)
    shape, scale = fit_pareto(x)
    np.testing.assert_allclose(shape.mean(), k, atol=0.02)
    np.testing.assert_allclose(scale.mean(), 2.0, rtol=0.03)


def naive_smooth(log_ratios):
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
    k = np.mean([np.log(1 - theta * value) for value in x])
    scale, k = -k / theta, (M * k + 5) / (M + 10)
    for rank, s in enumerate(order[S - M :]):
        w[s] = min(cut + stats.genpareto.ppf((rank + 0.5) / M, k, scale=scale), 1.0)
    return np.log(w / w.sum()), k


def test_smoothing_is_that_of_a_naive_loop(rng):
    ratios = rng.standard_normal((4, 400)) * np.array([0.2, 0.7, 1.5, 3.0])[:, None]
    log_w, k = smooth(ratios.copy())
    for row in range(4):
        naive, naive_k = naive_smooth(ratios[row])
        np.testing.assert_allclose(log_w[row], naive, atol=1e-9)
        assert k[row] == pytest.approx(naive_k, abs=1e-9)
    assert (np.diff(k) > 0.0).all()
    constant, k = smooth(np.full((2, 400), -3.0))
    np.testing.assert_allclose(constant, -np.log(400.0))
    assert (k == -np.inf).all()


def test_smoothing_is_that_of_arviz(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats_module = pytest.importorskip("arviz.stats.stats")
        ratios = rng.standard_normal((10, 2000)) * np.linspace(0.1, 3.0, 10)[:, None]
        theirs, their_k = stats_module.psislw(ratios.copy(), reff=1.0)
    log_w, k = smooth(ratios)
    np.testing.assert_allclose(log_w, theirs, atol=1e-8)
    np.testing.assert_allclose(k, their_k, atol=1e-8)


# ---- comparison ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The Pareto k")
def test_comparison_of_models():
    X, y = wave(90)
    kernel, fitted = kernels.RBF(1, 1.0, 2.0), {}
    for name, likelihood in (("hom", likelihoods.Gaussian()), ("het", likelihoods.HetGaussian())):
        fitted[name] = ChainedGP(X, y, likelihood, kernel, num_inducing=10)
        fitted[name].optimize(max_iters=60, messages=False)
    table = compare(fitted, size=1000)
    assert table.index == ("het", "hom") and table["difference"][0] == 0.0
    one, two = (fitted[name].loo(size=1000) for name in table.index)
    gap = two.pointwise - one.pointwise
    np.testing.assert_allclose(table["difference"][1], gap.sum())
    np.testing.assert_allclose(table["se_difference"][1], np.sqrt(90 * gap.var()))
    np.testing.assert_allclose(table["elpd"], [one.elpd, two.elpd])
    assert "difference" in str(table).splitlines()[0] and str(table).splitlines()[1][:3] == "het"
    same = compare({"a": one, "b": two})
    np.testing.assert_array_equal(same["elpd"], table["elpd"])
    frame = pytest.importorskip("pandas").DataFrame
    assert isinstance(table.frame(), frame) and list(table.frame().index) == ["het", "hom"]
    for wrong in ({}, [one], {"a": one, "b": LOO(np.zeros(3), np.zeros(3), 0.0, 0.7)}):
        with pytest.raises(InputError, match="models"):
            compare(wrong)
    other = ChainedGP(X, -y, likelihoods.Gaussian(), num_inducing=10)
    with pytest.raises(InputError, match="same targets"):
        compare({"a": fitted["hom"], "b": other})
    assert isinstance(loo(other, size=200), LOO)


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


def test_nested_sums_are_counted_through():
    class Inner(kernels.Sum):
        """A sum that the outer one does not take apart."""

    inner = Inner([kernels.RBF(1, name="a"), kernels.Bias(1, name="b")])
    outer = kernels.Sum([inner, kernels.RBF(1, name="c") * kernels.Bias(1)])
    assert [part.name for part in _flat(outer)] == ["a", "b", "product"]


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
