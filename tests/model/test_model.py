"""The model as a whole: any number of latents, invariances, isolation, data in and out."""

from __future__ import annotations

import multiprocessing
import threading
import warnings

import numpy as np
import pytest
import threadpoolctl
from cases import (
    ALL,
    PAPER,
    K,
    L,
    M,
    OffsetLogistic,
    bound_gradient_errors,
    inputs,
    leaves,
    problem,
    randomise_q,
    small_model,
    wrong_leaves,
)
from scipy import integrate, stats

import chainedgp as cgp
from chainedgp.errors import (
    ChainedGPWarning,
    ConvergenceWarning,
    InputError,
    ScalingWarning,
    TargetWarning,
)
from chainedgp.linalg import one_blas_thread
from chainedgp.model import chained_gp as model_module
from chainedgp.posterior.shards import Shard
from chainedgp.predictive.latents import marginals_at


def fitted_state(m):
    """Every parameter, the bound and its gradient."""
    gradient = m.objective_function_gradients()
    return np.array(m.param_array), m.log_likelihood(), gradient


def simple(n=60, likelihood=None, **keywords):
    X = inputs(n)
    lik, y, metadata = problem("HetGaussian", X)
    keywords = {"num_inducing": 8, "num_threads": 1, **keywords}
    return cgp.ChainedGP(X, y, likelihood or lik, Y_metadata=metadata, **keywords)


# ---- b = 1, 2, 3 through one code path ----


@pytest.mark.parametrize("name, b", [("Gaussian", 1), ("HetGaussian", 2), ("TwoMeans", 3)])
def test_any_number_of_latents(name, b):
    X = inputs(50)
    lik, y, _ = problem(name, X)
    options = {"num_nodes": 6, "num_threads": 1, "posterior": "mean_field"}
    m = cgp.ChainedGP(X, y, lik, num_inducing=6, **options)
    start = m.log_likelihood()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = m.optimize(max_iters=15)
    assert result.bound > start + 5.0
    assert result.bound == m.log_likelihood()
    assert len(m.latents) == len(m.kernels) == len(m.mean_functions) == b
    assert m.q_mu.shape == (6, b) and m.q_sqrt.shape == (21, b)
    mean, variance = m.predict_latents(X[:5])
    assert mean.shape == variance.shape == (5, b)
    assert (variance > 0).all()
    assert m.posterior_samples_f(X[:5], size=4, rng=0).shape == (5, b, 4)


# ---- what must change nothing ----


def assert_same(a, b, rtol=1e-12):
    (pa, la, ga), (pb, lb, gb) = a, b
    assert la == pytest.approx(lb, rel=rtol)
    np.testing.assert_allclose(pa, pb, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(ga, gb, rtol=rtol, atol=rtol * np.abs(gb).max())


@pytest.mark.parametrize("name", ALL)
def test_row_order_changes_nothing(name):
    m = small_model(name, n=40)
    reference = fitted_state(m)
    order = np.random.default_rng(7).permutation(40)
    shuffled = m.copy()
    metadata = {key: value[order] for key, value in m.Y_metadata.items()}
    shuffled.set_data(m.X[order], m.Y[order], metadata)
    assert_same(fitted_state(shuffled), reference)
    means = [model.predict_latents(inputs(5, seed=11)) for model in (m, shuffled)]
    np.testing.assert_array_equal(means[0], means[1])


@pytest.mark.parametrize("chunk_rows", [1, 7, 39, 40, 1000])
def test_chunk_size_changes_nothing(chunk_rows, monkeypatch):
    reference = fitted_state(small_model("HetStudentT", n=40))

    class Chunked(Shard):
        def __init__(self, *args, **kw):
            super().__init__(*args, **{**kw, "chunk_rows": chunk_rows})

    monkeypatch.setattr(model_module, "Shard", Chunked)
    m = small_model("HetStudentT", n=40)
    chunks = m.problem.evaluator.shards[0]._slices(10)
    assert max(rows.stop - rows.start for rows in chunks) <= chunk_rows
    assert sum(rows.stop - rows.start for rows in chunks) == 40
    assert_same(fitted_state(m), reference)


def test_several_shards_are_one():
    m = small_model("LogLogisticSurvival", n=40)
    reference = fitted_state(m)
    parts = [slice(0, 11), slice(11, 12), slice(12, 40)]
    m.problem.evaluator.shards = [Shard(m._data[p]) for p in parts]
    m._mark_stale()
    assert_same(fitted_state(m), reference)


def test_number_of_threads_changes_no_bit(monkeypatch):
    class Chunked(Shard):
        def __init__(self, *args, **kw):
            super().__init__(*args, **{**kw, "chunk_rows": 16})

    monkeypatch.setattr(model_module, "Shard", Chunked)
    results = []
    for threads in (1, 2, 5):
        m = small_model("HetStudentT", n=100, num_threads=threads)
        shard = m.problem.evaluator.shards[0]
        assert shard.num_threads == threads and len(shard._slices(10)) >= 7
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            m.optimize(max_iters=3)
        results.append(fitted_state(m))
    for other in results[1:]:
        for a, b in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_projections_that_do_not_fit_the_cache_change_nothing(monkeypatch):
    reference = fitted_state(small_model("HetGaussian", n=40))
    monkeypatch.setattr("chainedgp.posterior.shards.CACHE_BYTES", 0)
    assert_same(fitted_state(small_model("HetGaussian", n=40)), reference)


def test_fits_are_reproducible():
    states = []
    for _ in range(2):
        m = simple(30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            m.optimize(max_iters=5)
        states.append(m.param_array.copy())
    np.testing.assert_array_equal(states[0], states[1])


# ---- isolation ----


def test_a_copy_is_the_same_and_separate():
    m = randomise_q(simple())
    m.kernels[0].lengthscale.fix()
    before = fitted_state(m)
    other = m.copy()
    assert_same(fitted_state(other), before, rtol=0)
    assert other.kernels[0].lengthscale.is_fixed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other.optimize(max_iters=5)
    other.set_data(m.X[:10], m.Y[:10])
    assert other.log_likelihood() != before[1]
    assert_same(fitted_state(m), before, rtol=0)
    assert m.problem.evaluator is not other.problem.evaluator


def test_a_copy_fits_as_the_original_does():
    m = simple()
    m.optimize(only="variational")
    other = m.copy()
    results = []
    for model in (m, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            results.append(model.optimize(max_iters=5).bound)
    assert results[0] == pytest.approx(results[1], rel=1e-12)


def test_models_from_the_same_parts_do_not_share_them():
    kernel, mean, lik = K.RBF(2, 0.7, 0.9), M.Constant(0.3), L.HetStudentT(nu=5.0)
    kernel.lengthscale.fix()
    X, y = inputs(30), problem("HetGaussian", inputs(30))[1]
    parts = dict(likelihood=lik, kernels=kernel, mean_functions=mean, num_inducing=5)
    a, b = (cgp.ChainedGP(X, y, **parts) for _ in range(2))
    before = fitted_state(b)
    a.kernels[0].variance = 3.0
    a.mean_functions[1].value = 2.0
    a.likelihood.nu = 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a.optimize(max_iters=3)
    assert_same(fitted_state(b), before, rtol=0)
    assert kernel.variance.values[0] == 0.7 and not kernel.has_parent()
    assert mean.value.values[0] == 0.3 and not mean.has_parent()
    assert lik.nu.values[0] == 5.0 and not lik.has_parent()
    # one kernel for all latents is still one kernel each, and fixes survive the copy
    assert b.kernels[0] is not b.kernels[1]
    assert all(k.lengthscale.is_fixed and not k.variance.is_fixed for k in b.kernels)
    # the user's variable is no handle to the model
    kernel.variance = 11.0
    assert_same(fitted_state(b), before, rtol=0)


def test_predictive_objects_are_snapshots():
    m = randomise_q(simple())
    distribution = m.predictive(m.X[:3])
    before = distribution.mean
    m.mean_functions[0].value = 50.0
    np.testing.assert_array_equal(distribution.mean, before)
    assert not np.allclose(m.predict(m.X[:3])[0], before)


def test_arrays_handed_in_are_never_modified():
    X, Z = inputs(30), inputs(5, seed=3)
    lik, y, _ = problem("LogLogisticSurvival", X)
    weights, censored = np.linspace(0.5, 1.5, 30), (np.arange(30) % 3 == 0).astype(float)
    metadata = {"censored": censored, "weights": weights}
    arrays = [X, y, Z, weights, censored]
    kept = [a.copy() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    m = cgp.ChainedGP(X, y, lik, Z=Z, Y_metadata=metadata, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=5)
    m.predictive(X).ppf(0.5)
    m.log_predictive_density(X, y, {"censored": censored})
    m.set_data(X, y, metadata)
    m.optimize(only="variational")
    assert set(metadata) == {"censored", "weights"}
    for a, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(a, before)
    # nor does the model see what the caller does to them later
    bound = m.log_likelihood()
    for a in arrays:
        a.flags.writeable = True
        a[:] = 1.0
    m._mark_stale()
    m.problem.evaluator.drop_cache()
    assert m.log_likelihood() == bound
    assert not np.allclose(m.Z.values, 1.0)


# ---- BLAS threads ----


def blas_threads():
    return [
        (lib["filepath"], lib["num_threads"])
        for lib in threadpoolctl.threadpool_info()
        if lib["user_api"] == "blas"
    ]


class Failing(L.HetGaussian):
    """Fails in the pass over the data, and tells how many threads BLAS had there."""

    seen: list[int] = []

    def expected_log_density(self, *args, **kw):
        self.seen.extend(threads for _, threads in blas_threads())
        raise RuntimeError("inside")


@pytest.mark.parametrize("limit", [1, 2])
def test_blas_threads_are_as_before_after_every_call(limit):
    with threadpoolctl.threadpool_limits(limit, user_api="blas"):
        before = blas_threads()
        assert before
        m = simple(40)
        calls = [
            m.log_likelihood,
            m.objective_function_gradients,
            lambda: m.optimize(only="variational"),
            lambda: m.predict_latents(m.X),
            lambda: m.predict_latents(m.X, full_cov=True),
            lambda: m.predict(m.X),
            lambda: m.predict_quantiles(m.X),
            lambda: m.posterior_samples_f(m.X, rng=0),
            lambda: m.copy(),
        ]
        for call in calls:
            call()
            assert blas_threads() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_threads_are_as_before_after_an_exception(threads, monkeypatch):
    Failing.seen.clear()
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        m = simple(60, likelihood=Failing(), num_threads=threads)
        m.problem.evaluator.shards[0].chunk_rows = 10
        assert len(m.problem.evaluator.shards[0]._slices(10)) > 2
        for call in (m.log_likelihood, m.optimize, lambda: m.optimize("lbfgsb")):
            with pytest.raises(RuntimeError, match="inside"):
                call()
            assert blas_threads() == before
    assert set(Failing.seen) == {1}  # and inside it was one


@pytest.mark.parametrize("main_leaves_last", [True, False])
def test_the_guard_follows_the_main_thread(main_leaves_last):
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        entered, leave = threading.Event(), threading.Event()

        def hold():
            with one_blas_thread():
                entered.set()
                leave.wait(10)

        thread = threading.Thread(target=hold)
        with one_blas_thread(), one_blas_thread():
            thread.start()
            assert entered.wait(10)
            if main_leaves_last:
                leave.set()
                thread.join()
            assert {count for _, count in blas_threads()} == {1}
        assert blas_threads() == before
        leave.set()
        thread.join()
        assert blas_threads() == before


# ---- rows: weights, metadata, missing, kinds of arrays ----


@pytest.mark.parametrize("name", PAPER)
def test_weights_are_repeated_rows(name):
    m = small_model(name, n=12)
    counts = np.array([0, 1, 2, 3] * 3)
    repeated = m.copy()
    index = np.repeat(np.arange(12), counts)
    repeated.set_data(m.X[index], m.Y[index], {k: v[index] for k, v in m.Y_metadata.items()})
    m.set_data(m.X, m.Y, {**m.Y_metadata, "weights": counts})
    assert_same(fitted_state(m), fitted_state(repeated))
    for model in (m, repeated):
        model.optimize(only="variational")
    assert m.log_likelihood() == pytest.approx(repeated.log_likelihood(), abs=1e-7)


def test_metadata_reach_the_rows():
    X = inputs(30)
    lik, y, metadata = problem("LogLogisticSurvival", X)
    censored = cgp.ChainedGP(X, y, lik, Y_metadata=metadata, num_inducing=5)
    exact = cgp.ChainedGP(X, y, lik, num_inducing=5)
    zeros = cgp.ChainedGP(X, y, lik, Y_metadata={"censored": 0.0}, num_inducing=5)
    column = {"censored": metadata["censored"][:, None]}
    as_column = cgp.ChainedGP(X, y, lik, Y_metadata=column, num_inducing=5)
    assert exact.log_likelihood() == zeros.log_likelihood() != censored.log_likelihood()
    assert as_column.log_likelihood() == censored.log_likelihood()
    assert censored.Y_metadata["censored"].shape == (30,)


def test_set_data_keeps_parameters_and_is_a_new_problem():
    m = simple(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=5)
    fresh = m.copy()
    parameters, old = np.array(m.param_array), m.log_likelihood()
    X = inputs(35, seed=21)
    y = problem("HetGaussian", X)[1]
    m.set_data(X, y)
    np.testing.assert_array_equal(m.param_array, parameters)
    assert m.log_likelihood() != old
    assert m.X.shape == (35, 2) and m.Y.shape == (35, 1)
    result = m.optimize(only="variational")
    fresh.set_data(X, y)
    fresh.q_mu[:] = 0.0
    assert result.bound == pytest.approx(fresh.optimize(only="variational").bound, abs=1e-6)
    with pytest.raises(InputError):
        m.set_data(X[:, :1], y)
    assert m.log_likelihood() == result.bound


def test_missing_drop_leaves_out_rows_everywhere():
    X = inputs(30)
    lik, y, metadata = problem("LogLogisticSurvival", X)
    holes = y.copy()
    holes[[2, 9]] = np.nan
    kept = ~np.isnan(holes)
    weights = np.linspace(0.5, 1.5, 30)
    dropped = cgp.ChainedGP(
        X, holes, lik, Y_metadata={**metadata, "weights": weights}, num_inducing=5, missing="drop"
    )
    by_hand = cgp.ChainedGP(
        X[kept],
        y[kept],
        lik,
        Y_metadata={"censored": metadata["censored"][kept], "weights": weights[kept]},
        num_inducing=5,
    )
    assert dropped.X.shape == (28, 2)
    assert dropped.log_likelihood() == by_hand.log_likelihood()
    assert np.isnan(holes).sum() == 2
    with pytest.raises(InputError, match="drop"):
        cgp.ChainedGP(X, holes, lik, num_inducing=5)


def test_one_dimensional_inputs_are_one_column():
    x = inputs(30)[:, 0]
    y = np.sin(x)
    reference = cgp.ChainedGP(x[:, None], y[:, None], L.HetGaussian(), num_inducing=5)
    for X, Y in ((x, y), (list(x), list(y))):
        m = cgp.ChainedGP(X, Y, L.HetGaussian(), num_inducing=5)
        assert m.X.shape == (30, 1) and m.Y.shape == (30, 1)
        assert m.log_likelihood() == reference.log_likelihood()
        assert m.predict(x[:4])[0].shape == (4, 1)
    assert cgp.ChainedGP(x, y, L.HetGaussian(), Z=x[:4]).Z.shape == (4, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, ">f8"])
def test_number_types_become_double(dtype):
    X = np.arange(20).reshape(10, 2).astype(dtype)
    y = np.arange(10).astype(dtype)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=4)
    same = cgp.ChainedGP(X.astype(float), y.astype(float), L.HetGaussian(), num_inducing=4)
    assert m.X.dtype == np.float64
    assert m.log_likelihood() == same.log_likelihood()


def test_memmaps_are_referenced(tmp_path):
    X, y = inputs(50), problem("HetGaussian", inputs(50))[1]
    on_disk = {}
    for name, array in (("X", X), ("y", y)):
        on_disk[name] = np.memmap(tmp_path / name, dtype=float, mode="w+", shape=array.shape)
        on_disk[name][:] = array
        on_disk[name].flush()
    readonly = {
        name: np.memmap(tmp_path / name, dtype=float, mode="r", shape=array.shape)
        for name, array in on_disk.items()
    }
    m = cgp.ChainedGP(readonly["X"], readonly["y"], L.HetGaussian(), num_inducing=6, num_threads=1)
    same = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=6, num_threads=1)
    assert np.shares_memory(m.X, readonly["X"])
    assert m.log_likelihood() == same.log_likelihood()
    assert m.optimize(only="variational").bound == same.optimize(only="variational").bound


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_memmap_is_checked_block_by_block(tmp_path, monkeypatch, name, bad):
    monkeypatch.setattr("chainedgp.data.rows.BLOCK", 16)
    X, y = inputs(50), problem("HetGaussian", inputs(50))[1]
    on_disk = {}
    for key, array in (("X", X), ("y", y)):
        on_disk[key] = np.memmap(tmp_path / key, dtype=float, mode="w+", shape=array.shape)
        on_disk[key][:] = array
    cgp.ChainedGP(*on_disk.values(), L.HetGaussian(), num_inducing=6)
    on_disk[name][[20, 40]] = bad  # in the second and third block
    with pytest.raises(InputError, match=r"(at index \(|at row )20") as error:
        cgp.ChainedGP(*on_disk.values(), L.HetGaussian(), num_inducing=6)
    assert f"{name.upper()} has {4 if name == 'X' else 2} " in str(error.value)


def test_pandas_is_read_by_value():
    pd = pytest.importorskip("pandas")
    X = inputs(30)
    lik, y, metadata = problem("LogLogisticSurvival", X)
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "time": y, "censored": metadata["censored"] > 0},
        index=np.arange(30)[::-1] + 100,
    )
    m = cgp.ChainedGP(
        frame[["a", "b"]],
        frame["time"],
        lik,
        Y_metadata={"censored": frame["censored"]},
        num_inducing=5,
    )
    reference = cgp.ChainedGP(X, y, lik, Y_metadata=metadata, num_inducing=5)
    assert m.log_likelihood() == reference.log_likelihood()
    got = m.predict_quantiles(frame[["a", "b"]].iloc[:3])
    np.testing.assert_array_equal(got, reference.predict_quantiles(X[:3]))
    holes = frame.copy()
    holes.iloc[4, 2] = np.nan
    dropped = cgp.ChainedGP(
        holes[["a", "b"]],
        holes["time"],
        lik,
        Y_metadata={"censored": holes["censored"]},
        num_inducing=5,
        missing="drop",
    )
    assert dropped.X.shape == (29, 2)


def test_badly_scaled_inputs_warn_by_column():
    X = inputs(20)
    X[:, 1] = 1e9 + 1e-2 * X[:, 1]
    with pytest.warns(ScalingWarning, match="column 1"):
        cgp.ChainedGP(X, X[:, 0], L.HetGaussian(), num_inducing=4)
    with pytest.warns(ScalingWarning, match="input 'height'"):
        cgp.ChainedGP(X, X[:, 0], L.HetGaussian(), num_inducing=4, input_names=["w", "height"])


def test_targets_that_hardly_vary_warn():
    y = np.sin(np.arange(20.0))
    cgp.ChainedGP(inputs(20), 5.0 + 1e-7 * y, L.HetGaussian(), num_inducing=4)
    with pytest.warns(ScalingWarning, match="Subtract their mean"):
        cgp.ChainedGP(inputs(20), 9.0 + 1e-9 * y, L.HetGaussian(), num_inducing=4)


def test_targets_that_are_all_the_same_are_told():
    m = cgp.ChainedGP(inputs(20), np.full(20, 3.0), L.HetGaussian(), num_inducing=4)
    notes = m.optimize().warnings
    assert any(note.startswith("all targets are 3") for note in notes)
    assert not any("explains part of what is left" in note for note in notes)
    m = cgp.ChainedGP(inputs(20), np.full(20, 3.0), L.Poisson(), num_inducing=4)
    assert not any(note.startswith("all targets") for note in m.optimize().warnings)


@pytest.mark.parametrize("in_x, in_y", [(1e9, 0.0), (0.0, 1e9)])
def test_a_large_offset_changes_no_fit(in_x, in_y):
    """The digits that are left of the data at 1e9 are enough."""
    X = np.random.default_rng(5).uniform(-3.0, 3.0, (60, 1))
    y = np.sin(1.5 * X[:, 0]) + 0.2 * np.random.default_rng(6).normal(size=60)
    plain = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=15)
    moved = cgp.ChainedGP(X + in_x, y + in_y, L.HetGaussian(), num_inducing=15)
    assert moved.optimize().bound == pytest.approx(plain.optimize().bound, abs=0.01)
    mean, variance = moved.predict(X + in_x)
    np.testing.assert_allclose(mean - in_y, plain.predict(X)[0], atol=0.01)
    np.testing.assert_allclose(variance, plain.predict(X)[1], rtol=0.05)


def test_times_that_are_all_censored_warn():
    y, censored = np.linspace(1.0, 3.0, 20), np.ones(20)
    one_event = np.where(np.arange(20) == 7, 0.0, censored)
    cgp.ChainedGP(inputs(20), y, L.LogLogisticSurvival(), Y_metadata={"censored": one_event})
    with pytest.warns(TargetWarning, match="All rows are censored"):
        cgp.ChainedGP(inputs(20), y, L.LogLogisticSurvival(), Y_metadata={"censored": censored})


# ---- starts ----


def test_one_wild_input_does_not_hide_a_signal():
    x = np.linspace(0.0, 10.0, 80)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(80)
    x[40] = 1e6  # a slip of the decimal point
    m = cgp.ChainedGP(x, y, L.Gaussian(), num_inducing=20)
    assert m.kernels[0].lengthscale[0] < 5.0  # of the order of the other rows' spread
    m.optimize(messages=False)
    assert float(m.likelihood.variance[0]) < 0.05  # that of the targets is 0.5


@pytest.mark.parametrize("likelihood", [L.Gaussian, L.HetGaussian])
def test_scales_beside_an_outlier_have_the_unit_of_the_targets(likelihood):
    """The scale that information suggests is far from the spread of the other targets here."""
    y = np.sin(np.arange(60.0))
    y[17] = 1e4
    scales = []
    for unit in (1.0, 1e8, 1e-8):
        m = cgp.ChainedGP(inputs(60), unit * y, likelihood(), num_inducing=4)
        scales.append(m._starts.scales[0] / unit)
    np.testing.assert_allclose(scales, scales[0], rtol=1e-6)
    assert 0.2 < scales[0] < 10.0


def test_defaults_start_from_the_data():
    X = inputs(80)
    y = 100.0 + 3.0 * np.random.default_rng(0).normal(size=80)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=500)
    assert m.mean_functions["mean"].value.values[0] == pytest.approx(y.mean())
    assert m.mean_functions["log_variance"].value.values[0] == pytest.approx(np.log(y.var()))
    assert all(k.lengthscale.size == 2 for k in m.kernels)
    assert m.Z.shape[0] <= 80
    rows = {tuple(row) for row in X}
    assert all(tuple(z) in rows for z in m.Z.values)
    assert len(np.unique(m.Z.values, axis=0)) == len(m.Z)


def test_open_likelihood_parameters_start_from_the_data():
    """`Gaussian()` says nothing of its variance: it starts from the data, as latents do."""
    X = inputs(80)
    y = 300.0 * np.random.default_rng(0).normal(size=80)
    left_open = cgp.ChainedGP(X, y, L.Gaussian(), num_inducing=5)
    assert left_open.likelihood.variance.values[0] == pytest.approx(y.var(), rel=0.5)
    given = cgp.ChainedGP(X, y, L.Gaussian(variance=2.0), num_inducing=5)
    assert given.likelihood.variance.values[0] == 2.0


def test_what_the_user_gives_is_kept():
    X, Z = inputs(30), inputs(4, seed=5)
    m = cgp.ChainedGP(
        X,
        X[:, 0],
        L.HetGaussian(),
        kernels=[K.RBF(2, 0.11, 0.22), K.Matern32(2, 0.33, 0.44)],
        Z=Z,
        mean_functions=[M.Zero(), M.Constant(0.55)],
    )
    assert m.kernels[0].variance.values[0] == 0.11
    assert m.kernels[1].lengthscale.values[0] == 0.44
    assert isinstance(m.mean_functions[0], M.Zero)
    assert m.mean_functions[1].value.values[0] == 0.55
    np.testing.assert_array_equal(m.Z.values, Z)
    assert (m.q_mu.values == 0).all()


def test_symmetric_latents_start_apart():
    X = inputs(60)
    lik, y, _ = problem("AdditivePoisson", X)
    m = cgp.ChainedGP(X, y, lik, num_inducing=6)
    assert not np.allclose(m.kernels[0].lengthscale.values, m.kernels[1].lengthscale.values)


# ---- optimisation: names, results, callbacks ----


def test_gpy_names_of_optimisers():
    for keywords in ({"method": "lbfgs"}, {"optimizer": "bfgs"}, {"method": "L-BFGS-B"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert simple(30).optimize(max_iters=2, **keywords).method == "lbfgsb"


@pytest.mark.parametrize("method", ["profile", "lbfgsb"])
def test_methods_raise_the_bound_and_keep_the_best(method):
    m = simple(60, priors=None)
    start = m.log_likelihood()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = m.optimize(method, max_iters=40)
    trace = result.trace_array()
    assert result.bound > start + 5.0
    assert result.bound == m.log_likelihood()
    assert result.bound >= trace[:, 0].max() - 1e-6
    assert (np.diff(trace[:, 1:], axis=0) >= 0).all()
    assert str(result).startswith(result.status)


def test_profile_and_plain_gradients_agree_on_what_is_an_optimum():
    """Neither method gains where the other ended (there may be several optima)."""
    for first, second in (("profile", "lbfgsb"), ("lbfgsb", "profile")):
        m = simple(40, num_inducing=5, priors=None)
        m.Z.fix()
        bound = m.optimize(first).bound
        assert bound - 1e-6 <= m.optimize(second).bound < bound + 0.02


def test_fixed_parameters_stay_and_free_ones_move():
    m = simple(60)
    m.kernels[0].lengthscale.fix()
    m.Z.fix()
    Z, lengthscale = m.Z.values.copy(), m.kernels[0].lengthscale.values.copy()
    other = m.kernels[1].lengthscale.values.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        m.optimize(max_iters=10)
    np.testing.assert_array_equal(m.Z.values, Z)
    np.testing.assert_array_equal(m.kernels[0].lengthscale.values, lengthscale)
    assert not np.allclose(m.kernels[1].lengthscale.values, other)


def test_not_converged_warns_and_says_so():
    with pytest.warns(ConvergenceWarning, match="optimize"):
        result = simple(60).optimize(max_iters=2)
    assert not result.converged and result.status == "stopped"
    assert result.warnings


def test_callback_sees_points_and_can_stop():
    seen = []

    def callback(point):
        seen.append(point.bound)
        return len(seen) == 3

    result = simple(60).optimize(callback=callback)
    assert len(seen) == 3 and not result.converged
    assert "callback" in result.reason
    assert seen == [point.bound for point in result.trace]


def test_interrupt_keeps_the_best():
    m = simple(60)
    start = m.log_likelihood()

    def interrupt(point):
        if point.bound > start + 5.0:
            raise KeyboardInterrupt

    result = m.optimize(callback=interrupt)
    assert result.status == "interrupted"
    assert m.log_likelihood() == result.bound > start


def test_long_lengthscales_copy_without_a_warning():
    """A column that does not matter gets a lengthscale of thousands: an ordinary end of a fit."""
    m = simple(30)
    m.kernels[0].lengthscale = np.array([1.0, 4000.0])
    assert m.copy().log_likelihood() == m.log_likelihood()
    assert m.checkgrad()


# ---- prediction ----


@pytest.fixture(scope="module")
def fitted():
    X = inputs(80, D=1)
    y = np.sin(2 * X[:, 0]) + 0.3 * np.random.default_rng(3).normal(size=80)
    m = cgp.ChainedGP(X, y, L.HetGaussian(), num_inducing=8)
    for kernel in m.kernels:
        kernel.lengthscale[:] = 1.2
    m.optimize(only="variational")
    return m


def test_shapes_of_predictions(fitted):
    X = np.linspace(-2, 2, 9)[:, None]
    grid = np.linspace(-1, 1, 4)
    assert [a.shape for a in fitted.predict(X)] == [(9, 1)] * 2
    assert [a.shape for a in fitted.predict_latents(X)] == [(9, 2)] * 2
    assert fitted.predict_latents(X, full_cov=True)[1].shape == (2, 9, 9)
    assert [q.shape for q in fitted.predict_quantiles(X)] == [(9, 1)] * 2
    assert [q.shape for q in fitted.predict_quantiles(X, (5, 50, 95))] == [(9, 1)] * 3
    assert fitted.predict_density(X, grid).shape == (9, 4)
    assert fitted.predict_cdf(X, grid).shape == (9, 4)
    assert fitted.predict_density(X, np.zeros((9, 1))).shape == (9, 1)
    assert fitted.log_predictive_density(X, np.zeros(9)).shape == (9, 1)
    assert fitted.log_predictive_density(X, np.zeros((9, 1))).shape == (9, 1)
    assert fitted.posterior_samples(X, size=6, rng=1).shape == (9, 1, 6)
    assert fitted.posterior_samples_f(X, size=6, rng=1).shape == (9, 2, 6)


def test_predictions_agree_with_each_other(fitted):
    X = np.linspace(-2, 2, 5)[:, None]
    low, median, high = fitted.predict_quantiles(X, (2.5, 50, 97.5))
    assert (low < median).all() and (median < high).all()
    for i in range(5):
        cdf = fitted.predict_cdf(X[i : i + 1], np.array([low[i, 0], median[i, 0], high[i, 0]]))
        np.testing.assert_allclose(cdf[0], [0.025, 0.5, 0.975], atol=1e-6)
    X = X[::2]
    y = np.linspace(-6, 6, 801)
    density = fitted.predict_density(X, y)
    mean, variance = fitted.predict(X)
    first = integrate.simpson(density * y, x=y)
    np.testing.assert_allclose(integrate.simpson(density, x=y), 1.0, atol=1e-6)
    np.testing.assert_allclose(first, mean[:, 0], atol=1e-5)
    second = integrate.simpson(density * (y - mean) ** 2, x=y)
    np.testing.assert_allclose(second, variance[:, 0], rtol=1e-4)
    np.testing.assert_allclose(
        fitted.log_predictive_density(X, np.full(3, 0.2))[:, 0],
        np.log(fitted.predict_density(X, np.array([0.2])))[:, 0],
        rtol=1e-10,
    )


def test_joint_samples_have_the_joint_covariance(fitted):
    X = np.array([[-1.0], [-0.9], [1.0]])
    mean, cov = fitted.predict_latents(X, full_cov=True)
    draws = fitted.posterior_samples_f(X, size=40000, rng=0)
    for j in range(2):
        np.testing.assert_allclose(draws[:, j].mean(1), mean[:, j], atol=0.02)
        scale = np.sqrt(np.outer(np.diag(cov[j]), np.diag(cov[j])))
        np.testing.assert_allclose(np.cov(draws[:, j]) / scale, cov[j] / scale, atol=0.04)
    _, marginal = fitted.predict_latents(X)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2).T, marginal, rtol=1e-8)


def test_blocks_of_rows_change_nothing(fitted, monkeypatch):
    X = np.linspace(-2, 2, 23)[:, None]
    whole = fitted.predict_latents(X)
    monkeypatch.setattr("chainedgp.predictive.latents.BLOCK_ROWS", 5)
    for a, b in zip(fitted.predict_latents(X), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_generators_are_respected(fitted):
    X = np.linspace(-2, 2, 4)[:, None]
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # noqa: NPY002
    for method in (fitted.posterior_samples, fitted.posterior_samples_f):
        a = method(X, size=3, rng=5)
        np.testing.assert_array_equal(a, method(X, size=3, rng=np.random.default_rng(5)))
        assert not np.array_equal(a, method(X, size=3, rng=6))
        method(X, size=3)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_quantiles_in_the_wrong_unit_warn(fitted):
    with pytest.warns(ChainedGPWarning, match="percent"):
        fitted.predict_quantiles(fitted.X[:2], (0.025, 0.975))


def test_prediction_leaves_the_model_alone(fitted):
    before = fitted_state(fitted)
    fitted.predict(fitted.X)
    fitted.predict_quantiles(fitted.X[:3])
    fitted.posterior_samples(fitted.X[:3], rng=0)
    assert_same(fitted_state(fitted), before, rtol=0)


def answers(m):
    """A bound, predictions, and those after q was found."""
    m = m.copy()
    bound, mean = m.log_likelihood(), m.predict(m.X)[0]
    m.optimize(only="variational", messages=False)
    return bound, m.log_likelihood(), mean, m.posterior_samples(m.X[:3], 2, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python, where threads live
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_another_process_gives_the_same_bits(way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {way} on this system")
    m = simple(60, num_threads=2)
    m.problem.evaluator.shards[0].chunk_rows = 16
    assert len(m.problem.evaluator.shards[0]._slices(10)) > 2
    here = answers(m)  # so that threads of this process exist before the other begins
    with multiprocessing.get_context(way).Pool(1) as pool:
        there = pool.apply_async(answers, (m,)).get(timeout=120)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore::chainedgp.errors.ConvergenceWarning")
def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    m = simple(30)
    m.optimize("natgrad", batch_size=10, epochs=1, messages=False)
    m.optimize_restarts(2, max_iters=2, messages=False)
    m.posterior_samples(m.X, 2)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_threads_may_predict_at_once(fitted):
    X = np.linspace(-2, 2, 40)[:, None]
    expected, results = fitted.predict(X)[0], [None] * 6

    def work(i):
        results[i] = fitted.predict(X)[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


# ---- a likelihood known by its density alone ----


@pytest.fixture
def user_model():
    X = inputs(60, D=1)
    rng = np.random.default_rng(8)
    offset = rng.normal(size=60)
    y = np.sin(2 * X[:, 0]) + offset + 0.2 * rng.logistic(size=60)
    m = cgp.ChainedGP(
        X,
        y,
        OffsetLogistic(),
        kernels=K.RBF(1, 1.0, 0.8),
        Y_metadata={"offset": offset},
        num_inducing=6,
    )
    # a constant factor of the scale, and the mean of log_scale: one too many
    m.mean_functions["log_scale"].fix()
    return m


def test_user_likelihood_has_bound_and_gradients(user_model):
    assert not wrong_leaves(bound_gradient_errors(randomise_q(user_model.copy())))


def test_user_likelihood_fits(user_model):
    start, tau = user_model.log_likelihood(), user_model.likelihood.tau.values[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = user_model.optimize(max_iters=12)
    assert result.bound > start + 20.0
    assert user_model.likelihood.tau.values[0] != tau
    f = user_model.predict_latents(user_model.X)[0][:, 0]
    assert np.corrcoef(f, np.sin(2 * user_model.X[:, 0]))[0, 1] > 0.95


def test_user_likelihood_has_a_predictive_distribution(user_model):
    user_model.optimize(only="variational")
    X, shift = np.array([[-1.0], [0.3]]), np.array([0.5, -0.5])
    metadata = {"offset": shift}
    mean, variance = user_model.predict_latents(X)
    predictor = user_model._predictor()
    assert user_model.posterior == "joint"
    V = marginals_at(predictor.priors, predictor.q, predictor.family, X)[1]
    root = np.linalg.cholesky(V)
    tau = user_model.likelihood.tau.values[0]
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    f = mean[:, :1] + root[:, 0, :1] * z  # (2, 60)
    g = mean[:, 1, None, None] + root[:, 1, 0, None, None] * z[:, None]
    g = g + root[:, 1, 1, None, None] * z  # (2, 60, 60)

    def expect(i, function):
        law = stats.logistic(f[i][:, None] + shift[i], tau * np.exp(g[i]))
        return w @ function(law) @ w

    distribution = user_model.predictive(X, metadata)
    y = np.array([0.1, 0.9])
    pdf, cdf = distribution.pdf(y), distribution.cdf(y)
    for i in range(2):
        for k in range(2):
            assert pdf[i, k] == pytest.approx(expect(i, lambda law, k=k: law.pdf(y[k])), rel=1e-5)
            assert cdf[i, k] == pytest.approx(expect(i, lambda law, k=k: law.cdf(y[k])), abs=1e-5)
    quantiles = user_model.predict_quantiles(X, (10, 50, 90), metadata)
    for percent, column in zip((10, 50, 90), quantiles, strict=True):
        for i in range(2):
            reached = expect(i, lambda law, i=i, column=column: law.cdf(column[i, 0]))
            assert reached == pytest.approx(percent / 100, abs=1e-5)
    got_mean, got_variance = user_model.predict(X, metadata)
    np.testing.assert_allclose(got_mean[:, 0], mean[:, 0] + shift, atol=1e-3)
    for i in range(2):
        noise = expect(i, lambda law: law.var())
        assert got_variance[i, 0] == pytest.approx(noise + variance[i, 0], rel=1e-2)
    draws = user_model.posterior_samples(X, size=400, rng=0, Y_metadata=metadata)
    assert draws.shape == (2, 1, 400)
    for percent, column in zip((0.1, 0.5, 0.9), quantiles, strict=True):
        below = (draws[:, 0] <= column).mean(axis=1)
        np.testing.assert_allclose(
            below, percent, atol=4.0 * np.sqrt(percent * (1 - percent) / 400)
        )


def test_user_likelihood_needs_its_metadata(user_model):
    with pytest.raises(InputError, match="offset"):
        user_model.predict(np.zeros((2, 1)))


def test_leaves_of_the_model_have_unique_names():
    for name in ("HetStudentT", "OffsetLogistic"):
        for separate in (False, True):
            m = small_model(name, separate_Z=separate)
            names = [leaf.hierarchy_name() for leaf in leaves(m)]
            assert len(set(names)) == len(names)


# ---- what is set after construction ------------------------------------------------------------


def test_nodes_that_are_set_later_take_effect():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(12, 1)), rng.beta(2.0, 3.0, size=12)

    def build(num_nodes):
        return cgp.ChainedGP(X, y, L.Beta(), num_inducing=4, num_nodes=num_nodes, num_threads=1)

    bounds = {k: build(k).log_likelihood() for k in (None, 2, 6)}
    m = build(None)
    for k in (2, None, 6, None):
        m.num_nodes = k
        assert m.num_nodes == k
        assert m.log_likelihood() == bounds[k]
    with pytest.raises(InputError, match="num_nodes"):
        m.num_nodes = 0
    assert m.num_nodes is None and m.log_likelihood() == bounds[None]


def test_threads_that_are_set_later_take_effect():
    m = cgp.ChainedGP(np.zeros((3, 1)), np.zeros(3), L.Gaussian(), num_threads=1)
    m.num_threads = 2
    assert [shard.num_threads for shard in m.problem.evaluator.shards] == [2]
    with pytest.raises(InputError, match="num_threads"):
        m.num_threads = 0


@pytest.mark.parametrize("name", ["Beta", "HetGamma", "BetaMeanPrecision", "WeibullSurvival"])
def test_checkgrad_of_a_new_model(name):
    """The nodes of a row may not change between the two sides of a difference."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(size=(30, 1)), rng.beta(2.0, 3.0, size=30)
        m = cgp.ChainedGP(X, y, getattr(L, name)(), num_inducing=6, num_threads=1)
        before = m.log_likelihood()
        assert m.checkgrad()
        assert m.kernels[0].checkgrad()
        assert m.log_likelihood() == before
        assert not m.problem.evaluator.shards[0].frozen
