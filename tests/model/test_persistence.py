"""Save and load: bit-equal models, honest errors, harmless files."""

import copy
import fcntl
import hashlib
import io
import json
import os
import pickle
import stat
import sys
import tracemalloc
import warnings
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from fake_gpy import FakeGPyRBF
from paramz import Param
from paramz.transformations import Exponent, Logexp, Square
from paths import STORED

import chainedgp as cgp
from chainedgp import kernels as kern
from chainedgp import likelihoods as lik
from chainedgp import means, priors
from chainedgp.data.columns import Columns
from chainedgp.errors import InputError, MomentWarning
from chainedgp.inference.result import OptimizationResult, TracePoint
from chainedgp.model.files import archive
from chainedgp.persistence import FORMAT, FileFormatError, load, save

N, D, M = 23, 2, 4
XNEW = np.random.default_rng(5).uniform(-2, 2, (7, D))
TARGETS = {
    "real": lambda rng: rng.normal(size=N),
    "positive": lambda rng: rng.gamma(2.0, size=N),
    "unit": lambda rng: rng.beta(2.0, 3.0, size=N),
    "counts": lambda rng: rng.poisson(3.0, size=N).astype(float),
    "binary": lambda rng: (rng.uniform(size=N) < 0.4).astype(float),
    "categories": lambda rng: rng.integers(0, 4, size=N).astype(float),
    lik.VonMises.support: lambda rng: rng.uniform(-3.0, 3.0, size=N),
}


def make(likelihood=None, kernels=None, seed=0, **options):
    """A model with random q and hyperparameters, so that nothing in it has its default value."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (N, D))
    if isinstance(kernels, kern.Kernel) and kernels.level_columns.size:
        X = np.rint(X)  # codes of levels
    likelihood = lik.HetGaussian() if likelihood is None else likelihood
    options.setdefault("Z", X[:M])
    y = TARGETS[likelihood.support](rng)
    m = cgp.ChainedGP(X, y, likelihood, kernels, num_threads=1, **options)
    for leaf in m.flattened_parameters:
        if leaf.name != "q_sqrt" and "q_sqrt" not in leaf.hierarchy_name():
            leaf[...] = leaf.values * rng.uniform(0.8, 1.2, leaf.shape)
    for param in m.problem.parts.q_mu:
        param[...] = rng.normal(size=param.shape)
    return m


def round_trip(m, tmp_path, data=True, classes=()):
    save(m, tmp_path / "model.cgp", data)
    return load(tmp_path / "model.cgp", classes)


def constraints(m):
    return [
        sorted((str(what), index.tolist()) for what, index in leaf.constraints.items())
        for leaf in m.flattened_parameters
    ]


def predictions(m):
    if not type(m.likelihood).__module__.startswith("chainedgp"):
        return [m.log_predictive_density(XNEW, np.zeros(len(XNEW)))]
    if isinstance(m.likelihood, lik.BoxCoxNormal | lik.BoxCoxT):  # their moments take seconds
        return m.predict_quantiles(XNEW, (10, 90))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MomentWarning)
        p = m.predictive(XNEW)
        moments = p.mean, p.variance
    if len(m.latents) == 3:  # quantiles at a random q take a while
        return moments
    return [*moments, *m.predict_quantiles(XNEW, (10, 90))]


def assert_same(m, again, data=True):
    assert type(again) is cgp.ChainedGP
    names = [[leaf.hierarchy_name() for leaf in x.flattened_parameters] for x in (m, again)]
    assert names[0] == names[1]
    for a, b in zip(m.flattened_parameters, again.flattened_parameters, strict=True):
        assert a.values.tobytes() == b.values.tobytes()
    assert m.param_array.tobytes() == again.param_array.tobytes()
    assert m.optimizer_array.tobytes() == again.optimizer_array.tobytes()
    assert constraints(m) == constraints(again)
    assert type(m.likelihood) is type(again.likelihood)
    for p, q in zip(m.predict_latents(XNEW), again.predict_latents(XNEW), strict=True):
        assert p.tobytes() == q.tobytes()
    for p, q in zip(predictions(m), predictions(again), strict=True):
        assert p.tobytes() == q.tobytes()
    if data:
        assert m.log_likelihood() == again.log_likelihood()
        gradients = m.objective_function_gradients(), again.objective_function_gradients()
        assert gradients[0].tobytes() == gradients[1].tobytes()


# ---- everything that is shipped comes back ------------------------------------------------------

WRAPPED = {
    "ConstantLatent": lambda: lik.HetStudentT(nu=6.0).with_constant("log_scale2", -0.5),
    "Hurdle": lambda: lik.Hurdle(lik.Poisson()),
    "Inflated": lambda: lik.Inflated(lik.StudentT(nu=5.0), at=(0.0, 0.5)),
    "Ordinal": lambda: lik.Ordinal(5),
    "Rounded": lambda: lik.Rounded(lik.StudentT(nu=5.0), 0.5),
    "Softmax": lambda: lik.Softmax(4),
    "ScipyLikelihood": lambda: lik.Likelihood.from_scipy("norm", loc="identity", scale="exp"),
}
ABSTRACT = {"Likelihood", "Survival"}
NEED_METADATA = {"BetaBinomial", "Binomial"}  # see test_family


@pytest.mark.parametrize("name", sorted(set(lik.__all__) - ABSTRACT - NEED_METADATA))
def test_every_likelihood(name, tmp_path):
    m = make(WRAPPED.get(name, getattr(lik, name))(), seed=len(name))
    assert_same(m, round_trip(m, tmp_path))


def test_wrapped_likelihoods(tmp_path):
    for likelihood in (
        lik.HetGaussian().with_constant(0, 0.3),
        lik.LogLogisticSurvival().with_constant("log_shape"),
        lik.ConstantLatent(lik.HetGaussian(), 1, positive="noise"),
        lik.Gaussian(0.7),
        lik.StudentT(nu=7.0, log_scale2=-1.0),
        lik.HetStudentT(nu=7.0).with_constant("log_scale2"),
    ):
        m = make(likelihood)
        again = round_trip(m, tmp_path)
        assert_same(m, again)
        assert again.likelihood.latents == m.likelihood.latents
    assert again.likelihood.base.nu.values[0] == 7.0  # not a child, stored all the same


EXAMPLES = {
    "Linear": lambda: kern.Linear(2, ARD=True),
    "Periodic": lambda: kern.Periodic(2, period=[1.0, 2.0], ARD1=True),
    "Sum": lambda: kern.RBF(2) + kern.Bias(2),
    "Product": lambda: kern.RBF(2) * kern.Linear(2),
}


NOT_ALONE = {"Kernel", "Stationary", "GPyKernel", "as_kernel"}


@pytest.mark.parametrize("name", sorted(set(kern.__all__) - NOT_ALONE))
def test_every_kernel(name, tmp_path):
    kernel = EXAMPLES.get(name, lambda: getattr(kern, name)(2))()
    m = make(kernels=kernel)
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert type(again.kernels[1]) is type(m.kernels[1])


def test_deep_kernel(tmp_path):
    one = kern.RBF(1, active_dims=[1], name="slow") + kern.RBF(1, 2.0, 0.3, active_dims=[0])
    kernel = (
        (one * kern.Matern32(2, ARD=True) + kern.White(2, 0.1)) * kern.Periodic(1, active_dims=[1])
        + kern.RBF(2)
        + kern.RBF(2)
    )
    m = make(kernels=kernel)
    m.kernels[0].product.fix()
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    part = again.kernels[0].product.sum.product.sum.slow
    assert part.active_dims.tolist() == [1] and part.is_fixed
    assert not again.kernels[1].product.sum.product.sum.slow.is_fixed


def test_means(tmp_path):
    for name in set(means.__all__) - {"MeanFunction"}:
        cls = getattr(means, name)
        mean = cls(D) if name == "Linear" else cls()
        m = make(mean_functions=[mean, means.Zero()])
        again = round_trip(m, tmp_path)
        assert_same(m, again)
        assert type(again.mean_functions[0]) is cls


def test_separate_inducing_inputs(tmp_path):
    X = np.random.default_rng(0).uniform(-2, 2, (N, D))
    for Z in ([X[:4], X[4:8]], [X[:4], X[4:9]]):
        m = make(Z=Z)
        again = round_trip(m, tmp_path)
        assert_same(m, again)
        assert len(again.Z) == 2 and again.q_mu is not again.Z
        assert (again.Z[1].values == m.Z[1].values).all()


# ---- constraints, fixes, options ----------------------------------------------------------------


def test_constraints_and_fixes(tmp_path):
    m = make(kernels=kern.RBF(2, ARD=True))
    m.kernels[0].lengthscale[1:].fix(warning=False)
    m.kernels[0].variance.constrain_bounded(0.01, 50.0, warning=False)
    m.kernels[1].variance.constrain(Square(), warning=False)
    m.kernels[1].lengthscale.unconstrain()
    m.kernels[1].lengthscale[:1].constrain(Exponent(), warning=False)
    m.mean_functions[0].fix(warning=False)
    m.mean_functions[1].value.constrain_negative(warning=False)
    m.Z[:, 1].fix(warning=False)
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert again.mean_functions[0].value.is_fixed
    assert again.Z.constraints["fixed"].tolist() == [1, 3, 5, 7]
    # unfixing brings the constraint back, and the optimiser's vector drives the same leaves
    for x in (m, again):
        x.kernels[0].lengthscale.unfix()
        x.optimizer_array = x.optimizer_array + 0.1
    assert_same(m, again)


def test_a_value_that_its_constraint_would_change(tmp_path):
    m = make(lik.StudentT())
    m.kernels[0].variance.fix(warning=False)
    m.kernels[0].variance[:] = 0.0  # the constructor would refuse it
    again = round_trip(m, tmp_path)
    assert again.kernels[0].variance.values[0] == 0.0


def test_names(tmp_path):
    m = make(lik.StudentT(), kern.RBF(2, name="smooth") + kern.RBF(2))
    m.likelihood.name = "noise"
    m.kernels[0].smooth.name = "slow"
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert again.noise is again.likelihood
    assert again.kernels[0].slow.lengthscale is again.kernels[0].parameters[0].lengthscale


def test_options(tmp_path):
    m = make(jitter=1e-6 / 3, num_nodes=13, name="my_model", priors=None)
    m.set_prior(".*lengthscale", priors.LogNormal(0.1, 2.0))
    m.set_prior(m.kernels[0].variance, priors.Gamma(2.5, 0.5))
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert (again.jitter, again.num_nodes, again.name) == (m.jitter, 13, "my_model")
    assert again.hyperpriors == m.hyperpriors and len(m.hyperpriors) == 3
    assert again.objective_function() == m.objective_function()


def test_rows(tmp_path):
    rng = np.random.default_rng(2)
    metadata = {"censored": rng.integers(0, 2, N), "weights": rng.uniform(1, 2, N)}
    m = make(lik.LogLogisticSurvival(), Y_metadata=metadata)
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert (again.X == m.X).all() and (again.Y == m.Y).all()
    assert set(again.Y_metadata) == set(metadata)
    for key, value in m.Y_metadata.items():
        assert (again.Y_metadata[key] == value).all()


def test_memmap(tmp_path):
    m = make()
    X = np.memmap(tmp_path / "X", np.float32, "w+", shape=(N, D))
    X[:] = m.X
    m.set_data(X, m.Y)
    assert_same(m, round_trip(m, tmp_path))


def test_fit_goes_on(tmp_path):
    m = make()
    result = m.optimize(only="variational")
    again = round_trip(m, tmp_path)
    sites = [x.problem.evaluator.shards[0].sites.current for x in (m, again)]
    assert np.abs(sites[0]).max() > 0.0 and (sites[0] == sites[1]).all()
    assert_same(m, again)
    assert again.optimize(only="variational").bound == pytest.approx(result.bound, abs=1e-6)


def test_last_result(tmp_path):
    m = make()
    trace = [TracePoint(-3.25, 1, 1, 0.1), TracePoint(-1.0 / 3.0, 4, 2, 0.2)]
    m.last_result = OptimizationResult(
        "profile", True, "converged", "small steps", np.float64(-1 / 3), 2, 4, 2, 0.2, trace, ["w"]
    )
    assert round_trip(m, tmp_path, data=False).last_result == m.last_result


def test_bytes_are_reproducible_and_numpy_reads_them(tmp_path):
    m = make()
    save(m, tmp_path / "a")
    save(load(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with np.load(tmp_path / "a", allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
        assert header["format"] == 1 and header["posterior"] == m.posterior
        assert (arrays[header["data"]["dict"]["X"]["array"]] == m.X).all()


# ---- names, copies, files of every format -------------------------------------------------------


def named_model():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-2, 2, (N, D)), columns=["age", "dose"])
    target = pd.Series(rng.normal(size=N), name="response")
    kernels = [kern.RBF(D, ARD=True, name="slow"), kern.Matern32(D)]
    m = cgp.ChainedGP(frame, target, lik.HetGaussian(), kernels, Z=frame[:M], num_threads=1)
    m.q_mu[...] = rng.normal(size=m.q_mu.shape)
    return m


def test_names_of_columns_and_kernels(tmp_path):
    m = named_model()
    m.input_names = ["age in years", "dose"]
    again = round_trip(m, tmp_path)
    assert_same(m, again)
    assert again.input_names == ["age in years", "dose"] and again.target_name == "response"
    assert again.kernels.mean.slow is again.kernels.mean
    assert again.kernels[1].matern32 is again.kernels[1]
    with pytest.raises(InputError, match="lacks the column 'dose'"):
        again.predict(pd.DataFrame(XNEW, columns=["age", "height"]))
    again.predict(pd.DataFrame(XNEW, columns=["age", "dose"]))


def copies(thing):
    return copy.copy(thing), copy.deepcopy(thing), thing.copy(), pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize(
    "case",
    [
        lambda: make(lik.StudentT(), kern.RBF(2, ARD=True) + kern.Bias(2)),
        lambda: make(lik.Hurdle(lik.Poisson()), Z=[XNEW[:3], XNEW[3:]]),
        lambda: make(kernels=kern.RBF(2) * FakeGPyRBF(1, 1.3, 0.7, active_dims=[1])),
        named_model,
    ],
)
def test_copies(case):
    m = case()
    m.kernels[0].fix(warning=False)
    m.set_prior(".*variance", priors.LogNormal())
    m.optimize(only="variational", messages=False)
    before = m.log_likelihood()
    for other in copies(m):
        assert_same(m, other)
        assert other.hyperpriors == m.hyperpriors and other.input_names == m.input_names
        other.kernels[-1].flattened_parameters[0][:] = 3.3  # nothing is shared
        assert other.log_likelihood() != before == m.log_likelihood()
        assert m.kernels[-1]._parent_ is m.kernels
        other.optimize(only="variational", messages=False)
    assert m.log_likelihood() == before


def test_copies_of_parts():
    for part in (kern.RBF(2) + kern.Bias(2), lik.HetStudentT(nu=6.0), means.Linear(2)):
        for other in copies(part):
            other.flattened_parameters[0][:] = 9.0
            assert part.flattened_parameters[0].values[0] != 9.0
            assert other.flattened_parameters[0]._parent_._highest_parent_ is other
            assert part.flattened_parameters[0]._parent_._highest_parent_ is part


def test_copies_of_parts_of_a_model_are_unlinked():
    m = make(lik.HetStudentT(nu=6.0), kern.RBF(2) + kern.Bias(2))
    m.likelihood.nu.fix(warning=False)
    value = m.log_likelihood()
    cgp.testing.check_likelihood(m.likelihood)
    for part in (m.likelihood, m.kernels[0], m.kernels[0].rbf, m.kernels):
        for other in copies(part):
            assert not other.has_parent() and str(other) == str(part)
            assert np.array_equal(other.optimizer_array, part.copy().optimizer_array)
            other.flattened_parameters[0][:] = 9.0
            assert other.param_array[0] == 9.0
    assert m.log_likelihood() == value
    for other in copies(m):
        for part, parent in ((other.likelihood, other), (other.kernels[0].rbf, other.kernels[0])):
            assert part._parent_ is parent
            before = other.num_changes
            part.flattened_parameters[0][:] = 9.0  # The model is told of it once.
            assert other.num_changes == before + 1


def test_the_file_of_format_1():
    """Written when format 1 was released; it must load for ever."""
    m = load(STORED / "format_1.cgp")
    assert (m.name, m.jitter, m.X.shape, m.input_names) == (
        "stored", 1e-6, (12, 2), ["age", "dose"]
    )  # fmt: skip
    assert type(m.likelihood) is lik.HetStudentT and m.kernels.log_scale2.slow.active_dims == [1]
    values = [0.37275903301675917, 0.6131299402328491, 1.0, 0.7183739335849881]
    assert m.param_array[:4].tolist() == values
    assert constraints(m)[1] == [("+ve", [0, 1]), ("fixed", [1])]
    assert m.log_likelihood() == pytest.approx(-13.554026583368877, rel=1e-9)
    mean, variance = m.predict_latents([[-0.5, 0.2], [0.4, -0.6]])
    expected = [-0.5390412457673625, -2.5937108095343864, 0.6687272884087826, -2.143465124526793]
    np.testing.assert_allclose(mean.ravel(), expected, rtol=1e-9)
    expected = [0.1484848459246524, 0.41005845114047157, 0.05764166944412597, 0.2917994382807338]
    np.testing.assert_allclose(variance.ravel(), expected, rtol=1e-9)
    assert m.last_result.iterations == 5 and len(m.hyperpriors) == 2
    assert m.posterior == "mean_field"


def test_the_file_of_format_2():
    """Written when format 2, of joint posteriors, was released; it must load for ever."""
    m = load(STORED / "format_2.cgp")
    assert (m.name, m.posterior, m.X.shape) == ("stored", "joint", (12, 2))
    assert m.q_sqrt.shape == (6 * 7 // 2, 1) and m.q_mu.shape == (3, 2)
    assert m.log_likelihood() == pytest.approx(0.4190888365575922, rel=1e-6)
    means, covariances = m.problem.evaluator.marginals(m.problem.parts.q())
    np.testing.assert_allclose(means[0], [0.223947227420027, 0.6399474777090945], rtol=1e-9)
    expected = [0.002592634985571557, 0.0004766831718840175, 0.002738902191817834]
    np.testing.assert_allclose(covariances[0][np.tril_indices(2)], expected, rtol=1e-9)


def table_model():
    """A model of a frame with a column of each kind."""
    rng = np.random.default_rng(5)
    n = 12
    frame = pd.DataFrame({
        "age": rng.uniform(20, 80, n).round(1),
        "town": np.resize(["Bath", "York", "Ely"], n),
        "size": pd.Categorical(np.resize(["m", "s"], n), ["s", "m", "l"], ordered=True),
        "smoker": np.resize([True, False, False], n),
        "when": pd.Timestamp("2021-03-04") + pd.to_timedelta(np.arange(n), unit="D"),
        "wait": pd.to_timedelta(np.arange(n) * 20, unit="min"),
    })  # fmt: skip
    options = {"num_inducing": 4, "periodic": {"when": "week"}, "name": "stored"}
    m = cgp.ChainedGP(frame, rng.normal(size=n).round(3), lik.HetGaussian(), **options)
    return frame, m


def test_the_file_of_format_3():
    """Written when format 3, of tables with words, was released; it must load for ever."""
    m, (frame, _) = load(STORED / "format_3.cgp"), table_model()
    assert (m.name, m.X.shape) == ("stored", (12, 6))
    assert [column.kind for column in m.columns.each] == [
        "number", "category", "category", "boolean", "date", "duration"
    ]  # fmt: skip
    assert m.columns[1].levels == ("Bath", "Ely", "York") and m.columns[2].ordered
    assert m.columns[4].words == "date, in days since 2021-03-04"
    assert m.log_likelihood() == pytest.approx(-21.638513073303656, rel=1e-9)
    mean = m.predict_latents(frame.iloc[[3, 1], ::-1])[0]
    expected = [-0.39881915545625923, 0.22662589822963403, 0.1505064541044544, 0.6278704058197986]
    np.testing.assert_allclose(mean.ravel(), expected, rtol=1e-8)
    assert constraints(m)[-3] == [("fixed", [1, 2, 7, 8, 13, 14, 19, 20])]  # codes in Z stay
    assert FORMAT == 3, "store a file of the new format too, and test it here"


def test_tables(tmp_path):
    """How columns were read is in the file, with and without the rows; a bad word is refused."""
    frame, m = table_model()
    m.unseen = "prior"
    m.optimize(only="variational", messages=False)
    expected = m.predict(frame)[0]
    for data in (True, False):
        again = round_trip(m, tmp_path, data)
        assert again.columns == m.columns and again.unseen == "prior"
        np.testing.assert_allclose(again.predict(frame)[0], expected, rtol=1e-12)
    again.set_data(frame[::-1], m.Y[::-1])
    np.testing.assert_array_equal(again.X, m.X[::-1])
    for other in copies(m):
        assert other.columns == m.columns
        np.testing.assert_allclose(other.predict(frame)[0], expected, rtol=1e-12)
    for change in (
        {"levels": [1, 2]}, {"kind": "colour"}, {"unseen": "guess"}, {"name": 3},
        {"ordered": 3}, {"more": 1},
    ):  # fmt: skip
        stored = m.columns.stored()
        stored[1] = {**stored[1], **change}
        with pytest.raises((ValueError, TypeError, KeyError)):
            Columns.from_stored(stored)
    for d, change in ((4, {"start": "yesterday"}), (4, {"unit": "fortnights"}), (5, {"unit": 3})):
        stored = m.columns.stored()
        stored[d] = {**stored[d], **change}
        with pytest.raises(ValueError):
            Columns.from_stored(stored)


@pytest.mark.parametrize("separate", [False, True])
def test_joint_posteriors(separate, tmp_path):
    X = np.random.default_rng(3).normal(size=(5, D))
    m = make(lik.Beta(), Z=[X, X[:3]] if separate else X, posterior="joint")
    for leaf in m.problem.parts.q_root:
        leaf[...] = leaf.values + 0.2 * np.random.default_rng(4).normal(size=leaf.shape)
    m.optimize(only="variational")
    again = round_trip(m, tmp_path)
    assert again.posterior == "joint"
    np.testing.assert_array_equal(again.param_array, m.param_array)
    (shard,), (other,) = m.problem.evaluator.shards, again.problem.evaluator.shards
    np.testing.assert_array_equal(other.sites.current, shard.sites.current)
    assert again.log_likelihood() == m.log_likelihood()
    assert round_trip(m, tmp_path, data=False).posterior == "joint"
    with np.load(tmp_path / "model.cgp", allow_pickle=False) as arrays:
        assert json.loads(arrays["header"].tobytes())["format"] == 2


def test_a_posterior_that_there_is_not(tmp_path):
    save(make(posterior="mean_field"), tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    refused(change(good, posterior="full"), tmp_path, "posterior is 'full'")
    refused(change(good, posterior="joint"), tmp_path)  # its q is that of a mean field


# ---- without data -------------------------------------------------------------------------------


def test_without_data(tmp_path):
    m = make()
    save(m, tmp_path / "full")
    again = round_trip(m, tmp_path, data=False)
    assert (tmp_path / "model.cgp").stat().st_size < (tmp_path / "full").stat().st_size
    assert_same(m, again, data=False)
    assert again.X.shape == (0, D)
    assert "0 rows" in str(again)
    for call in (again.log_likelihood, again.optimize, again.objective_function_gradients):
        with pytest.raises(InputError, match="set_data"):
            call()
    for other in (*copies(again), round_trip(again, tmp_path)):
        assert_same(m, other, data=False)
    again.set_data(m.X, m.Y)
    assert_same(m, again)


# ---- the user's own classes ---------------------------------------------------------------------


class Logistic(cgp.Likelihood):
    latents = ("location", "log_scale")
    parameters = {"power": 2.0}

    def __init__(self, *args, order=1, **kwargs):
        self._order = order
        super().__init__(*args, **kwargs)

    def log_density(self, y, f, g, *, power):
        z = np.abs(y - f) * np.exp(-g) * self._order
        return -z - g - power * np.log1p(np.exp(-z))


class Scaled(kern.RBF):
    def __init__(self, input_dim, factor, grid, **kwargs):
        super().__init__(input_dim, **kwargs)
        self.factor, self.grid = factor, grid

    def _evaluate(self, X, Z):
        scale = self.factor["a"][1]
        return super()._evaluate(X * scale, None if Z is None else Z * scale)


class Level(means.MeanFunction):
    def __init__(self, levels, name):
        super().__init__(name)
        self.levels = Param("levels", np.array(levels, dtype=float))
        self.link_parameter(self.levels)

    def evaluate(self, X):
        return np.full(len(X), self.levels.values.sum()), lambda g: np.full(3, g.sum())


@dataclass(frozen=True)
class Flat(priors.Prior):
    height: float = 1.0

    def log_density(self, x):
        return 0 * x + self.height

    def gradient(self, x):
        return 0 * x


class Shifted(Logexp):
    pass


OWN = (Logistic, Scaled, Level, Flat, Shifted)


def own_model():
    kernel = Scaled(2, {"a": (1, 1.5)}, np.arange(3), ARD=True) + kern.Bias(2)
    m = make(Logistic(order=2, power=3.0), kernel, mean_functions=Level([1, 2, 3], "level"))
    m.set_prior(".*levels", Flat(2.0))
    m.kernels[0].bias.constrain(Shifted(), warning=False)
    return m


def test_own_classes(tmp_path):
    m = own_model()
    again = round_trip(m, tmp_path, classes=OWN)
    assert_same(m, again)
    assert again.likelihood._order == 2
    part = again.kernels[1].rbf
    assert part.factor == {"a": (1, 1.5)} and part.grid.tolist() == [0, 1, 2]
    assert again.hyperpriors == m.hyperpriors


class Stiff(kern.RBF):
    def __init__(self, input_dim):
        super().__init__(input_dim)
        self.variance.fix(warning=False)


def test_a_fix_of_the_constructor_that_was_lifted(tmp_path):
    m = make(kernels=Stiff(2))
    m.kernels[1].variance.unfix()
    again = round_trip(m, tmp_path, classes=Stiff)
    assert_same(m, again)
    assert again.kernels[0].variance.is_fixed and not again.kernels[1].variance.is_fixed


@pytest.mark.parametrize("missing", OWN)
def test_a_class_that_is_not_given(missing, tmp_path):
    save(own_model(), tmp_path / "m")
    message = rf"{missing.__name__}'.*classes=\({missing.__name__},\)"
    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "m", [cls for cls in OWN if cls is not missing])


def test_classes_argument(tmp_path):
    m = make(Logistic())
    assert_same(m, round_trip(m, tmp_path, classes=Logistic))
    for bad in (["Logistic"], [int], [Logistic()]):
        with pytest.raises(InputError, match="classes"):
            load(tmp_path / "model.cgp", bad)


def test_a_namesake_of_ours_is_not_mistaken(tmp_path):
    theirs = type("HetGaussian", (lik.HetGaussian,), {})
    m = make(theirs())
    with pytest.raises(FileFormatError, match="classes"):
        round_trip(m, tmp_path)
    assert type(load(tmp_path / "model.cgp", [theirs]).likelihood) is theirs
    save(make(), tmp_path / "ours")
    assert type(load(tmp_path / "ours", [theirs]).likelihood) is lik.HetGaussian


class Forgetful(kern.RBF):
    def __init__(self, input_dim, power=3):
        super().__init__(input_dim)


class Telling(Forgetful):
    def constructor_arguments(self):
        return {"input_dim": self.input_dim, "power": 4}


class Callback(kern.RBF):
    def __init__(self, input_dim, function):
        super().__init__(input_dim)
        self.function = function


class Resized(means.MeanFunction):
    def __init__(self, levels=(0.0,)):
        super().__init__("resized")
        self.levels = Param("levels", np.array(levels, dtype=float))
        self.link_parameter(self.levels)

    def evaluate(self, X):
        return np.zeros(len(X)), lambda g: np.zeros(self.size)


class Moody(kern.RBF):
    def __init__(self, input_dim, mood="bad"):
        super().__init__(input_dim)
        if mood == "tired":
            raise ValueError("not now")
        self.mood = "tired"


def test_what_cannot_be_loaded_is_not_saved(tmp_path):
    for options, message in (
        ({"kernels": Forgetful(2)}, "Forgetful.*power.*constructor_arguments"),
        ({"kernels": kern.Bias(2) + Forgetful(2)}, "Forgetful.*power"),
        ({"kernels": Callback(2, np.sin)}, "Callback.*ufunc"),
        ({"kernels": Moody(2)}, "Moody.*not now"),
        ({"mean_functions": Resized((1.0, 2.0))}, "Resized.*other parameters"),
    ):
        with pytest.raises(InputError, match=message):
            save(make(**options), tmp_path / "m")
    m = make(kernels=Telling(2))
    assert_same(m, round_trip(m, tmp_path, classes=[Telling]))
    with pytest.raises(InputError, match="ChainedGP"):
        save(kern.RBF(2), tmp_path / "m")
    with pytest.raises(InputError, match="path"):
        save(m, 3)
    assert not (tmp_path / "m").exists()


def test_too_many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("chainedgp.model.files.writer.MOST_PARTS", 5)
    save(make(kernels=kern.RBF(2)), tmp_path / "m")
    with pytest.raises(InputError, match="5 parts"):
        save(make(kernels=kern.RBF(2) + kern.Bias(2)), tmp_path / "m")


def test_kernels_of_gpy(tmp_path):
    m = make(kernels=kern.RBF(2) + FakeGPyRBF(1, 1.3, 0.7, active_dims=[1]))
    m.kernels[1].gpy.rbf.lengthscale.fix(warning=False)
    with pytest.raises(FileFormatError, match="FakeGPyRBF"):
        round_trip(m, tmp_path)
    again = load(tmp_path / "model.cgp", FakeGPyRBF)
    assert_same(m, again)
    assert again.kernels[1].gpy.rbf.lengthscale.is_fixed


def test_the_old_file_survives_a_failure(tmp_path, monkeypatch):
    path = tmp_path / "model.cgp"
    save(make(), path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(archive.np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="no space"):
        save(make(seed=1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.cgp"]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*fits to save .*m\.npz in"):
        save(make(), tmp_path / "fits" / "m.npz")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


# ---- hostile files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.cgp"
    m = make(lik.StudentT(), kern.RBF(2, ARD=True) + kern.Bias(2), Y_metadata={"weights": 2.0})
    m.set_prior(".*lengthscale", priors.LogNormal())
    m.kernels[0].rbf.lengthscale[1:].fix(warning=False)
    m.kernels[0].bias.constrain_bounded(1e-3, 10, warning=False)
    m.last_result = m.optimize(only="variational")
    save(m, path)
    return path.read_bytes()


def signed(body):
    return body + hashlib.sha256(body).hexdigest().encode()


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as z:
        return {name: z.read(name) for name in z.namelist()}


def packed(entries, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as z:
        z.comment = b"0" * 64
        for name, value in entries:
            z.writestr(name, value)
    return signed(buffer.getvalue()[:-64])


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header_of(content):
    return json.loads(np.load(io.BytesIO(unpacked(content)["header.npy"])).tobytes())


def with_header(content, header):
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return packed({**unpacked(content), "header.npy": npy(text)}.items())


RAN: list[str] = []  # what a hostile file must never do, seen by Python's own audit
WATCHED = {"pickle.find_class", "os.system", "subprocess.Popen", "socket.connect"}
sys.addaudithook(lambda event, args: RAN.append(event) if event in WATCHED else None)


def quiet_load(path):
    RAN.clear()
    try:
        return load(path)
    finally:
        assert not RAN


def refused(content, tmp_path, match="cannot be loaded"):
    """One clear error, and no more memory than a small multiple of the file."""
    path = tmp_path / "bad"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=match):
            quiet_load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22 + 20 * len(content)
    finally:
        tracemalloc.stop()


def test_the_tools_of_these_tests_work(good, tmp_path):
    (tmp_path / "same").write_bytes(with_header(good, header_of(good)))
    (tmp_path / "good").write_bytes(good)
    assert_same(load(tmp_path / "good"), load(tmp_path / "same"))


def test_flipped_bytes(good, tmp_path):
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(good), 700):
        bad = bytearray(good)
        bad[position] ^= rng.integers(1, 256)
        refused(bytes(bad), tmp_path, "damaged")


def test_truncated(good, tmp_path):
    rng = np.random.default_rng(1)
    for length in [0, 1, 63, 64, 65, *rng.integers(0, len(good), 200)]:
        refused(good[:length], tmp_path, "damaged")
    for other in (b"\0", good[:100], good):
        refused(good + other[:-1] + b"\0", tmp_path, "damaged")


def loaded_or_refused(content, tmp_path):
    """The model, or None where our error came; any other exception fails the test."""
    path = tmp_path / "bad"
    path.write_bytes(content)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        return quiet_load(path)
    except FileFormatError:
        return None
    finally:
        assert tracemalloc.get_traced_memory()[1] - before < 2**22 + 20 * len(content)


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


COUNTS = [
    60,  # with the files above and below more than 1,000
    pytest.param(1000, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("count", COUNTS)
def test_flipped_bytes_with_a_right_digest(count, good, tmp_path, traced):
    rng = np.random.default_rng(2)
    (tmp_path / "good").write_bytes(good)
    values = load(tmp_path / "good").param_array.tobytes()
    loaded = 0
    for position in rng.integers(0, len(good) - 64, count):
        bad = bytearray(good[:-64])
        bad[position] ^= rng.integers(1, 256)
        m = loaded_or_refused(signed(bytes(bad)), tmp_path)
        if m is not None:  # a date or the like; contents have a CRC
            assert m.param_array.tobytes() == values
            loaded += 1
    assert loaded < 0.2 * count


JUNK = [
    None, True, -1, 0, 3, 10**5, 10**9, 10**30, 1e300, float("nan"), "", "x", "Z", "a0", "RBF",
    "__class__", [], [1], {}, {"array": "a0"}, {"array": "a99"}, {"array": 3}, {"list": [1, 2]},
    {"dict": {"a": 1}}, {"object": 1}, {"array": "a0", "list": []}, [[None, None]],
]  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


@pytest.mark.parametrize("count", COUNTS)
def test_wrong_headers(count, good, tmp_path, traced):
    rng = np.random.default_rng(3)
    everywhere = [p for p in places(header_of(good)) if p]
    loaded = 0
    for _ in range(count):
        header = header_of(good)
        *above, last = everywhere[rng.integers(len(everywhere))]
        place = header
        for key in above:
            place = place[key]
        how = rng.integers(4)
        if how == 0:
            del place[last]
        else:
            place[last] = JUNK[rng.integers(len(JUNK))]
        loaded += loaded_or_refused(with_header(good, header), tmp_path) is not None
    assert loaded < 0.3 * count  # a name, a number in the last result, …


def change(content, **fields):
    return with_header(content, {**header_of(content), **fields})


def test_newer_format(good, tmp_path):
    refused(
        change(good, format=FORMAT + 1, version="9.9"),
        tmp_path,
        rf"format {FORMAT + 1}.*9\.9.*update",
    )
    for bad in (0, "1", None, 1.5):
        refused(change(good, format=bad), tmp_path)
    refused(with_header(good, [1, 2]), tmp_path, "header")


def test_uncertain_constants_of_a_file_are_not_trusted(tmp_path):
    x = np.linspace(0.0, 1.0, 20)
    m = cgp.ChainedGP(x, np.sin(9.0 * x), lik.HetStudentT(), num_inducing=4, num_threads=1)
    m.optimize(only="variational", messages=False)
    m._widen()
    save(m, tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    known = header_of(good)["constants"]
    (values,), (first, _) = known["values"].values(), known["links"]
    refused(change(good, constants={**known, "values": {"mu": values}}), tmp_path, "constants")
    refused(change(good, constants={**known, "values": {}}), tmp_path, "constants")
    refused(change(good, constants={**known, "links": [first]}), tmp_path)
    refused(change(good, constants={**known, "links": [first, values]}), tmp_path, "array")
    refused(change(good, constants={**known, "values": {"nu": first}}), tmp_path, "array")
    entries = unpacked(good)
    name = next(key for key in entries if key.removesuffix(".npy") == values["array"])
    refused(packed({**entries, name: npy(np.full(64, np.nan))}.items()), tmp_path, "finite")


class Bomb:
    ran = False

    def __reduce__(self):
        return (setattr, (Bomb, "ran", True))


def test_pickles_do_not_run(good, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    entries = unpacked(good)
    for name in entries:
        refused(packed({**entries, name: buffer.getvalue()}.items()), tmp_path, "dtype|header")
    refused(pickle.dumps(Bomb()), tmp_path)
    refused(signed(pickle.dumps(Bomb())), tmp_path)
    RAN.clear()
    pickle.loads(pickle.dumps(Bomb()))
    assert Bomb.ran and "pickle.find_class" in RAN  # it would have shown
    Bomb.ran = False


def test_sizes_that_lie(good, tmp_path):
    entries = unpacked(good)
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        huge, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    for name in entries:
        bad = packed({**entries, name: huge.getvalue() + b"0" * 64}.items())
        refused(bad, tmp_path, "not as large")
        longer = packed({**entries, name: entries[name] + b"0"}.items())
        refused(longer, tmp_path, "not as large")
    refused(packed({**entries, "a0.npy": npy(np.zeros(3, "f4"))}.items()), tmp_path, "header says")
    refused(packed({**entries, "extra.npy": npy(np.zeros(3))}.items()), tmp_path, "lists")
    refused(packed([item for item in entries.items() if item[0] != "a0.npy"]), tmp_path, "lists")
    zeros = {**entries, "a0.npy": npy(np.zeros(10**6))}
    refused(packed(zeros.items(), zipfile.ZIP_DEFLATED), tmp_path, "are compressed")
    with pytest.warns(UserWarning, match="Duplicate"):
        doubled = packed([*entries.items(), ("a0.npy", entries["a0.npy"])])
    refused(doubled, tmp_path, "doubled")


def test_models_that_would_be_huge(good, tmp_path):
    header = header_of(good)
    kernel = header["kernels"][0]
    rbf = kernel["args"]["parts"]["tuple"][0]["object"]
    for size in (3, 10**6, 10**12):
        rbf["args"]["input_dim"] = size
        refused(with_header(good, header), tmp_path, "larger")
    rbf["args"]["input_dim"] = 2
    refused(with_header(good, {**header, "kernels": [kernel] * 50}), tmp_path, "more parameters")
    deep = rbf
    for _ in range(25):
        deep = {**kernel, "args": {"parts": {"list": [{"object": deep}]}}}
    refused(with_header(good, {**header, "kernels": [deep]}), tmp_path, "too deeply")
    nested = np.frombuffer(b"[" * 10**5 + b"]" * 10**5, np.uint8)
    refused(packed({**unpacked(good), "header.npy": npy(nested)}.items()), tmp_path, "recursion")
    # one column, many rows: q would have M² / 2 entries
    key = next(leaf for leaf in header["leaves"] if leaf["name"] == "Z")["values"]["array"]
    Z = np.zeros((20_000, 2))
    header["arrays"][key] = ["<f8", [20_000, 2]]
    entries = unpacked(with_header(good, header))
    refused(packed({**entries, f"{key}.npy": npy(Z)}.items()), tmp_path, "q_sqrt")


def test_constraints_out_of_range(good, tmp_path):
    header = header_of(good)
    leaf = next(leaf for leaf in header["leaves"] if leaf["name"].endswith("lengthscale"))
    index = next(index for _, index in leaf["constraints"] if index is not None)
    for wrong in (np.array([2]), np.array([-1]), np.array([[0]]), np.array([0.0])):
        header["arrays"][index["array"]] = [wrong.dtype.str, list(wrong.shape)]
        entries = unpacked(with_header(good, header))
        bad = packed({**entries, f"{index['array']}.npy": npy(wrong)}.items())
        refused(bad, tmp_path, "out of range")


def test_names_reach_nothing(good, tmp_path):
    header = header_of(good)
    for node in (
        {"class": "system", "kind": "os", "own": False, "name": "x", "args": {}},
        {"class": "system", "kind": "os", "own": True, "name": "x", "args": {"command": "true"}},
        {**header["likelihood"], "name": "a b"},
        {**header["likelihood"], "args": {"__class__": 1}},
        {"class": "LogNormal", "kind": "prior", "own": False, "name": "x", "args": {}},
    ):
        refused(with_header(good, {**header, "likelihood": node}), tmp_path)
    ((name, _),) = header["priors"].items()
    refused(change(good, priors={name: header["likelihood"]}), tmp_path, "no prior")
    refused(change(good, priors={"x": header["priors"][name]}), tmp_path, "no parameter")


def test_sizes_that_only_a_constructor_knows(tmp_path):
    """A small file must not ask for a likelihood with thousands of parameters of its own."""
    m = cgp.ChainedGP(np.arange(8.0), np.arange(8) % 3, lik.Ordinal(3), num_inducing=3)
    save(m, tmp_path / "small")
    content = (tmp_path / "small").read_bytes()
    header = header_of(content)
    for count in (100, 100_000):
        header["likelihood"]["args"]["num_categories"] = count
        refused(with_header(content, header), tmp_path, "larger than the model")


def test_too_many_leaves_and_constraints(good, tmp_path):
    header = header_of(good)
    refused(
        with_header(good, {**header, "leaves": header["leaves"] * 200}), tmp_path, "more than 1000"
    )
    header["leaves"][0]["constraints"] *= 3000
    refused(with_header(good, header), tmp_path, "too many constraints")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e308])
def test_values_that_no_fit_has(good, tmp_path, wrong):
    for leaf in header_of(good)["leaves"]:
        key = f"{leaf['values']['array']}.npy"
        values = np.lib.format.read_array(io.BytesIO(unpacked(good)[key]))
        values.flat[0] = wrong
        refused(packed({**unpacked(good), key: npy(values)}.items()), tmp_path, "finite or huge")


def test_messages_do_not_echo_the_file(good, tmp_path):
    path = tmp_path / "loud"
    path.write_bytes(change(good, name=["x" * 10**6]))
    with pytest.raises(FileFormatError) as info:
        load(path)
    assert len(str(info.value)) < 1000


@pytest.mark.skipif(os.name == "nt", reason="permissions and links of Unix")
def test_saving_keeps_permissions_and_links_and_cleans_up(tmp_path):
    m, real, link = make(), tmp_path / "model.cgp", tmp_path / "link.cgp"
    save(m, real)
    real.chmod(0o600)
    link.symlink_to(real)
    left, others = tmp_path / "model.cgp.0123abcd.tmp", tmp_path / "model.cgp.mine.tmp"
    left.write_bytes(b"what a killed save leaves")
    others.write_bytes(b"not of a save")
    save(m, link)
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert not left.exists() and others.exists()
    assert_same(m, load(real))
    with left.open("wb") as file:  # a save that is still alive
        fcntl.flock(file, fcntl.LOCK_EX)
        save(m, real)
        assert left.exists()
