import pickle

import numpy as np
import paramz
import pytest

from chainedgp.errors import InputError
from chainedgp.means import Constant, Linear, MeanFunction, Zero
from chainedgp.parameters import Role

X = np.random.default_rng(3).normal(size=(6, 3))
MEANS = [Zero(), Constant(1.7), Linear(3, [0.5, -1.0, 2.0], 0.3)]
ORACLES = {
    "Zero": lambda x: 0.0,
    "Constant": lambda x: 1.7,
    "Linear": lambda x: 0.5 * x[0] - x[1] + 2.0 * x[2] + 0.3,
}


def name(mean):
    return type(mean).__name__


def test_every_mean_is_covered():
    ours = [c for c in MeanFunction.__subclasses__() if c.__module__.startswith("chainedgp.")]
    assert {c.__name__ for c in ours} == {name(m) for m in MEANS}


@pytest.mark.parametrize("mean", MEANS, ids=name)
def test_value_equals_the_formula(mean):
    value, _ = mean.evaluate(X)
    assert value.shape == (6,) and value.dtype == float
    np.testing.assert_allclose(value, [ORACLES[name(mean)](x) for x in X], rtol=1e-14)


@pytest.mark.parametrize("mean", MEANS, ids=name)
def test_pullback_equals_differences_and_evaluate_writes_nothing(mean):
    mean = mean.copy()
    weights = np.random.default_rng(4).normal(size=6)
    mean.gradient[:] = 5.0
    inputs, parameters = X.copy(), mean.param_array.copy()
    gradient = mean.evaluate(X)[1](weights)
    assert gradient.shape == (mean.size,)
    np.testing.assert_array_equal(X, inputs)
    np.testing.assert_array_equal(mean.param_array, parameters)
    np.testing.assert_array_equal(mean.gradient, np.full(mean.size, 5.0))
    position = 0
    for leaf in mean.flattened_parameters:
        for i in range(leaf.size):
            start, ends = leaf.values[i], []
            for step in (1e-3, -1e-3):
                leaf[i] = start + step
                ends.append(weights @ mean.evaluate(X)[0])
            leaf[i] = start
            assert gradient[position] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=1e-9)
            position += 1
    assert position == mean.size


@pytest.mark.parametrize("mean", MEANS, ids=name)
def test_copies_and_pickles_are_equal_and_independent(mean):
    mean = mean.copy()
    if mean.size:
        mean.flattened_parameters[0].fix()
    for twin in (mean.copy(), pickle.loads(pickle.dumps(mean))):
        np.testing.assert_array_equal(twin.evaluate(X)[0], mean.evaluate(X)[0])
        assert twin._size_transformed() == mean._size_transformed()
        before = mean.evaluate(X)[0]
        for leaf in twin.flattened_parameters:
            leaf[:] = 9.0
        np.testing.assert_array_equal(mean.evaluate(X)[0], before)


def test_a_mean_without_parameters_lives_in_a_model():
    class Model(paramz.Model):
        def __init__(self):
            super().__init__("m")
            self.zero, self.constant = Zero(), Constant(2.0)
            self.link_parameters(self.zero, self.constant)

        def objective_function(self):
            return 0.0

    model = Model().copy()
    model.constant.value = 3.0
    np.testing.assert_array_equal(model.param_array, [3.0])
    np.testing.assert_array_equal(model.optimizer_array, [3.0])
    assert model.zero.evaluate(X)[1](np.ones(6)).shape == (0,)


def test_arrays_are_copied_in():
    weights = np.ones(3)
    mean = Linear(3, weights)
    mean.weights[0] = 7.0
    np.testing.assert_array_equal(weights, np.ones(3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(np.nan), "value must be finite"),
        (lambda: Constant([1.0, 2.0]), "value must have"),
        (lambda: Constant("a"), "value must be numeric"),
        (lambda: Constant(1.0, name="π"), "name"),
        (lambda: Linear(0), "input_dim"),
        (lambda: Linear(2.5), "input_dim"),
        (lambda: Linear(3, [1.0, 2.0]), "weights must have 1 or 3 values, got 2"),
        (lambda: Linear(3, bias=np.inf), "bias must be finite"),
        (lambda: Linear(2).evaluate(X), "2 columns, got 3"),
        (lambda: Linear(2).check_columns(3), "2 columns, got 3"),
        (lambda: Linear(3).evaluate(X[0]), "two dimensions"),
    ],
)
def test_bad_arguments_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


class FirstColumn(MeanFunction):
    """It has one slope, whatever the number of columns is."""

    def __init__(self):
        super().__init__("first")
        self.trend = paramz.Param("trend", 1.0)
        self.link_parameter(self.trend)

    def evaluate(self, X):
        return X[:, 0] * self.trend.values[0], lambda dL_dm: np.array([dL_dm @ X[:, 0]])


class FirstSlope(FirstColumn):
    roles = {"trend": Role.SLOPE}


def test_slopes_are_known_by_their_role():
    """The role of one slope for each column is refused for other numbers of them."""
    FirstColumn().check_columns(3)
    FirstSlope().check_columns(1)
    with pytest.raises(InputError, match=r"trend has the role SLOPE.*got 1 for 3 columns"):
        FirstSlope().check_columns(3)
