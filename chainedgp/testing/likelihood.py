"""Tests of a likelihood's contract from outside, with faults explained in words."""

from __future__ import annotations

import pickle

import numpy as np

from ..data.rows import rows_of
from ..data.types import Metadata
from ..errors import InputError
from ..likelihoods.contract import Likelihood
from ..likelihoods.support import Continuum, Support, SupportLike
from ..linalg import Array
from .declared import check_declared, check_tails
from .expectations import check_expectations
from .probe import Probe
from .report import Report

DRAWS = 2000  # This number of draws of `sample` is compared with the density.


def check_likelihood(
    likelihood: Likelihood,
    y: Array | None = None,
    metadata: Metadata = None,
    rng: int | np.random.Generator = 0,
) -> None:
    """Check a likelihood against its contract and explain every fault in words.

    Laws: float64 arrays of the broadcast shape, row by row, inputs unchanged; density finite for
    moderate latents, never NaN for |f| ≤ 300, and normalised; derivatives agree with differences;
    `expected_log_density` and `joint_expected_log_density` agree with the quadrature engine, with
    the density as v → 0, and their gradients with their own differences; moments, cdf, ppf and
    samples agree with the density; copies and pickles are equal; targets outside the support are
    refused; what is declared
    (`symmetric`, `exact_expectation`, `normal_in_first`, `infinite_mean`, …) holds. Parameters
    that are not fixed are then moved, since a start such as 1 can hide that a method ignores them:
    density, derivatives, moments, cdf and ppf must agree there too.

    Parameters
    ----------
    likelihood : Likelihood
        Left as it is, checked at its present parameter values and at others.
    y : (n,)
        Targets to check at; a few inside the support if None.
    metadata : dict
        Per-row values (n,) or scalars; needed if `log_density` has required metadata.
    rng : int or Generator
        For targets, latents and draws.

    Raises
    ------
    ContractError : lists method, fault and size of the disagreement.
    InputError : metadata are missing or unknown; a class was given.
    """
    if isinstance(likelihood, type):
        raise InputError(f"give an object: check_likelihood({likelihood.__name__}(), …).")
    rng = np.random.default_rng(rng)
    metadata = metadata or {}
    likelihood.check_metadata(metadata)
    report = Report()
    probe = Probe(likelihood, y, metadata, rng, report)
    if not report.faults:
        _check_density(probe)
    if not report.faults:  # everything below is compared with the density
        for law in (
            _check_derivatives,
            check_expectations,
            _check_moments,
            _check_quantiles,
            _check_samples,
            _check_copies,
            _check_starts,
            check_declared,
        ):
            law(probe)
    if not report.faults and (moved := probe.moved()) is not None:
        _check_normalised(moved)
        if not report.faults:
            for law in (_check_derivatives, _check_moments, _check_quantiles, check_tails):
                law(moved)
    report.raise_if_any(f"likelihood {type(likelihood).__name__}")


def _check_density(probe: Probe) -> None:
    """Test that a density has the right shape row by row, is finite, never NaN, and normalised."""
    name, b, n = "log_density", probe.b, probe.n
    value = probe.array(name, probe.call(name, probe.y, *probe.latents), (n,))
    if value is None:
        return
    if not np.all(np.isfinite(value)):
        bad = int(np.flatnonzero(~np.isfinite(value))[0])
        at = ", ".join(
            f"{k} = {f[bad]:.3g}" for k, f in zip(probe.names, probe.latents, strict=True)
        )
        probe.fault(name, f"is {value[bad]} inside the support, at y = {probe.y[bad]:.4g}, {at}")
    # The grid is that of quadrature: latent j varies along axis j, rows along the last.
    grid = [
        f + np.array([-0.3, 0.4]).reshape((1,) * j + (2,) + (1,) * (b - j))
        for j, f in enumerate(probe.latents)
    ]
    shape = (2,) * b + (n,)
    on_grid = probe.array(name, probe.call(name, probe.y, *grid), shape)
    if on_grid is None:
        return
    for index in np.ndindex(*shape[:-1]):
        rows = [
            f[tuple(i if k == j else 0 for k, i in enumerate(index))] for j, f in enumerate(grid)
        ]
        one = probe.call(name, probe.y, *rows)
        if one is not None and not np.allclose(one, on_grid[index], rtol=1e-10, atol=1e-12):
            probe.fault(
                name, "on a grid differs from the same points one by one: wrong broadcasting"
            )
            break
    for signs in np.ndindex(*(5,) * min(b, 3)):
        ends = [np.full(n, (-300.0, -30.0, 0.0, 30.0, 300.0)[s]) for s in signs]
        far = probe.call(name, probe.y, *ends, *probe.latents[len(ends) :])
        if far is not None and np.any(np.isnan(far) | np.isposinf(far)):
            where = ", ".join(f"{end[0]:.0f}" for end in ends)
            probe.fault(name, f"is NaN or +inf at latents ({where}); −inf is allowed, NaN is not")
            break
    _check_normalised(probe)


def _check_normalised(probe: Probe) -> None:
    """Test that a likelihood's density integrates, or sums, to 1 over its support."""
    table = probe.table()
    total = table.total
    wrong = np.abs(total - 1.0) > probe.tolerance(table)
    if np.any(wrong):
        row = int(np.argmax(np.abs(total - 1.0)))
        verb = "integrates" if probe.support.continuous else "sums"
        at = ", ".join(
            f"{k} = {f[row]:.3g}" for k, f in zip(probe.names, probe.latents, strict=True)
        )
        probe.fault(
            "log_density",
            f"the density {verb} to {total[row]:.6g}, not 1, over the support "
            f"{_named(probe.lik.support)} at {at}: "
            f"{_atom_of(probe) or _jump_of(probe, row) or MISSING}",
        )


NEARLY = 0.05  # Where an integral of the density is off by more than this, a jump is not the cause.
MISSING = "a normaliser or a Jacobian is missing or wrong"


def _named(support: SupportLike) -> str:
    """A tested likelihood's support as its author wrote it, or in words."""
    return f"of {support.words}" if isinstance(support, Support) else repr(support)


def _atom_of(probe: Probe) -> str | None:
    """What a likelihood's author should do about a target with a probability of its own, if any."""
    if not probe.support.continuous:
        return None
    for y in np.unique([*probe.y, 0.0, 1.0]):
        around = np.array([y - 1e-9 * (1.0 + abs(y)), y, y + 1e-9 * (1.0 + abs(y))])
        latents = [f[:1] for f in probe.latents]
        with np.errstate(all="ignore"):
            given = rows_of(probe.kw, slice(1))
            below, at, above = np.exp(
                [float(probe.lik.log_density(np.array([t]), *latents, **given)[0]) for t in around]
            )
        if 0.0 < at <= 1.0 and min(abs(at - below), abs(at - above)) > 1e-3 * at:
            return (
                f"it is a probability at y = {y:g} and a density beside it; declare atoms = "
                f"({y:g},), or write the density alone and wrap it in Inflated(…, at=({y:g},))"
            )
    return None


def _jump_of(probe: Probe, row: int) -> str | None:
    """What a likelihood's author should do about a density that jumps inside its support.

    Pairs of neighbouring targets are bisected towards the larger difference: that of a smooth
    density vanishes.
    """
    near = abs(float(probe.table().total[row]) - 1.0) < NEARLY
    if not near or not isinstance(probe.support, Continuum) or probe.lik.atoms:
        return None
    levels = np.linspace(0.002, 0.998, 200)[:, None] + np.zeros(probe.n)
    y = np.unique(probe.table().ppf(levels)[:, row])
    beyond = (y[-1] - y[0]) * np.linspace(0.01, 1.0, 50)
    y = np.clip(np.concatenate([y[0] - beyond[::-1], y, y[-1] + beyond]), *probe.support.ends)
    one = slice(row, row + 1)
    latents, given = [f[one] for f in probe.latents], rows_of(probe.kw, one)

    def density(y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.exp(probe.lik.log_density(y, *latents, **given)))

    y = np.unique(y)[1:-1]
    left, right = y[:-1], y[1:]
    for _ in range(60):
        middle = 0.5 * (left + right)
        p_left, p_middle, p_right = density(left), density(middle), density(right)
        first = np.abs(p_middle - p_left) > np.abs(p_right - p_middle)
        left, right = np.where(first, left, middle), np.where(first, middle, right)
    p_left, p_right = density(left), density(right)
    jumps = np.abs(p_left - p_right) > 0.01 * np.maximum(p_left, p_right)
    jumps &= np.maximum(p_left, p_right) > 1e-9 * density(y).max()
    if not jumps.any():
        return None
    return (
        f"it jumps at y = {left[jumps][0]:.4g}, and integrals over y are inexact there; let the "
        "support end at the jump, as in support = (0, 1), or write a density without a jump"
    )


def _check_derivatives(probe: Probe) -> None:
    """Test derivatives of a density in latents and parameters against differences."""
    y, latents, shape = probe.y, probe.latents, (probe.n,)
    message = "derivative in {} disagrees with differences of {}"
    first = probe.arrays(
        "dlog_density", probe.call("dlog_density", y, *latents), probe.names, shape
    )
    expected = Likelihood.dlog_density(probe.lik, y, *latents, **probe.kw)
    for name, got, want in zip(probe.names, first or (), expected, strict=False):
        probe.compare("dlog_density", message.format(name, "log_density"), got, want)
    method = "dlog_density_dtheta"
    slopes = probe.arrays(method, probe.call(method, y, *latents), probe.keys, shape)
    expected = Likelihood.dlog_density_dtheta(probe.lik, y, *latents, **probe.kw)
    for name, got, want in zip(probe.keys, slopes or (), expected, strict=False):
        probe.compare(method, message.format(name, "log_density"), got, want)
    if first is None:
        return
    method = "d2log_density"
    second = probe.arrays(method, probe.call(method, y, *latents), probe.names, shape)
    with probe.report.guard("dlog_density"):
        expected = Likelihood.d2log_density(probe.lik, y, *latents, **probe.kw)
        for name, got, want in zip(probe.names, second or (), expected, strict=False):
            probe.compare(method, "second " + message.format(name, "dlog_density"), got, want)


def _check_moments(probe: Probe) -> None:
    """Test a likelihood's conditional mean and variance against integrals of its density."""
    table = probe.table()
    for method, want in zip(
        ("conditional_mean", "conditional_variance"), table.moments(), strict=True
    ):
        got = probe.array(method, probe.call(method, *probe.latents), (probe.n,))
        if got is not None:
            tol = probe.tolerance(table)
            clear = np.isfinite(want) | np.isinf(got)  # near divergence integrals are no judge
            clear &= ~(np.isinf(got) & np.isfinite(want) & (want > 1e8))
            probe.compare(
                method, "differs from the moment of the density", got[clear], want[clear], tol
            )


def _check_quantiles(probe: Probe) -> None:
    """Test a likelihood's cdf against integrals of its density, and that ppf inverts it."""
    table = probe.table()
    tol = probe.tolerance(table)
    levels = np.array([0.02, 0.3, 0.5, 0.77, 0.98])[:, None] + np.zeros(probe.n)  # (5, n)
    y = np.concatenate([table.ppf(levels), probe.y[None]])
    cdf = probe.array("cdf", probe.call("cdf", y, *probe.latents), y.shape)
    if cdf is None:
        return
    probe.compare("cdf", "differs from the integral of the density", cdf, table.cdf(y), tol)
    quantile = probe.array("ppf", probe.call("ppf", levels, *probe.latents), levels.shape)
    if quantile is None or (again := probe.call("cdf", quantile, *probe.latents)) is None:
        return
    if probe.support.continuous and not probe.lik.atoms:
        probe.compare("ppf", "is not the inverse of cdf: cdf(ppf(q)) ≠ q", again, levels, tol)
    else:
        smooth = probe.support.continuous  # a continuous law comes here if its cdf jumps at atoms
        lower = np.nextafter(quantile, -np.inf) if smooth else quantile - 1.0
        below = probe.call("cdf", lower, *probe.latents)
        tol = tol if smooth else 1e-9
        if np.any(again < levels - tol) or np.any(below >= levels + tol):
            probe.fault("ppf", "is not the smallest y with cdf(y) ≥ q")


def _check_samples(probe: Probe) -> None:
    """Test a likelihood's draws against its cdf at three quantiles, within 5 standard errors."""
    n, latents, kw = min(probe.n, 4), [f[:4] for f in probe.latents], {}
    kw = rows_of(probe.law, slice(4))
    one = probe.call("sample", np.random.default_rng(3), *latents, kw=kw)
    if probe.array("sample", one, (n,)) is None:
        return
    draws = probe.call("sample", np.random.default_rng(3), *latents, kw=kw, size=DRAWS)
    draws = probe.array("sample", draws, (DRAWS, n))
    if draws is None:
        return
    with probe.report.guard("sample"):
        probe.lik.check_targets(draws.ravel())
    table = probe.table_at(latents, kw)
    for level in (0.1, 0.5, 0.9):
        point = table.ppf(np.full(n, level))
        want = table.cdf(point)
        share = np.mean(draws <= point, axis=0)
        error = np.sqrt(want * (1.0 - want) / DRAWS) + 1.0 / DRAWS
        if np.any(np.abs(share - want) > 5.0 * error):
            row = int(np.argmax(np.abs(share - want) / error))
            probe.fault(
                "sample",
                f"{share[row]:.4f} of {DRAWS} draws are ≤ {point[row]:.4g}; the density says "
                f"{want[row]:.4f} ({abs(share - want)[row] / error[row]:.1f} standard errors)",
            )
            break


def _check_copies(probe: Probe) -> None:
    """Test that copies and pickles of a likelihood have its parameters and its density."""
    value = probe.call("log_density", probe.y, *probe.latents)
    makers = {"copy": lambda: probe.lik.copy()}
    if "<locals>" not in type(probe.lik).__qualname__:  # Python cannot pickle a local class
        makers["pickle"] = lambda: pickle.loads(pickle.dumps(probe.lik))
    for method, make in makers.items():
        with probe.report.guard(method):
            other = make()
            if other.parameter_values() != probe.lik.parameter_values():
                probe.fault(method, "loses parameter values")
            again = other.log_density(probe.y, *probe.latents, **probe.kw)
            probe.compare(method, "has another density", again, value, 1e-12)


def _check_starts(probe: Probe) -> None:
    """Test that a likelihood's starts are finite, and that it refuses wrong targets."""
    kw = {**probe.lik.parameter_values(), **probe.metadata}
    start = probe.array(
        "initial_latents", probe.call("initial_latents", probe.y, kw=kw), (probe.b,)
    )
    if start is not None and not np.all(np.isfinite(start)):
        probe.fault("initial_latents", f"is not finite: {start}")
    named = probe.call("natural_parameters", *probe.latents)
    if named is not None and not isinstance(named, dict):
        probe.fault("natural_parameters", f"must return a dict; got {type(named).__name__}")
    with probe.report.guard("check_targets"):
        probe.lik.check_targets(probe.y)
    try:
        probe.lik.check_targets(np.array([np.nan]))
        probe.fault("check_targets", "accepts NaN")
    except InputError:
        pass
