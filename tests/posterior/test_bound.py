"""The bound against independent oracles, its gradients against differences, and wrong variants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import (
    ALL,
    PAPER,
    POSTERIORS,
    K,
    L,
    M,
    bound_gradient_errors,
    gradient_errors,
    inputs,
    is_q,
    kernel,
    mean_function,
    problem,
    randomise_q,
    small_model,
    wrong_leaves,
)
from scipy import integrate, stats
from scipy import linalg as linalg_

import chainedgp as cgp
from chainedgp import linalg
from chainedgp.errors import NumericalError
from chainedgp.inference import problem as problem_module
from chainedgp.posterior import blocks, family, sparse
from chainedgp.posterior import evaluator as evaluator_module
from chainedgp.posterior.gaussian import from_natural, root_of
from chainedgp.posterior.mean_field import MeanField


def rbf(A, B, variance, lengthscale):
    """The RBF kernel, written out."""
    d = (A[:, None, :] - B[None, :, :]) / lengthscale
    return variance * np.exp(-0.5 * np.sum(d * d, axis=2))


# ---- Gaussian noise: the exact GP and the collapsed sparse bound ----

THETA = (1.3, np.array([0.5, 0.7]))
NOISE, LEVEL = 0.2, 0.4


def gaussian_model(X, y, Z, jitter):
    return cgp.ChainedGP(
        X,
        y,
        L.Gaussian(variance=NOISE),
        kernels=K.RBF(2, *THETA, ARD=True),
        Z=Z,
        mean_functions=M.Constant(LEVEL),
        jitter=jitter,
        num_threads=1,
    )


@pytest.fixture(scope="module")
def gaussian_data():
    X = inputs(25)
    y = np.sin(2 * X[:, 0]) + 0.4 * np.random.default_rng(5).normal(size=25)
    return X, y, inputs(7, seed=8)


def test_Z_equal_to_X_gives_the_exact_marginal_likelihood_in_one_step(gaussian_data):
    X, y, _ = gaussian_data
    m = gaussian_model(X, y, X, 1e-10)
    before = m.problem.evaluator.num_likelihood
    result = m.optimize(only="variational")
    # one evaluation at the start (the prior), one after the step: the step's own check is free
    assert result.converged and result.iterations == 1
    assert result.likelihood_evaluations == 2
    assert m.problem.evaluator.num_likelihood - before <= 3  # and one for the returned bound
    cov = rbf(X, X, *THETA) + NOISE * np.eye(len(y))
    exact = stats.multivariate_normal(np.full(len(y), LEVEL), cov).logpdf(y)
    assert m.log_likelihood() == pytest.approx(exact, rel=1e-6)
    assert result.bound == m.log_likelihood()


def test_Z_equal_to_X_gives_the_exact_posterior(gaussian_data):
    X, y, Xnew = gaussian_data
    m = gaussian_model(X, y, X, 1e-10)
    m.optimize(only="variational")
    Ky = rbf(X, X, *THETA) + NOISE * np.eye(len(y))
    Ks = rbf(X, Xnew, *THETA)
    mean = LEVEL + Ks.T @ np.linalg.solve(Ky, y - LEVEL)
    cov = rbf(Xnew, Xnew, *THETA) - Ks.T @ np.linalg.solve(Ky, Ks)
    got_mean, got_variance = m.predict_latents(Xnew)
    np.testing.assert_allclose(got_mean[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(got_variance[:, 0], np.diag(cov), rtol=1e-6)
    joint_mean, joint = m.predict_latents(Xnew, full_cov=True)
    assert joint.shape == (1, 7, 7)
    np.testing.assert_allclose(joint_mean, got_mean, rtol=1e-12)
    np.testing.assert_allclose(joint[0], cov, rtol=1e-6, atol=1e-7)
    y_mean, y_variance = m.predict(Xnew)
    np.testing.assert_allclose(y_mean[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(y_variance[:, 0], np.diag(cov) + NOISE, rtol=1e-6)
    log_density = stats.norm(mean, np.sqrt(np.diag(cov) + NOISE)).logpdf(0.3)
    got = m.log_predictive_density(Xnew, np.full(7, 0.3))
    np.testing.assert_allclose(got[:, 0], log_density, rtol=1e-6, atol=1e-7)


def test_fewer_inducing_inputs_give_the_collapsed_bound(gaussian_data):
    X, y, _ = gaussian_data
    Z, jitter = inputs(6, seed=9), 1e-6
    m = gaussian_model(X, y, Z, jitter)
    m.optimize(only="variational")
    Kuu = rbf(Z, Z, *THETA) + jitter * THETA[0] * np.eye(6)
    Kuf = rbf(Z, X, *THETA)
    Q = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    cov = Q + NOISE * np.eye(len(y))
    collapsed = stats.multivariate_normal(np.full(len(y), LEVEL), cov).logpdf(y)
    collapsed -= 0.5 * (len(y) * THETA[0] - np.trace(Q)) / NOISE
    exact_cov = rbf(X, X, *THETA) + NOISE * np.eye(len(y))
    exact = stats.multivariate_normal(np.full(len(y), LEVEL), exact_cov).logpdf(y)
    assert m.log_likelihood() == pytest.approx(collapsed, rel=1e-6)
    assert m.log_likelihood() < exact - 1.0  # the two differ, or the test says nothing


# ---- two latents: the paper's unwhitened formulas, with full matrices ----


def naive_marginals_and_kl(m, X):
    """q(f_j) at X and Σ KL by the unwhitened formulas, with n × n matrices and inverses."""
    means, variances, kl = [], [], 0.0
    for j in range(len(m.latents)):
        k, mean = m.kernels[j], m.mean_functions[j]
        Z = m.Z.values
        Kuu = k.K(Z) + m.jitter * np.mean(np.diag(k.K(Z))) * np.eye(len(Z))
        Kuf, Kff = k.K(Z, X), k.K(X)
        root = np.zeros_like(Kuu)
        root[np.tril_indices(len(Z))] = m.q_sqrt.values[:, j]
        Lu = np.linalg.cholesky(Kuu)
        mu_u = mean.evaluate(Z)[0] + Lu @ m.q_mu.values[:, j]
        S_u = Lu @ root @ root.T @ Lu.T
        inverse = np.linalg.inv(Kuu)
        d = mu_u - mean.evaluate(Z)[0]
        means.append(mean.evaluate(X)[0] + Kuf.T @ inverse @ d)
        variances.append(np.diag(Kff - Kuf.T @ inverse @ (Kuu - S_u) @ inverse @ Kuf))
        kl += 0.5 * (
            np.trace(inverse @ S_u)
            + d @ inverse @ d
            - len(Z)
            + np.linalg.slogdet(Kuu)[1]
            - np.linalg.slogdet(S_u)[1]
        )
    return np.array(means), np.array(variances), kl


@pytest.mark.parametrize("kernels", ["rbf_ard", "matern_linear_bias"])
def test_whitened_bound_equals_the_unwhitened_formula(kernels):
    m = small_model("HetGaussian", kernels=kernels, means="linear")
    (mf, mg), (vf, vg), kl = naive_marginals_and_kl(m, m.X)
    y = m.Y[:, 0]
    E = -0.5 * (np.log(2 * np.pi) + mg + ((y - mf) ** 2 + vf) * np.exp(vg / 2 - mg))
    assert m.log_likelihood() == pytest.approx(E.sum() - kl, rel=1e-9)
    mean, variance = m.predict_latents(m.X)
    np.testing.assert_allclose(mean.T, [mf, mg], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(variance.T, [vf, vg], rtol=1e-9)


def stacked_marginals_and_kl(m, X):
    """q(f) at X, covariances (b, b, n), and the KL, by the joint unwhitened q(u_1, …, u_b)."""
    priors = []
    for k, mean, Z in zip(m.kernels, m.mean_functions, m._parts.theta().Z, strict=True):
        Kuu = k.K(Z) + m.jitter * np.mean(np.diag(k.K(Z))) * np.eye(len(Z))
        priors.append((Kuu, k.K(Z, X), k.K(X), mean.evaluate(X)[0]))
    Kuu, Kuf, Kff = (linalg_.block_diag(*part) for part in list(zip(*priors, strict=True))[:3])
    N, Lu = len(Kuu), linalg_.block_diag(*(np.linalg.cholesky(part[0]) for part in priors))
    root = np.zeros((N, N))
    (packed,) = m._parts.roots()[1]
    root[np.tril_indices(N)] = packed
    S_u, d = Lu @ root @ root.T @ Lu.T, Lu @ m._parts.roots()[0][0]
    inverse = np.linalg.inv(Kuu)
    b, n = len(priors), len(X)
    means = np.concatenate([part[3] for part in priors]) + Kuf.T @ inverse @ d
    whole = (Kff - Kuf.T @ inverse @ (Kuu - S_u) @ inverse @ Kuf).reshape(b, n, b, n)
    kl = 0.5 * (np.trace(inverse @ S_u) + d @ inverse @ d - N)
    kl += 0.5 * (np.linalg.slogdet(Kuu)[1] - np.linalg.slogdet(S_u)[1])
    return means.reshape(b, n), np.einsum("jiki->jki", whole), kl


@pytest.mark.parametrize("separate_Z", [False, True], ids=["shared_Z", "separate_Z"])
def test_the_bound_of_a_joint_q_equals_the_unwhitened_formula(separate_Z):
    m = small_model("HetGaussian", means="linear", separate_Z=separate_Z, posterior="joint")
    m.num_nodes = 40
    (mf, mg), V, kl = stacked_marginals_and_kl(m, m.X)
    assert np.abs(V[0, 1]).max() > 0.05  # there are correlations
    squares = (m.Y[:, 0] - mf + V[0, 1]) ** 2 + V[0, 0]
    E = -0.5 * (np.log(2 * np.pi) + mg + squares * np.exp(V[1, 1] / 2 - mg))
    assert m.log_likelihood() == pytest.approx(E.sum() - kl, rel=1e-9)
    means, covariances = m.problem.evaluator.marginals(m._parts.q())
    np.testing.assert_allclose(means.T, [mf, mg], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(covariances.T, V, rtol=1e-8, atol=1e-11)


def test_a_joint_q_without_correlations_is_the_mean_field():
    mean_field = small_model("HetGaussian", means="linear", num_nodes=40)
    joint = small_model("HetGaussian", means="linear", num_nodes=40, posterior="joint")
    joint.q_mu[:] = mean_field.q_mu.values
    roots = [linalg.unpack_lower(root, 4) for root in mean_field.q_sqrt.values.T]
    joint.q_sqrt[:] = linalg.pack_lower(linalg_.block_diag(*roots))[:, None]
    assert joint.log_likelihood() == pytest.approx(mean_field.log_likelihood(), rel=1e-9)
    joint.objective_function_gradients(), mean_field.objective_function_gradients()
    for name in ("kernels", "mean_functions", "Z", "q_mu"):
        a, b = (np.asarray(getattr(m, name).gradient) for m in (joint, mean_field))
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_student_t_bound_equals_the_formula_with_adaptive_integration():
    m = small_model("HetStudentT", n=4)
    means, variances, kl = naive_marginals_and_kl(m, m.X)
    sd = np.sqrt(variances)

    def integrand(z_g, z_f, i):
        f, g = means[0, i] + sd[0, i] * z_f, means[1, i] + sd[1, i] * z_g
        log_p = stats.t.logpdf(m.Y[i, 0], 3.0, f, np.exp(0.5 * g))
        return log_p * np.exp(-0.5 * (z_f**2 + z_g**2)) / (2 * np.pi)

    # log p written out: scipy's frozen machinery is slow inside an integral
    def fast(z_g, z_f, i):
        f, g = means[0, i] + sd[0, i] * z_f, means[1, i] + sd[1, i] * z_g
        t2 = (m.Y[i, 0] - f) ** 2 * np.exp(-g)
        log_p = np.log(2.0 / (np.pi * np.sqrt(3.0))) - 0.5 * g - 2.0 * np.log1p(t2 / 3.0)
        return log_p * np.exp(-0.5 * (z_f**2 + z_g**2)) / (2 * np.pi)

    assert fast(0.3, -0.7, 1) == pytest.approx(integrand(0.3, -0.7, 1), rel=1e-12)
    E = sum(
        integrate.dblquad(fast, -8, 8, -8, 8, args=(i,), epsabs=1e-9, epsrel=1e-9)[0]
        for i in range(4)
    )
    assert m.log_likelihood() == pytest.approx(E - kl, rel=1e-7)


def test_constant_second_latent_is_the_one_latent_model(gaussian_data):
    X, y, Xnew = gaussian_data
    Z = inputs(6, seed=9)
    one = gaussian_model(X, y, Z, 1e-6)
    two = cgp.ChainedGP(
        X,
        y,
        L.HetGaussian(),
        kernels=[K.RBF(2, *THETA, ARD=True), K.RBF(2, 1e-14, 1.0)],
        Z=Z,
        mean_functions=[M.Constant(LEVEL), M.Constant(np.log(NOISE))],
        jitter=1e-6,
        num_threads=1,
    )
    assert two.log_likelihood() == pytest.approx(one.log_likelihood(), rel=1e-10)
    for m in (one, two):
        m.optimize(only="variational")
    assert two.log_likelihood() == pytest.approx(one.log_likelihood(), rel=1e-9)
    for a, b in zip(one.predict(Xnew), two.predict(Xnew), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_three_latents_equal_their_closed_form():
    m = small_model("TwoMeans")
    (mf, mg, mh), (vf, vg, vh), kl = naive_marginals_and_kl(m, m.X)
    squares = (m.Y[:, 0] - mf - mh) ** 2 + vf + vh
    E = -0.5 * (np.log(2 * np.pi) + mg + squares * np.exp(vg / 2 - mg))
    assert m.log_likelihood() == pytest.approx(E.sum() - kl, rel=1e-7)


# ---- gradients, leaf by leaf ----

FEW_NODES = {"TwoMeans": 4, "OffsetLogistic": 8}  # the sum's gradient is exact with any number


@pytest.mark.parametrize("means", ["zero", "constant", "linear"])
@pytest.mark.parametrize("kernels", ["rbf_ard", "matern_linear_bias", "periodic"])
@pytest.mark.parametrize("separate_Z", [False, True], ids=["shared_Z", "separate_Z"])
@pytest.mark.parametrize("likelihood", ALL)
def test_gradient_of_every_leaf(likelihood, separate_Z, kernels, means):
    m = small_model(
        likelihood,
        n=10,
        kernels=kernels,
        means=means,
        separate_Z=separate_Z,
        num_nodes=FEW_NODES.get(likelihood),
    )
    errors = bound_gradient_errors(m)
    assert len(errors) == len(list(m.flattened_parameters))
    assert not wrong_leaves(errors)


@pytest.mark.parametrize("separate_Z", [False, True], ids=["shared_Z", "separate_Z"])
@pytest.mark.parametrize("likelihood", [*PAPER, "OffsetLogistic", "TwoMeans"])
def test_gradient_of_every_leaf_with_a_joint_q(likelihood, separate_Z):
    m = small_model(
        likelihood,
        n=10,
        kernels="matern_linear_bias",
        means="linear",
        separate_Z=separate_Z,
        num_nodes=FEW_NODES.get(likelihood, 12),
        posterior="joint",
    )
    errors = bound_gradient_errors(m)
    assert len(errors) == len(list(m.flattened_parameters))
    assert not wrong_leaves(errors)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_gradient_with_weights(posterior):
    m = small_model("HetStudentT", means="linear", posterior=posterior)
    m.set_data(m.X, m.Y, {"weights": np.linspace(0.0, 2.0, 14)})
    assert not wrong_leaves(bound_gradient_errors(m))


_reverse_chunk, _reverse_sites = blocks.reverse_chunk, blocks.reverse_sites


def _negative_prior(prior, H):
    d_theta, d_Z = sparse.reverse_prior(prior, H)
    return -d_theta, -d_Z


def _no_jacobian_of_cholesky(prior, H):
    d_theta, d_Z = sparse.reverse_prior(prior, H)
    return 0.0 * d_theta, 0.0 * d_Z


def _jitter_is_constant(prior, H):
    d_theta, d_Z = sparse.reverse_prior(replace(prior, jitter=0.0), H)
    return d_theta, d_Z


def _double_variance(chunk, *rest):
    doubled = chunk._replace(pull_kff=lambda d: chunk.pull_kff(2.0 * d))
    return _reverse_chunk(doubled, *rest)


def _forgotten_factor_2(chunk, i, g_m, g_V, alpha, PA):
    return _reverse_chunk(chunk, i, g_m, g_V, alpha, [0.5 * product for product in PA])


def _forgotten_mean(*given):
    part = _reverse_chunk(*given)
    return part._replace(mean=0.0 * part.mean)


def _forgotten_alpha(chunk, i, g_m, g_V, alpha, PA):
    return _reverse_chunk(chunk, i, g_m, g_V, 0.0 * alpha, PA)


def _one_entry_of_Z(prior, H):
    d_theta, d_Z = sparse.reverse_prior(prior, H)
    d_Z = d_Z.copy()
    d_Z[2, 1] *= 1.01
    return d_theta, d_Z


def _one_entry_of_root(q, G):
    packed = _true_root_gradient(q, G)
    packed[4] *= 1.01
    return packed


_true_root_gradient = problem_module.root_gradient


def _no_log_determinant(q, G):
    return cgp.linalg.pack_lower(2.0 * G @ q.root - q.root)


def _one_triangle(q, G):
    return cgp.linalg.pack_lower(G @ q.root - q.root + np.diag(1.0 / np.diag(q.root)))


MUTANTS = {
    "sign through L": (blocks, "reverse_prior", _negative_prior, "kernels"),
    "no Jacobian of L": (blocks, "reverse_prior", _no_jacobian_of_cholesky, "Z"),
    "jitter held fixed": (blocks, "reverse_prior", _jitter_is_constant, "kernels"),
    "factor 2 of kff": (family, "reverse_chunk", _double_variance, "kernels"),
    "no factor 2 of S": (family, "reverse_chunk", _forgotten_factor_2, "Z"),
    "forgotten mean": (family, "reverse_chunk", _forgotten_mean, "mean_functions"),
    "forgotten L⁻ᵀμ": (family, "reverse_chunk", _forgotten_alpha, "Z"),
    "one entry of Z by 1 %": (blocks, "reverse_prior", _one_entry_of_Z, "Z"),
    "one entry of q_sqrt by 1 %": (problem_module, "root_gradient", _one_entry_of_root, "q_sqrt"),
    "no log|S|": (problem_module, "root_gradient", _no_log_determinant, "q_sqrt"),
    "half of S": (problem_module, "root_gradient", _one_triangle, "q_sqrt"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_gradients_are_caught(name, monkeypatch):
    module, function, mutant, where = MUTANTS[name]
    assert not wrong_leaves(bound_gradient_errors(small_model("HetGaussian")))
    monkeypatch.setattr(module, function, mutant)
    wrong = wrong_leaves(bound_gradient_errors(small_model("HetGaussian")))
    assert any(where in leaf for leaf in wrong), wrong


def _forgotten_covariance(chunk, i, g_m, g_V, alpha, PA):
    g_V = [g if k == i else 0.0 * g for k, g in enumerate(g_V)]
    return _reverse_chunk(chunk, i, g_m, g_V, alpha, PA)


def _covariance_of_another_sign(chunk, i, g_m, g_V, alpha, PA):
    g_V = [g if k == i else -g for k, g in enumerate(g_V)]
    return _reverse_chunk(chunk, i, g_m, g_V, alpha, PA)


@pytest.mark.parametrize("mutant", [_forgotten_covariance, _covariance_of_another_sign])
def test_wrong_gradients_through_covariances_are_caught(mutant, monkeypatch):
    monkeypatch.setattr(family, "reverse_chunk", mutant)
    assert not wrong_leaves(bound_gradient_errors(small_model("HetGaussian")))  # it has none
    wrong = wrong_leaves(bound_gradient_errors(small_model("HetGaussian", posterior="joint")))
    assert any("kernels" in leaf for leaf in wrong) and any("Z" in leaf for leaf in wrong), wrong


def _left_as_sums(priors, G, A_gm):
    return G, A_gm


def _whitened_once(priors, G, A_gm):
    return priors[0].L_inv @ G, priors[0].L_inv @ A_gm


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("likelihood", ["HetGaussian", "HetStudentT", "AdditivePoisson"])
def test_gradients_without_whitening(likelihood, posterior, monkeypatch):
    """Where Kuu is well conditioned Kuf stands for A: the same bound and gradients."""
    asked = []
    well = evaluator_module.Evaluator._needs_no_whitening
    monkeypatch.setattr(
        evaluator_module.Evaluator,
        "_needs_no_whitening",
        lambda self: asked.append(well(self)) or asked[-1],
    )
    m = small_model(likelihood, n=40, means="linear", posterior=posterior)
    assert not wrong_leaves(bound_gradient_errors(m))
    assert asked and all(asked)
    ours, bound = m.objective_function_gradients(), m.log_likelihood()
    monkeypatch.setattr(evaluator_module, "WELL_CONDITIONED", 0.0)
    m.parameters_changed()
    theirs = m.objective_function_gradients()
    assert not asked[-1]
    assert m.log_likelihood() == pytest.approx(bound, rel=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mutant", [_left_as_sums, _whitened_once])
def test_wrong_gradients_without_whitening_are_caught(mutant, monkeypatch):
    monkeypatch.setattr(evaluator_module, "whiten", mutant)
    wrong = wrong_leaves(bound_gradient_errors(small_model("HetGaussian", n=40)))
    assert any("q_sqrt" in leaf for leaf in wrong) and any("Z" in leaf for leaf in wrong), wrong


def test_ill_conditioned_priors_are_whitened():
    X = np.linspace(0.0, 1.0, 150)[:, None]
    m = cgp.ChainedGP(X, np.sin(6 * X), cgp.likelihoods.HetGaussian(), num_inducing=15)
    for lengthscale, well in ((0.02, True), (1.0, False)):
        for part in m.kernels:
            part.lengthscale[:] = lengthscale
        m.problem.state(gradient=True)
        assert m.problem.evaluator._needs_no_whitening() == well
    m.q_mu[:] = np.random.default_rng(0).normal(size=m.q_mu.shape)
    m.q_sqrt[:] = 0.3 * m.q_sqrt.values
    m.objective_function_gradients()
    bound = m.log_likelihood()
    m.parameters_changed()
    assert m.log_likelihood() == pytest.approx(bound, rel=1e-10)  # from A itself


class _DoubledVariances(L.HetGaussian):
    """∂E/∂v without its ½."""

    def expected_log_density(self, y, means, variances, **kw):
        value, dm, dv, dt = super().expected_log_density(y, means, variances, **kw)
        return value, dm, 2.0 * dv, dt


def test_forgotten_mean_in_the_marginals_is_caught(monkeypatch):
    """∂E/∂m recovered from the sites with m = Aᵀμ instead of mean + Aᵀμ."""
    slopes = MeanField.slopes

    def wrong(self, chunks, q, sites):
        return slopes(self, [chunk._replace(mean=0.0 * chunk.mean) for chunk in chunks], q, sites)

    monkeypatch.setattr(MeanField, "slopes", wrong)
    m = small_model("HetGaussian")
    assert wrong_leaves(sites_fixed_errors(m, random_sites(m)))


def test_wrong_likelihood_gradient_is_caught():
    X = inputs(14)
    m = cgp.ChainedGP(X, problem("HetGaussian", X)[1], _DoubledVariances(), Z=inputs(4, seed=3))
    assert wrong_leaves(bound_gradient_errors(randomise_q(m)))


# ---- the gradient with sites fixed ----


def sites_fixed_errors(m, sites):
    """Gradient of F(θ; λ) = L(θ, q(θ, λ)) against differences of F itself, at given sites."""
    evaluator = m.problem.evaluator

    def state():
        evaluator.set_hyperparameters(m.problem.parts.theta())
        evaluator.shards[0].load_sites(sites)
        gram = evaluator.gram()
        return evaluator.evaluate(evaluator.gaussians(gram), gram)

    start = state()
    evaluator.accept(0.0)
    evaluator.freeze_nodes(True)
    m.problem.write_gradient(evaluator.gradient(start, sites_fixed=True))
    hyper = [leaf for leaf in m.flattened_parameters if not is_q(m, leaf)]
    return gradient_errors(lambda: state().bound, hyper)


def random_sites(m, seed=6):
    rng = np.random.default_rng(seed)
    family, b, n = m.problem.evaluator.family, len(m.latents), len(m.X)
    A = 0.5 * rng.normal(size=(n, b, b))
    Lam = A @ A.swapaxes(1, 2)
    Lam[::5] -= 0.1 * np.eye(b) + np.diagonal(Lam[::5], axis1=1, axis2=2)[:, :, None] * np.eye(b)
    sites = np.empty((*family.site_shape(b), n))  # some precisions are negative
    family.linear(sites)[:] = rng.normal(size=(b, n))
    for j in range(b):
        for k in range(j + 1) if m.posterior == "joint" else [j]:
            family.precision(sites, j, k)[:] = Lam[:, j, k]
    return sites


@pytest.mark.parametrize("separate_Z", [False, True], ids=["shared_Z", "separate_Z"])
@pytest.mark.parametrize("kernels", ["rbf_ard", "matern_linear_bias"])
@pytest.mark.parametrize(
    ("likelihood", "posterior"),
    [
        *((name, "mean_field") for name in (*PAPER, "Gaussian", "TwoMeans")),
        *((name, "joint") for name in ("HetGaussian", "Beta", "TwoMeans")),
    ],
)
def test_sites_fixed_gradient_far_from_convergence(likelihood, posterior, kernels, separate_Z):
    nodes = FEW_NODES.get(likelihood, None if posterior == "mean_field" else 12)
    m = small_model(
        likelihood,
        kernels=kernels,
        means="linear",
        separate_Z=separate_Z,
        num_nodes=nodes,
        posterior=posterior,
    )
    errors = sites_fixed_errors(m, random_sites(m))
    assert any(".Z" in name for name in errors)
    assert any("weights" in name for name in errors)
    assert not wrong_leaves(errors)


@pytest.mark.parametrize("likelihood", ["HetStudentT", "AdditivePoisson"])
def test_sites_fixed_gradient_partly_converged(likelihood):
    m = small_model(likelihood, means="linear")
    m.problem.evaluator.set_hyperparameters(m.problem.parts.theta())
    m.problem.evaluator.evaluate(m.problem.parts.q())
    m.problem.evaluator.accept(0.0)
    sites = 0.5 * m.problem.evaluator.shards[0].sites.proposal
    assert not wrong_leaves(sites_fixed_errors(m, np.array(sites)))


def test_plain_gradient_is_not_the_sites_fixed_one(monkeypatch):
    """The checker sees the terms by which the two gradients differ."""
    gradient = evaluator_module.Evaluator.gradient
    monkeypatch.setattr(
        evaluator_module.Evaluator,
        "gradient",
        lambda self, state, *, sites_fixed: gradient(self, state, sites_fixed=False),
    )
    m = small_model("HetGaussian", means="linear")
    wrong = wrong_leaves(sites_fixed_errors(m, random_sites(m)))
    for part in ("kernels", "mean_functions", ".Z"):
        assert any(part in leaf for leaf in wrong)


def _sites_forget_mean(chunks, i, g_m, g_V, r, Lam, *rest):
    r = r + sum(own * chunk.mean for own, chunk in zip(Lam, chunks, strict=True))
    return _reverse_sites(chunks, i, g_m, g_V, r, Lam, *rest)


def _sites_do_not_move_the_mean(*given):
    *others, _ = given
    return _reverse_sites(*others, d_mean=given[2])


def _sites_factor_2(chunks, i, g_m, g_V, r, Lam, left, d_mean):
    half, left = left.shape[1] // 2, left.copy()
    left[:, half:-1] *= 0.5
    return _reverse_sites(chunks, i, g_m, g_V, r, Lam, left, d_mean)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize(
    "mutant", [_sites_forget_mean, _sites_do_not_move_the_mean, _sites_factor_2]
)
def test_wrong_sites_fixed_gradients_are_caught(mutant, posterior, monkeypatch):
    monkeypatch.setattr(family, "reverse_sites", mutant)
    m = small_model("HetGaussian", means="linear", posterior=posterior)
    assert wrong_leaves(sites_fixed_errors(m, random_sites(m)))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_at_the_optimal_q_the_two_gradients_agree(posterior):
    m = small_model("HetGaussian", means="linear", posterior=posterior)
    m.optimize(only="variational")
    state_q = m.problem.parts.q()
    evaluator = m.problem.evaluator
    evaluator.set_hyperparameters(m.problem.parts.theta())
    evaluator.evaluate(state_q)
    evaluator.accept(0.0)
    sites = np.array(evaluator.shards[0].sites.proposal)
    evaluator.shards[0].load_sites(sites)
    gram = evaluator.gram()
    state = evaluator.evaluate(evaluator.gaussians(gram), gram)
    evaluator.accept(0.0)
    fixed = evaluator.gradient(state, sites_fixed=True)
    plain = evaluator.gradient(state, sites_fixed=False)
    for a, b in zip(fixed.latents, plain.latents, strict=True):
        for x, z in zip(a, b, strict=True):
            np.testing.assert_allclose(x, z, rtol=1e-3, atol=2e-3)


def test_helpers_build_what_they_say():
    """The grid of the gradient test is what its names say."""
    assert {type(mean_function(name)) for name in ("zero", "constant", "linear")} == {
        M.Zero,
        M.Constant,
        M.Linear,
    }
    assert kernel("periodic").columns.tolist() == [1]
    m = small_model("HetGaussian", separate_Z=True)
    assert m._parts.sizes == (3, 4)


# ---- the fast products, and one pass instead of two ----


@pytest.mark.parametrize("M", [1, 63, 64, 65, 150])
def test_products_of_a_chunk(M):
    rng = np.random.default_rng(M)
    lower, A, w = np.tril(rng.normal(size=(M, M))), rng.normal(size=(M, 90)), rng.normal(size=90)
    np.testing.assert_allclose(linalg.lower_product(lower, A), lower @ A, rtol=0, atol=1e-12)
    upper = np.column_stack([lower.T, w[:1] * np.ones(M)])
    longer = np.vstack([A, w])
    np.testing.assert_allclose(
        linalg.upper_product(upper, longer), upper @ longer, rtol=0, atol=1e-12
    )
    B, C = rng.normal(size=(2, M, M))
    triangle = np.tril(linalg.lower_triangle_product(B, C))
    np.testing.assert_allclose(triangle, np.tril(B @ C), rtol=0, atol=1e-12)
    triangle = np.tril(linalg.lower_triangle_product(B, lower, lower=True))
    np.testing.assert_allclose(triangle, np.tril(B @ lower), rtol=0, atol=1e-12)
    for weights in (w, np.abs(w), -np.abs(w), 0.0 * w):
        expected = np.einsum("in,n,jn->ij", A, weights, A)
        np.testing.assert_allclose(linalg.weighted_gram(A, weights), expected, rtol=0, atol=1e-11)
    packed = linalg.pack_lower(lower)
    np.testing.assert_array_equal(packed, lower[np.tril_indices(M)])
    np.testing.assert_array_equal(linalg.unpack_lower(packed, M), lower)


@pytest.mark.parametrize("M", [1, 64, 128, 129, 257, 300])  # by halves from 129 on
def test_factors_and_their_inverses(M):
    rng = np.random.default_rng(M)
    root = rng.normal(size=(M, 2 * M)) / np.sqrt(2 * M)
    L = linalg.cholesky(root @ root.T, "it")
    np.testing.assert_allclose(L @ L.T, root @ root.T, rtol=0, atol=1e-14)
    inverse = linalg.invert_lower(L)
    np.testing.assert_allclose(inverse @ L, np.eye(M), rtol=0, atol=1e-13)
    assert (np.triu(inverse, 1) == 0.0).all() and (np.triu(L, 1) == 0.0).all()
    L[M // 2, M // 2] = 0.0
    with pytest.raises(NumericalError, match="singular"):
        linalg.invert_lower(L)
    for broken in (-np.eye(M), np.full((M, M), np.nan)):
        with pytest.raises(NumericalError, match="it is not positive definite"):
            linalg.cholesky(broken, "it")


@pytest.mark.parametrize("M", [40, 250])
def test_latents_side_by_side_are_as_one_after_the_other(M):
    """From 200 inducing inputs on their (M, M) work is shared by the threads."""
    bits = []
    for threads in (1, 2):
        X = np.random.default_rng(0).normal(size=(300, 2))
        m = cgp.ChainedGP(
            X, X[:, 0], cgp.likelihoods.HetGaussian(), Z=X[:M], num_threads=threads, jitter=1e-4
        )
        randomise_q(m)
        bits.append((m.objective_function_gradients(), m.log_likelihood()))
    np.testing.assert_array_equal(bits[0][0], bits[1][0])
    assert bits[0][1] == bits[1][1]


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", PAPER)
def test_one_pass_gives_the_gradient_of_two(name, posterior):
    m = randomise_q(small_model(name, n=40, posterior=posterior))
    both = -m.objective_function_gradients()
    value = m.log_likelihood()
    m._mark_stale()
    # from A, and now the gradient takes a pass of its own
    assert m.log_likelihood() == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(-m.objective_function_gradients(), both, rtol=1e-9, atol=1e-9)


def test_the_root_of_q_is_there_where_its_covariance_is_singular():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 9))
    b, Lam = rng.normal(size=6), A @ A.T
    q = from_natural(b, Lam)
    want = linalg.pack_lower(np.linalg.cholesky(q.S))
    np.testing.assert_allclose(root_of(q), want, rtol=1e-11)
    np.testing.assert_allclose(root_of(replace(q, precision=None)), want, rtol=1e-11)
    rounded = replace(q, S=q.S - 1.01 * np.linalg.eigvalsh(q.S)[0] * np.eye(6))
    with pytest.raises(NumericalError, match="covariance"):
        root_of(replace(rounded, precision=None))
    np.testing.assert_allclose(root_of(rounded), want, rtol=1e-11)
