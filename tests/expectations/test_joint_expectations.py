"""Expectations under correlated latents: which formula serves them, and with how many nodes."""

import numpy as np
import pytest
from scipy import integrate, stats
from stacks import Logistic

import chainedgp.likelihoods as liks
from chainedgp.expectations.levels import LEVELS
from chainedgp.likelihoods import HetGaussian, Likelihood


class WithForm(HetGaussian):
    """A form for correlated latents, in closed form."""

    def expected_log_density(self, y, means, variances, *, nodes=20):
        return super().expected_log_density(y, means, variances, nodes=nodes)

    def joint_expected_log_density(self, y, means, covariances, *, nodes=20):
        (f, g), (v, w), c = (
            means.T,
            np.diagonal(covariances, axis1=1, axis2=2).T,
            covariances[:, 0, 1],
        )
        size, rest = np.exp(-g + w / 2.0), y - f + c
        square = rest**2 + v
        value = -0.5 * (np.log(2.0 * np.pi) + g + size * square)
        dmeans = np.stack([size * rest, 0.5 * size * square - 0.5], axis=1)
        dV = np.empty(covariances.shape)
        dV[:, 0, 0], dV[:, 1, 1] = -0.5 * size, -0.25 * size * square
        dV[:, 0, 1] = dV[:, 1, 0] = -0.5 * size * rest
        return value, dmeans, dV, np.empty((len(y), 0))


class OtherMarginals(WithForm):
    """Another density with its own expectation, of independent latents alone."""

    def log_density(self, y, f, g):
        return 2.0 * super().log_density(y, f, g)

    def dlog_density(self, y, f, g):
        return tuple(2.0 * d for d in super().dlog_density(y, f, g))

    def expected_log_density(self, *args, **kw):
        return tuple(2.0 * part for part in super().expected_log_density(*args, **kw))


def problem(n=7, b=2, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, b, b))
    V = 0.3 * A @ A.swapaxes(1, 2) + 0.02 * np.eye(b)
    return rng.normal(size=n), 0.5 * rng.normal(size=(n, b)), V


def test_a_density_alone_is_integrated_over_its_correlated_latents():
    y, means, V = problem()
    lik = Logistic()
    got = lik.expectation(y, means, V, 48)[0]
    for i in range(3):
        law = stats.multivariate_normal(means[i], V[i])
        sds = np.sqrt(np.diagonal(V[i]))
        ends = [(m - 9 * s, m + 9 * s) for m, s in zip(means[i], sds, strict=True)]
        want = integrate.nquad(
            lambda f, g, i=i, law=law: law.pdf([f, g]) * lik.log_density(y[i], f, g),
            ends,
            opts={"epsabs": 1e-8, "limit": 200},
        )[0]
        assert got[i] == pytest.approx(want, abs=2e-5)
    mean_field = lik.expectation(y, means, np.diagonal(V, axis1=1, axis2=2), 48)[0]
    assert np.abs(got - mean_field).max() > 1e-2  # the correlation matters here


def test_which_form_serves():
    y, means, V = problem()
    assert WithForm().own_joint_expectation and WithForm().is_exact(V)
    for lik in (Logistic(), OtherMarginals()):
        assert not lik.own_joint_expectation and not lik.is_exact(V)
        assert set(lik.required_nodes(y, means, V)) <= {4, 6, 8, 12, 20, 21}
    closed = WithForm().expectation(y, means, V, 1)
    for part, want in zip(closed, HetGaussian()._quadrature(y, means, V, nodes=48), strict=True):
        np.testing.assert_allclose(part, want, rtol=1e-8, atol=1e-9)
    # the form of a parent is not that of another expectation
    doubled = OtherMarginals().expectation(y, means, V, 48)
    for part, want in zip(doubled, closed, strict=True):
        np.testing.assert_allclose(part, 2.0 * want, rtol=1e-8, atol=1e-9)


def test_rows_of_several_levels_are_put_together():
    y, means, V = problem(n=9)
    nodes = np.array([8, 12, 8, 20, 12, 8, 20, 12, 8])
    mixed = Logistic().expectation(y, means, V, nodes)
    for level in (8, 12, 20):
        rows = np.flatnonzero(nodes == level)
        whole = Logistic().expectation(y, means, V, np.full(9, level))
        for part, want in zip(mixed, whole, strict=True):
            np.testing.assert_allclose(part[rows], want[rows], rtol=1e-13, atol=1e-14)


class Limited(Logistic):
    node_limits = (0.01, 0.1)


def test_the_score_grows_with_correlation_and_rows_beyond_are_tried():
    y, means, V = problem()
    variances = np.diagonal(V, axis1=1, axis2=2)
    plain = V * np.eye(2)
    lik = Limited()
    np.testing.assert_allclose(lik.joint_node_score(y, means, plain), variances.max(1), rtol=1e-14)
    assert (lik.joint_node_score(y, means, V) > variances.max(1)).all()
    nodes = lik.required_nodes(y, means, V)
    assert np.isin(nodes, LEVELS).all() and len(set(nodes)) > 3  # found by trying
    met = ~lik.unmet(y, means, V)
    assert met.any()
    error = np.abs(lik.expectation(y, means, V, nodes)[0] - lik.expectation(y, means, V, 128)[0])
    assert error[met].max() < 1e-5


def test_one_latent_has_a_covariance_of_one():
    y, means, V = np.array([0.0, 2.0]), np.zeros((2, 1)), np.array([[[0.3]], [[1.0]]])
    lik = liks.Poisson()
    joint = lik.expectation(y, means, V, 32)
    plain = lik.expectation(y, means, V[:, 0], 32)
    np.testing.assert_allclose(joint[0], plain[0], rtol=1e-10)
    np.testing.assert_allclose(joint[2][:, 0], plain[2], rtol=1e-9)


class Skew(Likelihood):
    """Three latents, and a density alone."""

    latents = ("location", "log_scale", "log_skew")

    def log_density(self, y, f, g, h):
        z = (y - f) * np.exp(-g)
        return h - z - g - (np.exp(h) + 1.0) * np.logaddexp(0.0, -z)


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize(("lik", "n"), [(Logistic(), 60), (Skew(), 5)])
def test_tried_nodes_of_a_density_alone_are_as_good_as_64(lik, n, correlated):
    rng, b = np.random.default_rng(3), len(lik.latents)
    means = 0.5 * rng.standard_normal((n, b))
    y = means[:, 0] + 2.0 * rng.standard_normal(n)
    sds = 10.0 ** rng.uniform(-2.0, np.log10(0.4), (n, b))
    V = sds**2
    if correlated:
        V = sds[:, :, None] * (0.6 * np.eye(b) + 0.4) * sds[:, None, :]
    nodes = lik.required_nodes(y, means, V)
    assert set(nodes) <= {4, 6, 8, 12, 20} and nodes.min() < 12
    got, want = lik.expectation(y, means, V, nodes), lik.expectation(y, means, V, 64)
    assert np.abs(got[0] - want[0]).max() < 2e-6
    np.testing.assert_allclose(got[1] * sds, want[1] * sds, atol=1e-5)


def test_a_wide_q_has_the_usual_nodes():
    y, means = np.array([3.0, 0.0]), np.zeros((2, 2))
    V = np.array([[25.0, 1.0], [1e-4, 1e-4]])
    nodes = Logistic().required_nodes(y, means, V)
    assert nodes.tolist() == [21, 4]
    few, many = (Logistic().expectation(y, means, V, k)[0] for k in (5, 64))
    assert abs(few[0] - many[0]) > 1e-4 and abs(few[1] - many[1]) < 1e-7
