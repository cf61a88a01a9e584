"""The von Mises distribution: scipy and mpmath, its ends that meet, and fits through ±π."""

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import chainedgp as cgp
from chainedgp import likelihoods
from chainedgp.errors import InputError
from chainedgp.expectations import circular
from chainedgp.likelihoods import VonMises
from chainedgp.likelihoods.winding import winding_direction

LIK = VonMises()
F, G = np.array([-9.0, -3.1, 0.0, 0.4, 2.9, 7.0]), np.array([-3.0, 0.0, 2.0, 3.3, 3.5, 9.0])


@pytest.mark.parametrize("k", [1e-3, 0.7, 12.0, 29.9, 30.1, 49.0, 51.0, 400.0, 1e6])
def test_the_cdf_has_ten_digits(k):
    """Against mpmath: from concentration 50 on that of scipy has six."""
    for angle in np.array([-3.0, -1.2, -0.1, 0.3, 2.0]) / max(1.0, np.sqrt(k) / 3.0):
        with mp.workdps(25):
            edge = min(0.0, -1.0 / np.sqrt(k + 1.0))
            ends = [-mp.pi, *(e for e in (12 * edge, 4 * edge, edge) if -3 < e < angle), angle]
            total = mp.quad(lambda t: mp.exp(k * (mp.cos(t) - 1)), ends)
            exact = float(total / (2 * mp.pi * mp.besseli(0, k) * mp.exp(-k)))
        assert circular.centred_cdf(angle, k) == pytest.approx(exact, abs=2e-12)


def test_density_and_slopes_far_out():
    y = np.array([-3.0, 0.2, 3.1])[:, None]
    law = stats.vonmises(np.exp(G[:-1]), F[:-1])
    np.testing.assert_allclose(LIK.log_density(y, F[:-1], G[:-1]), law.logpdf(y), rtol=1e-10)
    for g in (100.0, 300.0, -300.0):
        assert np.isfinite(LIK.log_density(y, F, np.full(6, g))).all()


def test_quantiles_invert_the_cdf_and_start_at_minus_pi():
    q = np.array([0.0, 1e-6, 0.1, 0.5, 0.9, 1.0])[:, None]
    y = LIK.ppf(q, F, G)
    assert (np.abs(y) <= np.pi).all() and (np.diff(y, axis=0) >= 0.0).all()
    np.testing.assert_allclose(LIK.cdf(y[1:-1], F, G), np.broadcast_to(q[1:-1], (4, 6)), atol=1e-12)
    np.testing.assert_array_equal(y[[0, -1]], [[-np.pi] * 6, [np.pi] * 6])
    np.testing.assert_allclose(LIK.cdf(np.array([[-np.pi], [np.pi]]), F, G), [[0.0] * 6, [1.0] * 6])


@pytest.mark.parametrize(("f", "g"), [(-3.1, -1.0), (0.4, 2.0), (3.0, 3.5), (-3.0, 8.0)])
def test_linear_moments(f, g):
    width = np.exp(-0.5 * g)
    near = [f + k * width + turn for k in (-8, -3, 0, 3, 8) for turn in (-2 * np.pi, 0, 2 * np.pi)]
    points = sorted(t for t in near if -np.pi < t < np.pi)

    def moment(power):
        def density(t):
            return t**power * float(np.exp(LIK.log_density(t, f, g)))

        return integrate.quad(density, -np.pi, np.pi, points=points, epsabs=1e-13, limit=300)[0]

    mean = moment(1)
    assert LIK.conditional_mean(np.array(f), np.array(g)) == pytest.approx(mean, abs=1e-10)
    variance = LIK.conditional_variance(np.array(f), np.array(g))
    assert variance == pytest.approx(moment(2) - mean**2, abs=1e-10)


def test_natural_parameters():
    named = LIK.natural_parameters(F, G)
    assert list(named) == ["direction", "concentration", "resultant_length"]
    want = [
        integrate.quad(lambda t, k=k: np.cos(t) * stats.vonmises.pdf(t, k), -np.pi, np.pi)[0]
        for k in np.exp(G[:4])
    ]
    np.testing.assert_allclose(named["resultant_length"][:4], want, rtol=1e-8)


def test_a_direction_that_passes_pi_has_no_jump():
    """The wind turns once: predictions of the direction follow it through ±π."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 200))
    turning = 2.0 * np.pi * x / 10.0 + 1.0
    y = LIK.sample(rng, turning, np.full(200, 2.0))
    assert (np.abs(y) <= np.pi).all() and LIK.target_support.periodic
    m = cgp.ChainedGP(x, y, VonMises(), num_inducing=15, num_threads=1)
    m.optimize(messages=False)
    found = m.predictive(x[:, None]).parameters()["direction"][:, 1]
    off = circular.wrapped(found - turning)
    assert np.sqrt(np.mean(off**2)) < 0.15


@pytest.mark.long
def test_a_direction_that_turns_on_is_found_with_a_slope():
    """The bound with a rough slope is about that of the data turned back by the true one."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 300))
    y = LIK.sample(rng, 2.0 + 0.9 * x, 1.0 + np.cos(x))
    w = np.linspace(-3.0, 3.0, 601)
    slope = w[np.abs(np.exp(1j * (y - np.outer(w, x))).sum(1)).argmax()]
    assert slope == pytest.approx(0.9, abs=0.05)
    still = (y - 0.9 * x + np.pi) % (2.0 * np.pi) - np.pi
    m = cgp.ChainedGP(x, still, VonMises(), num_inducing=15, num_threads=1)
    truth = m.optimize().bound
    for start in (slope + 0.15,):
        means = [cgp.means.Linear(1, start), cgp.means.Constant()]
        m = cgp.ChainedGP(x, y, VonMises(), num_inducing=15, mean_functions=means, num_threads=1)
        assert m.optimize().bound > truth - 1.0
        direction = m.predictive(x).parameters()["direction"][:, 1]
        assert direction[-1] - direction[0] == pytest.approx(0.9 * (x[-1] - x[0]), abs=0.6)


def turned(n, D, function, seed, concentration=3.0):
    """Rows whose direction is a function of X (n, D)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    f = function(X)
    return X, f, LIK.sample(rng, f, np.full(n, np.log(concentration)))


WINDING = {
    "three turns": (1, lambda X: 6.0 * np.pi * X[:, 0]),
    "ten turns": (1, lambda X: -20.0 * np.pi * X[:, 0]),
    "faster and faster": (1, lambda X: 12.0 * np.pi * X[:, 0] ** 2),
    "there and back": (1, lambda X: 12.0 * np.sin(2.0 * np.pi * X[:, 0])),
    "two inputs": (2, lambda X: 2.0 * np.pi * (2.0 * X[:, 0] - 1.5 * X[:, 1])),
    "a hill": (2, lambda X: 9.0 * np.exp(-6.0 * ((X - 0.5) ** 2).sum(1))),
    "two inputs of five": (5, lambda X: 2.0 * np.pi * (2.0 * X[:, 0] - 1.5 * X[:, 1])),
}


@pytest.mark.parametrize("name", WINDING)
def test_whole_turns_are_found_from_the_angles_alone(name):
    X, f, y = turned(300, *WINDING[name], seed=1)
    direction, closeness = winding_direction((X - X.mean(0)) / X.std(0), y)
    off = direction - f - 2.0 * np.pi * np.round(np.median(direction - f) / (2.0 * np.pi))
    assert np.abs(off).max() < np.pi  # Every row is on its own turn.
    assert np.sqrt(np.mean(off**2)) < 0.6
    assert closeness == pytest.approx(np.mean(np.cos(y - f)), abs=0.2)


def test_nothing_is_followed_where_nothing_winds():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(size=(300, 1)), rng.uniform(-np.pi, np.pi, 300)
    assert LIK.initial_functions(x, np.zeros(300)) is None  # The same direction everywhere.
    assert LIK.initial_functions(np.zeros((300, 0)), y) is None  # Categories alone.
    assert LIK.initial_functions(x[:3], y[:3]) is None
    assert winding_direction(np.zeros((300, 1)), y) is None  # A constant input tells nothing.
    same = np.zeros((300, 1))
    assert np.isfinite(winding_direction(same, np.full(300, 0.3))[0]).all()


def test_a_direction_that_winds_is_found_by_default():
    """The bound is about that of the same angles turned back by the true direction."""
    X, f, y = turned(150, *WINDING["three turns"], seed=2)
    m = cgp.ChainedGP(X, y, VonMises(), num_inducing=15, num_threads=1)
    result = m.optimize()
    assert result.start == "functions followed"
    still = np.angle(np.exp(1j * (y - f)))
    truth = cgp.ChainedGP(X, still, VonMises(), num_inducing=15, num_threads=1).optimize().bound
    assert result.bound > truth - 15.0  # Three turns have a price; a local optimum is far below.
    direction = m.predictive(X).parameters()["direction"][:, 1]
    assert np.abs(np.angle(np.exp(1j * (direction - f)))).max() < 0.5
    assert np.ptp(direction) == pytest.approx(np.ptp(f), abs=1.0)


@pytest.mark.parametrize("lik", [
    LIK.with_constant("log_concentration"), likelihoods.Rounded(LIK, 0.05)
])  # fmt: skip
def test_wrappers_follow_the_functions_of_their_base(lik):
    X, _, y = turned(200, *WINDING["three turns"], seed=4)
    kw = {"log_concentration": 1.0} if "log_concentration" not in lik.latents else {}
    found, base = lik.initial_functions(X, y, **kw), LIK.initial_functions(X, y)
    np.testing.assert_allclose(found, base[: len(lik.latents)], atol=1e-12)


def test_functions_of_a_wrong_shape_are_refused():
    class Wrong(VonMises):
        def initial_functions(self, X, y):
            return np.zeros((3, len(y)))

    X, _, y = turned(60, *WINDING["three turns"], seed=4)
    m = cgp.ChainedGP(X, y, Wrong(), num_inducing=5, num_threads=1)
    with pytest.raises(InputError, match="initial_functions must return finite values"):
        m.optimize()


@pytest.mark.parametrize("k", [1e-8, 0.5, 12.0, 29.9, 30.1, 300.0])
def test_the_slope_of_the_cdf_in_the_concentration(k):
    angles = np.array([-3.1, -1.0, -1e-10, 0.0, 0.3, 2.0])

    def exact(t, k):
        return mp.quad(lambda u: mp.exp(k * (mp.cos(u) - 1)), [0, t]) / mp.besseli(0, k) * mp.exp(k)

    with mp.workdps(30):
        step = mp.mpf(k) * mp.mpf(10) ** -8
        differences = [
            k * (exact(t, mp.mpf(k) + step) - exact(t, mp.mpf(k) - step)) / (4 * mp.pi * step)
            for t in angles
        ]
    slopes = circular.centred_cdf_and_slope(angles, np.full(6, k))[1]
    np.testing.assert_allclose(slopes, np.array(differences, dtype=float), atol=1e-13)


def test_quantile_slopes_are_those_of_the_quantiles():
    q, step = np.array([0.1, 0.35, 0.9])[:, None], 1e-5
    y = LIK.ppf(q, F[1:5], G[1:5])
    slopes = LIK.quantile_slopes(y, F[1:5], G[1:5])
    for j, (df, dg) in enumerate(((step, 0.0), (0.0, step))):
        up, down = (LIK.ppf(q, F[1:5] + s * df, G[1:5] + s * dg) for s in (1.0, -1.0))
        np.testing.assert_allclose(slopes[j], (up - down) / (2.0 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("y", [-3.0, 0.4, np.pi, -np.pi])
@pytest.mark.parametrize("k", [2.0, 25.0, 200.0])
def test_rounded_angles_go_on_beyond_pi(y, k):
    """The probability of an interval has 9 digits also opposite to the direction."""
    lik, width, f = likelihoods.Rounded(LIK, 0.2), 0.2, 0.3
    with mp.workdps(25):
        density = lambda t: mp.exp(k * mp.cos(t - f)) / (2 * mp.pi * mp.besseli(0, k))  # noqa: E731
        exact = float(mp.log(mp.quad(density, [y - width / 2, y, y + width / 2]) / width))
    g = np.log(k)
    assert lik.log_density(np.array(y), np.array(f), np.array(g)) == pytest.approx(exact, rel=1e-9)
    slopes = lik.dlog_density(np.array(y), np.array(f), np.array(g))
    for slope, (df, dg) in zip(slopes, ((1e-5, 0.0), (0.0, 1e-5)), strict=True):
        up, down = (
            lik.log_density(np.array(y), np.array(f + s * df), np.array(g + s * dg))
            for s in (1.0, -1.0)
        )
        assert slope == pytest.approx(float(up - down) / 2e-5, rel=1e-4, abs=1e-4)


def test_targets_that_are_no_angles_are_refused():
    with pytest.raises(InputError, match="radians, from −π to π; 2 of 3 are not"):
        cgp.ChainedGP(np.arange(3.0), [0.0, 90.0, 350.0], VonMises())
