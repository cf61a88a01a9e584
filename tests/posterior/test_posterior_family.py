"""Posterior families: what belongs to latents and to groups, sites, natural parameters, mixing."""

from dataclasses import replace

import numpy as np
import pytest
from cases import small_model

from chainedgp.linalg import Workspace, unpack_lower
from chainedgp.posterior.evaluator import bound
from chainedgp.posterior.gaussian import from_natural, from_root
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


@pytest.mark.parametrize("family", [MeanField(), FirstTwo()])
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


@pytest.mark.parametrize("family", [MeanField(), FirstTwo()])
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


# ---- the mean field on a chunk of rows ----------------------------------------------------------


@pytest.fixture(scope="module")
def chunk():
    """An evaluator of a small model, projections of its rows, and a q of each latent."""
    m = small_model("HetGaussian", n=12, means="linear", separate_Z=True)
    evaluator = m.problem.evaluator
    evaluator.set_hyperparameters(m.problem.parts.theta())
    chunks = [project(projector, m.X) for projector in evaluator.setting.projectors]
    return evaluator, chunks, m.problem.parts.q()


def test_slopes_come_back_from_sites(chunk):
    _, chunks, q = chunk
    rng = np.random.default_rng(3)
    g_m, g_v = rng.normal(size=(2, 2, 12))
    sites = np.empty((*MEAN_FIELD.site_shape(2), 12))
    MEAN_FIELD.write_sites(sites, MEAN_FIELD.marginals(chunks, q).m, g_m, g_v)
    again = MEAN_FIELD.slopes(chunks, q, sites)
    np.testing.assert_allclose(again, (g_m, g_v), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(MEAN_FIELD.precisions(sites), -2.0 * g_v)
    # without negative precisions the slope in the mean stays
    MEAN_FIELD.make_positive(chunks, q, sites)
    np.testing.assert_allclose(MEAN_FIELD.slopes(chunks, q, sites)[0], g_m, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(MEAN_FIELD.precisions(sites), np.maximum(-2.0 * g_v, 0.0))


def test_clipped_sites_are_none_where_they_were_negative():
    sites = np.array([[[1.0, 2.0], [3.0, 4.0]], [[0.5, -0.5], [-2.0, 0.0]]])
    MEAN_FIELD.clip(sites)
    want = [[[1.0, 0.0], [0.0, 4.0]], [[0.5, 0.0], [0.0, 0.0]]]
    np.testing.assert_array_equal(sites, want)


def test_narrow_sites_hold_latents_at_their_means(chunk):
    evaluator, chunks, _ = chunk
    sites = np.zeros((2, 2, 12))
    MEAN_FIELD.narrow(chunks, sites)
    q = evaluator.gaussians(MEAN_FIELD.gram(chunks, sites))
    made = MEAN_FIELD.marginals(chunks, q)
    np.testing.assert_allclose(made.m, [c.mean for c in chunks], rtol=0, atol=1e-9)
    # the inducing inputs cannot hold what they do not determine
    open_part = [c.kff - (c.A**2).sum(0) for c in chunks]
    assert (made.V - open_part < 0.3 * np.array([c.kff for c in chunks])).all()


def test_cavities_are_q_without_one_site(chunk):
    evaluator, chunks, _ = chunk
    rng = np.random.default_rng(4)
    sites = np.stack([rng.normal(size=(2, 12)), rng.uniform(0.1, 1.0, size=(2, 12))])
    q = evaluator.gaussians(MEAN_FIELD.gram(chunks, sites))
    found, proper = MEAN_FIELD.cavities(chunks, q, sites)
    assert proper.all()
    for i in (0, 7):
        others = sites.copy()
        others[..., i] = 0.0
        without = evaluator.gaussians(MEAN_FIELD.gram(chunks, others))
        want = MEAN_FIELD.marginals(chunks, without)
        np.testing.assert_allclose(found.m[:, i], want.m[:, i], rtol=1e-9)
        np.testing.assert_allclose(found.V[:, i], want.V[:, i], rtol=1e-9)
    sites[1, 0, 3] = 1e9  # more than all of q has: no distribution is left without it
    assert not MEAN_FIELD.cavities(chunks, q, sites)[1][3]


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
