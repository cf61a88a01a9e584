"""Faults at every place of every method: the model keeps its best point, saves, loads, goes on.

A place is a fit, a stop on its way (a point that the callback is shown, or a call of the likelihood
inside any stage) and a fault there. A first run without faults counts the stops of a fit.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp import likelihoods
from chainedgp.errors import ConvergenceWarning, InputError, NumericalError
from chainedgp.inference.monitor import Monitor

SAMPLE = 3  # places of each fit and fault in the default suite


class Wrong(Exception):
    """What a user's own code raises here."""


# ---- models and fits ----


def rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    return X, np.sin(2 * X[:, 0]) + 0.3 * np.exp(0.5 * X[:, 0]) * rng.standard_normal(n)


def gaussian(n=40):
    X, y = rows(n)
    return cgp.ChainedGP(X, y, likelihoods.HetGaussian(), num_inducing=6, priors=None)


def fitted(n=40):
    m = gaussian(n)
    quietly(lambda: m.optimize(max_iters=3))
    return m


def growing(n=20):
    """It has too few inducing inputs, and its fit may add some."""
    X, _ = rows(n)
    y = np.sin(4 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(n)
    m = cgp.ChainedGP(X, y, likelihoods.Gaussian(), num_inducing=6, priors=None)
    m._parts.open_inducing = True
    return m


def symmetric(n=30):
    X, _ = rows(n)
    y = np.random.default_rng(1).poisson(np.exp(np.sin(2 * X[:, 0])) + 2.0)
    options = {"num_inducing": 4, "num_nodes": 5, "priors": None}
    return cgp.ChainedGP(X, y, likelihoods.AdditivePoisson(), **options)


def astray(n=40):
    """From here a plain fit ends below constant latents, and begins again."""
    m = gaussian(n)
    m.kernels[0].variance = 1e12
    m.kernels[1].lengthscale = 1e-6
    return m


def batches(m, method, **kw):
    return lambda callback: m.optimize(
        method, batch_size=20, epochs=3, rng=0, callback=callback, **kw
    )


@dataclass
class Fit:
    """A way to fit: `make` builds a model, `run` fits it with a callback (None for restarts)."""

    make: Callable
    run: Callable
    has_callback: bool = True
    noisy: bool = False  # bounds of the trace are estimates of batches

    def __call__(self, m, callback):
        return quietly(lambda: self.run(m)(callback))


def whole(method=None, **kw):
    return lambda m: (
        lambda callback: m.optimize(method, **{"max_iters": 12, "callback": callback, **kw})
    )


FITS = {
    "profile": Fit(gaussian, whole()),
    "profile again": Fit(fitted, whole()),
    "several starts": Fit(gaussian, whole(max_iters=50)),
    "several starts of symmetric latents": Fit(symmetric, whole(max_iters=50)),
    "more inducing inputs": Fit(growing, whole(max_iters=100)),
    "lbfgsb": Fit(gaussian, whole("lbfgsb")),
    "begun again": Fit(astray, whole("lbfgsb")),
    "variational": Fit(gaussian, whole(only="variational")),
    "variational again": Fit(fitted, whole(only="variational")),
    "natgrad": Fit(lambda: gaussian(60), lambda m: batches(m, "natgrad"), noisy=True),
    "natgrad, several starts": Fit(symmetric, lambda m: batches(m, "natgrad"), noisy=True),
    "natgrad, held out": Fit(
        lambda: gaussian(60), lambda m: batches(m, "natgrad", holdout=0.2), noisy=True
    ),
    "natgrad again": Fit(lambda: fitted(60), lambda m: batches(m, "natgrad"), noisy=True),
    "adam": Fit(lambda: gaussian(60), lambda m: batches(m, "adam"), noisy=True),
    "adagrad again": Fit(
        lambda: fitted(60), lambda m: batches(m, "adagrad", learning_rate=0.01), noisy=True
    ),
    "restarts": Fit(
        gaussian,
        lambda m: lambda callback: m.optimize_restarts(3, max_iters=8),
        has_callback=False,
    ),
    "restarts, more inducing inputs": Fit(
        growing,
        lambda m: lambda callback: m.optimize_restarts(2, max_iters=100),
        has_callback=False,
    ),
}


def quietly(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return work()


# ---- faults ----


@dataclass
class Saboteur:
    """Counts points and calls of the likelihood; at number `at` of one kind a fault happens."""

    where: str = ""  # "point" or "call"
    fault: str = ""
    at: int = -1
    points: list = field(default_factory=list)
    calls: int = 0
    happened: bool = False
    epochs_of: object = None  # a model whose bound is taken whenever the callback is called
    bounds: list = field(default_factory=list)

    def callback(self, point):
        self.points.append(point)
        if self.epochs_of is not None:
            calls = self.calls
            self.calls = -(10**6)  # this call is none of the fit
            self.bounds.append(self.epochs_of.log_likelihood())
            self.calls = calls
        return self._strike("point", len(self.points))

    def _strike(self, where, count):
        if self.where != where or count != self.at or self.happened:
            return False
        self.happened = True
        if self.fault == "error":
            raise Wrong("here")
        if self.fault == "interrupt":
            raise KeyboardInterrupt
        return True  # the callback stops, or the likelihood returns NaN

    @contextmanager
    def likelihood_of(self, m) -> Iterator[None]:
        """The likelihood's expectation is under observation inside it, in copies too."""
        kind, saboteur = type(m.likelihood), self
        right = kind.expectation

        def expectation(self, *args, **kw):
            value, *rest = right(self, *args, **kw)
            saboteur.calls += 1
            return (value * np.nan if saboteur._strike("call", saboteur.calls) else value, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "expectation", expectation)
            yield


def stops_of(name, where):
    """How many stops of a kind a fit has."""
    fit, watch = FITS[name], Saboteur()
    m = fit.make()
    with watch.likelihood_of(m):
        fit(m, watch.callback)
    return len(watch.points) if where == "point" else watch.calls


FAULTS = [("point", "error"), ("point", "interrupt"), ("point", "stop"), ("call", "error")]
FAULTS += [("call", "interrupt"), ("call", "NaN")]
KINDS = [
    (name, *fault)
    for name, fit in FITS.items()
    for fault in FAULTS
    if fit.has_callback or fault[0] == "call"
]


def inject(name, where, fault, at, path):
    """Fit with a fault at one place, and check all that must hold afterwards."""
    fit, saboteur = FITS[name], Saboteur(where, fault, at)
    m = fit.make()
    before = m.problem.state().bound
    if (fit.noisy and "again" in name) or name == "adam":
        saboteur.epochs_of = m
    result = None
    with saboteur.likelihood_of(m):
        try:
            result = fit(m, saboteur.callback)
        except Wrong:
            assert fault == "error"
        except (NumericalError, InputError):
            assert fault == "NaN"
        except KeyboardInterrupt:
            pytest.fail(f"{name}: the {fault} at {where} {at} came out")
    place = f"{name}: {fault} at {where} {at}"
    assert saboteur.happened, place
    if fault == "interrupt":
        assert result is not None and result.status == "interrupted", place
    elif fault == "stop":
        assert result.status == "stopped" or at == stops_of(name, where), place
        assert len(saboteur.points) == at, f"{place}: it went on"
    elif fault == "error":
        assert result is None, place
    # θ and q belong together: no point that was accepted is better than what is left; batches
    # have moved on since their last epoch where they were interrupted
    bound = m.log_likelihood()
    least = max([before, *(point.bound for point in saboteur.points)])
    if fit.noisy:
        least = ([before] + saboteur.bounds)[-1]
    share = 0.15 if fit.noisy and fault == "NaN" else 1e-5
    slack = share * max(1.0, abs(least))
    assert bound >= least - slack, f"{place}: {bound} after {least}"
    # it saves, loads and goes on
    m.save(path)
    again = cgp.load(path)
    assert again.log_likelihood() == pytest.approx(bound, rel=1e-9)
    quietly(lambda: again.optimize(max_iters=2))
    assert quietly(lambda: m.optimize(max_iters=2)).bound >= bound - 1e-5 * max(1.0, abs(bound))


def some_kinds():
    """In the default suite every fit has one fault, another in turn; .ci/run has all of them."""
    for turn, name in enumerate(FITS):
        own = [kind for kind in KINDS if kind[0] == name]
        for k, kind in enumerate(own):
            yield pytest.param(*kind, marks=[] if k == turn % len(own) else pytest.mark.long)


@pytest.mark.parametrize(("name", "where", "fault"), list(some_kinds()))
def test_the_best_point_survives_a_fault_at_some_places(name, where, fault, tmp_path):
    count = stops_of(name, where)
    for at in sorted({int(k) for k in np.linspace(1, count, SAMPLE)}):
        inject(name, where, fault, at, tmp_path / "m.cgp")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "where", "fault"), KINDS)
def test_the_best_point_survives_a_fault_at_every_place(name, where, fault, tmp_path):
    for at in range(1, stops_of(name, where) + 1):
        inject(name, where, fault, at, tmp_path / "m.cgp")


# ---- callbacks that look at the model ----


def looked_at(name, path):
    """Fit with a callback that saves, loads and predicts; what it saw at each point, the result."""
    fit, seen = FITS[name], []
    m, at = fit.make(), np.linspace(-2.0, 2.0, 3)[:, None]

    def look(point):
        m.save(path)
        again = cgp.load(path)
        np.testing.assert_array_equal(again.predict(at), m.predict(at))
        seen.append((point.bound, again.log_likelihood()))

    result = fit(m, look)
    return np.array(seen), result


EXACT_POINTS = [name for name, fit in FITS.items() if fit.has_callback and not fit.noisy]
LOOKED_AT = ("profile", "several starts of symmetric latents", "more inducing inputs")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in LOOKED_AT else pytest.mark.slow)
        for name, fit in FITS.items()
        if fit.has_callback
    ],
)
def test_a_callback_sees_theta_and_q_that_belong_together(name, tmp_path):
    """The file that it saves has the bound of the point, and the fit does not feel the look."""
    seen, result = looked_at(name, tmp_path / "m.cgp")
    if name in EXACT_POINTS:  # The points of batches are estimates.
        np.testing.assert_allclose(seen[:, 1], seen[:, 0], rtol=1e-8, atol=2e-3)
    fit = FITS[name]
    assert fit(fit.make(), None).bound == pytest.approx(result.bound, abs=1e-6)


def test_an_older_q_would_be_noticed(tmp_path, monkeypatch):
    """Unless the fit writes q for a callback, the leaves have the q of an earlier point."""
    monkeypatch.setattr(Monitor, "is_watched", lambda self: False)
    seen, _ = looked_at("profile", tmp_path / "m.cgp")
    assert np.abs(seen[:, 1] - seen[:, 0]).max() > 1.0


# ---- a density that turns NaN ----


class Cliff(likelihoods.Likelihood):
    """Gaussian, but NaN for a mean above 0.5: as if a logarithm were taken of what is left."""

    latents = ("f", "g")
    calls = 0

    def log_density(self, y, f, g):
        type(self).calls += 1
        return np.where(f > 0.5, np.nan, -0.5 * ((y - f) ** 2 * np.exp(-g) + g))


BATCHES = {"batch_size": 20, "rng": 0}


@pytest.mark.parametrize(
    ("variance", "keywords"),
    [
        (1.0, {}),
        (1.0, {"only": "variational"}),
        (1.0, {"method": "natgrad", **BATCHES}),
        (1.0, {"method": "adam", **BATCHES}),
        # in mid-fit
        (1e-4, {"max_iters": 40}),
        (1e-4, {"method": "lbfgsb"}),
        (1e-4, {"method": "adam", "learning_rate": 0.1, "epochs": 30, **BATCHES}),
    ],
)
def test_a_density_that_turns_nan_is_named_at_once(variance, keywords):
    X, y = rows(60)
    kernels = [cgp.kernels.RBF(1, variance=variance) for _ in range(2)]
    # The number of nodes is given: more of them would reach over the cliff at an accepted point.
    m = cgp.ChainedGP(X, y, Cliff(), kernels, num_inducing=6, num_nodes=7)
    before, values = m.log_likelihood() if variance < 1.0 else None, m.param_array.copy()
    Cliff.calls, counts = 0, []
    with pytest.raises(InputError, match=r"Cliff\.log_density returned NaN at row") as caught:
        m.optimize(**keywords, callback=lambda point: counts.append(Cliff.calls))
    told = re.search(
        r"row (\d+), where y = (\S+) and the latents are f = ([^,]+),", str(caught.value)
    )
    row, target, f = int(told[1]), float(told[2]), float(told[3])
    assert y[row] == pytest.approx(target, rel=1e-5) and f > 0.5
    assert Cliff.calls - (counts or [0])[-1] < 300  # no search goes on after it
    if before is None:
        np.testing.assert_allclose(m.param_array, values, rtol=1e-12)
    elif "batch_size" not in keywords:  # nobody has looked at all rows after the last batch
        assert counts and m.log_likelihood() > before


def test_nan_far_out_only_shortens_a_step():
    """A user's density may overflow where no sensible step leads: that is not its fault."""

    class Far(Cliff):
        def log_density(self, y, f, g):
            fine = -0.5 * ((y - f) ** 2 * np.exp(-np.clip(g, -700, 700)) + g)
            return np.where(np.abs(f) > 100.0, np.nan, fine)

    X, y = rows(40)
    m = cgp.ChainedGP(X, y, Far(), cgp.kernels.RBF(1, variance=400.0), num_inducing=6)
    assert m.optimize().converged
