"""Posterior families: what belongs to latents and to groups, sites, natural parameters, mixing."""

from dataclasses import replace

import numpy as np
import pytest
from cases import small_model

import chainedgp.likelihoods as liks
from chainedgp.errors import NumericalError
from chainedgp.linalg import Workspace, unpack_lower
from chainedgp.posterior.choice import POSTERIORS, family_of
from chainedgp.posterior.evaluator import bound
from chainedgp.posterior.gaussian import from_natural, from_root
from chainedgp.posterior.joint import JOINT
from chainedgp.posterior.mean_field import MEAN_FIELD, MeanField
from chainedgp.posterior.sites import Sites
from chainedgp.posterior.sparse import project
from chainedgp.posterior.sums import Gram
from chainedgp.posterior.threads import Threads

SIZES = (3, 2, 4)


class FirstTwo(MeanField):
    """Latents 0 and 1 are one group, latent 2 another: only what concerns groups is of use here."""

    def groups(self, b):
        return [(0, 1), *((j,) for j in range(2, b))]


def random_gaussian(M, rng):
    A = rng.normal(size=(M, M + 3))
    return from_natural(rng.normal(size=M), A @ A.T)


@pytest.mark.parametrize("family", [MEAN_FIELD, JOINT, FirstTwo()])
def test_leaves_hold_q_of_every_group(family):
    rng = np.random.default_rng(0)
    totals = [sum(group) for group in family.grouped(SIZES)]
    q = [random_gaussian(M, rng) for M in totals]
    means, roots = family.packed(q, SIZES)
    assert [len(mean) for mean in means] == list(SIZES)
    assert [len(root) for root in roots] == [M * (M + 1) // 2 for M in totals]
    for again, part in zip(map(from_root, family.stacked(means), roots), q, strict=True):
        np.testing.assert_array_equal(again.mu, part.mu)
        np.testing.assert_allclose(again.S, part.S, rtol=1e-12, atol=1e-14)
        assert again.kl == pytest.approx(part.kl, rel=1e-12)
    stacked = [rng.normal(size=M) for M in totals]
    for a, b in zip(family.stacked(family.split(stacked, SIZES)), stacked, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", [MEAN_FIELD, JOINT, FirstTwo()])
def test_the_prior_of_every_family_has_no_divergence(family):
    q = family.prior(SIZES)
    assert sum(part.mu.size for part in q) == sum(SIZES)
    assert [part.kl for part in q] == [0.0] * len(q)
    means, roots = family.packed(q, SIZES)
    assert not np.concatenate(means).any()
    for root, part in zip(roots, q, strict=True):
        np.testing.assert_array_equal(unpack_lower(root, part.mu.size), np.eye(part.mu.size))


def test_each_latent_of_a_group_on_its_own():
    rng = np.random.default_rng(1)
    family = FirstTwo()
    q = [random_gaussian(5, rng), random_gaussian(4, rng)]
    first, second, third = family.by_latent(q, SIZES)
    np.testing.assert_array_equal(np.concatenate([first.mu, second.mu]), q[0].mu)
    np.testing.assert_array_equal(second.S, q[0].S[3:, 3:])
    assert first.log_det_S == pytest.approx(np.linalg.slogdet(q[0].S[:3, :3])[1])
    assert third is q[1]
    assert MEAN_FIELD.by_latent(q, (5, 4)) == q


def test_natural_parameters_of_a_q_and_of_mixtures():
    rng = np.random.default_rng(2)
    q = [random_gaussian(M, rng) for M in SIZES]
    grams = [Gram.of(q), Gram.of([random_gaussian(M, rng) for M in SIZES])]
    for Lam, b, part in zip(grams[0].Lam, grams[0].b, q, strict=True):
        again = from_natural(b, Lam)
        np.testing.assert_allclose(again.mu, part.mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(again.S, part.S, rtol=1e-10, atol=1e-12)
    without = Gram.of([replace(part, precision=None) for part in q])
    np.testing.assert_allclose(without.Lam[2], grams[0].Lam[2], rtol=1e-8, atol=1e-8)
    mixed = Gram.mixed((0.25, 0.75), grams)
    for j in range(len(SIZES)):
        want = 0.25 * grams[0].Lam[j] + 0.75 * grams[1].Lam[j]
        np.testing.assert_allclose(mixed.Lam[j], want, rtol=1e-14)
        want = 0.25 * grams[0].b[j] + 0.75 * grams[1].b[j]
        np.testing.assert_allclose(mixed.b[j], want, rtol=1e-14)


# ---- families on a chunk of rows ----------------------------------------------------------------


@pytest.fixture(scope="module", params=["mean_field", "joint"])
def chunk(request):
    """An evaluator of a small model, projections of its rows, and a q of each group."""
    options = {"means": "linear", "separate_Z": True, "posterior": request.param}
    m = small_model("HetGaussian", n=12, **options)
    evaluator = m.problem.evaluator
    evaluator.set_hyperparameters(m.problem.parts.theta())
    chunks = [project(projector, m.X) for projector in evaluator.setting.projectors]
    return evaluator, chunks, m.problem.parts.q()


def random_slopes(family, b=2, n=12, seed=3):
    """Slopes in means and in V, in the shapes of a family."""
    rng = np.random.default_rng(seed)
    g_m, g_V = rng.normal(size=(b, n)), rng.normal(size=(*family.marginal_shape(b), n))
    return g_m, 0.5 * (g_V + g_V.swapaxes(0, 1)) if g_V.ndim == 3 else g_V


def blocks_of(family, sites, b=2):
    """Λ of every row as a matrix, (n, b, b)."""
    Lam = np.zeros((sites.shape[-1], b, b))
    for group in family.groups(b):
        for j in group:
            for k in group:
                Lam[:, j, k] = family.precision(sites, j, k)
    return Lam


def test_slopes_come_back_from_sites(chunk):
    evaluator, chunks, q = chunk
    family = evaluator.family
    g_m, g_V = random_slopes(family)
    sites = np.empty((*family.site_shape(2), 12))
    m = family.marginals(chunks, q).m
    family.write_sites(sites, m, g_m, g_V)
    again = family.slopes(chunks, q, sites)
    np.testing.assert_allclose(again[0], g_m, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(again[1], g_V, rtol=1e-12, atol=1e-13)
    Lam = blocks_of(family, sites)
    want = g_m + np.einsum("njk,kn->jn", Lam, m)
    np.testing.assert_allclose(family.linear(sites), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(family.precisions(sites), np.diagonal(Lam, 0, 1, 2).T)
    # without negative precisions the slope in the mean stays
    family.make_positive(chunks, q, sites)
    np.testing.assert_allclose(family.slopes(chunks, q, sites)[0], g_m, rtol=0, atol=1e-12)
    w, U = np.linalg.eigh(Lam)
    assert (w < 0.0).any() and (w > 0.0).any()
    want = (U * np.maximum(w, 0.0)[:, None, :]) @ U.swapaxes(1, 2)
    np.testing.assert_allclose(blocks_of(family, sites), want, rtol=0, atol=1e-12)


def test_clipped_sites_are_none_where_they_were_negative():
    sites = np.array([[[1.0, 2.0], [3.0, 4.0]], [[0.5, -0.5], [-2.0, 0.0]]])
    MEAN_FIELD.clip(sites)
    want = [[[1.0, 0.0], [0.0, 4.0]], [[0.5, 0.0], [0.0, 0.0]]]
    np.testing.assert_array_equal(sites, want)
    # λ1 = (1, 3), Λ of eigenvalues 3 along (1, 1) and −1 along (1, −1); the other row is positive
    sites = np.array([[1.0, 3.0, 1.0, 2.0, 1.0], [1.0, 3.0, 2.0, 1.0, 2.0]]).T
    JOINT.clip(sites)
    want = np.array([[2.0, 2.0, 1.5, 1.5, 1.5], [1.0, 3.0, 2.0, 1.0, 2.0]]).T
    np.testing.assert_allclose(sites, want, rtol=1e-14)


def test_narrow_sites_hold_latents_at_their_means(chunk):
    evaluator, chunks, _ = chunk
    family = evaluator.family
    sites = np.ones((*family.site_shape(2), 12))
    family.narrow(chunks, sites)
    q = evaluator.gaussians(family.gram(chunks, sites))
    made = family.marginals(chunks, q)
    np.testing.assert_allclose(made.m, [c.mean for c in chunks], rtol=0, atol=1e-9)
    # the inducing inputs cannot hold what they do not determine
    for j, c in enumerate(chunks):
        assert (family.entry(made.V, j, j) - c.kff + (c.A**2).sum(0) < 0.3 * c.kff).all()


def test_cavities_are_q_without_one_site(chunk):
    evaluator, chunks, _ = chunk
    family = evaluator.family
    rng = np.random.default_rng(4)
    A = rng.normal(size=(12, 2, 2))
    Lam = 0.3 * A @ A.swapaxes(1, 2) + 0.1 * np.eye(2)
    sites = np.empty((*family.site_shape(2), 12))
    family.linear(sites)[:] = rng.normal(size=(2, 12))
    for group in family.groups(2):
        for j in group:
            for k in group:
                family.precision(sites, j, k)[:] = Lam[:, j, k]
    q = evaluator.gaussians(family.gram(chunks, sites))
    found, proper = family.cavities(chunks, q, sites)
    assert proper.all()
    for i in (0, 7):
        others = sites.copy()
        others[..., i] = 0.0
        without = evaluator.gaussians(family.gram(chunks, others))
        want = family.marginals(chunks, without)
        np.testing.assert_allclose(found.m[..., i], want.m[..., i], rtol=1e-9)
        np.testing.assert_allclose(found.V[..., i], want.V[..., i], rtol=1e-9)
    # more than all of q has: no distribution is left without it
    family.precision(sites, 0, 0)[3] = 1e9
    assert not family.cavities(chunks, q, sites)[1][3]


def test_sums_are_those_of_stacked_matrices(chunk):
    evaluator, chunks, _ = chunk
    family = evaluator.family
    g_m, g_V = random_slopes(family, seed=5)
    G, A_gm = family.sums(chunks, g_m, g_V)
    for group, block, vector in zip(family.groups(2), G, A_gm, strict=True):
        want = np.block(
            [
                [chunks[j].A @ np.diag(family.entry(g_V, j, k)) @ chunks[k].A.T for k in group]
                for j in group
            ]
        )
        np.testing.assert_allclose(block, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            vector, np.concatenate([chunks[j].A @ g_m[j] for j in group]), rtol=1e-12, atol=1e-12
        )


def test_rounding_cannot_make_a_row_impossible():
    """Inducing values that are known exactly and alike leave V singular: it stays a covariance."""
    m = small_model("HetGaussian", n=12, posterior="joint")
    M = m.q_mu.shape[0]
    root = np.zeros((2 * M, 2 * M))
    root[:M, :M] = root[M:, :M] = 1e-5 * np.eye(M)
    root += 1e-12 * np.eye(2 * M)
    q = [from_root(np.zeros(2 * M), root[np.tril_indices(2 * M)])]
    evaluator = m.problem.evaluator
    evaluator.set_hyperparameters(m.problem.parts.theta())
    Z = m.Z.values  # at the inducing inputs nothing else is left open but the jitter
    chunks = [
        project(p, Z)._replace(kff=(project(p, Z).A ** 2).sum(0))
        for p in evaluator.setting.projectors
    ]
    made = JOINT.marginals(chunks, q)
    assert (np.einsum("jjn->jn", made.V) > 0.0).all()
    assert (np.linalg.eigvalsh(made.V.T) >= 0.0).all()
    assert made.floored[0, 1].any() and (made.floored == made.floored.swapaxes(0, 1)).all()


def test_which_family_suits():
    two, one = liks.HetGaussian(), liks.Poisson()
    assert POSTERIORS == ("auto", "mean_field", "joint")
    assert family_of("joint", two) is JOINT and family_of("mean_field", two) is MEAN_FIELD
    assert all(family_of(name, one) is MEAN_FIELD for name in POSTERIORS)


class Plain(liks.Likelihood):
    """A density of b latents about which nothing is declared."""

    def __init__(self, b):
        self.latents = tuple(f"f{j}" for j in range(b))
        super().__init__()

    def log_density(self, y, *latents):
        return -0.5 * (y - sum(latents)) ** 2


class WithOwn(Plain):
    """A formula for independent latents alone."""

    def expected_log_density(self, *args, **kw):
        return self._quadrature(*args, **kw)


class WithBoth(WithOwn):
    """Formulas for correlated latents too."""

    def expected_log_density(self, *args, **kw):
        return self._quadrature(*args, **kw)

    def joint_expected_log_density(self, *args, **kw):
        return self._quadrature(*args, **kw)


class Coupled(WithOwn):
    coupled = True


class Uncoupled(Plain):
    coupled = False


@pytest.mark.parametrize(
    ("likelihood", "joint"),
    [
        (Plain(2), True),
        (Plain(3), True),
        (Plain(4), False),
        (WithOwn(2), False),
        (WithBoth(2), True),
        (WithBoth(4), False),
        (Coupled(2), True),
        (Coupled(4), False),
        (Uncoupled(2), False),
        (liks.Beta(), True),
        (liks.AdditivePoisson(), True),
        (liks.HetGaussian(), False),
        (liks.Softmax(3), True),
        (liks.Softmax(4), False),
        (liks.Rounded(liks.Beta(), 0.1), True),
        (liks.HetStudentTNu().with_constant("log_scale2"), None),
        (liks.Hurdle(liks.Poisson()), False),  # the latents of its two parts do not meet
        (liks.Hurdle(liks.Beta()), True),
        (liks.Inflated(liks.HetGaussian()), False),
        (liks.ZeroInflatedPoisson(), False),  # measured
        (liks.ZeroOneInflatedBeta(), True),
        (liks.Inflated(liks.LogLogisticSurvival()), True),  # rows may be censored
        (liks.Likelihood.from_scipy("gumbel_r", loc="identity", scale="exp"), True),
    ],
    ids=lambda value: type(value).__name__ if value not in (True, False, None) else str(value),
)
def test_what_auto_takes(likelihood, joint):
    if joint is None:  # as its base
        joint = family_of("auto", likelihood.base) is JOINT
    assert (family_of("auto", likelihood) is JOINT) == joint


def test_the_bound_is_equation_7(chunk):
    evaluator, _, q = chunk
    state = evaluator.evaluate(q)
    kl = 0.0
    for part in q:
        sign, log_det = np.linalg.slogdet(part.S)
        assert sign == 1.0
        kl += 0.5 * (np.trace(part.S) + part.mu @ part.mu - part.mu.size - log_det)
    assert bound(state.evaluation, q) == pytest.approx(state.evaluation.E - kl, rel=1e-12)
    assert state.bound == bound(state.evaluation, q)


# ---- sites, threads, arrays to write to ---------------------------------------------------------


def test_steps_between_sets_of_sites():
    sites = Sites((2, 5))
    sites.proposal[:], sites.trial[:] = 2.0, 3.0
    sites.accept(0.25)
    assert (sites.current == 0.5).all() and (sites.proposal == 3.0).all()
    sites.commit()
    sites.remember()
    sites.take_proposal()
    assert (sites.current == 3.0).all()
    sites.restore()
    assert (sites.current == 0.5).all()
    sites.proposal[:] = 7.0
    sites.remember()
    sites.accept_combination(np.array([2.0, -1.0]))
    assert (sites.current == -1.0).all()
    sites.forget(1)
    assert len(sites.history) == 1 and (sites.history[0] == 7.0).all()
    sites.clear()
    assert not sites.current.any() and (sites.sets["committed"] == 0.5).all()


@pytest.mark.parametrize("count", [1, 3])
def test_threads_give_results_in_order_and_stop_at_an_error(count):
    threads, seen = Threads(count), []

    def work(i):
        seen.append(i)
        if i == 13:
            raise ValueError("unlucky")
        return i * i

    assert list(threads.map(work, [(i,) for i in range(10)])) == [i * i for i in range(10)]
    with pytest.raises(ValueError, match="unlucky"):
        list(threads.map(work, [(i,) for i in range(10, 100)]))
    assert len(seen) < 60  # those behind the error were not begun


def test_a_workspace_keeps_its_arrays_for_itself():
    one, other = Workspace(), Workspace()
    a = one.array("work", 3, 4)
    a[:] = 1.0
    assert other.array("work", 3, 4) is not a and not other.array("work", 3, 4).any()
    assert one.array("work", 2, 2).base is a.base and one.array("work", 2, 2).shape == (2, 2)
    assert list(Threads(2).map(lambda i: one.array("work", 3, 4).base is a.base, [(0,), (1,)])) == [
        False,
        False,
    ]


def test_sites_of_a_joint_posterior_that_are_not_finite_are_a_numerical_error(monkeypatch):
    """LAPACK may find no eigenvalues of them, and the fit then goes on from another point."""

    def fail(blocks):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    sites = np.full((*JOINT.site_shape(2), 3), np.nan)
    with pytest.raises(NumericalError, match="not finite"):
        JOINT.clip(sites)
