"""Kernels: the contract on every class, independent formulas, bad input, extremes.

The adapter for kernels of GPy is tested in test_gpy_adapter.py, the contract itself in
test_kernel_contract.py.
"""

import math
import pickle
import threading

import numpy as np
import pytest
from paramz import Param

import chainedgp.kernels as kernels_package
from chainedgp import ChainedGP
from chainedgp.errors import InputError
from chainedgp.kernels import (
    RBF,
    Bias,
    Categorical,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Mixed,
    Periodic,
    Product,
    RandomEffects,
    RationalQuadratic,
    Sphere,
    Sum,
    White,
    distances,
)
from chainedgp.likelihoods import HetGaussian
from chainedgp.testing.kernel import check_kernel

LS = [0.6, 1.7]  # one lengthscale per dimension
KERNELS = {
    "rbf": RBF(3, 1.4, 0.8),
    "rbf ARD": RBF(2, 0.7, LS, ARD=True),
    "rbf ARD dims": RBF(2, 0.7, LS, ARD=True, active_dims=[3, 1]),
    "matern12": Matern12(3, 1.4, 0.8),
    "matern12 one column": Matern12(1, 1.4, 0.8),
    "matern12 ARD dims": Matern12(2, 0.7, LS, ARD=True, active_dims=[3, 1]),
    "matern32": Matern32(3, 1.4, 0.8),
    "matern32 ARD dims": Matern32(2, 0.7, LS, ARD=True, active_dims=[3, 1]),
    "matern52": Matern52(3, 1.4, 0.8),
    "matern52 ARD dims": Matern52(2, 0.7, LS, ARD=True, active_dims=[3, 1]),
    "ratquad": RationalQuadratic(3, 1.4, 0.8, 1.3),
    "ratquad ARD dims": RationalQuadratic(2, 0.7, LS, 0.6, ARD=True, active_dims=[3, 1]),
    "bias": Bias(2, 1.3),
    "bias dims": Bias(1, 1.3, active_dims=[2]),
    "white": White(2, 1.3),
    "white dims": White(1, 1.3, active_dims=[2]),
    "linear": Linear(3, 1.3),
    "linear ARD": Linear(2, LS, ARD=True),
    "linear centred": Linear(2, LS, ARD=True, centre=[0.4, -1.3]),
    "linear ARD dims": Linear(2, LS, ARD=True, active_dims=[3, 1]),
    "periodic": Periodic(2, 1.4, 2.3, 0.8),
    "periodic ARD1": Periodic(2, 1.4, [2.3, 1.1], 0.8, ARD1=True),
    "periodic ARD2": Periodic(2, 1.4, 2.3, LS, ARD2=True),
    "periodic ARD dims": Periodic(2, 1.4, [2.3, 1.1], LS, ARD1=True, ARD2=True, active_dims=[3, 1]),
    "sum": RBF(2, 0.7, LS, ARD=True) + Bias(2) + White(2, 0.2),
    "product": RBF(2) * Linear(2) * Periodic(1, active_dims=[1]),
    "sum of one": Sum([RBF(2)]),
    "product of one": Product([RBF(2)]),
    "depth 3": (RBF(2) * (Linear(2) + Bias(2)) + White(2, 0.3)) * Matern32(2),
    "depth 3 dims": (
        RBF(1, active_dims=[0]) * (Linear(1, active_dims=[2]) + White(1, active_dims=[1]))
        + Matern12(2, active_dims=[2, 0])
    ),
    "white times linear": White(2) * Linear(2),
    "categorical": Categorical(1, 1.3, 0.8),
    "categorical ARD dims": Categorical(2, 0.7, LS, ARD=True, active_dims=[3, 1]),
    "categorical ordered": Categorical(2, 0.7, LS, ARD=True, ordered=True),
    "random effects": RandomEffects(2, 1.3),
    "random effects ARD dims": RandomEffects(2, LS, ARD=True, active_dims=[3, 1]),
    "random effects that sum to 0": RandomEffects(2, LS, ARD=True, num_levels=[2, 3]),
    "mixed": Mixed(3, 1.3, 0.8, levels=[1], ranks=[2]),
    "mixed ARD dims": Mixed(2, 0.7, LS, ARD=True, levels=[0], active_dims=[3, 1]),
    "mixed of numbers": Mixed(2, 0.7, LS, ARD=True),
    "categories in a product": RBF(1, active_dims=[0]) * Categorical(1, 0.7, 0.6, active_dims=[1])
    + RandomEffects(1, active_dims=[1]),
    "sphere": Sphere(2, 1.4, 0.05, radius=1.0),
    "sphere rbf dims": Sphere(2, 1.4, 2.0, "rbf", active_dims=[3, 1]),
    "sphere matern12": Sphere(2, 1.4, 0.05, "matern12", radius=1.0),
    "sphere matern32": Sphere(2, 1.4, 0.05, "matern32", radius=1.0),
}


def descendants(cls):
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_kernel_class_of_the_package_is_covered():
    covered, bases = set(), {"Stationary", "Static", "Combination"}
    for kernel in KERNELS.values():
        members = []
        kernel.traverse(members.append)
        covered |= {type(member).__name__ for member in members if isinstance(member, Kernel)}
    covered.add("GPyKernel")  # test_gpy_adapter.py
    ours = {c.__name__ for c in descendants(Kernel) if c.__module__.startswith("chainedgp.")}
    assert ours - bases == covered
    assert {n for n in ours - bases if not hasattr(kernels_package, n)} == set()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_contract(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_one_row(kernel):
    D = int(kernel.columns[-1]) + 1
    check_kernel(kernel, X=np.linspace(0.3, 0.9, D)[None])


# ---- independent formulas, one pair of points at a time


def scaled_distance(x, z, lengthscales):
    return math.sqrt(sum(((a - b) / s) ** 2 for a, b, s in zip(x, z, lengthscales, strict=True)))


def rbf(r):
    return math.exp(-r * r / 2)


def matern(nu):
    def k(r):  # through the Bessel function, not the closed form
        from mpmath import besselk, gamma, mpf, sqrt

        if r == 0:
            return 1.0
        s = sqrt(2 * mpf(nu)) * r
        return float(2 ** (1 - mpf(nu)) / gamma(nu) * s**nu * besselk(nu, s))

    return k


STATIONARY = {
    "rbf": (RBF(2, 1.3, LS, ARD=True), rbf),
    "matern12": (Matern12(2, 1.3, LS, ARD=True), matern(0.5)),
    "matern32": (Matern32(2, 1.3, LS, ARD=True), matern(1.5)),
    "matern52": (Matern52(2, 1.3, LS, ARD=True), matern(2.5)),
    "ratquad": (
        RationalQuadratic(2, 1.3, LS, 0.7, ARD=True),
        lambda r: 1 / (1 + r * r / 2) ** 0.7,
    ),
}
X = np.random.default_rng(1).normal(size=(5, 2))
Z = np.random.default_rng(2).normal(size=(4, 2))


def naive(k, A, B):
    return np.array([[k(a, b) for b in B] for a in A])


def test_categories_formula():
    """One pair of rows at a time: levels are the same or not, or so many steps apart."""
    codes = np.random.default_rng(3).integers(0, 3, size=(9, 3)).astype(float)
    rows, others = codes[:5], codes[4:]
    lengthscales = [0.6, 1.1, 3.0]

    def exchangeable(x, z):
        return 1.3 * math.exp(
            -0.5 * sum((a != b) / s**2 for a, b, s in zip(x, z, lengthscales, strict=True))
        )

    def ordered(x, z):
        return 1.3 * math.exp(-0.5 * scaled_distance(x, z, lengthscales) ** 2)

    def effects(x, z):
        return sum(v * (a == b) for a, b, v in zip(x, z, lengthscales, strict=True))

    for kernel, k in (
        (Categorical(3, 1.3, lengthscales, ARD=True), exchangeable),
        (Categorical(3, 1.3, lengthscales, ARD=True, ordered=True), ordered),
        (RandomEffects(3, lengthscales, ARD=True), effects),
    ):
        np.testing.assert_allclose(kernel.K(rows, others), naive(k, rows, others), rtol=1e-13)
        np.testing.assert_allclose(kernel.K(rows), naive(k, rows, rows), rtol=1e-13)
        # a level that no row had is as far from all others as these are from each other
        unseen = rows + 7.0
        np.testing.assert_allclose(kernel.K(rows, unseen), naive(k, rows, unseen), atol=1e-14)
    # numbers, levels and ranks in one kernel are the product of a kernel of each
    X = np.column_stack([np.linspace(-1.0, 2.0, 9), codes])
    mixed = Mixed(4, 1.3, [0.7, *lengthscales], ARD=True, levels=[3, 1], ranks=[2])
    product = (
        RBF(1, 1.3, 0.7, active_dims=[0])
        * Categorical(2, 1.0, [0.6, 3.0], ARD=True, active_dims=[1, 3])
        * Categorical(1, 1.0, 1.1, ordered=True, active_dims=[2])
    )
    np.testing.assert_allclose(mixed.K(X[:5], X), product.K(X[:5], X), rtol=1e-12)
    np.testing.assert_allclose(mixed.K(X), product.K(X), rtol=1e-12)
    assert mixed.level_columns.tolist() == [1, 2, 3] == product.level_columns.tolist()
    assert mixed.unordered_columns.tolist() == [1, 3] == product.unordered_columns.tolist()
    twice = {"levels": [1], "ranks": [1]}
    for bad in ({"levels": [4]}, {"ranks": [0.5]}, {"levels": [1, 1]}, twice):
        with pytest.raises(InputError, match="levels and ranks"):
            Mixed(4, **bad)
    # effects that sum to 0: the covariance of independent ones less their mean, in every column
    levels = np.arange(4.0)[:, None]
    P = np.eye(4)
    P[:3, :3] -= 1 / 3  # of three levels; a fourth one is not among them
    centred = RandomEffects(1, 1.7, num_levels=3)
    np.testing.assert_allclose(centred.K(levels), 1.7 * P @ P.T, atol=1e-15)
    np.testing.assert_allclose(centred.K(levels[1:], levels), 1.7 * (P @ P.T)[1:], atol=1e-15)
    with pytest.raises(InputError, match="num_levels must be 1 or 2 whole numbers"):
        RandomEffects(2, num_levels=[2, 3, 4])
    kernel = Categorical(1, lengthscale=0.7)
    assert kernel.correlation == pytest.approx([math.exp(-0.5 / 0.49)])
    assert kernel.K([[0.0]], [[2.0]]) == pytest.approx(kernel.correlation[0])
    tiny = Categorical(2, lengthscale=1e-9)
    np.testing.assert_array_equal(tiny.K(codes[:, :2]), (codes[:, None] == codes)[..., :2].all(-1))


def test_levels_of_categories_in_a_combination():
    kernel = RBF(1, active_dims=[0]) * Categorical(1, active_dims=[3]) + RandomEffects(
        1, active_dims=["b"]
    )
    kernel.name_columns(["a", "b", "c", "d"])
    assert kernel.level_columns.tolist() == [1, 3]
    assert RBF(2).level_columns.size == 0


@pytest.mark.parametrize(
    ("shape", "k"), [("rbf", rbf), ("matern12", matern(0.5)), ("matern52", matern(2.5))]
)
def test_sphere_is_a_kernel_of_chords(shape, k):
    """The chord by the haversine formula, at places all over the Earth."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-90, 90, 6), rng.uniform(-180, 180, 6)])
    kernel = Sphere(2, 1.3, 400.0, shape, radius=637.1)  # in units of 10 km

    def chord(x, z):
        (a, b), (c, d) = np.deg2rad(x), np.deg2rad(z)
        h = math.sin((a - c) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((b - d) / 2) ** 2
        return 2 * 6371.0 * math.sqrt(h)

    expected = naive(lambda x, z: 1.3 * k(chord(x, z) / 4000.0), places, places)
    np.testing.assert_allclose(kernel.K(places), expected, rtol=1e-9)
    np.testing.assert_allclose(kernel.K(places, places + [0.0, 360.0]), expected, rtol=1e-6)
    check_kernel(kernel, X=places)
    # near the equator, by default, distances are degrees
    step = [[0.0, 10.0], [0.0, 10.01]]
    assert Sphere(2, lengthscale=0.01, shape=shape).K(step)[0, 1] == pytest.approx(k(1.0), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_dim": 3}, "input_dim must be 2"),
        ({"shape": "cubic"}, "shape must be one of rbf, matern12"),
        ({"radius": -1.0}, "radius must be positive"),
    ],
)
def test_sphere_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        Sphere(**arguments)


@pytest.mark.parametrize(("kernel", "shape"), STATIONARY.values(), ids=STATIONARY)
def test_stationary_formula(kernel, shape):
    def k(x, z):
        return 1.3 * shape(scaled_distance(x, z, LS))

    np.testing.assert_allclose(kernel.K(X, Z), naive(k, X, Z), rtol=1e-12)
    np.testing.assert_allclose(kernel.K(X), naive(k, X, X), rtol=1e-12)
    np.testing.assert_array_equal(np.diagonal(kernel.K(X)), np.full(5, 1.3))


def test_linear_periodic_and_static_formulas():
    linear = Linear(2, LS, ARD=True)
    expected = naive(lambda x, z: 0.6 * x[0] * z[0] + 1.7 * x[1] * z[1], X, Z)
    np.testing.assert_allclose(linear.K(X, Z), expected, rtol=1e-13)
    centre = np.array([0.4, -1.3])
    centred = Linear(2, LS, ARD=True, centre=centre)
    np.testing.assert_allclose(centred.K(X, Z), linear.K(X - centre, Z - centre), rtol=1e-13)

    def periodic(x, z):
        terms = [(math.sin(math.pi * (x[d] - z[d]) / (2.3, 1.1)[d]) / LS[d]) ** 2 for d in range(2)]
        return 1.4 * math.exp(-sum(terms) / 2)

    kernel = Periodic(2, 1.4, [2.3, 1.1], LS, ARD1=True, ARD2=True)
    np.testing.assert_allclose(kernel.K(X, Z), naive(periodic, X, Z), rtol=1e-12)
    np.testing.assert_allclose(kernel.K(X + [2.3, -2.2], Z), kernel.K(X, Z), rtol=1e-12)
    np.testing.assert_array_equal(Bias(2, 1.3).K(X, Z), np.full((5, 4), 1.3))
    np.testing.assert_array_equal(White(2, 1.3).K(X), 1.3 * np.eye(5))
    np.testing.assert_array_equal(White(2, 1.3).K(X, X), np.zeros((5, 5)))
    np.testing.assert_array_equal(White(2, 1.3).Kdiag(X), np.full(5, 1.3))


def test_combination_algebra():
    a, b, c = RBF(2, 1.1), Linear(2, 0.4), White(2, 0.2)
    np.testing.assert_allclose((a + b).K(X, Z), a.K(X, Z) + b.K(X, Z), rtol=1e-14)
    np.testing.assert_allclose((a * b).K(X, Z), a.K(X, Z) * b.K(X, Z), rtol=1e-14)
    both = (a + b * c).K(X)
    np.testing.assert_allclose(both, a.K(X) + b.K(X) * c.K(X), rtol=1e-14)
    np.testing.assert_allclose((a * (b + c)).Kdiag(X), a.Kdiag(X) * (b + c).Kdiag(X), rtol=1e-14)


def test_combinations_flatten_copy_and_name():
    first = RBF(1)
    first.variance.fix()
    total = first + RBF(1) + (Bias(1) + RBF(1))
    assert isinstance(total, Sum)
    assert [part.name for part in total.parts] == ["rbf", "rbf_1", "bias", "rbf_2"]
    assert total.rbf.variance.is_fixed and not total.rbf_1.variance.is_fixed
    total.rbf.variance = 3.0
    assert first.variance.values[0] == 1.0
    assert [part.name for part in (RBF(1) * RBF(1) * Bias(1)).parts] == ["rbf", "rbf_1", "bias"]
    nested = RBF(1) * (Bias(1) + Linear(1))
    assert [type(part) for part in nested.parts] == [RBF, Sum]
    same = Sum([first, first])
    same.rbf.lengthscale = 5.0
    assert same.rbf_1.lengthscale.values[0] == 1.0


def test_parameter_order_is_that_of_param_array():
    kernel = RationalQuadratic(2, 2.0, [3.0, 4.0], 5.0, ARD=True) + Periodic(2, 6.0, 7.0, 8.0)
    np.testing.assert_array_equal(kernel.param_array, [2, 3, 4, 5, 6, 7, 8])
    assert kernel.parameter_names() == [
        "rational_quadratic.variance",
        "rational_quadratic.lengthscale",
        "rational_quadratic.power",
        "periodic.variance",
        "periodic.period",
        "periodic.lengthscale",
    ]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_copies_keep_fixes_and_constraints(kernel):
    kernel = kernel.copy()
    kernel.flattened_parameters[0].fix()
    kernel.flattened_parameters[-1].constrain_bounded(0.01, 50.0, warning=False)
    for twin in (kernel.copy(), pickle.loads(pickle.dumps(kernel))):
        assert {str(c): i.tolist() for c, i in twin.constraints.items()} == {
            str(c): i.tolist() for c, i in kernel.constraints.items()
        }
        np.testing.assert_array_equal(twin.optimizer_array, kernel.optimizer_array)


# ---- numerics


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52", "ratquad"])
@pytest.mark.parametrize("lengthscale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_extreme_lengthscales_and_coinciding_points(name, lengthscale):
    kernel = STATIONARY[name][0].copy()
    kernel.lengthscale = lengthscale
    A, B = np.vstack((X, X[:2])) + 100.0, np.vstack((Z, X)) + 100.0
    with np.errstate(all="raise", under="ignore"):
        for second in (None, B):
            K, pullback = kernel.evaluate(A, second)
            results = [K, *pullback(np.ones(K.shape))]
            assert all(np.all(np.isfinite(r)) for r in results if r is not None)
    K = kernel.K(A, B)
    # rows 0 and 5 of A are row 4 of B, whatever the lengthscale
    np.testing.assert_allclose(K[[0, 5], 4], 1.3, rtol=1e-12)
    np.testing.assert_allclose(kernel.K(A)[0, 5], 1.3, rtol=1e-12)


def test_gradients_vanish_where_points_coincide():
    for name in ("rbf", "matern12", "matern32", "matern52", "ratquad"):
        kernel = STATIONARY[name][0]
        _, dL_dX, dL_dZ = kernel.evaluate(X[:1], X[:1].copy())[1](np.ones((1, 1)))
        np.testing.assert_array_equal(np.vstack((dL_dX, dL_dZ)), np.zeros((2, 2)))


def test_distances_far_from_the_origin_keep_their_digits():
    near, far = RBF(2, 1.0, 0.7), 1e6
    K = near.K(X, Z)
    # inputs themselves are rounded at 1e6 · 2e-16 = 1e-10; an uncentred expansion is off by 1e-4
    np.testing.assert_allclose(near.K(X + far, Z + far), K, atol=1e-8)


def test_far_points_are_as_good_as_uncorrelated():
    for name in ("rbf", "matern12", "matern32", "matern52"):
        assert STATIONARY[name][0].K(np.zeros((1, 2)), np.full((1, 2), 1e7))[0, 0] < 1e-200


def test_symmetric_case_is_exactly_symmetric():
    points = np.random.default_rng(5).normal(size=(60, 3)) * 30
    for kernel in (RBF(3, 1.0, 9.0), Linear(3), Periodic(3), Matern12(3)):
        K = kernel.K(points)
        np.testing.assert_array_equal(K, K.T)


def test_pullbacks_add_up_over_chunks():
    kernel = KERNELS["depth 3"]
    points = np.random.default_rng(6).normal(size=(9, 2))
    weights = np.random.default_rng(7).normal(size=(4, 9))
    whole = kernel.evaluate(Z, points)[1](weights, False)
    parts = [
        kernel.evaluate(Z, points[c])[1](weights[:, c], False)
        for c in (slice(0, 3), slice(3, 4), slice(4, 9))
    ]
    np.testing.assert_allclose(sum(p[0] for p in parts), whole[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sum(p[1] for p in parts), whole[1], rtol=1e-10, atol=1e-12)


def test_order_of_memory_does_not_matter():
    for kernel in KERNELS.values():
        points = np.random.default_rng(6).normal(size=(6, int(kernel.columns[-1]) + 1))
        for second in (None, points[:4] + 0.1):
            K, pullback = kernel.evaluate(points, second)
            weights = np.random.default_rng(8).normal(size=K.shape)
            a, b = pullback(weights), pullback(np.asfortranarray(weights))
            for x, y in zip(a, b, strict=True):
                if x is not None:
                    np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_evaluate_guards_the_matrix_its_pullback_keeps():
    K, _ = RBF(2).evaluate(X)
    with pytest.raises(ValueError, match="read-only"):
        K[0, 0] = 2.0
    for kernel in KERNELS.values():
        K = kernel.K(np.ones((3, int(kernel.columns[-1]) + 1)))
        K[0, 0] = 77.0  # GPy's method gives a matrix of one's own
        assert K[1, 1] != 77.0


def test_threads_may_share_a_kernel():
    kernel, results = KERNELS["depth 3"], {}
    inputs = [np.random.default_rng(s).normal(size=(40, 2)) for s in range(8)]

    def work(i):
        for _ in range(5):
            K, pullback = kernel.evaluate(Z, inputs[i])
            results[i] = pullback(np.ones(K.shape), False)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        K, pullback = kernel.evaluate(Z, inputs[i])
        np.testing.assert_array_equal(results[i][0], pullback(np.ones(K.shape), False)[0])


# ---- bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(0), "input_dim must be at least 1"),
        (lambda: RBF(1.5), "input_dim must be an integer"),
        (lambda: RBF(1, variance=0.0), "variance must be positive"),
        (lambda: RBF(1, variance=-1.0), "variance must be positive"),
        (lambda: RBF(1, variance=np.nan), "variance must be positive and finite"),
        (lambda: RBF(1, variance=[1.0, 2.0]), "variance must have one value"),
        (lambda: RBF(1, variance="a"), "variance must be numeric"),
        (lambda: RBF(2, lengthscale=[1.0, 2.0]), "one value, got 2; set ARD"),
        (lambda: RBF(3, lengthscale=[1.0, 2.0], ARD=True), "1 or 3 values, got 2"),
        (lambda: RBF(2, lengthscale=[1.0, 0.0], ARD=True), "lengthscale must be positive"),
        (lambda: RBF(1, name="a b"), "name"),
        (lambda: RBF(1, name="K"), "name"),
        (lambda: RBF(1, name="ρ"), "name"),
        (lambda: RBF(1, name="size"), "name"),
        (lambda: RBF(2, active_dims=[0]), "input_dim is 2 and active_dims has 1"),
        (lambda: RBF(2, active_dims=[0, 0]), "twice"),
        (lambda: RBF(2, active_dims=[0, -1]), "active_dims must be column numbers"),
        (lambda: RBF(2, active_dims=[0, 1.5]), "active_dims must be column numbers"),
        (lambda: RationalQuadratic(1, power=0.0), "power must be positive"),
        (lambda: Linear(2, [1.0, 2.0]), "variances must have one value"),
        (lambda: Linear(2, centre=[1.0, 2.0, 3.0]), "centre must be finite, one value or 2"),
        (lambda: Periodic(2, period=[1.0, 2.0]), "period must have one value"),
        (lambda: Periodic(2, period=-1.0), "period must be positive"),
        (lambda: Bias(1, 0.0), "variance must be positive"),
        (lambda: RBF(2).K(np.ones((3, 3))), "2 columns, got 3"),
        (lambda: RBF(2).K(np.ones((3, 2)), np.ones((3, 1))), "2 columns, got 1"),
        (lambda: RBF(1).K(np.ones(3)), "two dimensions"),
        (lambda: RBF(2).Kdiag(np.ones((3, 3))), "2 columns, got 3"),
        (lambda: RBF(1, active_dims=[3]).K(np.ones((3, 3))), "at least 4 columns"),
        (lambda: RBF(1) + RBF(2), "same inputs"),
        (lambda: RBF(1) * RBF(1, active_dims=[1]), "same inputs"),
        (lambda: Sum([]), "at least one kernel"),
        (lambda: RBF(1) + 3.0, "expected a kernel, got float"),
        (lambda: kernels_package.as_kernel("rbf"), "expected a kernel, got str"),
    ],
)
def test_bad_arguments_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_arguments_are_copied_in():
    lengthscale = np.array([1.0, 2.0])
    kernel = RBF(2, lengthscale=lengthscale, ARD=True)
    kernel.lengthscale[0] = 9.0
    np.testing.assert_array_equal(lengthscale, [1.0, 2.0])


def test_points_very_many_lengthscales_apart_keep_their_digits():
    """Close in all columns but the first, where they are equal and 1e9 lengthscales from others."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(0, 3, 40) * 1e3, rng.normal(size=40)]
    Z = X[::4] + np.c_[np.zeros(10), 0.1 * rng.normal(size=10)]
    scale = np.array([1e-6, 0.7])
    for kernel in (RBF(2, 1.3, scale, ARD=True), Matern32(2, 1.3, scale, ARD=True)):
        r = np.sqrt((((X[:, None] - Z) / scale) ** 2).sum(-1))
        near = np.sqrt(3.0) * r
        form = np.exp(-0.5 * r * r) if isinstance(kernel, RBF) else (1 + near) * np.exp(-near)
        np.testing.assert_allclose(kernel.K(X, Z), 1.3 * form, atol=1e-12)
        np.testing.assert_array_less(-1e-12, np.linalg.eigvalsh(kernel.K(X)))


@pytest.mark.parametrize("symmetric", [True, False])
def test_distances_one_by_one_are_those_of_products(symmetric, monkeypatch):
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(9, 3)), None if symmetric else rng.normal(size=(5, 3))
    W = rng.normal(size=(9, 9 if symmetric else 5))

    def both():
        found = distances.DistancesFrom(X, np.array([0.5, 1.0, 2.0]), scale=-0.5, shift=0.3)
        values, pull = found.among() if symmetric else found.to(Z)
        return found._are_far(9.0), values, *pull(W, True)

    by_products = both()
    monkeypatch.setattr(distances, "ROUNDING", -1.0)
    one_by_one = both()
    assert not by_products[0] and one_by_one[0]
    for a, b in zip(by_products[1:], one_by_one[1:], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


class HeavyTails(RBF):
    """Written on top of a kernel that is zero where this one is not."""

    def correlation(self, r2):
        return 1.0 / (1.0 + r2), r2

    def slope(self, memo, K):
        return K / (1.0 + memo), -1.0


class PreparedAgain(HeavyTails):
    def _evaluate(self, X, Z):
        return super()._evaluate(X, Z)

    def _evaluate_diag(self, X):
        return super()._evaluate_diag(X)


class NothingWritten(Kernel):
    pass


@pytest.mark.parametrize("kernel", [HeavyTails(2, 1.3), PreparedAgain(2, 1.3)])
def test_a_correlation_of_its_own_has_nothing_of_its_parents(kernel):
    check_kernel(kernel)
    far = np.array([[0.0, 0.0], [3000.0, 4000.0]])
    assert kernel.K(far)[0, 1] == pytest.approx(1.3 / (1.0 + 5000.0**2), rel=1e-9)
    assert kernel.prepare(far)(None)[0][0, 1] == kernel.K(far)[0, 1]


def test_a_kernel_without_a_method_says_which():
    with pytest.raises(NotImplementedError, match="NothingWritten must implement _evaluate"):
        NothingWritten(1, "nothing").K(np.ones((2, 1)))


def doubled(K, pullback):
    return 2.0 * K, lambda W, *args, **kw: pullback(2.0 * W, *args, **kw)


class Doubled(RBF):
    def evaluate(self, X, Z=None):
        return doubled(*super().evaluate(X, Z))

    def evaluate_diag(self, X):
        return doubled(*super().evaluate_diag(X))


class DoubledInside(RBF):
    def _evaluate(self, X, Z):
        return doubled(*super()._evaluate(X, Z))

    def _evaluate_diag(self, X):
        return doubled(*super()._evaluate_diag(X))


class DoubledBeside:  # no kernel itself
    def evaluate(self, X, Z=None):
        return doubled(*super().evaluate(X, Z))

    def evaluate_diag(self, X):
        return doubled(*super().evaluate_diag(X))


class DoubledByMixin(DoubledBeside, RBF):
    pass


class DoubledShape(RBF):
    def correlation(self, r2):
        return 2.0 * np.exp(-0.5 * r2), None

    def slope(self, memo, K):
        return K, -0.5

    def _evaluate_diag(self, X):
        return doubled(*super()._evaluate_diag(X))


@pytest.mark.parametrize("own", [Doubled, DoubledInside, DoubledByMixin, DoubledShape])
def test_a_model_uses_an_evaluate_of_its_own(own):
    X = np.linspace(0.0, 1.0, 20)[:, None]
    one, two = (
        ChainedGP(X, np.sin(9 * X), HetGaussian(), kernel, num_inducing=5)
        for kernel in (own(1, 0.7, 0.3), RBF(1, 1.4, 0.3))
    )
    for m in (one, two):
        m.Z[:] = np.linspace(0.1, 0.9, 5)[:, None]
        m.q_mu[:] = np.random.default_rng(0).normal(size=m.q_mu.shape)
    assert one.log_likelihood() == pytest.approx(two.log_likelihood(), rel=1e-12)
    theirs = np.asarray(two.objective_function_gradients())
    ours = np.asarray(one.objective_function_gradients())
    assert np.count_nonzero(np.abs(ours - theirs) > 1e-9 * (1 + np.abs(theirs))) == 2  # variances


# ---- inputs that a kernel is not for -------------------------------------------------------------


def test_latitudes_end_at_the_poles():
    rng = np.random.default_rng(0)
    places = np.column_stack([np.linspace(-180.0, 180.0, 12), np.linspace(-90.0, 90.0, 12)])
    y = rng.normal(size=12)
    kernel = Sphere(2, active_dims=[1, 0]) + Bias(2)
    m = ChainedGP(places, y, HetGaussian(), kernel, num_inducing=4)
    with pytest.raises(InputError, match=r"X has the latitude -180 in row 0 of column 1"):
        m.set_data(places[:, ::-1], y)
    with pytest.raises(InputError, match=r"Xnew has the latitude -180 in row 0 of column 1"):
        m.update(places[:, ::-1], y)
    np.testing.assert_array_equal(m.X, places)
    with pytest.raises(InputError, match=r"sphere: X has the latitude -180 in row 0 of column 0"):
        ChainedGP(places, y, HetGaussian(), Sphere(2) + Bias(2), num_inducing=4)
    with pytest.raises(InputError, match=r"sphere: Z has the latitude 91 in row 1 of column 1"):
        ChainedGP(places, y, HetGaussian(), kernel, Z=np.array([[0.0, 0.0], [0.0, 91.0]]))


def test_kernels_of_numbers_read_no_levels():
    pd = pytest.importorskip("pandas")
    town = np.resize(["York", "Bath", "Ely"], 12)
    frame = pd.DataFrame({"x": np.arange(12.0), "town": town, "two": np.resize(["a", "b"], 12)})
    y = np.sin(np.arange(12.0))
    message = "reads the column 'town' as a number.*kernels.Categorical"
    for wrong in (
        RBF(3, ARD=True),
        Linear(1, active_dims=["town"]) + RBF(1, active_dims=["x"]),
        RBF(1, active_dims=["x"]) * Mixed(2, levels=[1], active_dims=["town", "two"]),
    ):
        with pytest.raises(InputError, match=message):
            ChainedGP(frame, y, HetGaussian(), wrong, num_inducing=4)
    right = RBF(2, active_dims=["x", "two"]) * Categorical(1, active_dims=["town"])
    ChainedGP(frame, y, HetGaussian(), right + Bias(3) + White(3), num_inducing=4)
    ordered = frame.assign(town=pd.Categorical(town, ["Ely", "Bath", "York"], ordered=True))
    ChainedGP(ordered, y, HetGaussian(), RBF(3, ARD=True), num_inducing=4)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("theta", r"Own: the pullback of _evaluate returns dL_dtheta of shape \(1, 1\) instead of"),
        ("inputs", r"Own: the pullback of _evaluate returns dL_dX of shape \(3,\)"),
        ("matrix", r"Own: _evaluate returns K of shape \(3,\) instead of \(3, 3\)"),
        ("error", "the kernel Own raised ZeroDivisionError"),
    ],
)
def test_a_model_refuses_an_own_kernel_whose_arrays_have_wrong_shapes(wrong, words):
    class Own(kernels_package.Kernel):
        def __init__(self):
            super().__init__(1, "own", None)
            self.size_ = Param("size_", 1.0)
            self.link_parameter(self.size_)

        def _evaluate(self, X, Z):
            if wrong == "error":
                raise ZeroDivisionError
            shape = np.exp(-np.abs(X - (X if Z is None else Z).T))

            def pullback(dL_dK, wrt_second=True):
                theta = np.atleast_1d(np.sum(dL_dK * shape))
                return (
                    theta[None] if wrong == "theta" else theta,
                    np.zeros(len(X) if wrong == "inputs" else X.shape),
                    None,
                )

            K = float(self.size_[0]) * shape
            return K[0] if wrong == "matrix" else K, pullback

        def _evaluate_diag(self, X):
            return np.full(len(X), float(self.size_[0])), lambda dL: (dL.sum(keepdims=True), None)

    x = np.linspace(0.0, 1.0, 9)
    with pytest.raises(InputError, match=words):
        ChainedGP(x, x, HetGaussian(), kernels_package.RBF(1) + Own(), num_inducing=3)
