"""Tests of a likelihood's E[log p(y | f)]: under independent and under correlated latents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np

from ..data.rows import rows_of
from ..expectations.levels import LEVELS
from ..likelihoods.contract import Likelihood
from ..likelihoods.differences import difference
from ..linalg import Array
from .probe import Probe

STEP, SHORT_STEP = 1e-4, 3e-6
"""Steps of finite differences; the short one is for expectations that bend sharply, where y is at
an end of the support."""
PARTS = ("value", "derivative in the means", "derivative in the variances", "derivative in θ")


def check_expectations(probe: Probe) -> None:
    """Check E[log p(y | f)] against quadrature, for independent latents.

    If the likelihood gives the joint form, it is checked for correlated ones too.
    """
    variances = np.random.default_rng(1).uniform(0.02, 0.1, (probe.b, probe.n))
    laws = [("expected_log_density", variances.T)]
    if probe.b > 1 and probe.lik.own_joint_expectation:
        laws.append(("joint_expected_log_density", _covariances(variances)))
    for method, spread in laws:
        _check_value(probe, method, spread)
        _check_gradients(probe, method, spread)
    if len(laws) == 2:
        _check_independent(probe, variances.T)


def _covariances(variances: Array) -> Array:
    """Covariances V (n, b, b) of latents to test with, of variances (b, n): both signs, by row."""
    b, n = variances.shape
    A = np.random.default_rng(2).standard_normal((n, b, b))
    C = A @ A.swapaxes(1, 2) + 0.5 * np.eye(b)
    sd = np.sqrt(variances.T / np.einsum("njj->nj", C))
    return C * sd[:, :, None] * sd[:, None, :]


def _means(probe: Probe) -> Array:
    """Means (n, b) of latents to test with, Fortran-ordered as the core has them."""
    return np.stack(probe.latents).T


def _averages(
    probe: Probe, method: str, variances: Array, nodes: int | None = None
) -> list[Array] | None:
    """The four arrays of a likelihood's expectation under test, or None and a fault."""
    n, more = probe.n, {} if nodes is None else {"nodes": nodes}
    result = probe.call(method, probe.y, _means(probe), variances, kw={**probe.kw, **more})
    if not isinstance(result, tuple | list) or len(result) != 4:
        if result is not None:
            probe.fault(method, "must return four arrays: value, dmeans, dvariances, dtheta")
        return None
    shapes = ((n,), (n, probe.b), variances.shape, (n, len(probe.keys)))
    parts = [probe.array(method, part, s) for part, s in zip(result, shapes, strict=True)]
    found = [part for part in parts if part is not None]
    return found if len(found) == len(parts) else None


def _check_value(probe: Probe, method: str, variances: Array) -> None:
    """Test that E[log p] agrees with many nodes, and at zero variance with the density."""
    means = _means(probe)
    many, fewer = {1: (64, 48), 2: (48, 40), 3: (20, 16)}.get(probe.b, (20, 16))
    got = _averages(probe, method, variances, many)
    if got is None:
        return
    engine = [
        Likelihood._quadrature(probe.lik, probe.y, means, variances, nodes=k, **probe.kw)
        for k in (many, fewer)
    ]
    possible = np.isfinite(engine[0][0]) & np.isfinite(engine[1][0])  # else y is impossible under q
    for part, *values in zip(PARTS, got, *engine, strict=True):
        one, want, other = (value[possible] for value in values)
        if want.size:  # where the engine has not converged (a kink) it is no judge
            tol = 1e-6 + 10.0 * np.max(np.abs(want - other) / (1e-3 + np.abs(want)))
            probe.compare(method, f"{part} differs from quadrature of log_density", one, want, tol)
    limit = _averages(probe, method, np.zeros_like(variances))
    if limit is not None:
        at_mean = probe.lik.log_density(probe.y, *probe.latents, **probe.kw)
        probe.compare(method, "at zero variance differs from log_density", limit[0], at_mean)
        if not all(np.all(np.isfinite(part)) for part in limit):
            probe.fault(method, "is not finite at zero variance")
    wide = _averages(probe, method, np.full_like(variances, 25.0))
    if wide is not None and np.any(np.isnan(wide[0])):
        probe.fault(method, "is NaN at a variance of 25")
    nodes = probe.call("required_nodes", probe.y, means, variances)
    numbers = np.arange(1, LEVELS[-1] + 1)
    if nodes is not None and not (np.shape(nodes) == (probe.n,) and np.isin(nodes, numbers).all()):
        probe.fault("required_nodes", f"must be (n,) whole numbers from 1 to {LEVELS[-1]}")


def _check_gradients(probe: Probe, method: str, variances: Array) -> None:
    """Test that the returned slopes of E[log p] are those of its value; rows do not mix."""
    means = _means(probe)
    got = _averages(probe, method, variances, 12)
    if got is None:
        return

    def value(m: Array, v: Array, **change: float) -> Array:
        kw = {**probe.kw, **change}
        return getattr(probe.lik, method)(probe.y, m, v, nodes=12, **kw)[0]

    possible = np.isfinite(got[0])  # else q has latents at which y is impossible

    def compare(name: str, found: Array, slope: Callable[[float], Array]) -> None:
        text = f"{name} disagrees with differences of its own value"
        want = slope(STEP)
        if not np.allclose(found, want, rtol=1e-7, atol=1e-10):
            short = slope(SHORT_STEP)  # A wrong derivative agrees with neither.
            want = np.where(np.abs(short - found) < np.abs(want - found), short, want)
        probe.compare(method, text, found[possible], want[possible])

    zero = np.zeros(probe.n)
    for j, name in enumerate(probe.names):
        along = partial(_along_means, value, means, variances, np.eye(probe.b)[j])
        compare(f"dmeans of {name}", got[1][:, j], partial(difference, along, zero))
    for name, step in _steps(probe, variances):
        along = partial(_along_variances, value, means, variances, step)
        found = (got[2] * step).reshape(probe.n, -1).sum(axis=1)
        compare(f"dvariances of {name}", found, partial(difference, along, zero))
    if variances.ndim == 3 and not np.allclose(got[2], got[2].swapaxes(1, 2), rtol=1e-9):
        probe.fault(method, "dvariances must be symmetric, half of the slope in each of two places")
    for k, key in enumerate(probe.keys):
        now = float(probe.kw[key])
        unit = abs(now) if probe.lik._domain(key) == "positive" else 1.0

        def in_theta(step: float, key: str = key, now: float = now, unit: float = unit) -> Array:
            return difference(lambda t: value(means, variances, **{key: t}), now, step * unit)

        compare(f"dtheta of {key}", got[3][:, k], in_theta)
    _check_rows(probe, method, variances, got[0])


def _along_means(
    value: Callable[..., Array], means: Array, variances: Array, step: Array, t: Array
) -> Array:
    return value(means + t[:, None] * step, variances)


def _along_variances(
    value: Callable[..., Array], means: Array, variances: Array, step: Array, t: Array
) -> Array:
    return value(means, variances + np.expand_dims(t, tuple(range(1, variances.ndim))) * step)


def _steps(probe: Probe, variances: Array) -> list[tuple[str, Array]]:
    """Directions in variances, or covariances, of latents along which E[log p] is differentiated.

    They have length one, and each has a name.
    """
    b = probe.b
    if variances.ndim == 2:
        return list(zip(probe.names, np.eye(b), strict=True))
    steps = [(name, np.outer(e, e)) for name, e in zip(probe.names, np.eye(b), strict=True)]
    for j, k in combinations(range(b), 2):
        step = np.zeros((b, b))
        step[j, k] = step[k, j] = 1.0
        steps.append((f"{probe.names[j]} and {probe.names[k]}", step))
    return steps


def _check_rows(probe: Probe, method: str, variances: Array, value: Array) -> None:
    """Test that E[log p] of reversed rows is reversed."""
    kw = rows_of(probe.kw, slice(None, None, -1))
    back = probe.call(method, probe.y[::-1], _means(probe)[::-1], variances[::-1], kw=kw, nodes=12)
    if back is not None and not np.allclose(back[0][::-1], value, rtol=1e-9, atol=1e-12):
        probe.fault(method, "changes when the rows are reordered: rows are mixed")


def _check_independent(probe: Probe, variances: Array) -> None:
    """Test that without correlation both forms of E[log p] are the same."""
    one = _averages(probe, "expected_log_density", variances, 20)
    method, V = "joint_expected_log_density", variances[:, :, None] * np.eye(probe.b)
    both = _averages(probe, method, V, 20)
    if one is None or both is None:
        return
    both[2] = np.einsum("njj->nj", both[2])
    tol = 1e-6 if probe.b <= 3 else 1e-3  # more latents have scattered nodes
    for part, got, want in zip(PARTS, both, one, strict=True):
        text = f"{part} without correlation differs from expected_log_density"
        probe.compare(method, text, got, want, tol)
