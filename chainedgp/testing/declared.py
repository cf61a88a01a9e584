"""Tests of what a likelihood declares beside its methods, held against its density."""

from __future__ import annotations

import inspect

import numpy as np

from ..data.rows import rows_of
from ..expectations.levels import LEVELS
from ..likelihoods.differences import differences
from ..likelihoods.observation import of_event
from ..predictive.mixtures import declared_normal
from .probe import Probe

OF_LATENTS = (
    *("log_density", "dlog_density", "d2log_density", "dlog_density_dtheta", "cdf", "ppf"),
    *("sample", "conditional_mean", "conditional_variance", "natural_parameters"),
)
"""Methods of a likelihood that take the latents one by one."""
FAR = 24.0
"""All of the integral of a mean that is finite under q lies within so many standard deviations."""


def check_declared(probe: Probe) -> None:
    """Test each declaration of a likelihood against its density, or the method it speaks of."""
    _check_names(probe)
    _check_nodes(probe)
    _check_normal(probe)
    _check_infinite_mean(probe)
    check_tails(probe)


def _check_names(probe: Probe) -> None:
    """Test that declared names of metadata and latents exist, and that alike latents may swap.

    Methods get the latents in the declared order, whatever they call their arguments.
    """
    lik = probe.lik
    for method in OF_LATENTS:
        parameters = inspect.signature(getattr(lik, method)).parameters.values()
        named = tuple(p.name for p in parameters if p.name in lik.latents)
        if named != lik.latents and sorted(named) == sorted(lik.latents):
            words = "takes ({}), but latents = ({}): each argument is given the latent of its place"
            probe.fault(method, words.format(", ".join(named), ", ".join(lik.latents)))
    for member, names in (
        ("positive_metadata", lik.positive_metadata),
        ("unbounded_metadata", lik.unbounded_metadata),
    ):
        for name in set(names) - set(lik.metadata_names):
            probe.fault(member, f"names {name!r}, which is no metadata of log_density")
    if lik.quadrature_latent is not None and lik.quadrature_latent not in lik.latents:
        probe.fault("quadrature_latent", f"is {lik.quadrature_latent!r}, which is no latent")
    if lik.symmetric:
        one = probe.call("log_density", probe.y, *probe.latents)
        other = probe.call("log_density", probe.y, *probe.latents[::-1])
        probe.compare("symmetric", "the density changes if latents change places", other, one)


def _check_nodes(probe: Probe) -> None:
    """Test that an exact E[log p] needs no nodes, and `node_limits` rise, one a level at most."""
    lik, limits = probe.lik, np.asarray(probe.lik.node_limits)
    means = np.stack(probe.latents).T
    variances = np.full_like(means, 2.0)  # in so wide a q few nodes would show an error
    if lik.exact_expectation:
        few, many = (
            probe.call("expected_log_density", probe.y, means, variances, nodes=nodes)
            for nodes in (LEVELS[0], 20)
        )
        if few is not None and many is not None:
            words = "the expectation changes with the number of nodes"
            probe.compare("exact_expectation", words, few[0], many[0])
    if len(limits) > len(LEVELS) or (np.diff(limits) < 0.0).any():
        probe.fault("node_limits", f"must rise, and be {len(LEVELS)} or fewer; got {tuple(limits)}")
    elif len(limits):
        score = probe.call("node_score", probe.y, means, variances)
        probe.array("node_score", score, (probe.n,))


def _check_normal(probe: Probe) -> None:
    """Test that the density is normal in the first latent, as a likelihood declares."""
    first = rows_of(probe.kw, slice(1))
    with probe.report.guard("normal_in_first"):
        law = declared_normal(probe.lik, first)
        if law is not None:
            words = "gives another normal distribution than log_density"
            probe.compare(law.method, words, law.got, law.want)


def _check_infinite_mean(probe: Probe) -> None:
    """Test that the conditional mean outgrows every Gaussian in a latent, if declared to."""
    if not probe.lik.infinite_mean:
        return
    for j in range(probe.b):
        for shift in (-FAR, FAR):
            moved = [f + shift * (k == j) for k, f in enumerate(probe.latents)]
            mean = probe.call("conditional_mean", *moved)
            if mean is None or not np.all(np.log(np.abs(mean) + 1e-300) < 0.5 * FAR**2):
                return
    probe.fault("infinite_mean", "is declared, but the mean is finite under every Gaussian q")


def check_tails(probe: Probe) -> None:
    """Test that log-tails, slopes of quantiles and hazards, where given, belong to its cdf."""
    _check_log_tails(probe)
    if probe.lik.event_times:
        _check_event(probe)


def _check_log_tails(probe: Probe) -> None:
    """Test that log-tails and slopes of quantiles, where given, are those of the cdf."""
    lik, y, kw = probe.lik, probe.y, of_event(probe.law)
    if not lik.has_cdf or lik.atoms or not probe.support.continuous:
        return
    tails, cdf = probe.call("log_tails", y, *probe.latents, kw=kw), lik.cdf(y, *probe.latents, **kw)
    if tails is not None:
        words = "differs from the logarithms of cdf and 1 − cdf"
        probe.compare("log_tails", words, np.exp(np.stack(tails)), np.stack([cdf, 1.0 - cdf]))
    slopes = probe.call("quantile_slopes", y, *probe.latents, kw=kw)
    if slopes is None:
        return
    moved = differences(lambda *f: lik.cdf(y, *f, **kw), probe.latents, 1e-4)
    density = np.exp(lik.log_density(y, *probe.latents, **kw))
    clear = np.minimum(cdf, 1.0 - cdf) > 1e-8  # Else a difference of F has few right digits.
    for name, slope, step in zip(probe.names, slopes, moved, strict=True):
        words = f"that in {name} is not −(∂F/∂{name})/p"
        got = np.broadcast_to(slope, y.shape)
        probe.compare("quantile_slopes", words, got[clear], -step[clear] / density[clear])


def _check_event(probe: Probe) -> None:
    """Test that survival function, hazard and cdf of an event time belong to one law."""
    y, kw = probe.y, of_event(probe.law)
    y = y[~np.isin(y, probe.lik.atoms)]
    latents = [f[: len(y)] for f in probe.latents]
    kw = rows_of(kw, slice(len(y)))
    cdf, log_p, log_s, log_cdf, log_hazard = (
        probe.array(method, probe.call(method, y, *latents, kw=kw), y.shape)
        for method in ("cdf", "log_density", "log_survival", "log_cdf", "log_hazard")
    )
    if log_s is not None and cdf is not None:
        probe.compare("log_survival", "differs from log(1 − cdf)", np.exp(log_s), 1.0 - cdf)
    if log_cdf is not None and cdf is not None:
        probe.compare("log_cdf", "differs from log(cdf)", np.exp(log_cdf), cdf)
    if log_hazard is not None and log_s is not None and log_p is not None:
        words = "differs from log_density − log_survival"
        probe.compare("log_hazard", words, log_hazard, log_p - log_s)
