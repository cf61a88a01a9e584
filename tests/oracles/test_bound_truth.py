"""The bound and its gradient against 50 digits where Kuu is all but singular.

The same model is written once more with mpmath, jitter and all. In double precision nothing can be
better than what the condition of Kuu leaves of it: errors are held to cond · 2^−53, times a few.
"""

import mpmath as mp
import numpy as np
import pytest

import chainedgp as cgp

EPS = 2.0**-53
X = np.linspace(-1.0, 1.3, 7)[:, None]
Y = np.sin(3.0 * X[:, 0]) + 0.2 * np.cos(40.0 * X[:, 0])
SPREAD = np.array([[-0.9], [-0.1], [0.4], [1.2]])
NEAR = np.array([[-0.5], [-0.5 + 1e-6], [0.7], [0.7 - 3e-7]])
# lengthscale, variance, Z, jitter
CASES = {
    "well conditioned": (0.5, 0.8, SPREAD, 1e-8),
    "long lengthscale": (40.0, 0.8, SPREAD, 1e-8),
    "longer, less jitter": (300.0, 1.2, SPREAD, 1e-10),
    "near duplicates": (0.6, 0.8, NEAR, 1e-8),
    "near duplicates, less jitter": (0.6, 2.0, NEAR, 1e-12),
    "coinciding": (0.6, 0.8, NEAR[[0, 0, 2, 2]], 1e-12),
    "large and small variance": (25.0, 1e6, SPREAD, 1e-9),
}


def model(case):
    """HetGaussian (its expectation is closed) at a q that is neither the prior nor the optimum."""
    lengthscale, variance, Z, jitter = CASES[case]
    m = cgp.ChainedGP(
        X,
        Y,
        cgp.likelihoods.HetGaussian(),
        kernels=[
            cgp.kernels.RBF(1, variance, lengthscale),
            cgp.kernels.RBF(1, 0.5, 0.8 * lengthscale),
        ],
        Z=Z,
        mean_functions=[cgp.means.Constant(0.2), cgp.means.Constant(-1.0)],
        jitter=jitter,
        num_threads=1,
    )
    rng = np.random.default_rng(7)
    m.q_mu[:] = 0.4 * rng.normal(size=m.q_mu.shape)
    m.q_sqrt[:] = 0.5 * m.q_sqrt.values + 0.05 * rng.normal(size=m.q_sqrt.shape)
    return m


def exactly(a):
    return mp.matrix(np.atleast_2d(a).tolist())


def rbf(A, B, variance, lengthscale):
    K = mp.matrix(A.rows, B.rows)
    for i in range(A.rows):
        for k in range(B.rows):
            K[i, k] = variance * mp.exp(-(((A[i, 0] - B[k, 0]) / lengthscale) ** 2) / 2)
    return K


def true_bound(values, Z, jitter):
    """The bound; values: of the leaves as they are called below, numbers or lists."""
    M, total, moments = Z.rows, mp.mpf(0), []
    x = exactly(X)
    for j in range(2):
        variance, lengthscale, mean = (values[f"{key}_{j}"][0] for key in ("var", "len", "mean"))
        mu = mp.matrix([values["q_mu"][2 * i + j] for i in range(M)])
        R, packed = mp.zeros(M), iter(values["q_sqrt"][j::2])
        for i in range(M):
            for k in range(i + 1):
                R[i, k] = next(packed)
        Kuu = rbf(Z, Z, variance, lengthscale) + jitter * variance * mp.eye(M)
        A = mp.inverse(mp.cholesky(Kuu)) * rbf(Z, x, variance, lengthscale)
        RA = R.T * A
        m = [mean + (mu.T * A[:, i])[0] for i in range(x.rows)]
        v = [
            variance - mp.fsum(a * a for a in A[:, i]) + mp.fsum(a * a for a in RA[:, i])
            for i in range(x.rows)
        ]
        moments.append((m, v))
        kl = mp.fsum(a * a for a in mu) + mp.fsum(a * a for a in R) - M
        total -= kl / 2 - mp.fsum(mp.log(abs(R[i, i])) for i in range(M))
    (m_f, v_f), (m_g, v_g) = moments
    for i, y in enumerate(Y.tolist()):
        spread = ((y - m_f[i]) ** 2 + v_f[i]) * mp.exp(v_g[i] / 2 - m_g[i])
        total -= (mp.log(2 * mp.pi) + m_g[i] + spread) / 2
    return total


def leaves(m):
    return {
        "var_0": m.kernels[0].variance,
        "var_1": m.kernels[1].variance,
        "len_0": m.kernels[0].lengthscale,
        "len_1": m.kernels[1].lengthscale,
        "mean_0": m.mean_functions[0].flattened_parameters[0],
        "mean_1": m.mean_functions[1].flattened_parameters[0],
        "Z": m.Z,
        "q_mu": m.q_mu,
        "q_sqrt": m.q_sqrt,
    }


def condition(case, j):
    lengthscale, _, Z, jitter = CASES[case]
    with mp.workdps(50):
        K = rbf(exactly(Z), exactly(Z), mp.mpf(1), mp.mpf(lengthscale) * (1, mp.mpf("0.8"))[j])
        values = mp.eigsy(K + jitter * mp.eye(K.rows), eigvals_only=True)
        return float(max(values) / min(values))


def check(case, factor=1):
    """Errors relative to the sizes that are summed: of the bound and, by leaf, of its slope.

    The slope of a leaf is that in a random direction, by differences with 50 digits. factor: of
    the jitter in the reference.
    """
    m, rng = model(case), np.random.default_rng(11)
    m.log_likelihood()
    gradient = -m.objective_function_gradients()
    parts, found = leaves(m), {}
    held = {name: np.array(leaf.values).ravel() for name, leaf in parts.items()}
    slopes = {name: np.array(leaf.gradient).ravel() for name, leaf in parts.items()}
    assert sum(slope.size for slope in slopes.values()) == gradient.size
    with mp.workdps(50):
        jitter, step = factor * mp.mpf(m.jitter), mp.mpf(10) ** -20

        def bound(**changed):
            values = {name: [mp.mpf(float(t)) for t in value] for name, value in held.items()}
            values |= changed
            return true_bound(values, mp.matrix(values["Z"]), jitter)

        true = bound()
        found["bound"] = float(abs(mp.mpf(m.log_likelihood()) - true)), float(abs(true))
        for name, value in held.items():
            d = rng.normal(size=value.size)
            ends = [
                bound(**{name: [mp.mpf(float(t)) + s * step * mp.mpf(float(e))
                                for t, e in zip(value, d, strict=True)]})
                for s in (1, -1)
            ]  # fmt: skip
            slope = float((ends[0] - ends[1]) / (2 * step))
            found[name] = abs(slope - slopes[name] @ d), float(np.abs(slopes[name] * d).sum())
    return found


def allowed(case):
    """Relative error that the condition of the worse Kuu leaves room for."""
    return 1e-14 + 20.0 * EPS * max(condition(case, j) for j in range(2))


@pytest.mark.parametrize("case", CASES)
def test_as_right_as_the_condition_allows(case):
    limit = allowed(case)
    assert limit < 1e-2
    for name, (error, size) in check(case).items():
        assert error <= limit * size, f"{name}: {error:.1e} of {size:.1e}, allowed {limit:.1e}"


def test_conditions_reach_far():
    assert max(condition(case, 0) for case in CASES) > 1e12


def test_a_little_more_jitter_is_seen():
    """The mutant: 1 % more jitter than the model has, where Z nearly coincide."""
    error, size = check("near duplicates", mp.mpf("1.01"))["bound"]
    assert error > allowed("near duplicates") * size


def test_beyond_working_precision_there_is_an_error():
    m = model("coinciding")
    m.jitter = 1e-17
    with pytest.raises(cgp.errors.NumericalError, match="inducing inputs may coincide"):
        m.log_likelihood()
