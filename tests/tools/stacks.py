"""Likelihoods inside wrappers, two deep, as contracts meet them."""

import itertools

import numpy as np

from chainedgp import likelihoods as L
from chainedgp.errors import InputError


class Exponential(L.Survival):
    """What a user writes: one latent, two functions."""

    latents = ("log_rate",)

    def log_hazard(self, t, f):
        return f + 0.0 * t

    def log_survival(self, t, f, **metadata):
        return -t * np.exp(f)


class Logistic(L.Likelihood):
    """What a user writes: a density and nothing else."""

    latents = ("location", "log_scale")

    def log_density(self, y, f, g):
        z = np.abs(y - f) * np.exp(-g)
        return -z - g - 2.0 * np.log1p(np.exp(-z))


class Stacks:
    """All stacks of a leaf and at most two wrappers, those left out that cannot be built.

    leaves, wrappers : by name, what makes a likelihood, and what makes one of another.
    most : number of latents above which a stack is left out.
    """

    def __init__(self, leaves, wrappers, most):
        self.leaves, self.wrappers, self.most = leaves, wrappers, most

    def build(self, leaf, *wrappers):
        """The likelihood, or None where a wrapper does not go around what is inside."""
        likelihood = self.leaves[leaf]()
        try:
            for wrapper in wrappers:
                likelihood = self.wrappers[wrapper](likelihood)
        except InputError:
            return None
        return likelihood if len(likelihood.latents) <= self.most else None

    def __iter__(self):
        for leaf in self.leaves:
            for depth in range(3):
                for wrappers in itertools.product(self.wrappers, repeat=depth):
                    if self.build(leaf, *wrappers) is not None:
                        yield leaf, *wrappers
