"""The density of hyperparameters and inducing values, and averages over points of it."""

import builtins

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp.errors import InputError
from chainedgp.parameters.leaves import named_leaves
from chainedgp.sampling.averaged import Averaged, Point
from chainedgp.sampling.density import LogJoint, point
from chainedgp.sampling.hyper import HyperJoint, scales_near

K, L, P = cgp.kernels, cgp.likelihoods, cgp.priors


def rows(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 4.0, n))[:, None]
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def fitted(likelihood, y=None, **options):
    X, target = rows()
    y = target if y is None else y(target)
    m = cgp.ChainedGP(X, y, likelihood, num_inducing=5, num_threads=1, **options)
    m.optimize(only="variational", messages=False)
    return m


CASES = {
    "Student-t": lambda: fitted(L.HetStudentT()),
    "joint": lambda: fitted(L.HetStudentT(), posterior="joint"),
    "Beta": lambda: fitted(L.Beta(), lambda y: 1.0 / (1.0 + np.exp(-y)), posterior="joint"),
    "counts": lambda: fitted(L.NegativeBinomial(), lambda y: np.round(np.exp(y))),
    "linear mean": lambda: fitted(
        L.HetGaussian(), mean_functions=[cgp.means.Linear(1), cgp.means.Constant(0.0)]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_hyperparameters_and_inducing_values(case):
    m = CASES[case]()
    joint, rng = HyperJoint(m.problem), np.random.default_rng(1)
    x = joint.x + 0.1 * rng.standard_normal(joint.x.size)
    z = 0.5 * rng.standard_normal(sum(joint.sizes))
    _, dx, dz = joint(x, z)
    h = 1e-5
    for _ in range(3):
        a, b = rng.standard_normal(x.size), rng.standard_normal(z.size)
        slope = (joint(x + h * a, z)[0] - joint(x - h * a, z)[0]) / (2 * h)
        assert dx @ a == pytest.approx(slope, rel=2e-5, abs=2e-5)
        slope = (joint(x, z + h * b)[0] - joint(x, z - h * b)[0]) / (2 * h)
        assert dz @ b == pytest.approx(slope, rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_density_of_v_times_priors_and_volumes(case):
    """log |∂v/∂z| from the columns of v(z), priors and log |∂θ/∂x| written out by leaf."""
    m = CASES[case]()
    m.set_prior("kernels.*variance", P.Gamma(2.0, 1.0))
    joint, rng = HyperJoint(m.problem), np.random.default_rng(2)

    def rest(shift):
        """log p̂(x, z) less log p̂(v) at θ(x), which must be priors and volumes."""
        x, z = joint.x + shift, 0.3 * rng.standard_normal(sum(joint.sizes))
        v = joint.v(x, z)
        columns = [joint.v(x, z + e) - v for e in np.eye(len(z))]  # v is linear in z
        volume = np.linalg.slogdet(np.array(columns))[1]
        other = m.copy()
        for name, value in joint.values(x).items():
            named_leaves(other)[name][:] = value
        total = joint(x, z)[0] - LogJoint(other.problem)(v[:, None])[0][0] - volume
        for name, leaf in named_leaves(other).items():
            prior = other.hyperpriors.get(name)
            if prior is not None:
                total -= prior.log_density(leaf.values).sum()
                if isinstance(prior, P.Gamma) and name != "likelihood.nu":
                    total -= np.log(leaf.values).sum()
        return total

    shift = 0.2 * rng.standard_normal(joint.x.size)
    skip = "likelihood.nu" in m.hyperpriors  # its domain starts at 1: a volume of another kind
    if skip:
        names = [name for name, leaf in joint.leaves.items() for _ in range(leaf.size)]
        shift[[name == "likelihood.nu" for name in names]] = 0.0
    assert rest(shift) == pytest.approx(rest(0.0 * shift), abs=2e-6)


def gaussian_model():
    X, y = rows(10)
    m = cgp.ChainedGP(
        X, y, L.Gaussian(variance=0.2), kernels=K.RBF(1, 1.0, 1.0), Z=X,
        mean_functions=cgp.means.Constant(0.3), num_threads=1,
    )  # fmt: skip
    m.likelihood.fix()
    m.mean_functions.fix()
    m.set_prior("kernels.*variance", P.LogNormal(0.0, 1.0))
    m.set_prior("kernels.*lengthscale", P.Gamma(3.0, 2.0))
    m.Z.fix()
    m.optimize(only="variational", messages=False)
    return m


def exact(m, variance, lengthscale, wrong=0.0):
    """log p(y | θ) p(θ) |∂θ/∂ log θ| of the exact process."""
    r = (m.X - m.X.T) / lengthscale
    C = variance * np.exp(-0.5 * r * r) + 0.2 * np.eye(10)
    value = stats.multivariate_normal(np.full(10, 0.3), C).logpdf(m.Y[:, 0])
    value += stats.lognorm(1.0).logpdf(variance) + np.log(variance)
    return (
        value + stats.gamma(3.0, scale=0.5).logpdf(lengthscale) + (1 - wrong) * np.log(lengthscale)
    )


def test_gaussian_noise_has_it_in_closed_form():
    """Sites are exact: p̂(x, z) = p(y | θ) p(θ) |∂θ/∂x| N(z; 0, I) for all x and z."""
    m = gaussian_model()
    joint, rng = HyperJoint(m.problem), np.random.default_rng(3)
    assert set(joint.leaves) == {name for name in joint.leaves if "kernels" in name}
    found, want, mutant = [], [], []
    for _ in range(6):
        x, z = joint.x + rng.standard_normal(2), rng.standard_normal(10)
        variance, lengthscale = (float(v[0]) for v in joint.values(x).values())
        found.append(joint(x, z)[0])
        want.append(exact(m, variance, lengthscale) - 0.5 * z @ z)
        mutant.append(exact(m, variance, lengthscale, wrong=1.0) - 0.5 * z @ z)
    found, want, mutant = (np.array(part) - part[0] for part in (found, want, mutant))
    np.testing.assert_allclose(found, want, atol=2e-4)
    assert np.abs(found - mutant).max() > 0.1  # without a Jacobian it would be seen


def test_scales_are_those_of_the_curvature():
    m = gaussian_model()
    joint = HyperJoint(m.problem)
    C = scales_near(joint)
    H = np.empty((2, 2))
    h = 1e-2
    for i, a in enumerate(np.eye(2)):
        for j, b in enumerate(np.eye(2)):
            ends = [
                s * t * exact(m, *np.exp(np.log([1.0, 1.0]) + h * (s * a + t * b)))
                for s in (1, -1)
                for t in (1, -1)
            ]
            H[i, j] = sum(ends) / (4 * h * h)
    values = np.maximum(np.linalg.eigvalsh(-H), 1.0)
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvalsh(np.linalg.inv(C @ C.T))), values, rtol=1e-2
    )


def test_points_where_it_cannot_be_evaluated_count_as_impossible():
    joint = HyperJoint(CASES["Student-t"]().problem)
    value, dx, dz = joint(np.full(joint.x.size, 1e4), np.zeros(10))
    assert value == -np.inf and not dx.any() and not dz.any()


# ---- bad input ----------------------------------------------------------------------------------


def test_flat_priors_are_refused_by_name():
    m = fitted(L.HetGaussian(), priors=None)
    with pytest.raises(InputError, match=r"kernels.mean.variance.*improper.*hyperparameters=False"):
        m.sample()
    m.set_prior("kernels.*", P.LogNormal(0.0, 1.0))
    m.set_prior("kernels.mean.variance", None)
    m.kernels[0].variance.fix()
    with pytest.raises(InputError, match="draws"):
        m.sample(draws=2)


def test_without_the_sampler_there_is_a_word(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kw):
        if name.split(".")[0] in ("nutpie", "arviz"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"nutpie and arviz.*chainedgp\[mcmc\]"):
        fitted(L.HetGaussian()).sample()


@pytest.mark.parametrize(
    "bad", [{"draws": 0}, {"chains": 1.5}, {"tune": -1}, {"target_accept": 1.0}, {"rng": "a"},
            {"hyperparameters": "all"}]
)  # fmt: skip
def test_bad_arguments_are_named(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        fitted(L.HetGaussian()).sample(**bad)


# ---- averages -----------------------------------------------------------------------------------


def averaged(m, shifts, weights):
    """Averages over the model at shifted hyperparameters, and the models themselves."""
    joint = HyperJoint(m.problem)
    models, points = [], []
    for shift in shifts:
        x = joint.x + shift
        other = m.copy()
        for name, value in joint.values(x).items():
            named_leaves(other)[name][:] = value
        models.append(other)
        points.append(Point(x, m._parts.q()))
    family, columns = m.problem.parts.family, m.X.shape[1]
    return Averaged(m.problem, points, np.array(weights), columns, family), models


TARGETS = {
    "HetGaussian": (lambda: fitted(L.HetGaussian()), np.linspace(-2.0, 2.0, 7)),
    "joint Student-t": (CASES["joint"], np.linspace(-2.0, 2.0, 7)),
    "counts": (CASES["counts"], np.arange(6.0)),
    "hurdle": (
        lambda: fitted(L.Hurdle(L.HetGamma()), lambda y: np.maximum(y, 0.0)),
        np.array([0.0, 0.1, 0.7, 2.0]),
    ),
}


@pytest.mark.filterwarnings("ignore:parameters were set after the fit")
@pytest.mark.parametrize(
    "case", [pytest.param(k, marks=[pytest.mark.slow] * (k == "hurdle")) for k in TARGETS]
)
def test_averages_are_those_of_the_models(case):
    make, y = TARGETS[case]
    m = make()
    weights, shifts = np.array([0.5, 0.3, 0.2]), (0.0, 0.3, -0.4)
    found, models = averaged(m, shifts, weights)
    X = np.array([[0.5], [2.2], [6.0]])

    def over(answer):
        return np.tensordot(weights, np.stack([answer(model) for model in models]), 1)

    np.testing.assert_allclose(found.predict_density(X, y), over(lambda k: k.predict_density(X, y)))
    np.testing.assert_allclose(found.predict_cdf(X, y), over(lambda k: k.predict_cdf(X, y)))
    mean = over(lambda k: k.predict(X)[0])
    square = over(lambda k: k.predict(X)[1] + k.predict(X)[0] ** 2)
    got = found.predict(X)
    np.testing.assert_allclose(got[0], mean, rtol=1e-6)
    np.testing.assert_allclose(got[1], square - mean**2, rtol=1e-6)
    f = over(lambda k: k.predict_latents(X)[0])
    f2 = over(lambda k: np.asarray(k.predict_latents(X)[1]) + k.predict_latents(X)[0] ** 2)
    np.testing.assert_allclose(found.predict_latents(X)[0], f, rtol=1e-8)
    np.testing.assert_allclose(found.predict_latents(X)[1], f2 - f**2, rtol=1e-6)
    targets = np.array([y[1], y[2], y[1]])
    np.testing.assert_allclose(
        found.log_predictive_density(X, targets),
        np.log(over(lambda k: np.exp(k.log_predictive_density(X, targets)))),
        rtol=1e-6,
    )
    distribution = found.predictive(X)
    levels = np.array([0.05, 0.5, 0.93])
    quantiles = distribution.ppf(levels)
    assert (distribution.cdf(quantiles) >= levels - 1e-7).all()
    below = quantiles - (1.0 if case == "counts" else 1e-5)
    assert (distribution.cdf(below) < levels + 1e-12).all()
    np.testing.assert_array_equal(np.hstack(found.predict_quantiles(X, 100 * levels)), quantiles)
    draws = found.posterior_samples(X, 4000, rng=0)[:, 0]
    share = np.mean(draws <= quantiles[:, 1:2], axis=1)
    want = distribution.cdf(quantiles[:, 1:2])[:, 0]
    np.testing.assert_allclose(share, want, atol=4.0 * np.sqrt(0.25 / 4000))


@pytest.mark.filterwarnings("ignore:parameters were set after the fit")
def test_bands_of_latents_and_natural_parameters():
    m = fitted(L.HetGaussian())
    weights = np.array([0.6, 0.4])
    found, models = averaged(m, (0.0, 0.5), weights)
    X = np.array([[0.5], [6.0]])
    low, high = found.predict_latent_quantiles(X, (5.0, 95.0))
    each = [model.predict_latents(X) for model in models]
    for ends, level in ((low, 0.05), (high, 0.95)):
        cdf = sum(
            w * stats.norm.cdf(ends, k[0], np.sqrt(k[1]))
            for w, k in zip(weights, each, strict=True)
        )
        np.testing.assert_allclose(cdf, level, atol=1e-5)
    natural = found.predictive(X).parameters((5.0, 95.0))
    np.testing.assert_allclose(natural["variance"][:, 0], np.exp(low[:, 1]), rtol=0.06)
    np.testing.assert_allclose(natural["variance"][:, 1], np.exp(high[:, 1]), rtol=0.06)
    f = found.posterior_samples_f(X, 8000, rng=1)
    np.testing.assert_allclose(np.mean(f[:, 1] < low[:, 1:2], axis=1), 0.05, atol=0.012)


def test_a_point_without_spread_is_drawn_too():
    m = fitted(L.HetGaussian())
    v = np.split(np.linspace(-1.0, 1.0, 10), 2)
    family = HyperJoint(m.problem).evaluator.family
    found = Averaged(m.problem, [Point(None, tuple(map(point, v)))], np.ones(1), 1, family)
    f = found.posterior_samples_f(m.X, 500, rng=0)
    mean, variance = found.predict_latents(m.X)
    np.testing.assert_allclose(f.mean(2), mean, atol=5.0 * np.sqrt(variance.max() / 500))
    np.testing.assert_allclose(
        mean, LogJoint(m.problem).latents(np.concatenate(v)[:, None])[..., 0].T
    )
