"""Warnings point to the line of the user, however deep in the package they are found."""

import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from paths import ROOT

import chainedgp as cgp
from chainedgp.errors import (
    ChainedGPWarning,
    ConvergenceWarning,
    MomentWarning,
    ScalingWarning,
    UnfittedWarning,
    warn,
)

matplotlib.use("Agg")
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2.0, 2.0, (30, 1)), axis=0)
Y = np.sin(2.0 * X) + 0.3 * rng.standard_normal(X.shape)


def make(likelihood=None, X=X):
    return cgp.ChainedGP(X, Y, likelihood or cgp.likelihoods.HetGaussian(), num_inducing=5)


def by_an_estimator():
    estimators = pytest.importorskip("chainedgp.sklearn")
    pipeline = pytest.importorskip("sklearn.pipeline")
    pipe = pipeline.make_pipeline(estimators.ChainedGPRegressor(max_iter=1, num_inducing=5))
    pipe.fit(X, Y[:, 0])


def without_moments():
    likelihood = cgp.likelihoods.HetStudentT(nu=1.5)
    m = make(likelihood)
    m.predict_frame(X[:2], inputs=True)


WAYS = {
    "a fit": (lambda: make().optimize(max_iters=1), ConvergenceWarning),
    "several fits": (lambda: make().optimize_restarts(2, max_iters=1), ConvergenceWarning),
    "a frame": (lambda: make().predict_frame(X[:2]), UnfittedWarning),
    "a figure": (lambda: make().plot(num=3), UnfittedWarning),
    "draws": (lambda: make().posterior_samples(X[:2]), UnfittedWarning),
    "effects": (lambda: make().effects(rows=5), UnfittedWarning),
    "moments": (without_moments, MomentWarning),
    "percentages": (lambda: make().predict_quantiles(X[:2], 0.5), ChainedGPWarning),
    "percentages of parameters": (
        lambda: make().predictive(X[:2]).parameters((0.05, 0.95)),
        ChainedGPWarning,
    ),
    "a model": (lambda: make(X=1e14 + X), ScalingWarning),
    "leaving out": (lambda: make().loo(refit=0), ConvergenceWarning),
    "a pipeline": (by_an_estimator, ConvergenceWarning),
}


@pytest.mark.parametrize("way", WAYS)
def test_warnings_point_to_the_line_of_the_user(way):
    call, category = WAYS[way]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    own = [one for one in found if issubclass(one.category, ChainedGPWarning)]
    assert any(issubclass(one.category, category) for one in own)
    assert {one.filename for one in own} == {__file__}
    pyplot.close("all")


def test_a_warning_without_a_caller_outside_still_comes():
    inside = {"__name__": "chainedgp.somewhere", "warn": warn}
    exec("def tell():\n    warn('so it is')", inside)  # as from a thread of the package
    with pytest.warns(ChainedGPWarning, match="so it is") as found:
        inside["tell"]()
    assert found[0].filename == __file__


def test_no_module_counts_levels_by_hand():
    for path in (ROOT / "chainedgp").rglob("*.py"):
        raw = path.read_text("utf-8").count("warnings.warn(")
        assert raw == (path.name == "errors.py"), path
