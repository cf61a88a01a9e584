"""Every surprise of paramz that can reach a user, as a test of our model."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pytest
from cases import K, L, M, inputs, leaves, problem, randomise_q, small_model

import chainedgp as cgp
from chainedgp.errors import ConvergenceWarning, InputError


@pytest.fixture
def m():
    return small_model("HetStudentT", n=20)


def rebuilt(m):
    """The bound of a new model that is given the leaves of m: what m must say about itself."""
    other = cgp.ChainedGP(
        m.X,
        m.Y,
        m.likelihood,
        kernels=list(m.kernels),
        Z=m.Z.values,
        mean_functions=list(m.mean_functions),
        jitter=m.jitter,
        num_threads=1,
    )
    other.q_mu[:] = m.q_mu.values
    other.q_sqrt[:] = m.q_sqrt.values
    return other.log_likelihood()


def fit_a_little(m, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return m.optimize(max_iters=3, **keywords)


# ---- values ----


def test_a_value_set_with_updates_off_is_not_lost(m):
    m.update_model(False)
    m.kernels[0].variance = 2.5
    m.update_model(True)
    assert m.kernels[0].variance.values[0] == 2.5
    assert m.log_likelihood() == rebuilt(m)


def test_a_fixed_leaf_can_be_written(m):
    before = m.log_likelihood()
    m.kernels.fix()
    m.kernels[0].variance = 2.5
    assert m.kernels[0].variance.values[0] == 2.5
    assert m.log_likelihood() == rebuilt(m) != before
    m.kernels.unfix()
    assert m.kernels[0].variance.values[0] == 2.5
    assert m.log_likelihood() == rebuilt(m)


def test_a_value_outside_its_constraint_is_refused_and_nothing_changes(m):
    leaves = {
        "lengthscale": (m.kernels[0].lengthscale, "positive"),
        "variance": (m.kernels[1].variance, "positive"),
        "nu": (small_model("HetStudentT").likelihood.nu, "above 1"),
    }
    for name, (leaf, words) in leaves.items():
        before = np.array(leaf.values)
        for value in (-1.0, np.full(leaf.shape, -2.0)):
            for write in (
                lambda leaf=leaf, value=value: leaf.__setitem__(slice(None), value),
                lambda leaf=leaf, value=value, name=name: setattr(leaf._parent_, name, value),
                lambda leaf=leaf, value=value: leaf[:1].__setitem__(slice(None), np.min(value)),
            ):
                with pytest.raises(InputError, match=rf"\.{name} must be {words}; got"):
                    write()
        np.testing.assert_array_equal(leaf.values, before)
    free = m.kernels[1].variance
    free.unconstrain()  # who takes the constraint off has what he asked for
    free[:] = -1.0
    assert free.values[0] == -1.0
    m.mean_functions[0].value[:] = -1.0


def test_writing_all_values_reaches_fixed_leaves_too(m):
    """`m[:] = x` with something fixed: the kernel must not go on with its old value."""
    m.kernels.fix()
    x = np.array(m.param_array)
    x[0] = 2.5
    m[:] = x
    assert m.kernels[0].variance.values[0] == m.param_array[0] == 2.5
    assert m.log_likelihood() == rebuilt(m)
    m.kernels.unfix()
    assert m.kernels[0].variance.values[0] == m.param_array[0] == 2.5
    assert m.log_likelihood() == rebuilt(m)


def test_every_leaf_write_is_seen(m):
    m.log_likelihood()
    for leaf in list(m.flattened_parameters):
        leaf[:] = 1.01 * leaf.values + 1e-3
        assert m.log_likelihood() == pytest.approx(rebuilt(m), rel=1e-13)


def test_assigning_to_an_attribute_writes_the_leaf(m):
    Z = m.Z
    m.Z = 0.9 * m.Z.values
    assert m.Z is Z
    m.kernels.location.lengthscale = [0.7, 0.8]
    m.likelihood.nu = 7.0
    np.testing.assert_array_equal(m.kernels[0].lengthscale.values, [0.7, 0.8])
    assert m.log_likelihood() == rebuilt(m)
    m["kernels.location.variance"] = 0.31
    assert m.kernels[0].variance.values[0] == 0.31


def test_writes_cost_nothing_until_the_bound_is_asked_for(m):
    m.log_likelihood()
    before = m.problem.evaluator.num_likelihood
    for i in range(10):
        m.kernels[0].variance = 1.0 + i
    m.kernels[0].fix()
    m.kernels[0].unfix()
    str(m)
    assert m.problem.evaluator.num_likelihood == before
    m.log_likelihood()
    m.log_likelihood()
    m.objective_function()
    m.objective_function_gradients()
    assert m.problem.evaluator.num_likelihood == before + 1


def test_optimizer_array_is_no_buffer(m):
    x = m.optimizer_array
    kept = x.copy()
    m.kernels[0].variance = 2.5
    m.optimizer_array  # noqa: B018
    np.testing.assert_array_equal(x, kept)
    x[:] = 99.0
    assert m.kernels[0].variance.values[0] == 2.5
    assert not (m.optimizer_array == 99.0).any()


@pytest.mark.parametrize("fixed", [False, True])
def test_optimizer_array_round_trip(m, fixed):
    if fixed:
        m.kernels[1].fix()
        m.Z.fix()
    bound, x = m.log_likelihood(), np.array(m.optimizer_array)
    m.optimizer_array = x + 0.1
    assert m.log_likelihood() == pytest.approx(rebuilt(m), rel=1e-12)
    assert m.log_likelihood() != bound
    m.optimizer_array = x
    assert m.log_likelihood() == pytest.approx(bound, rel=1e-12)


# ---- objective and gradients ----


def test_objective_is_a_float(m):
    for value in (m.objective_function(), m.log_likelihood(), m.log_prior()):
        assert type(value) is float
    assert m.objective_function() == -m.log_likelihood()


def test_gradients_are_a_new_array_every_time(m):
    first = m.objective_function_gradients()
    kept = first.copy()
    first[:] = 7.0
    second = m.objective_function_gradients()
    np.testing.assert_array_equal(second, kept)
    assert not np.shares_memory(second, m.gradient)


def test_asking_twice_does_not_transform_twice(m):
    x = np.array(m.optimizer_array)
    first = np.array(m._grads(x))
    np.testing.assert_array_equal(first, m._grads(x))
    m.checkgrad()
    np.testing.assert_allclose(np.array(m._grads(x)), first, rtol=1e-9)


def test_gradients_of_leaves_are_set_and_follow_the_values(m):
    m.gradient[:] = np.nan  # what np.empty may hold
    flat = m.objective_function_gradients()
    assert np.isfinite(flat).all()
    np.testing.assert_array_equal(-np.array(m.gradient), flat)
    m.kernels[0].variance = 2.5
    assert not np.array_equal(m.objective_function_gradients(), flat)


def test_gradients_are_in_the_order_of_the_parameters(m):
    flat = m.objective_function_gradients()
    parts = [np.array(leaf.gradient).ravel() for leaf in m.flattened_parameters]
    np.testing.assert_array_equal(-np.concatenate(parts), flat)
    values = np.concatenate([leaf.values.ravel() for leaf in m.flattened_parameters])
    np.testing.assert_array_equal(values, m.param_array)


@pytest.mark.parametrize("separate_Z", [False, True])
def test_checkgrad_of_the_model_and_of_every_leaf(separate_Z, capsys):
    m = small_model("HetStudentT", n=20, separate_Z=separate_Z)
    assert m.checkgrad()
    for leaf in m.flattened_parameters:
        assert leaf.checkgrad(verbose=False), leaf.hierarchy_name()
    for part in (m.kernels, m.kernels[0], m.mean_functions, m.likelihood):
        assert part.checkgrad()
    assert m.kernels[0].checkgrad(verbose=True)
    assert "variance" in capsys.readouterr().out


def test_checkgrad_of_a_leaf_sees_what_the_global_one_may_not(monkeypatch):
    m = small_model("HetStudentT", n=20)
    write = m.problem.write_gradient

    def wrong(gradient, state=None):
        write(gradient, state)
        m.kernels[0].variance.gradient[:] *= -1.0

    monkeypatch.setattr(m.problem, "write_gradient", wrong)
    m.parameters_changed()
    assert not m.kernels[0].variance.checkgrad(verbose=False)
    assert m.kernels[1].variance.checkgrad(verbose=False)


# ---- parts ----


def test_a_part_of_one_model_given_to_another_stays_in_the_first(m):
    before, names = m.log_likelihood(), [leaf.hierarchy_name() for leaf in leaves(m)]
    other = cgp.ChainedGP(
        m.X,
        m.Y,
        m.likelihood,
        kernels=list(m.kernels),
        mean_functions=list(m.mean_functions),
        num_inducing=4,
    )
    other.kernels[0].variance = 9.0
    other.likelihood.nu = 50.0
    assert [leaf.hierarchy_name() for leaf in leaves(m)] == names
    assert m.kernels[0]._highest_parent_ is m
    assert m.log_likelihood() == before == rebuilt(m)


@pytest.mark.parametrize("part", ["kernels", "mean_functions", "likelihood"])
def test_parts_cannot_be_replaced_behind_the_models_back(m, part):
    before, old = m.log_likelihood(), getattr(m, part)
    for new in (K.RBF(2), [K.RBF(2)] * 2, M.Zero(), L.HetGaussian(), 3.0):
        with pytest.raises(InputError, match="cannot be replaced"):
            setattr(m, part, new)
    assert getattr(m, part) is old
    assert m.log_likelihood() == before


def test_one_part_of_a_list_cannot_be_replaced(m):
    old = m.kernels[0]
    for key in (0, "location"):
        with pytest.raises(InputError, match="cannot be replaced"):
            m.kernels[key] = K.RBF(2)
    with pytest.raises(ValueError):
        m.kernels.location = K.RBF(2)
    assert m.kernels[0] is m.kernels.location is old


def test_the_callers_arrays_are_not_the_models():
    X, Z = inputs(20), inputs(4, seed=3)
    y = np.sin(X[:, 0])
    m = cgp.ChainedGP(X, y, L.HetGaussian(), Z=Z)
    m.Z[:] = 5.0
    assert not (Z == 5.0).any()
    Z[:] = -5.0
    assert (m.Z.values == 5.0).all()
    for array in (X, y, Z):
        assert not np.shares_memory(m.X, array)
        assert not np.shares_memory(m.Y, array)
        assert not np.shares_memory(m.Z.values, array)


def test_separate_Z_with_the_same_array_are_separate():
    X, Z = inputs(20), inputs(4, seed=3)
    m = cgp.ChainedGP(X, X[:, 0], L.HetGaussian(), Z=[Z, Z])
    m.Z[0][:] = 5.0
    np.testing.assert_array_equal(m.Z[1].values, Z)


# ---- names and access ----


def test_lists_of_latents_by_number_name_and_attribute(m):
    kernels = m.kernels
    assert len(kernels) == 2
    assert kernels[0] is kernels["location"] is kernels.location is next(iter(kernels))
    assert kernels[1] is kernels[-1] is kernels["log_scale2"] is kernels[np.int64(1)]
    assert [k.name for k in kernels] == list(m.latents) == ["location", "log_scale2"]
    assert [f.name for f in m.mean_functions] == list(m.latents)
    for bad in (2, -3, 0.5, None):
        with pytest.raises(InputError, match="location, log_scale2"):
            kernels[bad]


def test_lists_of_latents_by_regular_expression(m):
    assert m.kernels[".*variance"].values().tolist() == [0.8, 0.8]
    m.kernels[".*variance"] = 0.123
    assert [k.variance.values[0] for k in m.kernels] == [0.123] * 2
    m.kernels[".*lengthscale"].fix()
    assert all(k.lengthscale.is_fixed and not k.variance.is_fixed for k in m.kernels)
    m[".*lengthscale"].unfix()
    assert not any(k.lengthscale.is_fixed for k in m.kernels)
    assert m.log_likelihood() == rebuilt(m)


def test_parts_of_sums_keep_their_names():
    X = inputs(20)
    kernel = K.RBF(2) + K.Bias(2)
    m = cgp.ChainedGP(X, X[:, 0], L.HetGaussian(), kernels=kernel, num_inducing=4)
    m.kernels.mean.rbf.lengthscale.fix()
    assert m.kernels["mean"].rbf.lengthscale.is_fixed
    assert not m.kernels["log_variance"].rbf.lengthscale.is_fixed


@pytest.mark.parametrize("separate_Z", [False, True])
def test_no_name_is_given_twice_or_changed(separate_Z):
    m = small_model("AdditivePoisson", separate_Z=separate_Z, kernels="matern_linear_bias")
    names = [leaf.hierarchy_name() for leaf in leaves(m)]
    assert len(set(names)) == len(names)
    top = [part.name for part in m.parameters]
    assert top == ["kernels", "mean_functions", "likelihood", "Z", "q_mu", "q_sqrt"]


def test_lists_when_sizes_of_Z_differ():
    m = small_model("HetGaussian", separate_Z=True)
    assert [z.shape for z in m.Z] == [(3, 2), (4, 2)]
    assert m.Z["mean"] is m.Z[0] is m.Z.mean
    assert [part.shape for part in m.q_mu] == [(3,), (4,)]
    assert [part.shape for part in m.q_sqrt] == [(6,), (10,)]


# ---- fitting ----


@pytest.mark.parametrize(
    "name", ["lbfgs_b", "l", "prof", "ada", "sgdd", "scg", "adadelta", "PROFILED", ""]
)
def test_names_of_methods_match_exactly(m, name):
    with pytest.raises(InputError, match=r"profile.*lbfgsb.*natgrad"):
        m.optimize(name)


def test_messages_do_not_change_the_work(capsys):
    counts = []
    for messages in (False, True):
        counts.append(fit_a_little(small_model("HetStudentT"), messages=messages))
    assert counts[0].likelihood_evaluations == counts[1].likelihood_evaluations
    assert counts[0].bound == counts[1].bound
    assert capsys.readouterr().out == ""


def test_fitting_does_not_fix_or_constrain_anything(m):
    m.kernels[0].variance.fix()
    before = {str(c): i.tolist() for c, i in m.constraints.items() if i.size}
    fit_a_little(m)
    assert {str(c): i.tolist() for c, i in m.constraints.items() if i.size} == before


def test_fitting_uses_no_global_random_state(m):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    fit_a_little(m)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


# ---- copies ----


def pickled(m):
    return pickle.loads(pickle.dumps(m))


@pytest.mark.parametrize("duplicate", [lambda m: m.copy(), pickled], ids=["copy", "pickle"])
@pytest.mark.parametrize("separate_Z", [False, True], ids=["shared_Z", "separate_Z"])
@pytest.mark.parametrize("evaluated", [False, True], ids=["fresh", "fitted"])
def test_round_trip(duplicate, separate_Z, evaluated):
    m = small_model("LogLogisticSurvival", n=20, separate_Z=separate_Z, kernels="periodic")
    m.kernels[0].period.fix()
    if evaluated:
        fit_a_little(m)
    other = duplicate(m)
    assert other.log_likelihood() == m.log_likelihood()
    np.testing.assert_array_equal(other.param_array, m.param_array)
    np.testing.assert_array_equal(
        other.objective_function_gradients(), m.objective_function_gradients()
    )
    assert other.kernels[0].period.is_fixed
    assert other.kernels["log_median"] is other.kernels[0] is not m.kernels[0]
    assert str(other) == str(m)
    np.testing.assert_array_equal(
        other.predict_quantiles(m.X[:2], (50,)), m.predict_quantiles(m.X[:2], (50,))
    )
    # separate, and alive: a write reaches the copy's bound, and only the copy's
    before = m.log_likelihood()
    other.kernels[0].variance = 3.0
    assert other.log_likelihood() != before == m.log_likelihood()
    other.optimize(only="variational")
    assert m.log_likelihood() == before


def test_pickles_do_not_grow_with_every_fit():
    m = small_model("HetStudentT")
    fit_a_little(m)
    first = len(pickle.dumps(m))
    for _ in range(3):
        fit_a_little(m)
    assert len(pickle.dumps(m)) <= 1.1 * first


def test_pickles_hold_the_data_once_and_no_caches():
    """At most a few times the data, the sites (8 values per row and latent) and the parameters."""
    X = inputs(2000)
    lik, y, _ = problem("HetGaussian", X)
    m = cgp.ChainedGP(X, y, lik, num_inducing=50)
    m.log_likelihood()
    values = X.size + y.size + 16 * len(y) + 4 * m.size
    assert len(pickle.dumps(m)) < 2 * 8 * values


# ---- printing ----


@pytest.fixture(scope="module")
def large():
    X = np.random.default_rng(0).uniform(size=(600, 3))
    return cgp.ChainedGP(
        X, X[:, 0], L.HetStudentT(), kernels=K.RBF(3, ARD=True, lengthscale=0.2), Z=X[:500]
    )


def test_the_model_prints_a_page(large):
    for text in (str(large), repr(large), large._repr_html_()):
        assert len(text) < 6000
    text = str(large)
    assert len(text.splitlines()) < 30
    assert max(len(line) for line in text.splitlines()) <= 100
    for word in ("HetStudentT", "600 rows", "500 inducing", "not evaluated yet", "(125250, 2)"):
        assert word in text
    for word in ("HetStudentT", "600 rows", "q_sqrt"):
        assert word in large._repr_html_()
    assert "\x1b" not in text


def test_large_leaves_print_as_a_shape(large):
    for leaf, shape in (
        (large.q_sqrt, "(125250, 2)"),
        (large.q_mu, "(500, 2)"),
        (large.Z, "(500, 3)"),
    ):
        for text in (str(leaf), repr(leaf), leaf._repr_html_(), f"{leaf}"):
            assert len(text) < 300
            assert shape in text


def count_calls(function):
    """Number of calls, of Python and C functions, inside function(): work, whatever the machine."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_printing_does_not_go_through_the_entries(large):
    for function in (
        lambda: str(large),
        lambda: repr(large),
        large._repr_html_,
        lambda: str(large.q_sqrt),
        lambda: repr(large.q_sqrt),
        large.q_sqrt._repr_html_,
    ):
        assert count_calls(function) < 20_000


def test_all_parameters_print_readably():
    """`print(m[""])` and every regular expression that matches q."""
    X = inputs(120)
    m = cgp.ChainedGP(X, X[:, 0], L.HetStudentT(), kernels=K.RBF(2, 1.0, 0.2), Z=X[:80])
    assert m.q_sqrt.size == 6480
    texts = {}
    for function in (str, repr):
        for pattern in ("", ".*q_"):
            calls = count_calls(
                lambda function=function, pattern=pattern: texts.update(
                    {(function, pattern): function(m[pattern])}
                )
            )
            assert calls < 50_000
    for text in texts.values():
        assert len(text) < 20_000
        assert "(3240, 2)" in text


def test_small_leaves_print_their_values(m):
    assert f"{m.kernels[0].variance.values[0]:.3g}" in str(m.kernels[0].variance)
    small = cgp.ChainedGP(inputs(20), inputs(20)[:, 0], L.HetGaussian(), num_inducing=3)
    assert "0.0" in str(small.q_mu)


def test_header_says_when_the_bound_is_old(m):
    assert "not evaluated yet" in str(m)
    bound = m.log_likelihood()
    assert f"{bound:.6g}" in str(m) and "before" not in str(m)
    m.kernels[0].variance = 3.0
    assert "before the last change" in str(m)


def test_printing_evaluates_nothing(large):
    before = large.problem.evaluator.num_likelihood
    str(large), repr(large), large._repr_html_()
    assert large.problem.evaluator.num_likelihood == before


# ---- user likelihoods ----


def test_parameters_reach_likelihood_code_as_floats():
    """Finite differences through a leaf would re-enter the model."""
    seen = []

    class Spy(L.HetStudentT):
        def expected_log_density(self, *args, **kw):
            seen.append(type(kw["nu"]))
            return super().expected_log_density(*args, **kw)

    X = inputs(20)
    m = randomise_q(cgp.ChainedGP(X, X[:, 0], Spy(), num_inducing=4))
    m.objective_function_gradients()
    assert seen and set(seen) == {float}


@pytest.mark.parametrize("part, line", [
    (L.HetStudentT(nu=6), "HetStudentT(nu=6)"),
    (L.HetGaussian(), "HetGaussian()"),
    (L.Gaussian(0.5), "Gaussian(variance=0.5)"),
    (L.HetGaussian().with_constant(1), "ConstantLatent(HetGaussian(), log_variance=0)"),
    (L.Softmax(3), "Softmax(3)"),
    (L.Inflated(L.Poisson()), "Inflated(Poisson())"),
    (L.Likelihood.from_scipy("norm", loc="identity", scale=2.0),
     "ScipyLikelihood(norm, loc='identity', scale=2.0)"),
    (K.RBF(2, ARD=True), "RBF(2, variance=1, lengthscale=[1, 1])"),
    (K.RBF(1, active_dims=["age"]) + K.Bias(1),
     "Sum(RBF(1, active_dims=['age'], variance=1, lengthscale=1), Bias(1, variance=1))"),
    (M.Linear(2), "Linear(weights=[0, 0], bias=0)"),
])  # fmt: skip
def test_parts_have_a_line_as_repr_and_a_table_as_str(part, line):
    assert repr(part) == line
    assert "constraints" in str(part) and "\x1b" not in str(part)
