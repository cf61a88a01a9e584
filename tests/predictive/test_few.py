"""Rules of few nodes against the moments of a standard normal in closed form."""

from itertools import product

import numpy as np
import pytest

from chainedgp.predictive import quantiles, tables
from chainedgp.predictive.few import few_nodes

USED = sorted(
    {(dim, degree) for dim, degrees in quantiles.FEW.items() for degree in degrees}
    | {(dim, degree) for dim, degrees in quantiles.AT_ATOMS.items() for degree in degrees}
    | {(dim, d) for dim, triples in tables.FEW.items() for triple in triples for d in triple}
)
SIZES = {(2, 5): 7, (2, 9): 20, (2, 13): 43, (3, 5): 13, (3, 7): 27, (3, 9): 77, (3, 11): 150}


def double_factorial(k):
    """(k − 1)!!, the k-th moment of a standard normal for an even k."""
    return float(np.prod(np.arange(k - 1.0, 0.0, -2.0))) if k else 1.0


def worst_error(x, weights, degree):
    """The largest error of a moment up to a total degree, as a part of its root mean square."""
    powers = [e for e in product(range(degree + 1), repeat=len(x)) if sum(e) <= degree]
    if len(powers) > 300:
        powers = np.random.default_rng(0).choice(powers, 300, replace=False)
    errors = []
    for e in powers:
        want = np.prod([0.0 if k % 2 else double_factorial(k) for k in e])
        size = np.sqrt(np.prod([double_factorial(2 * k) for k in e]))
        errors.append(abs(weights @ np.prod(x.T ** np.array(e), axis=1) - want) / size)
    return max(errors)


@pytest.mark.parametrize(("dim", "degree"), USED)
def test_a_rule_has_the_moments_up_to_its_degree_and_positive_weights(dim, degree):
    rule = few_nodes(dim, degree)
    log_phi = -0.5 * np.sum(rule.x**2, axis=0) - 0.5 * dim * np.log(2.0 * np.pi)
    weights = np.exp(rule.log_volume + log_phi)
    assert rule.x.shape == (dim, len(weights)) and (weights > 0.0).all()
    assert rule.size == SIZES.get((dim, degree), ((degree + 1) // 2) ** dim) or dim == 2
    if degree <= 23:
        assert worst_error(rule.x, weights, degree) < 1e-12
    if degree < 15:
        assert worst_error(rule.x, weights, degree + 1) > 1e-6
