"""Nodes and weights, expectations with their exact gradients, log-space expectations."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from chainedgp import likelihoods as liks
from chainedgp.expectations import by_values
from chainedgp.expectations import quadrature as quad
from chainedgp.expectations.levels import LEVELS, settled


@pytest.mark.parametrize("n", [1, 2, *LEVELS])
def test_gauss_hermite_has_the_moments_of_the_standard_normal(n):
    x, w = quad.gauss_hermite(n)
    assert x.dtype == w.dtype == np.float64
    assert np.all(w > 0)
    for k in range(0, min(2 * n, 24), 2):
        double_factorial = math.prod(range(1, k, 2))
        assert w @ x**k == pytest.approx(double_factorial, rel=1e-11)
        assert abs(w @ x ** (k + 1)) <= 1e-12 * max(1.0, double_factorial * 10)


def test_nodes_are_cached_and_cannot_be_changed():
    x, w = quad.gauss_hermite(20)
    assert quad.gauss_hermite(20)[0] is x
    assert quad.product_rule(2, 20) is quad.product_rule(2, 20)
    for array in (x, w, quad.product_rule(2, 8).weights, *quad.product_rule(2, 8).x):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_grid_broadcasts_without_expanding():
    rule = quad.product_rule(2, 5)
    f, g = rule.expand(np.zeros((7, 2)), np.ones((7, 2)))
    assert f.shape == (5, 1, 7)
    assert g.shape == (1, 5, 7)
    assert rule.size == 25


def _quadratic(rows, f, g):
    return f**2 * g + 3.0 * g - f


def _dquadratic(rows, f, g):
    return 2.0 * f * g - 1.0, f**2 + 3.0, f * g


def test_polynomial_is_exact_with_its_gradient():
    # E[f² g + 3 g − f] = (m² + v) k + 3 k − m, f ~ N(m, v), g ~ N(k, w)
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(2, 50)).T, rng.uniform(0.1, 4.0, (2, 50)).T
    (m, k), v = means.T, variances[:, 0]
    value, dm, dv, extra = quad.expectation(
        _quadratic, _dquadratic, means, variances, quad.product_rule(2, 8), 1
    )
    np.testing.assert_allclose(value, (m**2 + v) * k + 3 * k - m, atol=1e-12)
    np.testing.assert_allclose(dm, np.stack([2 * m * k - 1, m**2 + v + 3], 1), atol=1e-12)
    np.testing.assert_allclose(dv, np.stack([k, np.zeros(50)], 1), atol=1e-11)
    np.testing.assert_allclose(extra[:, 0], m * k, atol=1e-12)


def test_gradient_is_that_of_the_sum_even_where_the_sum_is_poor():
    # five nodes on a narrow Student-t: the integral is off, the gradient of the sum is not
    rule = quad.product_rule(1, 5)
    y = np.linspace(-3, 3, 9)

    def log_p(rows, f):
        return -2.5 * np.log1p((y[rows] - f) ** 2 / 0.04)

    def dlog_p(rows, f):
        return (5.0 * (y[rows] - f) / (0.04 + (y[rows] - f) ** 2),)

    def value(m, v):
        return quad.expectation(log_p, dlog_p, m[:, None], v[:, None], rule)[0]

    m, v, h = np.full(9, 0.2), np.full(9, 1.5), 1e-5
    _, dm, dv, _ = quad.expectation(log_p, dlog_p, m[:, None], v[:, None], rule)
    np.testing.assert_allclose(dm[:, 0], (value(m + h, v) - value(m - h, v)) / (2 * h), rtol=1e-7)
    np.testing.assert_allclose(
        dv[:, 0], (value(m, v + h) - value(m, v - h)) / (2 * h), rtol=1e-7, atol=1e-9
    )


def random_covariances(n, b, rng, floor=0.05):
    A = rng.normal(size=(n, b, b))
    return A @ A.swapaxes(1, 2) + floor * np.eye(b)


def test_polynomial_of_correlated_latents_is_exact_with_its_gradient():
    # E[f² g + 3 g − f] = (m² + v) k + 2 m c + 3 k − m with c = cov(f, g); E[f g] = m k + c
    rng = np.random.default_rng(0)
    means, V = rng.normal(size=(50, 2)), random_covariances(50, 2, rng)
    (m, k), v, c = means.T, V[:, 0, 0], V[:, 0, 1]
    value, dm, dV, extra = quad.expectation(
        _quadratic, _dquadratic, means, V, quad.product_rule(2, 8), 1
    )
    np.testing.assert_allclose(value, (m**2 + v) * k + 2 * m * c + 3 * k - m, atol=1e-12)
    np.testing.assert_allclose(dm, np.stack([2 * m * k + 2 * c - 1, m**2 + v + 3], 1), atol=1e-12)
    want = np.array([[k, m], [m, np.zeros(50)]])  # half of 2 m for each of dV_12 and dV_21
    np.testing.assert_allclose(dV, want.transpose(2, 0, 1), atol=1e-10)
    np.testing.assert_allclose(extra[:, 0], m * k + c, atol=1e-12)


@pytest.mark.parametrize("b", [1, 2, 3, 4])
def test_the_gradient_in_covariances_is_that_of_the_sum(b):
    rng = np.random.default_rng(b)
    means, V = rng.normal(size=(6, b)), random_covariances(6, b, rng)
    weights, rule = rng.normal(size=b), quad.rule_for(b, 4)

    def log_p(rows, *f):
        return np.cos(sum(w * x for w, x in zip(weights, f, strict=True))) + f[0] ** 4

    def dlog_p(rows, *f):
        slope = -np.sin(sum(w * x for w, x in zip(weights, f, strict=True)))
        return (weights[0] * slope + 4.0 * f[0] ** 3, *(w * slope for w in weights[1:]))

    def value(V):
        return quad.expectation(log_p, dlog_p, means, V, rule)[0]

    dV = quad.expectation(log_p, dlog_p, means, V, rule)[2]
    np.testing.assert_allclose(dV, dV.swapaxes(1, 2), rtol=1e-12, atol=1e-14)
    for _ in range(3):
        step = rng.normal(size=(b, b))
        step = 1e-5 * (step + step.T)
        slope = (value(V + step) - value(V - step)) / 2.0
        np.testing.assert_allclose(slope, np.sum(dV * step, axis=(1, 2)), rtol=1e-6, atol=1e-11)


def test_without_correlation_rotated_nodes_are_the_usual_ones():
    rng = np.random.default_rng(3)
    means, variances = rng.normal(size=(9, 2)), rng.uniform(0.1, 2.0, (9, 2))
    V = variances[:, :, None] * np.eye(2)
    rule = quad.product_rule(2, 12)
    plain = quad.expectation(_quadratic, _dquadratic, means, variances, rule, 1)
    joint = quad.expectation(_quadratic, _dquadratic, means, V, rule, 1)
    for j in (0, 1, 3):
        np.testing.assert_allclose(joint[j], plain[j], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.diagonal(joint[2], axis1=1, axis2=2), plain[2], rtol=1e-12, atol=1e-12
    )
    two, one = (by_values.trial_sums(_quadratic, means, v, rule) for v in (V, variances))
    order = [0, 2, 1, 4, 3]  # The latents of rotated nodes come in reversed order.
    np.testing.assert_allclose(two[:, order], one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rho", [1.0, -1.0, 1.0 + 1e-15, 0.0])
def test_singular_covariances_give_the_limit(rho):
    # with ρ = ±1, E sin(f + 2 g) of f + 2 g ~ N(0.3, (1 ± 2)²); V = 0 is the value at the mean
    scale = 0.0 if rho == 0.0 else 1.0
    V = scale * np.array([[[1.0, rho], [rho, 1.0]]])
    means = np.array([[0.1, 0.1]])
    value, dm, dV, _ = quad.expectation(
        lambda rows, f, g: np.sin(f + 2.0 * g),
        lambda rows, f, g: (np.cos(f + 2.0 * g), 2.0 * np.cos(f + 2.0 * g)),
        means,
        V,
        quad.product_rule(2, 32),
    )
    damp = np.exp(-0.5 * scale * (1.0 + 2.0 * rho) ** 2)
    np.testing.assert_allclose(value, damp * np.sin(0.3), rtol=0, atol=1e-9)
    np.testing.assert_allclose(dm, damp * np.cos(0.3) * np.array([[1.0, 2.0]]), rtol=0, atol=1e-9)
    bend = -0.5 * damp * np.sin(0.3) * np.array([[[1.0, 2.0], [2.0, 4.0]]])
    np.testing.assert_allclose(dV, bend, rtol=0, atol=1e-5)


def test_zero_variance_gives_the_limit():
    # E sin f at v = 0: value sin m, d/dm cos m, d/dv −½ sin m
    m = np.linspace(-2, 2, 11)[:, None]
    rule = quad.product_rule(1, 8)
    value, dm, dv, _ = quad.expectation(
        lambda rows, f: np.sin(f), lambda rows, f: (np.cos(f),), m, np.zeros_like(m), rule
    )
    np.testing.assert_allclose(value, np.sin(m[:, 0]), atol=1e-11)
    np.testing.assert_allclose(dm, np.cos(m), atol=1e-11)
    np.testing.assert_allclose(dv, -0.5 * np.sin(m), atol=1e-6)  # a difference over 1e-10


def test_a_derivative_that_ignores_a_latent_is_summed_over_it():
    means, variances = np.ones((4, 2)), np.full((4, 2), 0.3)
    small = quad.expectation(
        lambda rows, f, g: f * 2.0,  # (h, 1, n), not (h, h, n)
        lambda rows, f, g: (np.full((1, 1, 1), 2.0), np.zeros(4)[rows]),
        means,
        variances,
        quad.product_rule(2, 8),
    )
    np.testing.assert_allclose(small[0], 2.0, atol=1e-13)
    np.testing.assert_allclose(small[1], [[2.0, 0.0]] * 4, atol=1e-13)
    np.testing.assert_allclose(small[2], 0.0, atol=1e-13)


def test_rows_in_blocks_equal_rows_at_once(monkeypatch):
    rng = np.random.default_rng(1)
    means, variances = rng.normal(size=(103, 2)), rng.uniform(0.1, 1.0, (103, 2))
    rule = quad.product_rule(2, 12)
    whole = quad.expectation(_quadratic, _dquadratic, means, variances, rule, 1)
    seen = []
    monkeypatch.setattr(quad, "BLOCK", 10 * rule.size)

    def log_p(rows, f, g):
        seen.append(rows)
        return _quadratic(rows, f, g)

    blocks = quad.expectation(log_p, _dquadratic, means, variances, rule, 1)
    assert len(seen) == 11
    for a, b in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_three_latents_by_grid_and_by_sobol_agree():
    # log-logistic with a free location: smooth, three latents
    rng = np.random.default_rng(2)
    means, variances = 0.5 * rng.normal(size=(20, 3)), rng.uniform(0.1, 0.6, (20, 3))

    def log_p(rows, f, g, h):
        return -np.logaddexp(0.0, f + np.exp(0.5 * g)) - 0.5 * np.exp(-h) * (f - 1) ** 2 - 0.5 * h

    def none(rows, *latents):
        return ()

    grid = quad.expectation(log_p, none, means, variances, quad.product_rule(3, 16))[0]
    sobol = quad.expectation(log_p, none, means, variances, quad.sobol_rule(3, 20**3))[0]
    assert np.max(np.abs(grid - sobol)) < 1e-3
    wrong = quad.expectation(log_p, none, means, variances * 1.05, quad.product_rule(3, 16))[0]
    assert np.max(np.abs(grid - wrong)) > 1e-3


@pytest.mark.parametrize("rule", [quad.sobol_rule(5, 1000), quad.sobol_rule(3, 300)])
def test_sobol_nodes_are_exact_to_degree_three(rule):
    x = np.stack([column[:, 0] for column in rule.x])  # (b, s)
    third = np.einsum("is,js,ks->ijk", x, x, x) / x.shape[1]
    np.testing.assert_allclose(x.mean(axis=1), 0.0, atol=1e-13)
    np.testing.assert_allclose(x @ x.T / x.shape[1], np.eye(len(x)), atol=1e-12)
    np.testing.assert_allclose(third, 0.0, atol=1e-12)


def test_sobol_is_deterministic_centred_and_scaled():
    rule = quad.sobol_rule(5, 1000)
    quad.sobol_rule.cache_clear()
    again = quad.sobol_rule(5, 1000)
    assert rule.size == 1024
    for x, other in zip(rule.x, again.x, strict=True):
        np.testing.assert_array_equal(x, other)
        assert abs(np.sum(rule.weights * x)) < 1e-14
        assert np.sum(rule.weights * x**2) == pytest.approx(1.0, abs=1e-13)
        assert np.sum(rule.weights * x**4) == pytest.approx(3.0, abs=0.1)
    assert quad.rule_for(4, 12).size == 2048
    assert quad.rule_for(3, 12).weights.shape == (12, 12, 12, 1)


def test_expectation_equals_adaptive_integration():
    m, v = 0.4, 0.7
    value = quad.expectation(
        lambda rows, f: -np.logaddexp(0.0, -f),
        lambda rows, f: (),
        np.array([[m]]),
        np.array([[v]]),
        quad.product_rule(1, 32),
    )[0]
    truth, _ = integrate.quad(
        lambda f: -np.logaddexp(0.0, -f) * stats.norm.pdf(f, m, np.sqrt(v)), -9, 9, epsabs=1e-12
    )
    assert value[0] == pytest.approx(truth, abs=1e-10)


@pytest.mark.parametrize("joint", [False, True])
def test_gradients_from_values_alone_are_those_of_the_integral(joint):
    """E[a b² + e^{a/2} c] of three Gaussians has a closed form; h nodes are exact to rounding."""
    rng = np.random.default_rng(5)
    n = 6
    means, L = rng.normal(size=(n, 3)), 0.4 * rng.normal(size=(n, 3, 3))
    V = L @ L.swapaxes(1, 2) + 0.05 * np.eye(3)
    variances = V if joint else np.einsum("njj->nj", V)
    c = V if joint else variances[:, :, None] * np.eye(3)

    def exact(m, V):
        first = m[:, 0] * (m[:, 1] ** 2 + V[:, 1, 1]) + 2.0 * m[:, 1] * V[:, 0, 1]
        tilt = np.exp(0.5 * m[:, 0] + 0.125 * V[:, 0, 0])
        return first + tilt * (m[:, 2] + 0.5 * V[:, 0, 2])

    value, dm, dV, extra = by_values.expectation_by_values(
        lambda rows, a, b, c: a * b * b + np.exp(0.5 * a) * c,
        lambda rows, a, b, c: (a * c,),
        means,
        variances,
        quad.product_rule(3, 10),
        1,
    )
    np.testing.assert_allclose(value, exact(means, c), rtol=1e-11)
    np.testing.assert_allclose(extra[:, 0], means[:, 0] * means[:, 2] + c[:, 0, 2], atol=1e-12)
    for j in range(3):
        step = 1e-5 * np.eye(3)[j]
        slope = (exact(means + step, c) - exact(means - step, c)) / 2e-5
        np.testing.assert_allclose(dm[:, j], slope, rtol=1e-7, atol=1e-8)
        for k in range(3 if joint else 1):
            bump = np.zeros((3, 3))
            other = k if joint else j
            bump[j, other] += 0.5e-5
            bump[other, j] += 0.5e-5
            slope = (exact(means, c + bump) - exact(means, c - bump)) / 2e-5
            own = dV[:, j, other] if joint else dV[:, j]
            np.testing.assert_allclose(own, slope, rtol=1e-6, atol=1e-8)


def test_levels_follow_from_how_far_two_of_them_differ():
    """Of sums whose error at h nodes is r^h, r of each row, the level taken has one below 1e-6."""
    rates = np.array([0.01, 0.04, 0.1, 0.2, 0.3, 0.8, np.nan])

    def sums(rows, nodes):
        return np.column_stack([5.0 + rates[rows] ** nodes, np.zeros(len(rows))])

    nodes, served = settled(sums, len(rates), (4, 6, 8, 12))
    np.testing.assert_array_equal(served, [True] * 5 + [False] * 2)
    np.testing.assert_array_equal(nodes[:5], [4, 6, 8, 12, 12])
    assert np.all((rates**nodes)[:5] < 1e-6)


def test_four_latents_have_as_few_nodes_as_their_spread_allows():
    """Of a density alone: close to a grid of 14⁴ nodes, with far fewer, and derivatives too."""
    lik, rng = liks.SHASH(skewness="latent", tail="latent"), np.random.default_rng(0)
    means = np.array([0.0, -1.0, 0.2, 0.2]) + 0.2 * rng.standard_normal((6, 4))
    root = 0.05 * (np.eye(4) + 0.3 * rng.standard_normal((6, 4, 4)))
    V, y = root @ root.swapaxes(1, 2), lik.ppf(rng.uniform(0.1, 0.9, 6), *means.T)
    nodes = lik.required_nodes(y, means, V)
    assert nodes.max() <= 8
    functions = (
        lambda rows, *f: lik.log_density(y[rows], *f),
        lambda rows, *f: lik.dlog_density(y[rows], *f),
    )
    want = quad.expectation(*functions, means, V, quad.product_rule(4, 14))
    got = lik.expectation(y, means, V, nodes)
    np.testing.assert_allclose(got[0], want[0], atol=1e-5, rtol=0)
    np.testing.assert_allclose(got[1], want[1], atol=1e-3, rtol=0)
    # A wide q is not resolved by any grid that is tried.
    assert np.all(lik.required_nodes(y, means, 400.0 * V) == 9)
