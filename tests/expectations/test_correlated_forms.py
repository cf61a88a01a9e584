"""Forms of every likelihood under correlated latents: values, gradients, nodes."""

import json

import numpy as np
import pytest
from correlated import CASES, keywords, moments
from paths import STORED

import chainedgp.likelihoods as liks
from chainedgp.expectations import quadrature, reduced
from chainedgp.expectations.levels import LEVELS
from chainedgp.likelihoods import Likelihood

TRUTH = json.loads((STORED / "joint_expectations.json").read_text("utf-8"))
GRIDS = {"Beta": 3e-8, "Softmax of 3": 3e-8, "constant of Softmax": 3e-8,
         "ZeroOneInflatedBeta": 3e-8, "constant of Inflated": 3e-8}  # fmt: skip
"""Where independent latents have a Laplace transform, which is as the grid of nodes to 1e-8."""


def of(name):
    return liks.Softmax(3) if name == "Softmax" else getattr(liks, name)()


def given(lik, row):
    """Parameters and metadata of a row of the file."""
    keys = lik.parameter_keys
    return {k: v if k in keys else np.array([v]) for k, v in row["kw"].items()}


@pytest.mark.parametrize("name", TRUTH)
def test_values_are_those_of_mpmath(name):
    """Correlations to ±0.999; with twice the most nodes, and with those that are chosen."""
    lik = of(name)
    for row in TRUTH[name]:
        y, m, V = np.array([float(row["y"])]), np.array([row["means"]]), np.array([row["V"]])
        kw = given(lik, row)
        got = lik.expectation(y, m, V, 2 * LEVELS[-1], **kw)[0][0]
        assert got == pytest.approx(row["value"], rel=1e-8, abs=1e-8)
        if not lik.unmet(y, m, V, **kw)[0]:
            nodes = lik.required_nodes(y, m, V, **kw)
            assert lik.expectation(y, m, V, nodes, **kw)[0][0] == pytest.approx(
                row["value"], rel=1e-7, abs=1.5e-6
            )


def test_another_correlation_is_seen():
    """The truth is not met with the covariance left out, or of the other sign."""
    for name, rows in TRUTH.items():
        lik, far = of(name), {0.0: 0.0, -1.0: 0.0}
        for row in rows:
            y, m, V = np.array([float(row["y"])]), np.array([row["means"]]), np.array([row["V"]])
            kw = given(lik, row)
            for factor in far:
                other = V * (factor + (1.0 - factor) * np.eye(V.shape[1]))
                got = lik.expectation(y, m, other, 64, **kw)[0][0]
                far[factor] = max(far[factor], abs(got - row["value"]))
        assert min(far.values()) > 1e-4, name


@pytest.mark.parametrize("name", CASES)
def test_without_correlation_it_is_the_mean_field(name):
    lik, y, _ = CASES[name]
    kw, tol = keywords(name), GRIDS.get(name, 1e-12)
    means, V = moments(len(lik.latents), len(y), 0.0)
    joint = lik.expectation(y, means, V, 12, **kw)
    plain = lik.expectation(y, means, np.einsum("njj->nj", V), 12, **kw)
    for j in (0, 1, 3):
        np.testing.assert_allclose(joint[j], plain[j], rtol=tol, atol=tol)
    np.testing.assert_allclose(np.einsum("njj->nj", joint[2]), plain[2], rtol=tol, atol=tol)


@pytest.mark.parametrize("rho", [0.5, 0.99])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_value(name, rho):
    """In means, in every direction of V, and in the parameters."""
    lik, y, _ = CASES[name]
    kw, b = keywords(name), len(lik.latents)
    means, V = moments(b, len(y), rho)

    def value(m, v, **changed):
        return lik.expectation(y, m, v, 8, **{**kw, **changed})[0]

    _, dmeans, dV, dtheta = lik.expectation(y, means, V, 8, **kw)
    np.testing.assert_allclose(dV, dV.swapaxes(1, 2), rtol=1e-10, atol=1e-12)
    rng, sd = np.random.default_rng(1), np.sqrt(np.einsum("njj->nj", V))
    for _ in range(2):
        step = 1e-5 * rng.standard_normal(b)
        slope = (value(means + step, V) - value(means - step, V)) / 2.0
        np.testing.assert_allclose(slope, dmeans @ step, rtol=1e-6, atol=1e-11)
        turn = rng.standard_normal((b, b))
        turn = 1e-5 * (1.0 - rho) * (turn + turn.T) * sd[:, :, None] * sd[:, None, :]
        slope = (value(means, V + turn) - value(means, V - turn)) / 2.0
        np.testing.assert_allclose(
            slope, (dV * turn).sum((1, 2)), rtol=1e-6, atol=1e-13 / (1 - rho)
        )
    for k, key in enumerate(lik.parameter_keys):
        step = 1e-5 * max(1.0, abs(kw[key]))
        ends = [value(means, V, **{key: kw[key] + s}) for s in (step, -step)]
        np.testing.assert_allclose(
            (ends[0] - ends[1]) / (2 * step), dtheta[:, k], rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize(
    "name", [k for k in CASES if "Laplace" not in k and k != "ZeroOneInflatedBeta"]
)
def test_forms_agree_with_the_density_on_a_grid(name):
    """Wide and narrow; ZeroOneInflatedBeta has four latents, too many for a fine grid."""
    lik, y, _ = CASES[name]
    kw, b = keywords(name), len(lik.latents)
    weibull = "Weibull" in name  # its hazard is a line from z = 12 on: nodes see the kink
    for rho, scale in ((0.6, 1e-3), (0.9, 0.05), (0.999, 0.05)):
        means, V = moments(b, len(y), rho, scale)
        nodes = {2: 48, 3: 24}[b]
        got = lik.expectation(y, means, V, nodes, **kw)
        want = lik._quadrature(y, means, V, nodes=nodes, **kw)
        tol = 1e-5 if weibull or name == "HetStudentTNu" else 1e-8
        for part, other in zip(got[:2], want[:2], strict=True):
            np.testing.assert_allclose(part, other, rtol=tol, atol=tol)
        np.testing.assert_allclose(got[2], want[2], rtol=100 * tol, atol=100 * tol)


@pytest.mark.parametrize("name", ["Beta", "HetStudentT", "HetStudentTNu", "HetGamma",
                                  "LogLogisticSurvival", "LogLogisticSurvival, entry",
                                  "BetaMeanPrecision", "HetProbit", "Softmax of 3"])  # fmt: skip
def test_chosen_nodes_are_right_to_1e_6(name):
    """At random moments with correlations of all sizes, against three times the most nodes."""
    lik, y0, metadata = CASES[name]
    b, rng = len(lik.latents), np.random.default_rng(3)
    n = 300 if b == 2 and lik.own_expectation else 60  # a density alone is slow on fine grids
    rows = rng.integers(0, len(y0), n)
    kw = {**lik.parameter_values(), **{k: v[rows] for k, v in metadata.items()}}
    widest = 4.0 if name == "Softmax of 3" else 1.5
    sds = np.exp(rng.uniform(np.log(0.03), np.log(widest), (n, b)))
    A = rng.standard_normal((n, b, b)) + 3.0 * rng.standard_normal((n, b, 1)) * rng.integers(
        0, 2, (n, 1, 1)
    )
    C = A @ A.swapaxes(1, 2)
    sds = sds / np.sqrt(np.einsum("njj->nj", C))
    y, means, V = y0[rows], rng.standard_normal((n, b)), C * sds[:, :, None] * sds[:, None, :]
    nodes, met = lik.required_nodes(y, means, V, **kw), ~lik.unmet(y, means, V, **kw)
    assert met.mean() > 0.85 and len(set(nodes)) > 3
    got = lik.expectation(y, means, V, nodes, **kw)[0]
    want = lik.expectation(y, means, V, 192 if b == 2 else 96, **kw)[0]
    assert np.abs(got - want)[met].max() < 1.5e-6
    few = lik.expectation(y, means, V, 5, **kw)[0]
    assert np.abs(few - want)[met].max() > 1e-4  # the choice matters


@pytest.mark.parametrize("K", [3, 4])
def test_log_sum_of_differences_is_the_log_sum(K):
    """Differences of correlated terms against the terms themselves, on a grid that has no trick."""
    rng = np.random.default_rng(K)
    A, means = rng.standard_normal((8, K, K)), 2.0 * rng.standard_normal((8, K))
    V = 0.4 * A @ A.swapaxes(1, 2) / K
    V[0], V[1] = 0.0, 0.3  # no variance at all, and terms that move together
    got = reduced.expected_log_sum_exp(means, V, 20)
    rule = quadrature.product_rule(K, {3: 24, 4: 16}[K])
    f = np.stack(np.broadcast_arrays(*rule.expand(means, V)))

    def average(values):
        return (rule.weights * values).reshape(-1, len(means)).sum(axis=0)

    total = np.logaddexp.reduce(f, axis=0)
    np.testing.assert_allclose(got[0], average(total), atol=2e-7)
    shares = np.exp(f - total)
    np.testing.assert_allclose(got[1], np.stack([*map(average, shares)]), atol=2e-6)
    for j in range(K):  # ½ E ∂_j ∂_k log Σ eᶠ = ½ E[p_j (δ_jk − p_k)]
        for k in range(K):
            want = 0.5 * average(shares[j] * ((j == k) - shares[k]))
            np.testing.assert_allclose(got[2][j, k][2:], want[2:], atol=2e-5)


def test_the_score_of_a_log_sum_serves_every_level():
    """Just inside the limit of a level its nodes are right to 1e-6, whichever term is widest."""
    rng = np.random.default_rng(5)
    A, means = rng.standard_normal((400, 3, 3)), 2.0 * rng.standard_normal((400, 3))
    V = A @ A.swapaxes(1, 2)
    V /= reduced.log_sum_score(V)[:, None, None]
    for nodes, limit in zip(LEVELS, reduced.LOG_SUM_LIMITS, strict=True):
        got, want = (reduced.expected_log_sum_exp(means, limit * V, h)[0] for h in (nodes, 120))
        assert np.abs(got - want).max() < 1e-6, nodes


def test_singular_covariances_are_finite():
    """ρ = ±1, no variance at all, and a latent without variance."""
    for name, (lik, y, _) in CASES.items():
        b, kw = len(lik.latents), keywords(name)
        means = np.full((len(y), b), 0.1)
        sign = (-1.0) ** np.arange(b)
        one = np.eye(b)[0]
        for V in (
            0.0 * np.eye(b),
            0.3 * np.ones((b, b)),
            0.3 * np.outer(sign, sign),
            np.outer(one, one),
        ):
            parts = lik.expectation(y, means, np.broadcast_to(V, (len(y), b, b)).copy(), 12, **kw)
            assert all(np.isfinite(part).all() for part in parts), name


def test_one_latent_uses_its_own_form():
    y, means, V = np.array([0.0, 2.0]), np.zeros((2, 1)), np.array([[[0.3]], [[1.0]]])
    for lik in (liks.Poisson(), liks.HetStudentT().with_constant("log_scale2", 0.1)):
        kw = lik.parameter_values()
        assert lik.own_joint_expectation and lik.is_exact(V)
        joint, plain = (
            lik.expectation(y, means, V, 1, **kw),
            lik.expectation(y, means, V[:, 0], 1, **kw),
        )
        for part, want in zip(joint, plain, strict=True):
            np.testing.assert_array_equal(part.ravel(), want.ravel())


class OwnSingle(Likelihood):
    """A user's closed form of independent latents alone: y ~ N(f, e^g)."""

    latents = ("mean", "log_variance")
    exact_expectation = True

    def log_density(self, y, f, g):
        return liks.HetGaussian().log_density(y, f, g)

    def expected_log_density(self, y, means, variances, *, nodes=20):
        return liks.HetGaussian().expected_log_density(y, means, variances, nodes=nodes)


def test_wrappers_of_a_form_for_independent_latents_use_nodes():
    """A user's base without a joint form: atoms and constants around it fall back to quadrature."""
    y, n = np.array([-0.3, 0.0, 1.1, 0.4]), 4
    means, V = moments(3, n, 0.8)
    own, given = liks.Inflated(OwnSingle()), liks.Inflated(liks.HetGaussian())
    nodes = own.required_nodes(y, means, V)
    assert nodes.min() >= 20
    got, want = own.expectation(y, means, V, nodes), given.expectation(y, means, V, 20)
    for part, other in zip(got, want, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-5, atol=1e-6)
    three = liks.SignalNoiseGaussian()

    class Single(type(three)):
        def expected_log_density(self, *args, **kw):
            return super().expected_log_density(*args, **kw)

    fixed = Single().with_constant("log_variance", 0.2)
    means, V = moments(2, n, 0.8)
    assert not fixed.is_exact(V) and fixed.is_exact(np.einsum("njj->nj", V))
    kw = fixed.parameter_values()
    got = fixed.expectation(y, means, V, 20, **kw)
    want = three.with_constant("log_variance", 0.2).expectation(y, means, V, 1, **kw)
    for part, other in zip(got, want, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-8, atol=1e-9)


def test_f_given_g_has_the_moments_of_a_regression():
    """`Conditional` against E[f² g], E[f g²] and their derivatives, polynomials of Gaussians."""
    rng = np.random.default_rng(0)
    m, k, v, w = rng.standard_normal((2, 5)).tolist() + rng.uniform(0.5, 1.5, (2, 5)).tolist()
    m, k, v, w = map(np.array, (m, k, v, w))
    c = 0.7 * np.sqrt(v * w)
    given = reduced.Conditional((m, v), (k, w), c, 6)
    mean, spread, g = given.mean, given.variance, given.g
    parts = ((mean**2 + spread) * g, 2.0 * mean * g, g + 0.0 * mean, mean**2 + spread)
    got = given.averages(parts)
    want = [(m**2 + v) * k + 2 * m * c, 2 * (m * k + c), k, m**2 + v, 0.0 * m, 2 * m]
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
