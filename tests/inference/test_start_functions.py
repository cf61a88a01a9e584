"""Starts in which latents follow given functions: q is the posterior of normal measurements."""

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.inference.start_functions import Functions, follow, found_functions


class Told(cgp.likelihoods.HetGaussian):
    """A likelihood that finds a wave and a constant."""

    def initial_functions(self, X, y):
        return np.stack([np.sin(X[:, 0]), np.full(len(y), -1.0)])


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_q_is_that_of_gp_regression_on_the_functions(posterior):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (30, 1))
    y = rng.standard_normal(30)
    m = cgp.ChainedGP(X, y, Told(), Z=X, posterior=posterior, num_threads=1)
    found = found_functions(m.problem)
    scaled = (X[:, 0] - X.mean()) / X.std()
    np.testing.assert_allclose(found.values, [np.sin(scaled), np.full(30, -1.0)], atol=1e-12)
    slopes = m.likelihood.dlog_density(y, *found.values)
    np.testing.assert_allclose(found.precisions, [np.mean(s**2) for s in slopes], rtol=1e-12)
    follow(m.problem, Functions(found.rows, found.values, np.array([4.0, 0.5])))
    means, variances = m.predict_latents(X)
    for j, precision in enumerate((4.0, 0.5)):
        K, centre = m.kernels[j].K(X), m.mean_functions[j].evaluate(X)[0]
        gain = np.linalg.solve(K + np.eye(30) / precision, K).T
        exact = centre + gain @ (found.values[j] - centre)
        np.testing.assert_allclose(means[:, j], exact, atol=1e-5)
        np.testing.assert_allclose(variances[:, j], np.diag(K - gain @ K), atol=1e-5)


def test_columns_of_codes_are_left_out():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"x": rng.uniform(size=20), "place": rng.choice(["a", "b"], 20)})
    seen = []

    class Looks(Told):
        def initial_functions(self, X, y):
            seen.append(X)
            return None

    m = cgp.ChainedGP(frame, rng.standard_normal(20), Looks(), num_threads=1)
    assert found_functions(m.problem) is None
    assert seen[0].shape == (20, 1)
    np.testing.assert_allclose(seen[0].std(), 1.0)
