"""Log-densities, expectations and their derivatives against 50 digits, at hard points."""

import json
import sys

import numpy as np
import pytest
from paths import STORED

from chainedgp import likelihoods

TRUTH = json.loads((STORED / "densities.json").read_text("utf-8"))
TOLERANCE = 1e-10
ROUNDING = 1e-14  # absolute: of what is near 0, as log p of a probability near 1
CONTRACTS = {"Likelihood", "Survival", "ScipyLikelihood", "ConstantLatent"}  # made by methods
CONTRACTS |= {"Rounded"}  # intervals are held against mpmath in test_rounded


def make(case):
    return eval(case, {name: getattr(likelihoods, name) for name in likelihoods.__all__})


def rows(case):
    """The likelihood, and for each row its arguments and the true value and derivatives."""
    stored, lik = TRUTH[case], make(case)
    for i, y in enumerate(stored["y"]):
        latents = [np.array([column[i]]) for column in stored["latents"]]
        kw = {key: column[i] for key, column in stored["parameters"].items()}
        kw |= {key: np.array([column[i]]) for key, column in stored["metadata"].items()}
        true = [stored["log_density"][i], *(d[i] for d in stored["dlatents"])]
        true += [d[i] for d in stored["dparameters"]]
        yield lik, np.array([y]), latents, kw, np.array(true)


def computed(lik, y, latents, kw):
    """log p, its derivatives in the latents and in the parameters, in the order of the file."""
    with np.errstate(over="ignore"):
        value = lik.log_density(y, *latents, **kw)
        slopes = [*lik.dlog_density(y, *latents, **kw)]
        slopes += lik.dlog_density_dtheta(y, *latents, **kw) if lik.parameter_keys else []
    return np.array([np.broadcast_to(part, (1,))[0] for part in (value, *slopes)])


def errors(case):
    """Errors (rows, 1 + b + p), relative but for rounding."""
    found = []
    for lik, y, latents, kw, true in rows(case):
        gap = np.abs(computed(lik, y, latents, kw) - true)
        found.append(np.maximum(gap - ROUNDING, 0.0) / np.maximum(np.abs(true), 1e-300))
    return np.array(found)


@pytest.mark.parametrize("case", TRUTH)
def test_to_ten_digits(case):
    found = errors(case)
    if "from_scipy" in case:  # its derivatives are differences
        np.testing.assert_array_less(found[:, 1:], 1e-8)
        found = found[:, :1]
    np.testing.assert_array_less(found, TOLERANCE)


def test_every_likelihood_is_in_the_file():
    shipped = set(likelihoods.__all__) - CONTRACTS
    assert shipped == {name for name in shipped if any(f"{name}(" in case for case in TRUTH)}
    assert sum(len(stored["y"]) for stored in TRUTH.values()) > 500


def test_a_wrong_digit_is_seen(monkeypatch):
    right = likelihoods.HetGaussian.dlog_density

    def wrong(self, *args):
        first, second = right(self, *args)
        return first, second * (1.0 + 2e-10)

    monkeypatch.setattr(likelihoods.HetGaussian, "dlog_density", wrong)
    assert (errors("HetGaussian()")[:, 2] > TOLERANCE).any()


def test_the_file_is_that_of_the_script(monkeypatch):
    """The first points of a few cases, computed again."""
    monkeypatch.syspath_prepend(str(STORED))
    import make_densities

    try:
        assert set(make_densities.CASES) == set(TRUTH)
        for case in ("HetGaussian()", "Beta()", "WeibullSurvival()"):
            rest = make_densities.CASES[case][1:]
            for i, row in enumerate(make_densities.points(*rest)[:3]):
                found = make_densities.reference(make_densities.CASES[case][0], *row)
                assert found[0] == TRUTH[case]["log_density"][i]
                assert found[1] == TRUTH[case]["dlatents"][0][i]
    finally:
        sys.modules.pop("make_densities", None)


# ---- expectations -------------------------------------------------------------------------------

EXPECTED = json.loads((STORED / "expectations.json").read_text("utf-8"))
DENSITY_ONLY = "Likelihood.from_scipy"  # 20 nodes whatever q is: m.check() tells, `unmet` does not


def expected(case):
    """Of E[log p] and its derivatives (rows, 1 + 2b + p): truth, error; said to be off: (rows,).

    The last by the likelihood's own word, `unmet`, of which the warning of a fit consists; where
    nothing is known but the density, by the rule of `m.check()`, twice as many nodes.
    """
    stored, lik = EXPECTED[case], make(case)
    true = [stored["value"], *stored["dmeans"], *stored["dvariances"], *stored["dparameters"]]
    true, found, said = np.array(true).T, [], []
    for i, y in enumerate(stored["y"]):
        moments = [np.array([[c[i] for c in stored[key]]]) for key in ("means", "variances")]
        kw = {key: column[i] for key, column in stored["parameters"].items()}
        kw |= {key: np.array([column[i]]) for key, column in stored["metadata"].items()}
        arguments = (np.array([y]), *moments)
        nodes = lik.required_nodes(*arguments, **kw)
        parts = lik.expectation(*arguments, nodes, **kw)
        found.append(np.concatenate([part.ravel() for part in parts])[: true.shape[1]])
        if DENSITY_ONLY in case:
            finer = lik.expectation(*arguments, 2 * nodes, **kw)[0]
            said.append(not abs(finer - parts[0])[0] <= 1e-6)
        else:
            said.append(lik.unmet(*arguments, **kw)[0])
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.array(found) - true)
    error = np.where(np.isfinite(gap), np.maximum(gap - 1e-12 * np.abs(true), 0.0), np.inf)
    return true, error, np.array(said)


@pytest.fixture(scope="module")
def everywhere():
    return {case: expected(case) for case in EXPECTED}


def test_expectations_are_right_or_it_is_said(everywhere):
    for case, (true, error, said) in everywhere.items():
        assert (error[~said, 0] <= 1.1e-6).all(), case
        slopes = error[~said, 1:] / (1.0 + np.abs(true[~said, 1:]))
        assert (slopes <= 1e-4).all(), case


def test_it_is_said_only_where_it_is_so(everywhere):
    off = np.concatenate([error[:, 0] > 1e-6 for _, error, _ in everywhere.values()])
    said = np.concatenate([said for _, _, said in everywhere.values()])
    assert off.sum() > 20 and (~off).sum() > 200
    assert not (said & ~off).any()
    assert (said & off).sum() >= 0.9 * off.sum()


def test_every_likelihood_has_expectations():
    shipped = set(likelihoods.__all__) - CONTRACTS
    assert shipped == {name for name in shipped if any(f"{name}(" in case for case in EXPECTED)}


def test_too_few_nodes_are_seen(monkeypatch):
    """The mutant whose limits promise too much."""
    monkeypatch.setattr(likelihoods.LogLogisticSurvival, "node_limits", (np.inf,))
    _, error, said = expected("LogLogisticSurvival()")
    assert not said.any() and (error[:, 0] > 1e-4).any()


def test_the_expectations_are_those_of_the_script(monkeypatch):
    """The first points of a few cases, integrated again."""
    monkeypatch.syspath_prepend(str(STORED))
    import make_expectations

    try:
        assert set(make_expectations.CASES) == set(EXPECTED)
        for case in ("HetLaplace()", "HetGamma()", "LogLogistic()"):
            function, *rest = make_expectations.CASES[case]
            rows = make_expectations.points(*rest, make_expectations.POINTS)
            assert len(rows) == len(EXPECTED[case]["y"])
            for i, row in enumerate(rows[:2]):
                found = make_expectations.reference(function, *row)
                assert found[0] == EXPECTED[case]["value"][i]
                assert found[2] == EXPECTED[case]["dvariances"][0][i] or len(row[1]) > 1
    finally:
        sys.modules.pop("make_expectations", None)


@pytest.mark.parametrize("g", [-14.0, -18.0, -28.0, -60.0])
def test_log_normal_censored_far_out(g):
    """P(T > y) where z = (log y − f) e^{−g} is huge: the slope in f is z e^{−g}, to z^{−2}."""
    f, y = np.array([0.1]), np.array([30.0])
    slope = likelihoods.LogNormalSurvival().dlog_density(y, f, np.array([g]), censored=np.ones(1))
    np.testing.assert_allclose(slope[0], (np.log(y) - f) * np.exp(-2.0 * g), rtol=1e-10)
