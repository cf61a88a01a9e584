"""The bound against GPy's and GPflow's, each in its own environment: see benchmarks/."""

import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import compare_bounds
import make_environments

pytestmark = pytest.mark.peer


def python_of(peer):
    python = make_environments.find_python(peer)
    if python is None:
        pytest.skip(f"no interpreter: set CHAINEDGP_{peer.upper()}_PYTHON")
    return python


@pytest.mark.parametrize("peer", ["gpy", "gpflow"])
def test_bounds_agree(peer, capsys):
    worst = compare_bounds.compare(peer, python_of(peer))
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == sum(case.peer == peer for case in compare_bounds.CASES)
    assert worst <= compare_bounds.TOLERANCE


@pytest.mark.parametrize("peer, likelihood", [("gpy", "StudentT"), ("gpflow", "HetGaussian")])
def test_a_different_model_is_noticed(peer, likelihood):
    case = compare_bounds.Case(peer, likelihood, "fitted", 1e-4, nodes=40)
    model = compare_bounds.make_ours(case)
    arrays = compare_bounds.describe(model, case)
    mutants = {"bias": 1.01, "mean": -1.0, "jitter": 0.5, "q_mu": -1.0, "q_sqrt": 2.0**0.5}
    described = [{**arrays, key: factor * arrays[key]} for key, factor in mutants.items()]
    ours = model.log_likelihood()
    bounds = compare_bounds.peer_bounds(peer, python_of(peer), described)
    for key, theirs in zip(mutants, bounds, strict=True):
        assert abs(ours - theirs) > compare_bounds.TOLERANCE * abs(theirs), key
