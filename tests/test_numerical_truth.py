"""Log-densities and first derivatives of every likelihood against 50 digits, at hard points."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from chainedgp import likelihoods

DATA = Path(__file__).with_name("data")
TRUTH = json.loads((DATA / "densities.json").read_text("utf-8"))
TOLERANCE = 1e-10
ROUNDING = 1e-14  # absolute: of what is near 0, as log p of a probability near 1
CONTRACTS = {"Likelihood", "Survival", "ScipyLikelihood", "ConstantLatent"}  # made by methods


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
    monkeypatch.syspath_prepend(str(DATA))
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
