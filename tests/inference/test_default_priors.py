"""Default priors: their densities, their units, and that they go wherever a model goes."""

import dataclasses

import numpy as np
import pytest
from cases import ALL, L, problem
from scipy import stats

import chainedgp as cgp
from chainedgp import kernels, priors
from chainedgp.errors import InputError
from chainedgp.parameters.leaves import named_leaves
from chainedgp.parameters.priors import LogGaussian


def rows(n=60, D=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, D))
    return X, np.sin(2.0 * X[:, 0]) + np.exp(0.5 * X[:, -1] - 1.0) * rng.standard_normal(n)


def model(n=60, likelihood=None, D=2, **keywords):
    X, y = rows(n, D)
    keywords = {"num_inducing": 8, "num_threads": 1, **keywords}
    return cgp.ChainedGP(X, y, likelihood or L.HetGaussian(), **keywords)


# ---- the joint density of logarithms ----

X3 = np.array([0.3, 2.0, 0.9])
JOINT = LogGaussian((0.5, 1.5, 1.0), 0.7, 1.2)


def oracle(x, median=(0.5, 1.5, 1.0), sd=0.7, common=1.2):
    """The density of the logarithms, by scipy."""
    covariance = sd**2 * np.eye(x.size) + common**2
    return stats.multivariate_normal(np.log(median), covariance).logpdf(np.log(x))


def agrees(prior, x=X3):
    """Whether density and gradient are those that the class docstring says."""
    density = float(prior.log_density(x).sum())
    steps = 1e-6 * np.eye(x.size)
    numeric = [(oracle(x + step) - oracle(x - step)) / 2e-6 for step in steps]
    same = np.isclose(density, oracle(x), rtol=1e-12)
    return bool(same and np.allclose(prior.gradient(x), numeric, rtol=1e-6, atol=1e-8))


def test_logarithms_are_jointly_normal():
    assert agrees(JOINT) and agrees(JOINT, np.array([40.0, 1e-3, 7.0]))
    assert JOINT.log_density(X3[:, None]).shape == JOINT.gradient(X3[:, None]).shape == (3, 1)


class NoDeterminant(LogGaussian):
    def log_density(self, x):
        share = np.log1p(x.size * (self.common_sd / self.sd) ** 2) / x.size
        return super().log_density(x) + 0.5 * share


class WithJacobian(LogGaussian):
    def log_density(self, x):
        return super().log_density(x) - np.log(x)


class Independent(LogGaussian):
    def _whitened(self, z):
        return z / (self.sd**2 + self.common_sd**2)


class SlopeInTheLogarithm(LogGaussian):
    def gradient(self, x):
        return super().gradient(x) * x


class OtherSign(LogGaussian):
    def gradient(self, x):
        return -super().gradient(x)


@pytest.mark.parametrize(
    "mutant", [NoDeterminant, WithJacobian, Independent, SlopeInTheLogarithm, OtherSign]
)
def test_a_wrong_density_or_slope_is_found(mutant):
    assert not agrees(mutant(*dataclasses.astuple(JOINT)))


def test_without_a_common_part_it_is_the_lognormal_of_its_logarithm():
    x, prior = np.array([0.2, 3.0]), LogGaussian(1.4, 0.6)
    expected = stats.norm(np.log(1.4), 0.6).logpdf(np.log(x))
    np.testing.assert_allclose(prior.log_density(x), expected, rtol=1e-12)
    # its mode is the median, wherever that is
    assert prior.gradient(np.array([1.4])) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    "arguments", [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0, -1.0), ((1.0, np.nan), 1.0), ("a", 1.0)]
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(InputError, match="must be"):
        LogGaussian(*arguments)


# ---- which parameters have one ----


def with_prior(m):
    return set(m.hyperpriors)


KERNEL = {
    "kernels.mean.rbf.variance",
    "kernels.mean.rbf.lengthscale",
    "kernels.mean.linear.variances",
    "kernels.log_variance.variance",
    "kernels.log_variance.lengthscale",
}


def test_default_kernels_have_priors_and_given_ones_only_if_asked():
    kernel = kernels.RBF(2, ARD=True)
    assert with_prior(model()) == KERNEL == with_prior(model(priors="default"))
    assert with_prior(model(priors=None)) == set()
    assert with_prior(model(kernels=kernel)) == set()
    assert with_prior(model(likelihood=L.HetStudentT(), kernels=kernel)) == set()
    asked, own = model(kernels=kernel, priors="default"), model()
    prior = own.hyperpriors["kernels.mean.rbf.lengthscale"]
    assert asked.hyperpriors["kernels.mean.lengthscale"] == prior
    scale2 = float(asked.problem.starts.scales[0]) ** 2
    assert asked.hyperpriors["kernels.mean.variance"].median == pytest.approx(scale2, rel=1e-12)
    with pytest.raises(InputError, match="priors must be"):
        model(priors="weak")


def test_every_kind_of_kernel_has_priors_in_its_own_units():
    kernel = (
        kernels.Matern32(1, lengthscale=3.0, active_dims=[1]) * kernels.Linear(2, 0.2)
        + kernels.Periodic(1, period=2.0, active_dims=[0])
        + kernels.RBF(2, ARD=True, active_dims=[1, 0], name="other")
        + kernels.Bias(2)
    )
    X, y = rows()
    m = cgp.ChainedGP(
        X * [1.0, 100.0], y, L.Gaussian(), kernel, num_inducing=5, priors="default"
    )  # fmt: skip
    found = {".".join(n.split(".")[-2:]): prior for n, prior in m.hyperpriors.items()}
    sd, scale2 = m.X.std(0), float(m.problem.starts.scales[0]) ** 2
    assert found["matern32.lengthscale"].median == pytest.approx(sd[1:])
    assert found["other.lengthscale"].median == pytest.approx(np.sqrt(2.0) * sd[::-1])
    assert found["periodic.lengthscale"].median == (1.0,)
    # a slope of this variance gives the latent its scale, on average over the rows
    slope = scale2 / np.mean((m.X**2).sum(1))
    assert found["linear.variances"].median == pytest.approx(slope, rel=1e-10)
    assert found["bias.variance"].median == pytest.approx(scale2)
    assert not any("period." in name for name in found)


def test_a_smooth_part_beside_a_linear_one_is_smaller_and_a_season_is_not():
    X, y = rows(D=3)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=5, periodic={0: 2.0})
    found, scales = m.hyperpriors, m.problem.starts.scales
    shares = [
        found[f"kernels.{latent}.rbf.variance"].median / float(scale) ** 2
        for latent, scale in zip(m.latents, scales, strict=True)
    ]
    assert shares == pytest.approx([0.1, 1.0], rel=1e-10)  # The noise has no linear part.
    season = found["kernels.mean.periodic.variance"].median
    assert season == pytest.approx(float(scales[0]) ** 2, rel=1e-10)
    # The slopes together give the latent 0.3 of its scale², on average over the rows.
    slopes = np.asarray(found["kernels.mean.linear.variances"].median)
    assert slopes @ X.var(0) == pytest.approx(0.3 * float(scales[0]) ** 2, rel=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_densities_and_slopes_hold_in_the_free_vector(name):
    """The slope of bound and priors in every free coordinate, against differences."""
    X, _ = rows(12)
    likelihood, y, metadata = problem(name, X)
    m = cgp.ChainedGP(X, y, likelihood, Y_metadata=metadata, num_inducing=3, num_nodes=8)
    assert m.hyperpriors and m.log_prior() != 0.0
    vector = m.problem.free_vector()
    x = vector.read() + 0.1 * np.cos(np.arange(vector.size))
    direction = np.sin(1.0 + np.arange(vector.size))
    ends = []
    for step in (1e-5, -1e-5):
        vector.write(x + step * direction)
        ends.append((-m.objective_function(), m.log_prior()))
    vector.write(x)
    m.objective_function_gradients()
    whole, prior = (np.array(ends[0]) - ends[1]) / 2e-5
    assert vector.gradient() @ direction == pytest.approx(whole, rel=1e-5, abs=1e-5)
    assert abs(prior) > 1e-3  # it had a part in that


def test_nu_has_its_prior_inside_wrappers_too():
    inside = [L.HetStudentT(), L.StudentT(), L.HetStudentT().with_constant("log_scale2"),
              L.Inflated(L.HetStudentT(), (0,)), L.Hurdle(L.HetStudentT())]  # fmt: skip
    for likelihood in inside:
        found = model(likelihood=likelihood).hyperpriors["likelihood.nu"]
        assert found == priors.Gamma(2.0, 0.1), likelihood
    assert "likelihood.nu" not in model(likelihood=L.HetStudentTNu()).hyperpriors


def test_units_of_inputs_and_targets_do_not_matter():
    X, y = rows()
    start = [
        cgp.ChainedGP(a * X + 3.0, b * y, L.HetGaussian(), num_inducing=8).log_prior()
        for a in (1e-3, 1.0, 1e5)
        for b in (1e-4, 1.0, 1e4)
    ]
    np.testing.assert_allclose(start, start[0], rtol=1e-9)


# ---- what they do to a fit ----


def test_few_rows_stay_nearly_isotropic_and_many_tell_their_inputs_apart():
    ratios = []
    for n in (25, 400):
        X, y = rows(n, D=4)
        m = cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=25)
        m.optimize()
        lengthscale = m.kernels[0].lengthscale.values / X.std(0)
        ratios.append(np.exp(np.ptp(np.log(lengthscale))))
    assert ratios[0] < 10.0 and ratios[1] > 3.0 * ratios[0]


def test_the_bound_is_without_priors_and_the_result_tells_them_apart():
    m = model()
    assert m.log_likelihood() == model(priors=None).log_likelihood()
    result = m.optimize()
    assert result.bound == m.log_likelihood() and result.log_prior == m.log_prior() != 0.0
    assert m.objective_function() == pytest.approx(-(result.bound + result.log_prior))
    assert f"bound {result.bound:.6g} and log-prior {result.log_prior:.4g}" in str(result)
    free = model(priors=None)
    plain = free.optimize()
    assert plain.log_prior == 0.0 and "log-prior" not in str(plain)
    assert plain.bound > result.bound  # it had nothing else to raise
    for name, prior in m.hyperpriors.items():
        free.set_prior(named_leaves(free)[name], prior)
    assert -free.objective_function() < result.bound + result.log_prior


def test_a_latent_that_does_not_vary_keeps_its_doubts():
    """Constant noise: the variance of its kernel does not vanish, and neither do its bands."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (80, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(80)
    sd = []
    for choice in ("auto", None):
        m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=15, priors=choice)
        m.optimize()
        sd.append(np.sqrt(m.predict_latents(X)[1][:, 1]).mean())
    assert sd[0] > 0.1 and sd[0] > sd[1]


# ---- where a model goes ----


def test_they_are_shown_in_words():
    table = model(n=40).summary()
    said = dict(zip(table.index, table["prior"], strict=True))
    words = said["kernels.mean.rbf.lengthscale[1]"]
    assert words.startswith("about ") and "within a factor of" in words and "common" in words
    assert "common" not in said["kernels.mean.rbf.variance"]
    assert "Priors" in str(table) and "Priors" not in str(model(n=40, priors=None).summary())


def test_they_are_kept_by_files_copies_and_new_rows(tmp_path):
    m = model(likelihood=L.HetStudentT())
    m.optimize()
    m.save(tmp_path / "m.cgp")
    m.save(tmp_path / "short.cgp", data=False)
    X, y = rows(30, seed=5)
    loaded, short, copied = cgp.load(tmp_path / "m.cgp"), cgp.load(tmp_path / "short.cgp"), m.copy()
    assert loaded.last_result.log_prior == m.last_result.log_prior
    for other in (loaded, short, copied):
        assert other.hyperpriors == m.hyperpriors and other.log_prior() == m.log_prior()
        other.set_data(X, y)
        assert other.hyperpriors == m.hyperpriors
    assert m.problem.copy().log_prior() == m.log_prior()


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_estimators_pass_them_on():
    from sklearn.base import clone

    from chainedgp.sklearn import ChainedGPRegressor

    X, y = rows(40)
    for choice in ("auto", None):
        estimator = clone(ChainedGPRegressor(priors=choice, num_inducing=5, max_iter=5))
        estimator.fit(X, y)
        assert bool(estimator.model_.hyperpriors) == (choice == "auto")


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"method": "lbfgsb"}, {"batch_size": 20, "epochs": 5}])
def test_every_method_feels_them(options):
    """A prior made strong holds its parameter, whichever way the model is fitted."""
    m = model()
    m.set_prior("kernels.mean.*lengthscale", LogGaussian(4.0, 1e-3, 1e-3))
    m.kernels.mean.lengthscale[:] = 4.0
    m.optimize(max_iters=30, rng=0, **options)
    np.testing.assert_allclose(m.kernels.mean.lengthscale.values, 4.0, rtol=0.02)


# ---- levels of latents that play the same role ----


def test_levels_of_rates_that_add_up_have_priors_around_their_start():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(80, 1))
    y = rng.poisson(np.exp(2.0 + np.sin(6.0 * X[:, 0])) + 3.0).astype(float)
    m = cgp.ChainedGP(X, y, L.AdditivePoisson(), num_inducing=8, num_threads=1)
    start = np.array([float(mean.value[0]) for mean in m.mean_functions])
    found = {name: prior for name, prior in m.hyperpriors.items() if name.startswith("mean_func")}
    assert len(found) == 2
    for prior, level in zip(found.values(), start, strict=True):
        assert prior == priors.Normal(level, 1.5 * m._starts.scales[0])
    m.optimize(messages=False)
    # Without a prior the logarithm of the second rate falls without end.
    rates = np.exp([float(mean.value[0]) for mean in m.mean_functions])
    assert (rates > 0.01 * y.mean()).all()


def test_other_levels_have_none():
    assert not any(name.startswith("mean_functions") for name in model().hyperpriors)
