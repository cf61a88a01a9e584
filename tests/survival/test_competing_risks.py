"""Competing risks: cumulative incidences against closed forms, quadrature and simulation."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import chainedgp as cgp
from chainedgp.errors import CensoringWarning, InputError
from chainedgp.kernels import RBF
from chainedgp.likelihoods import HetGaussian, LogLogisticSurvival, WeibullSurvival
from chainedgp.means import Constant
from chainedgp.survival import AalenJohansen, CompetingRisks


def known(scale, shape, likelihood=WeibullSurvival, variance=1e-14):
    """A model whose latents are known: constants."""
    X = np.array([[0.0], [1.0]])
    means = [Constant(np.log(scale)), Constant(np.log(shape))]
    return cgp.ChainedGP(
        X,
        [scale, scale],
        likelihood(),
        [RBF(1, variance=variance) for _ in range(2)],
        X,
        means,
        {"censored": 0},
    )


@pytest.fixture(autouse=True)
def unfitted_is_meant():
    """Models here predict their priors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cgp.errors.UnfittedWarning)
        yield


def test_constant_hazards_have_a_closed_form():
    rates = {"a": 0.3, "b": 1.1, "c": 0.05}
    risks = CompetingRisks({name: known(1.0 / rate, 1.0) for name, rate in rates.items()})
    t, total = np.array([0.0, 0.01, 0.5, 1.0, 4.0, 30.0]), sum(rates.values())
    F = risks.cumulative_incidence([[0.5]], t)
    for name, rate in rates.items():
        want = rate / total * -np.expm1(-total * t)
        np.testing.assert_allclose(F[name][0], want, atol=1e-8)
    S = risks.overall_survival([[0.5]], t)
    np.testing.assert_allclose(S[0], np.exp(-total * t), atol=1e-8)
    np.testing.assert_allclose(sum(F.values()) + S, 1.0, atol=1e-12)


def test_hazards_without_a_limit_at_0_against_scipy():
    shapes, scales = {"early": 0.4, "late": 6.0}, {"early": 3.0, "late": 1.5}
    risks = CompetingRisks({k: known(scales[k], shapes[k]) for k in shapes})
    early, late = (stats.weibull_min(shapes[k], scale=scales[k]) for k in shapes)
    t = np.array([0.2, 1.0, 2.0])
    F = risks.cumulative_incidence([[0.0]], t)
    for k, end in enumerate(t):

        def flow(v):  # u = v⁴ takes the hazard's limit at 0 away.
            return early.pdf(v**4) * late.sf(v**4) * 4.0 * v**3

        want = integrate.quad(flow, 0.0, end**0.25, epsabs=1e-12, epsrel=1e-12)[0]
        assert F["early"][0, k] == pytest.approx(want, abs=1e-7)
        want = integrate.quad(lambda u: late.pdf(u) * early.sf(u), 0.0, end, epsabs=1e-12)[0]
        assert F["late"][0, k] == pytest.approx(want, abs=1e-7)


def test_uncertain_latents_average_and_have_bands():
    risks = CompetingRisks({
        "a": known(1.0, 1.3, variance=0.09), "b": known(2.0, 0.8, LogLogisticSurvival, 0.04)
    })  # fmt: skip
    t = np.array([0.5, 1.5])
    F, S = (
        f([[0.0]], t, bands=(5, 95)) for f in (risks.cumulative_incidence, risks.overall_survival)
    )
    np.testing.assert_allclose(F["a"][0] + F["b"][0] + S[0], 1.0, atol=1e-12)
    rng, size = np.random.default_rng(0), 200_000
    f = rng.standard_normal((2, 2, size)) * np.array([0.3, 0.2])[:, None, None]
    T_a = np.exp(f[0, 0]) * rng.weibull(1.0, size) ** (1.0 / (1.3 * np.exp(f[0, 1])))
    T_b = stats.fisk(0.8 * np.exp(f[1, 1]), scale=2.0 * np.exp(f[1, 0])).rvs(random_state=rng)
    for name, own, other in (("a", T_a, T_b), ("b", T_b, T_a)):
        first = np.mean((own[:, None] <= t) & (own < other)[:, None], axis=0)
        np.testing.assert_allclose(F[name][0][0], first, atol=4e-3)
        estimate, low, high = F[name]
        assert (low < estimate).all() and (estimate < high).all()
    # The band of S is that of draws of Π S_k(t | f).
    draws = np.exp(-((t[:, None] / np.exp(f[0, 0])) ** (1.3 * np.exp(f[0, 1]))))
    draws /= 1.0 + (t[:, None] / (2.0 * np.exp(f[1, 0]))) ** (0.8 * np.exp(f[1, 1]))
    np.testing.assert_allclose(
        np.stack(S[1:])[:, 0], np.quantile(draws, (0.05, 0.95), 1), atol=0.01
    )


def simulated(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 1))
    rates = np.stack([np.exp(-1.0 + 1.5 * X[:, 0]), np.exp(-0.2 - 1.5 * X[:, 0])])
    T, C = rng.exponential(1.0 / rates), rng.uniform(0.5, 4.0, n)
    y = np.minimum(T.min(0), C)
    cause = np.where(y == C, "none", np.where(y == T[0], "relapse", "death"))
    return X, y, cause


def test_causes_are_recovered_and_stored(tmp_path):
    X, y, cause = simulated()
    risks = CompetingRisks.from_data(
        X, y, cause, WeibullSurvival().with_constant("log_shape"), censored="none", num_inducing=6
    )
    assert risks.causes == ("death", "relapse") and "death: ConstantLatent" in repr(risks)
    results = risks.optimize(max_iters=30)
    assert set(results) == set(risks.causes)
    new, t = np.array([[0.1], [0.9]]), np.array([0.5, 1.0, 2.0])
    F = risks.cumulative_incidence(new, t, bands=(1, 99))
    a, b = np.exp(-1.0 + 1.5 * new), np.exp(-0.2 - 1.5 * new)
    for name, rate in (("relapse", a), ("death", b)):
        truth = rate / (a + b) * -np.expm1(-(a + b) * t)
        assert ((F[name][1] < truth) & (truth < F[name][2])).mean() > 0.8
    # The mean over the rows is what Aalen and Johansen see.
    seen = AalenJohansen(y, cause, "none")(t)
    mean = risks.cumulative_incidence(X[::5], t)
    for name in risks.causes:
        np.testing.assert_allclose(mean[name].mean(0), seen[name], atol=0.06)
    risks.save(tmp_path / "risks")
    again = CompetingRisks.load(tmp_path / "risks")
    assert again.causes == risks.causes
    np.testing.assert_allclose(again.overall_survival(new, t), risks.overall_survival(new, t))
    risks.save(tmp_path / "bare", data=False)
    with pytest.raises(InputError, match="give X and times"):
        CompetingRisks.load(tmp_path / "bare").plot()
    with pytest.raises(InputError, match="no folder of competing risks"):
        CompetingRisks.load(tmp_path)


@pytest.mark.long
def test_causes_that_are_numbers_stay_numbers(tmp_path):
    X, y, cause = simulated(60)
    number = np.select([cause == "relapse", cause == "death"], [1, 2])
    options = {"num_inducing": 3}
    risks = CompetingRisks.from_data(X, y, number, WeibullSurvival(), **options)
    t = np.array([0.5, 1.0])
    seen = AalenJohansen(y, number)
    assert risks.causes == (1, 2) == tuple(seen.causes)
    assert risks.models[1].Y_metadata["censored"].tolist() == (number != 1).tolist()
    assert list(risks.cumulative_incidence([[0.5]], t)) == list(seen(t))
    risks.save(tmp_path / "risks")
    assert CompetingRisks.load(tmp_path / "risks").causes == (1, 2)
    shapes = {1: WeibullSurvival(), "2": LogLogisticSurvival()}
    mixed = CompetingRisks.from_data(X, y, number, shapes, **options)
    assert isinstance(mixed.models[2].likelihood, LogLogisticSurvival)
    assert CompetingRisks({np.int64(3): known(1.0, 1.0)}).causes == (3,)
    with pytest.raises(InputError, match="a name or a number"):
        CompetingRisks({(1, 2): known(1.0, 1.0)})
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = risks.plot(X[:3], times=t, observed=seen(t))
    assert ax.get_legend_handles_labels()[1] == ["1", "2", "observed"]
    with pytest.raises(InputError, match="a curve for each of 1, 2; got 1"):
        risks.plot(X[:3], times=t, observed={1: t})
    plt.close("all")


def test_what_says_censored():
    X, y, cause = simulated(40)
    build, options = CompetingRisks.from_data, {"num_inducing": 3}
    want = build(X, y, cause, WeibullSurvival(), censored="none", **options)
    empty = [None if name == "none" else name for name in cause]
    for missing in (empty, pd.Series(empty), pd.Series(empty, dtype="string")):
        found = build(X, y, missing, WeibullSurvival(), censored=None, **options)
        assert found.causes == want.causes
        for name in want.causes:
            np.testing.assert_array_equal(
                found.models[name].Y_metadata["censored"],
                want.models[name].Y_metadata["censored"],
            )
        with pytest.raises(InputError, match=r"is missing\. Give 'none' to .* censored=None"):
            build(X, y, missing, WeibullSurvival(), censored="none", **options)
    # A word that never occurs is misspelt, or 0 was not meant: then "none" is no cause.
    for wrong in ({"censored": "None"}, {}):
        with pytest.warns(CensoringWarning, match="every row counts as an event.*'none'") as told:
            build(X, y, cause, WeibullSurvival(), **wrong, **options)
        assert told[0].filename == __file__
    with pytest.warns(CensoringWarning, match="no row has the cause 9"):
        AalenJohansen([1.0, 2.0], [1, 2], censored=9)
    assert AalenJohansen([1.0, 2.0], [1, 2]).causes == [1, 2]
    assert AalenJohansen([1.0, 2.0], ["a", "b"], censored=None).causes == ["a", "b"]
    assert AalenJohansen([1.0, 2.0], [1.0, np.nan], censored=np.nan).causes == [1]


def test_missing_causes_of_polars():
    pl = pytest.importorskip("polars")
    for causes in (["a", None], [1, None]):
        found = AalenJohansen(pl.Series([1.0, 2.0]), pl.Series(causes), censored=None)
        assert found.causes == causes[:1] and np.isnan(found(3.0)[causes[0]])


def test_gaps_in_the_table_can_be_left_out():
    X, y, cause = simulated(40)
    frame = pd.DataFrame(X, columns=["x"])
    frame.loc[3, "x"] = np.nan
    build = partial(CompetingRisks.from_data, frame, y, cause, WeibullSurvival(), censored="none")
    with pytest.raises(InputError, match='missing="drop"'):
        build(num_inducing=3)
    risks = build(num_inducing=3, missing="drop")
    kept = np.arange(40) != 3
    for name, m in risks.models.items():
        np.testing.assert_array_equal(m.X[:, 0], X[kept, 0])
        np.testing.assert_array_equal(m.Y_metadata["censored"], cause[kept] != name)


def test_figure_of_stacked_incidences():
    plt = pytest.importorskip("matplotlib.pyplot")
    risks = CompetingRisks({"a": known(1.0, 1.0), "b": known(2.0, 1.0)})
    t = np.linspace(0.0, 2.0, 5)
    ax = risks.plot([[0.0], [1.0]], times=t, observed={"a": 0.4 * t / 2, "b": 0.3 * t / 2})
    top = ax.lines[2].get_ydata()  # The upper edge of the second cause, over the first.
    np.testing.assert_allclose(top, -np.expm1(-1.5 * t), atol=1e-8)
    assert ax.get_ylim() == (0.0, 1.0) and len(ax.lines) == 5
    plt.close(ax.figure)


def test_what_is_no_competing_risk_is_told():
    X, y, cause = simulated(30)
    build = CompetingRisks.from_data
    for models in ({}, None, [1]):
        with pytest.raises(InputError, match="models must be a dict"):
            CompetingRisks(models)
    with pytest.raises(InputError, match="must be a ChainedGP"):
        CompetingRisks({"a": 1})
    with pytest.raises(InputError, match="times with a density"):
        CompetingRisks({"a": cgp.ChainedGP(X, y, HetGaussian(), num_inducing=2)})
    with pytest.raises(InputError, match="cause says which rows are censored"):
        build(X, y, cause, WeibullSurvival(), censored="none", Y_metadata={"censored": 0})
    for wrong in (HetGaussian(), {"relapse": WeibullSurvival(), "death": HetGaussian()}):
        with pytest.raises(InputError, match="'death' has the likelihood HetGaussian; competing"):
            build(X, y, cause, wrong, censored="none")
    with pytest.raises(InputError, match="one for each cause"):
        build(X, y, cause, {"relapse": WeibullSurvival()}, censored="none")
    risks = CompetingRisks({"a": known(1.0, 1.0)})
    for t in ([-1.0], [[1.0]], [np.nan]):
        with pytest.raises(InputError, match="times from 0 on"):
            risks.overall_survival([[0.0]], t)
    with pytest.raises(InputError, match="ascending"):
        risks.overall_survival([[0.0]], [2.0, 1.0])
    with pytest.raises(InputError, match="bands"):
        risks.overall_survival([[0.0]], [1.0], bands=(95, 5))


def test_causes_of_rows_in_another_order_are_refused():
    y = pd.Series(np.arange(1.0, 9.0), list("abcdefgh"))
    cause = pd.Series(np.resize(["died", "left", "none"], 8), y.index)
    X, lik = y.to_frame("x"), WeibullSurvival()
    for inputs, first in ((X, "X"), (X.to_numpy(), "Y")):
        with pytest.raises(InputError, match=rf"^cause has the rows of {first} in another order"):
            CompetingRisks.from_data(inputs, y, cause[::-1], lik, censored="none")
    risks = CompetingRisks.from_data(X, y, cause, lik, censored="none", num_inducing=3)
    assert risks.models["died"].Y_metadata["censored"].tolist() == [0, 1, 1, 0, 1, 1, 0, 1]
