"""The model on Dask arrays: the same bound, fit and predictions as in one process, workers or not.

One local cluster of two processes serves all tests.
"""

import logging
import os
import pickle
import signal
import time
from threading import Timer

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.errors import ClusterError, InputError
from chainedgp.likelihoods import HetGaussian, HetStudentT, LogLogisticSurvival
from chainedgp.posterior.evaluator import Evaluator
from chainedgp.posterior.gaussian import Gaussian
from chainedgp.posterior.joint import JOINT
from chainedgp.posterior.mean_field import MEAN_FIELD
from chainedgp.posterior.shards import Shard
from chainedgp.posterior.sites import Sites
from chainedgp.posterior.sums import Request

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from chainedgp.distributed import dask_evaluator as head  # noqa: E402
from chainedgp.distributed.actor import Reading, ShardActor  # noqa: E402
from chainedgp.distributed.ledger import SLOTS, Ledger  # noqa: E402
from chainedgp.distributed.messages import SettingMessage, TaskMessage  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def data(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 2))
    y = np.sin(X[:, 0]) + np.exp(0.2 * X[:, 0] - 2.0) * rng.standard_normal(n)
    return X, y


def both(likelihood, X, y, metadata=None, **kw):
    """The same model in this process and on the cluster; blocks that do not match the workers."""
    kw = {"num_inducing": 15, **kw}
    local = cgp.ChainedGP(X, y, likelihood, Y_metadata=metadata, **kw)
    lazy = {
        key: da.from_array(value, chunks=200) if np.ndim(value) else value
        for key, value in (metadata or {}).items()
    }
    X, y = da.from_array(X, chunks=(130, 1)), da.from_array(y, chunks=250)
    return local, cgp.ChainedGP(X, y, likelihood, Y_metadata=lazy or None, **kw)


def in_two_shards(model):
    """A model whose rows are divided as on the cluster: sums are added in the same order."""
    (whole,) = model.problem.evaluator.shards
    half = -(-whole.num_rows // 2)
    model.problem.evaluator = Evaluator(
        [Shard(whole.rows[part]) for part in (slice(half), slice(half, None))],
        model.problem.evaluator.family,
    )
    return model


def stop_after(iterations):
    points = []

    def callback(point):
        points.append(point)
        return len(points) >= iterations

    return callback


def kill_a_worker(client, which=0):
    os.kill(list(client.run(os.getpid).values())[which], signal.SIGKILL)


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_bound_and_gradients_are_those_of_threads(client, posterior):
    X, y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    for likelihood, metadata in (
        (HetStudentT(), {"weights": weights}),
        (LogLogisticSurvival(), {"censored": (X[:, 1] > 8.0).astype(float)}),
    ):
        target = np.exp(y) if metadata.get("censored") is not None else y
        local, m = both(likelihood, X, target, metadata, posterior=posterior)
        np.testing.assert_array_equal(m.param_array, local.param_array)  # the same start
        assert m.problem.starts.score == local.problem.starts.score
        assert m.problem.starts.mean_weight == local.problem.starts.mean_weight
        m.q_mu[:] = local.q_mu[:] = np.random.default_rng(2).normal(size=local.q_mu.shape)
        assert m.log_likelihood() == pytest.approx(local.log_likelihood(), rel=1e-10)
        ours, theirs = m.objective_function_gradients(), local.objective_function_gradients()
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10 * np.abs(theirs).max())
        assert m.problem.evaluator.num_rebuilt == 0
    assert m.checkgrad()
    m.num_nodes = local.num_nodes = 3
    assert m.log_likelihood() == pytest.approx(local.log_likelihood(), rel=1e-10)
    assert isinstance(m.X, da.Array) and isinstance(m.Y_metadata["censored"], da.Array)


@pytest.mark.parametrize("posterior", ["mean_field", pytest.param("joint", marks=pytest.mark.slow)])
def test_fit_is_the_same_bit_for_bit_though_a_worker_is_killed(client, monkeypatch, posterior):
    monkeypatch.setattr(head, "RESTART_SECONDS", 0.0)
    X, y = data()
    local, m = both(HetStudentT(), X, y, posterior=posterior)
    expected = in_two_shards(local).optimize(callback=stop_after(6))
    points = []

    def watch(point):
        points.append(point)
        if len(points) == 3:
            kill_a_worker(client)
        return len(points) == 6

    result = m.optimize(callback=watch)
    assert m.problem.evaluator.num_rebuilt >= 1
    assert result.bound == expected.bound
    np.testing.assert_array_equal(m.param_array, local.param_array)
    assert len(points) == len(expected.trace)
    client.wait_for_workers(2, timeout=60)


def test_rounded_targets_and_repeated_inputs(client):
    """Workers spread repeated targets as the model was told, and share projections."""
    X, y = data()
    X, y = np.repeat(X[:60], 10, axis=0), np.round(y, 1)
    local, far = both(HetGaussian(), X, y)
    assert "Ties" in str(local.summary())
    exact = cgp.ChainedGP(X, y, HetGaussian(), num_inducing=15, ties=None)
    np.testing.assert_allclose(far.log_likelihood(), local.log_likelihood(), rtol=1e-11)
    assert far.log_likelihood() < exact.log_likelihood() - 1e-3
    gradients = [m.objective_function_gradients() for m in (local, far)]
    np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-9 * np.abs(gradients[0]).max())


def lose_all_workers(client):
    client.cluster.scale(0)
    while client.nthreads():
        time.sleep(0.05)


@pytest.mark.parametrize(
    "away",
    [pytest.param(1.0, marks=pytest.mark.long), pytest.param(15.0, marks=pytest.mark.slow)],
)
def test_a_fit_goes_on_when_workers_come_back(client, monkeypatch, away):
    """All are lost and nobody is there for a while; the restored model goes on with others."""
    if away < 5.0:  # Longer ones are waited for as users wait.
        monkeypatch.setattr(head, "RESTART_SECONDS", 0.0)
        monkeypatch.setattr(head, "LOOK_SECONDS", 0.2)
    X, y = data(200)
    local, m = both(HetGaussian(), X, y)
    expected = in_two_shards(local).optimize(callback=stop_after(5))
    points = []

    def watch(point):
        points.append(point)
        if len(points) == 2:
            lose_all_workers(client)
            Timer(away, client.cluster.scale, (2,)).start()
        return len(points) == 5

    try:
        result = m.optimize(callback=watch)
        assert m.problem.evaluator.num_rebuilt >= 2
        assert result.bound == pytest.approx(expected.bound, abs=1e-6)
    finally:
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=60)


@pytest.mark.long
def test_workers_that_are_gone_for_good_are_told_of(client, monkeypatch):
    monkeypatch.setattr(head, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(head, "ABSENT_SECONDS", 0.5)
    X, y = data(200)
    local, m = both(HetGaussian(), X, y)
    points = []

    def watch(point):
        points.append(point)
        if len(points) == 3:
            lose_all_workers(client)

    try:
        with pytest.raises(ClusterError, match=r"no workers for 0\.5 seconds"):
            m.optimize(callback=watch)
        local.problem.restore(m.problem.snapshot())  # θ and q of the best point
        assert local.log_likelihood() >= points[-1].bound - 1e-6
    finally:
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
    assert m.log_likelihood() >= points[-1].bound - 1e-6
    before = m.objective_function()
    m.optimize(callback=stop_after(2))
    assert m.objective_function() <= before + 1e-6


@pytest.mark.parametrize("block", ["wider", "narrower", "None"])
def test_blocks_that_are_not_what_their_array_says_are_refused(client, block):
    X, y = data(200)

    def wrong(part, block_info=None):
        if block_info[0]["chunk-location"][0] != 1:
            return part
        return {"wider": np.hstack([part, part]), "narrower": part[:, :1], "None": None}[block]

    for chunks in (50, 100):  # joined for the workers, or as they are
        lazy = da.from_array(X, chunks=(chunks, 2)).map_blocks(wrong, dtype=float, meta=X[:0])
        with pytest.raises(
            InputError, match=f"block of X that begins with row {chunks}.*Dask array says"
        ):
            cgp.ChainedGP(lazy, da.from_array(y, chunks=chunks), HetGaussian(), num_inducing=5)


def test_a_block_of_metadata_that_is_shorter_than_its_array_says_is_refused(client):
    X, y = data(200)
    weights = da.from_array(np.ones(200), chunks=50).map_blocks(
        lambda part, block_info=None: part[: 50 - block_info[0]["chunk-location"][0]],
        dtype=float,
        meta=np.empty(0),
    )
    lazy = da.from_array(X, chunks=(50, 2))
    with pytest.raises(InputError, match=r"block of Y_metadata\['weights'\] that begins with row"):
        cgp.ChainedGP(lazy, y, HetGaussian(), Y_metadata={"weights": weights}, num_inducing=5)


@pytest.mark.parametrize("lazy", [False, True])
def test_metadata_of_several_columns_are_refused(client, lazy):
    """The first column alone would be somebody else's weights."""
    X, y = data(200)
    weights = np.column_stack([np.ones(200), y**2])
    given = {"weights": da.from_array(weights, chunks=50) if lazy else weights}
    inputs = da.from_array(X, chunks=(50, 2))
    with pytest.raises(
        InputError, match=r"Y_metadata\['weights'\] must be.*one value per row.*200, 2"
    ):
        cgp.ChainedGP(inputs, y, HetGaussian(), Y_metadata=given, num_inducing=5)
    m = cgp.ChainedGP(X, y, HetGaussian(), num_inducing=5)
    with pytest.raises(InputError, match="one value per row"):
        m.predict(inputs, {"weights": given["weights"]})


@pytest.mark.parametrize("block", ["wider", "None", "text"])
def test_blocks_of_metadata_that_are_not_what_their_array_says_are_refused(client, block):
    X, y = data(200)

    def wrong(part, block_info=None):
        if block_info[0]["chunk-location"][0] != 2:
            return part
        return {"wider": np.hstack([part, part]), "None": None, "text": part.astype(str)}[block]

    weights = da.from_array(np.ones((200, 1)), chunks=50).map_blocks(
        wrong, dtype=float, meta=np.empty((0, 1))
    )
    with pytest.raises(InputError, match=r"row 100|rows 100 to 199"):
        cgp.ChainedGP(
            da.from_array(X, chunks=(50, 2)),
            y,
            HetGaussian(),
            Y_metadata={"weights": weights},
            num_inducing=5,
        )


@pytest.mark.slow
def test_a_long_fit_survives_workers_killed_in_the_middle_of_passes(client):
    X, y = data(20_000)
    _, m = both(HetGaussian(), X, y, num_inducing=30)
    expected = m.optimize()
    _, again = both(HetGaussian(), X, y, num_inducing=30)
    timers = [Timer(t, kill_a_worker, (client, k)) for k, t in enumerate((1.3, 6.1))]
    for timer in timers:
        timer.start()
    result = again.optimize()
    assert again.problem.evaluator.num_rebuilt >= 2
    assert abs(result.bound - expected.bound) < 1e-6
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_plain_and_variational_fits(client, posterior):
    X, y = data(300)
    for method in ({"only": "variational"}, {"method": "lbfgsb"}):
        local, m = both(HetGaussian(), X, y, posterior=posterior)
        expected = local.optimize(**method, callback=stop_after(3))
        result = m.optimize(**method, callback=stop_after(3))
        assert result.bound == pytest.approx(expected.bound, abs=1e-6)


def test_messages_are_small_whatever_the_number_of_rows(client):
    moved = []
    for n in (400, 4000):
        X = np.random.default_rng(0).normal(size=(n, 18))
        m = cgp.ChainedGP(da.from_array(X, chunks=(500, 18)), X[:, 0], HetGaussian())
        assert m.Z.shape == (100, 18)
        evaluator = m.problem.evaluator
        before = evaluator.bytes_sent + evaluator.bytes_received
        m.objective_function_gradients()
        moved.append(evaluator.bytes_sent + evaluator.bytes_received - before)
        # one value and gradient of the profiled bound: three passes
        m.problem.evaluator.start_sites(2)
        before = evaluator.bytes_sent + evaluator.bytes_received
        gram = evaluator.gram()
        state = evaluator.evaluate(evaluator.gaussians(gram), gram)
        evaluator.accept(0.0)
        evaluator.gradient(state, sites_fixed=True)
        moved.append(evaluator.bytes_sent + evaluator.bytes_received - before)
    assert max(moved) < 5e6
    assert moved[2] == pytest.approx(moved[0], rel=1e-3)
    assert moved[3] == pytest.approx(moved[1], rel=1e-3)


def test_predictions_are_dask_arrays(client):
    X, y = data(80)
    local, m = both(HetGaussian(), X, y)
    m.q_mu[:] = local.q_mu[:] = np.random.default_rng(2).normal(size=local.q_mu.shape)
    lazy = da.from_array(X, chunks=(33, 1))
    grid = np.linspace(-1.0, 1.0, 4)
    calls = [
        ("predict", ()),
        ("predict_latents", ()),
        ("predict_quantiles", ((10.0, 50.0, 90.0),)),
        ("predict_density", (grid,)),
        ("predict_cdf", (y[:, None],)),
        ("log_predictive_density", (da.from_array(y, chunks=50),)),
    ]
    pairs = []
    for model, name, args in [(m, *call) for call in calls] + [(local, *calls[0])]:
        found = getattr(model, name)(lazy, *args)
        expected = getattr(local, name)(X, *[np.asarray(a) for a in args])
        if isinstance(expected, np.ndarray):
            found, expected = (found,), (expected,)
        assert type(found) is type(expected)
        pairs += zip(found, expected, strict=True)
    assert all(isinstance(f, da.Array) and f.shape == e.shape for f, e in pairs)
    for value, (_, expected) in zip(dask.compute(*(f for f, _ in pairs)), pairs, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
    mean, _ = local.predict(da.from_array(X, chunks=33)[da.from_array(y) > 0])
    assert mean.compute().shape == (np.count_nonzero(y > 0), 1)  # of unknown length before
    with pytest.raises(InputError, match="full_cov"):
        m.predict_latents(lazy, full_cov=True)
    for method in (m.predictive, m.posterior_samples, m.predict_frame):
        with pytest.raises(InputError, match="Dask"):
            method(lazy)


def test_rows_are_checked_where_they_are(client):
    X, y = data(200)
    X, bad = da.from_array(X, chunks=50), y.copy()
    bad[150] = np.nan
    with pytest.raises(InputError, match=r"rows 100 to 199.*1 missing.*row 50"):
        cgp.ChainedGP(X, da.from_array(bad), HetGaussian(), num_inducing=5)
    m = cgp.ChainedGP(X, da.from_array(bad), HetGaussian(), num_inducing=5, missing="drop")
    assert m.problem.evaluator.num_rows == 199 and np.isfinite(m.log_likelihood())
    with pytest.raises(InputError, match=r"rows 0 to 99"):
        cgp.ChainedGP(X, da.from_array(y), LogLogisticSurvival())  # some are negative
    with pytest.raises(InputError, match="Y has 199 rows"):
        cgp.ChainedGP(X, y[1:], HetGaussian())
    with pytest.raises(InputError, match="unknown length"):
        cgp.ChainedGP(X[X[:, 0] > 5], y, HetGaussian())


def test_what_a_distributed_model_cannot_do_is_said(client, tmp_path):
    X, y = data(200)
    _, m = both(HetGaussian(), X, y)
    with pytest.raises(InputError, match="profile"):
        m.optimize(batch_size=50)
    with pytest.raises(InputError, match="copied"):
        m.optimize_restarts(2)
    with pytest.raises(InputError, match="copied"):
        pickle.dumps(m)
    with pytest.raises(InputError, match="held-out"):
        m.loo()
    with pytest.raises(InputError, match="data=False"):
        m.save(tmp_path / "m.npz")
    m.optimize(
        callback=stop_after(2),
        checkpoint=tmp_path / "m.npz",
        checkpoint_every=1,
    )
    again = cgp.load(tmp_path / "m.npz")
    again.set_data(m.X, m.Y)
    assert again.log_likelihood() == pytest.approx(m.last_result.trace[-1].bound, abs=1.0)
    with pytest.raises(InputError, match="3 columns"):
        again.set_data(da.zeros((10, 3)), da.zeros(10))


def test_without_a_cluster(monkeypatch):
    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(InputError, match="Client"):
        cgp.ChainedGP(da.zeros((10, 1)), da.zeros(10), HetGaussian())


# ---- the ledger, without a cluster --------------------------------------------------------------


def rows_of(n=60):
    X, y = data(n)
    return ShardActor(X, y, {}, 0, Reading(HetStudentT(), "raise", None, None))


def messages(actor, rng, posterior):
    """Three tasks for the rows of an actor, at three settings; it takes their kernels and means."""
    rows = actor.shard.rows
    local = cgp.ChainedGP(rows.X, rows.y, actor.likelihood, num_inducing=6, posterior=posterior)
    actor.take_parts(list(zip(local.kernels, local.mean_functions, strict=True)))
    evaluator = local.problem.evaluator
    for scale, width in ((0.5, 0.7), (1.0, 6.0), (2.0, 61.0)):
        local.kernels[0].variance = scale
        evaluator.set_hyperparameters(local.problem.parts.theta())
        sizes = [part.mu.size for part in local.problem.parts.q()]
        q = tuple(Gaussian(rng.normal(size=M), width * np.eye(M), 0.0) for M in sizes)
        yield TaskMessage(SettingMessage.of(evaluator.setting), Request(q))


@pytest.mark.parametrize("family", [MEAN_FIELD, JOINT], ids=lambda family: family.name)
def test_a_shard_is_made_again_exactly(family):
    """Every step that the inner loop can take, in a long random order, with frozen nodes or not."""
    rng = np.random.default_rng(0)
    actor, ledger = rows_of(), Ledger()
    shard, tasks = actor.shard, list(messages(actor, rng, family.name))
    shard.start_sites(family.site_shape(2))
    passes = [Shard.evaluate, Shard.narrow, Shard.positive_proposal]
    simple = [Sites.commit, Sites.restore, Sites.take_proposal, Sites.clear, Sites.remember]

    def make_pass(work, task):
        actor.make_pass(work, task)
        ledger.note(work, task)

    def step(method, *args):
        method(shard.sites, *args)
        method(ledger.weights, *args)

    def freeze(frozen):
        shard.freeze_nodes(frozen)
        ledger.freeze_nodes(frozen)

    make_pass(Shard.evaluate, tasks[0])
    for _ in range(300):
        kind = rng.integers(17)
        if kind < 7:
            make_pass([*passes, *passes, Shard.clip][kind], tasks[rng.integers(3)])
        elif kind < 9:
            step(Sites.accept, float(rng.choice([0.0, 0.5, 1.0])))
        elif kind < 11:
            freeze(bool(rng.integers(2)))
        elif kind == 11:
            shard.raise_nodes()
            ledger.raise_nodes()
        else:
            step(simple[kind - 12])
        if len(shard.sites.history) > 2:
            step(Sites.accept_combination, rng.normal(size=len(shard.sites.history)))
            step(Sites.forget, 1)
        assert len(ledger.recipes) <= SLOTS
    freeze(False)
    make_pass(Shard.evaluate, tasks[0])
    freeze(True)
    make_pass(Shard.evaluate, tasks[2])
    assert (shard.wanted > shard.levels).any()  # so that frozen levels matter
    assert len(ledger.recipes) < SLOTS  # so that nothing was merged, and all is exact
    other = rows_of()
    other.take_parts(actor.parts)
    other.rebuild(ledger.origin(), family)
    for name, made in other.shard.sites.sets.items():
        np.testing.assert_allclose(made, shard.sites.sets[name], rtol=1e-9, atol=1e-9)
    for a, b in zip(other.shard.sites.history, shard.sites.history, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(other.shard.levels, shard.levels)


def test_a_ledger_of_many_short_steps_stays_short():
    ledger, task = Ledger(), TaskMessage(None, Request())
    ledger.note(Shard.evaluate, task)
    ledger.weights.accept(0.0)
    for _ in range(3 * SLOTS):
        ledger.note(Shard.evaluate, task)
        ledger.weights.accept(0.01)
    weights = ledger.origin().sets["current"]
    assert SLOTS // 2 < len(weights) <= len(ledger.recipes) <= SLOTS
    assert sum(weights.values()) == pytest.approx(1.0 - 0.99 ** (3 * SLOTS))
