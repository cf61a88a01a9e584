"""Slips in the body of a likelihood class: each is answered in words, when or before it is used."""

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp import likelihoods as L
from chainedgp.errors import InputError

X = np.linspace(0.0, 1.0, 15)[:, None]
Y = np.sin(5.0 * X) + 0.1


def one(self, y, f):
    return -0.5 * (y - f) ** 2 - 0.92


def scaled(self, y, f, sigma):
    return stats.norm.logpdf(y, f, sigma)


def bare(self):
    """An `__init__` that forgets that of its parents."""


def early(self):
    self.mine = 2.0


LATENT = {"latents": ("location",)}
SIGMA = {**LATENT, "parameters": {"sigma": 1.0}, "log_density": scaled}
ONE = {**LATENT, "log_density": one}
SLIPS = {
    "a tuple of parameters": (
        {**SIGMA, "parameters": ("sigma",)},
        "must be a dict such as .'sigma'",
    ),
    "a name of a parameter": ({**SIGMA, "parameters": "sigma"}, "must be a dict such as"),
    "a set of parameters": ({**SIGMA, "parameters": {"sigma"}}, "must be a dict such as"),
    "a tuple of domains": ({**SIGMA, "domains": ("positive",)}, "domains must be a dict"),
    "a domain of nothing": ({**SIGMA, "domains": {"tau": "real"}}, "'tau'.*it has sigma"),
    "a prior of nothing": (
        {**SIGMA, "default_priors": {"tau": cgp.priors.Gamma(2.0, 1.0)}},
        "default_priors names 'tau', which is no parameter: it has sigma",
    ),
    "priors in a list": ({**SIGMA, "default_priors": [1.0]}, "default_priors must be a dict"),
    "a name of metadata": ({**ONE, "positive_metadata": "exposure"}, "must be a tuple such as"),
    "one atom": ({**ONE, "atoms": 0.0}, "atoms must be a tuple"),
    "a computed support": ({**ONE, "target_support": "positive"}, "write support = 'positive'"),
    "no density": (LATENT, r"must define its log-density, log_density\(self, y, \*latents\)"),
    "a density of others": ({**LATENT, "logpdf": one}, "logpdf is called log_density here"),
    "a density that is a number": ({**LATENT, "log_density": 3}, "must be a method"),
    "a cdf without latents": ({**ONE, "cdf": lambda self, y: y}, r"def cdf\(self, y, location\)"),
    "a cdf without parameters": (
        {**SIGMA, "cdf": lambda self, y, f: y},
        r"called as cdf\(y, location, sigma=…\).*Write def cdf\(self, y, location, sigma\)",
    ),
    "a mean of y": ({**ONE, "conditional_mean": lambda self, y, f: f}, r"mean\(self, location\)"),
    "NaN below 0": ({**LATENT, "log_density": lambda self, y, f: np.log(f) - y}, "NaN for latents"),
    "no parent": ({**ONE, "__init__": bare}, r"must call super\(\).__init__\(\)"),
    "no parent, with a value": ({**ONE, "__init__": early}, r"must call super\(\).__init__\(\)"),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_slip_in_a_class_is_answered(slip):
    body, words = SLIPS[slip]
    with pytest.raises(InputError, match=words):
        cgp.ChainedGP(X, Y, type("Own", (L.Likelihood,), body)(), num_inducing=3)


def test_kernels_and_means_must_call_their_parents_too():
    for parent in (cgp.kernels.Kernel, cgp.means.MeanFunction):
        with pytest.raises(InputError, match=r"Own\.__init__ must call super"):
            type("Own", (parent,), {"__init__": early})()


def test_what_is_computed_or_inherited_is_no_slip():
    class Computed(L.Likelihood):
        latents = ("location",)
        parameters = {"sigma": 1.0}

        def log_density(self, y, f, *, sigma, exposure=1.0):
            return stats.norm.logpdf(y, exposure * f, sigma)

        @property
        def atoms(self):
            return ()

    class Below(Computed):
        domains = {"sigma": "above_one"}

        def __init__(self):
            self.mine = 2.0
            super().__init__(sigma=2.0)

        def cdf(self, y, *latents, **kw):
            return stats.norm.cdf(y, kw["exposure"] * latents[0], kw["sigma"])

    m = cgp.ChainedGP(X, Y, Below(), num_inducing=3, Y_metadata={"exposure": 1.0})
    assert m.likelihood.mine == 2.0 and m.likelihood.sigma[0] == 2.0
