"""Expected log-densities: adaptive integration, differences of the sum, the error table."""

import importlib.util
import math

import numpy as np
import pytest
from paths import ROOT
from scipy.integrate import dblquad, quad

from chainedgp.expectations.levels import LEVELS
from chainedgp.likelihoods import (
    AdditivePoisson,
    Beta,
    HetStudentT,
    Likelihood,
    LogLogistic,
    LogLogisticSurvival,
    StudentT,
)


def adaptive(log_p, means, variances, kink):
    """E log_p(f, g): adaptive in f around the kink, fine trapezoidal sum in g."""
    x, step = np.linspace(-12.0, 12.0, 201, retstep=True)
    weights = step * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    g = means[1] + np.sqrt(variances[1]) * x
    sd = np.sqrt(variances[0])

    def integrand(t):
        return weights @ log_p(means[0] + sd * t, g) * np.exp(-0.5 * t * t)

    inside = [t for t in ((kink - means[0]) / sd, 0.0) if abs(t) < 12.0]
    options = dict(points=inside, epsabs=1e-13, epsrel=1e-12, limit=1000)
    return quad(integrand, -12.0, 12.0, **options)[0] / np.sqrt(2.0 * np.pi)


def value_at(lik, y, means, variances, nodes=64, **kw):
    arrays = [np.atleast_2d(np.asarray(a, dtype=float)) for a in (means, variances)]
    kw = {k: np.atleast_1d(v) if k in lik.metadata_names else v for k, v in kw.items()}
    return lik.expected_log_density(np.array([float(y)]), *arrays, nodes=nodes, **kw)[0][0]


def test_the_oracle_itself():
    """The trapezoidal sum with QUADPACK against dblquad, Cauchy noise written by hand."""

    def cauchy(f, g):
        return -math.log(math.pi) - 0.5 * g - math.log1p((1.0 - f) ** 2 * math.exp(-g))

    def integrand(g, f):
        return cauchy(f, g) * math.exp(-0.5 * f * f / 0.5 - 0.5 * g * g / 0.3)

    want = dblquad(integrand, -5.0, 5.0, -4.0, 4.0, epsabs=1e-9)[0] / (2 * math.pi * 0.15**0.5)
    lik = HetStudentT()
    got = adaptive(lambda f, g: lik.log_density(1.0, f, g, nu=1.0), (0.0, 0.0), (0.5, 0.3), 1.0)
    assert got == pytest.approx(want, abs=1e-8)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # at its last digits
@pytest.mark.parametrize("kappa", [1e-6, 1e-2, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("nu", [0.5, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("scales", [0.0, 0.7, 20.0, 1e4])
def test_student_t(kappa, nu, scales):
    lik, m_g, v_g = HetStudentT(), -0.6, 0.3
    means, variances = (0.2, m_g), (kappa * np.exp(m_g), v_g)
    y = 0.2 + scales * np.exp(0.5 * m_g)
    want = adaptive(lambda f, g: lik.log_density(y, f, g, nu=nu), means, variances, y)
    assert value_at(lik, y, means, variances, nu=nu) == pytest.approx(want, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("v", [(1e-8, 0.3), (0.4, 0.02), (1.0, 2.0), (9.0, 5.0)])
@pytest.mark.parametrize("y", [0, 1, 40])
def test_additive_poisson(v, y):
    lik, means = AdditivePoisson(), (0.7, -0.4)
    want = adaptive(lambda f, g: lik.log_density(y, f, g, exposure=2.5), means, v, np.log(y + 1))
    got = value_at(lik, y, means, v, nodes=8, exposure=2.5)
    assert got == pytest.approx(want, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("means", [(-3.0, -1.0), (0.5, 0.0), (6.0, 4.0)])
@pytest.mark.parametrize("v", [(1e-8, 0.3), (0.4, 0.02), (1.0, 2.0)])
def test_beta(means, v):
    lik = Beta()
    for y in (1e-6, 0.3, 0.999):
        want = adaptive(lambda f, g, y=y: lik.log_density(y, f, g), means, v, 0.0)
        assert value_at(lik, y, means, v) == pytest.approx(want, rel=1e-10, abs=1e-9)


CENSORING = {
    "exact": {},
    "right": {"censored": 1.0},
    "left": {"censored": -1.0},
    "interval": {"censored": 2.0, "y_upper": 3.1},
    "exact, truncated": {"entry": 0.4},
    "left, truncated": {"censored": -1.0, "entry": 0.4},
    "interval, truncated": {"censored": 2.0, "y_upper": 3.1, "entry": 0.4},
}


@pytest.mark.parametrize("metadata", CENSORING.values(), ids=CENSORING)
@pytest.mark.parametrize("kappa", [1e-4, 0.5, 100.0])
def test_log_logistic(metadata, kappa):
    lik, m_g, v_g = LogLogisticSurvival(), 0.3, 0.2
    means, variances = (-0.4, m_g), (kappa * np.exp(-2 * m_g - 2 * v_g), v_g)
    for y in (0.9, 2.5):
        want = adaptive(
            lambda f, g, y=y: lik.log_density(y, f, g, **metadata), means, variances, np.log(y)
        )
        assert value_at(lik, y, means, variances, **metadata) == pytest.approx(want, abs=5e-9)


# -- gradients ---------------------------------------------------------------------------------


def survival_rows(n):
    code = np.tile([0.0, 1.0, -1.0, 2.0], n // 4)
    entry = np.where(np.arange(n) % 3 == 0, 0.05, 0.0)
    return {"censored": code, "y_upper": np.full(n, 9.0), "entry": entry}


CASES = {
    "HetStudentT": (HetStudentT(nu=2.5), lambda n: {}),
    "StudentT": (StudentT(nu=6.0, log_scale2=-0.5), lambda n: {}),
    "AdditivePoisson": (AdditivePoisson(), lambda n: {"exposure": np.linspace(0.5, 2.0, n)}),
    "Beta": (Beta(), lambda n: {}),
    "LogLogisticSurvival": (LogLogisticSurvival(), survival_rows),
    "LogLogistic": (LogLogistic(log_shape=0.4), survival_rows),
}
TARGETS = {
    "real": lambda rng, n: 3.0 * rng.normal(size=n),
    "positive": lambda rng, n: 0.1 + 5.0 * rng.uniform(size=n),
    "unit": lambda rng, n: rng.uniform(0.01, 0.99, size=n),
    "counts": lambda rng, n: rng.poisson(4.0, size=n).astype(float),
}


def rows_for(lik, metadata, n=24):
    rng = np.random.default_rng(3)
    b = len(lik.latents)
    means, variances = rng.normal(size=(b, n)).T, np.exp(rng.normal(-1.0, 1.0, size=(b, n))).T
    return TARGETS[lik.support](rng, n), means, variances, {**lik.parameter_values(), **metadata(n)}


def differences(function, x, step):
    """Five-point central differences: error step⁴."""
    d = {k: function(x + k * step) for k in (-2, -1, 1, 2)}
    return (8 * (d[1] - d[-1]) - (d[2] - d[-2])) / (12 * step)


def worst_disagreement(lik, metadata, nodes=12):
    """Largest relative disagreement of any gradient with differences of the same sum."""
    y, means, variances, kw = rows_for(lik, metadata)
    _, dmeans, dvariances, dtheta = lik.expected_log_density(y, means, variances, nodes=nodes, **kw)

    def value(m=means, v=variances, **changed):
        return lik.expected_log_density(y, m, v, nodes=nodes, **{**kw, **changed})[0]

    pairs = []
    for j in range(means.shape[1]):
        unit = np.eye(means.shape[1])[j]
        pairs.append(
            (dmeans[:, j], differences(lambda t, u=unit: value(m=means + t * u), 0.0, 1e-3))
        )
        scaled = differences(lambda t, u=unit: value(v=variances * (1 + t * u)), 0.0, 1e-3)
        pairs.append((dvariances[:, j] * variances[:, j], scaled))
    for k, key in enumerate(lik.parameter_keys):
        pairs.append(
            (dtheta[:, k], differences(lambda t, key=key: value(**{key: t}), kw[key], 1e-3))
        )
    return max(float(np.max(np.abs(a - b) / (1e-2 + np.abs(b)))) for a, b in pairs)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_sum(name):
    lik, metadata = CASES[name]
    assert worst_disagreement(lik, metadata) < 1e-7


def mutants():
    class Sign(HetStudentT):
        def expected_log_density(self, *args, **kw):
            value, dm, dv, dt = super().expected_log_density(*args, **kw)
            return value, dm * np.array([1.0, -1.0]), dv, dt

    class Twice(Beta):
        def expected_log_density(self, *args, **kw):
            value, dm, dv, dt = super().expected_log_density(*args, **kw)
            return value, dm, 2.0 * dv, dt

    class Jacobian(LogLogisticSurvival):
        def expected_log_density(self, y, means, variances, **kw):
            value, dm, dv, dt = super().expected_log_density(y, means, variances, **kw)
            return value, dm, dv * np.sqrt(variances), dt

    class Forgotten(HetStudentT):
        def expected_log_density(self, *args, **kw):
            value, dm, dv, dt = super().expected_log_density(*args, **kw)
            return value, dm, dv, 0.0 * dt

    return {"Sign": Sign, "Twice": Twice, "Jacobian": Jacobian, "Forgotten": Forgotten}


@pytest.mark.parametrize("name", ["Sign", "Twice", "Jacobian", "Forgotten"])
def test_mutants_are_rejected(name):
    lik = mutants()[name]()
    metadata = survival_rows if isinstance(lik, LogLogisticSurvival) else (lambda n: {})
    assert worst_disagreement(lik, metadata) > 1e-2


# -- the engine and the limits -----------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_reduced_form_is_the_plain_grid_where_that_converges(name):
    lik, metadata = CASES[name]
    y, means, variances, kw = rows_for(lik, metadata)
    variances = 0.02 * variances
    plain = Likelihood._quadrature(lik, y, means, variances, nodes=60, **kw)
    reduced = lik.expected_log_density(y, means, variances, nodes=60, **kw)
    for a, b in zip(plain, reduced, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=2e-7, atol=2e-8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variance", [0.0, 1e-14])
def test_no_variance_is_the_density(name, variance):
    lik, metadata = CASES[name]
    y, means, variances, kw = rows_for(lik, metadata)
    value, dmeans, dvariances, _ = lik.expected_log_density(
        y, means, np.full_like(variances, variance), **kw
    )
    np.testing.assert_allclose(value, lik.log_density(y, *means.T, **kw), rtol=1e-9, atol=2e-9)
    np.testing.assert_allclose(dmeans.T, lik.dlog_density(y, *means.T, **kw), rtol=1e-7, atol=1e-7)
    second = 0.5 * np.array(lik.d2log_density(y, *means.T, **kw))
    np.testing.assert_allclose(dvariances.T, second, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_wide_posteriors_stay_finite(name):
    lik, metadata = CASES[name]
    y, means, variances, kw = rows_for(lik, metadata)
    for scale in (1e-12, 25.0, 100.0):
        result = lik.expected_log_density(y, 10 * means, scale * np.ones_like(variances), **kw)
        assert all(np.all(np.isfinite(part)) for part in result)


@pytest.mark.parametrize("name", CASES)
def test_required_nodes_keep_their_promise(name):
    lik, metadata = CASES[name]
    y, means, variances, kw = rows_for(lik, metadata)
    for scale in (0.1, 1.0, 3.0):
        spread = np.minimum(scale * variances, 3.4)
        nodes = lik.required_nodes(y, means, spread, **kw)
        assert set(nodes) <= set(LEVELS)
        assert not lik.unmet(y, means, spread, **kw).any()
        got = lik.expectation(y, means, spread, nodes, **kw)[0]
        want = lik.expected_log_density(y, means, spread, nodes=120, **kw)[0]
        np.testing.assert_allclose(got, want, atol=2e-6, rtol=0)
    if isinstance(lik, HetStudentT):
        arguments = (y, means, np.full_like(variances, 40.0))
        unmet = lik.unmet(*arguments, **kw)
        assert unmet.mean() > 0.8  # the others are right by luck
        assert set(lik.required_nodes(*arguments, **kw)[unmet]) == {LEVELS[-1]}


# -- the page ----------------------------------------------------------------------------------

PINNED = [
    ("HetStudentT", "1", "1"),
    ("HetStudentT", "100", "4"),
    ("LogLogisticSurvival", "1", "0.5"),
    ("LogLogisticSurvival", "100", "2"),
    ("AdditivePoisson", "", "9"),
    ("Beta", "", "4"),
    ("HetGaussian", "100", "1"),
]


def page_rows(text):
    """{(likelihood, κ, v): cells} of the table of docs/quadrature_error.md."""
    lines = [line.strip("|\n").split("|") for line in text.splitlines() if line.startswith("| ")]
    cells = [[c.strip() for c in line] for line in lines]
    return {tuple(c[:3]): c[3:] for c in cells}


def same_error(shown, error):
    return error < 2e-9 if shown.startswith("<") else 0.5 < float(shown.split()[0]) / error < 2.0


@pytest.fixture(scope="module")
def page():
    script, text = ROOT / "benchmarks/quadrature_error.py", ROOT / "docs/quadrature_error.md"
    if not (script.exists() and text.exists()):
        pytest.skip("the page and its script are in the source checkout only")
    spec = importlib.util.spec_from_file_location("quadrature_error", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, page_rows(text.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", PINNED, ids="-".join)
def test_the_table_of_errors(page, key):
    module, rows = page
    plain, default, chosen, nodes = module.entry(
        key[0], float(key[1]) if key[1] else None, float(key[2])
    )
    shown = rows[key]
    assert same_error(shown[0], plain)
    assert same_error(shown[1], default)
    assert same_error(shown[2], chosen)
    assert shown[2].endswith(f"({nodes})")
    assert not same_error(shown[0], 3.0 * plain + 1e-8)  # a wrong entry would be seen
    assert chosen < 2e-6
