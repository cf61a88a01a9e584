"""Episodes: cutting rows leaves their likelihood unchanged."""

import warnings

import numpy as np
import pytest
from scipy import stats

import chainedgp as cgp
from chainedgp.errors import InputError
from chainedgp.likelihoods import (
    LogLogistic,
    LogLogisticSurvival,
    LogNormalSurvival,
    Survival,
    WeibullSurvival,
)
from chainedgp.survival import KaplanMeier, episode_survival, split_episodes


class GammaTimes(Survival):
    """An author's own times, by a distribution of scipy.stats."""

    latents = ("log_shape", "log_scale")

    def distribution(self, f, g, **metadata):
        return stats.gamma(np.exp(f), scale=np.exp(g))


LIKELIHOODS = [
    GammaTimes(),
    LogLogisticSurvival(),
    LogNormalSurvival(),
    WeibullSurvival(),
    LogLogistic(log_shape=0.3),
    WeibullSurvival().with_constant("log_shape", 0.4),
]
CUTS = np.array([0.3, 0.7, 1.1, 2.0, 50.0])


def rows(n=40):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.weibull(1.3, n) * 1.5 + 0.05
    censored = rng.choice([0, 1, -1, 2], n).astype(float)
    entry = np.where(rng.random(n) < 0.4, 0.5 * y, 0.0)
    return X, y, {"censored": censored, "entry": entry, "y_upper": y * 1.7, "weights": y}


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda lik: type(lik).__name__)
def test_the_density_of_pieces_is_that_of_the_row(likelihood):
    X, y, metadata = rows()
    e = split_episodes(X, y, metadata, times=CUTS)
    assert len(e.Y) > 60 and np.array_equal(e.X, X[e.rows])
    latents = np.random.default_rng(1).normal(size=(len(likelihood.latents), len(y)))
    parameters = likelihood.parameter_values()

    def log_p(y, f, given):
        kw = {key: value for key, value in given.items() if key != "weights"}
        return likelihood.log_density(y, *f, **parameters, **kw)

    whole = log_p(y, latents, metadata)
    pieces = np.bincount(e.rows, log_p(e.Y, latents[:, e.rows], e.Y_metadata))
    np.testing.assert_allclose(pieces, whole, rtol=1e-10, atol=1e-10)


def test_the_bound_is_unchanged_where_it_is_exact():
    X, y, metadata = rows()
    metadata["censored"] = np.abs(metadata["censored"]) % 2
    e = split_episodes(X, y, metadata, times=CUTS)
    Z = X[:8]
    bounds = []
    for part in ((X, y, metadata), e[:3]):
        given = (
            *part[:2],
            LogLogistic(log_shape=0.3),
            cgp.kernels.RBF(2),
            Z,
            cgp.means.Constant(0.1),
        )
        m = cgp.ChainedGP(*given, part[2])
        m.q_mu[:] = np.linspace(-1.0, 1.0, 8)[:, None]
        bounds.append(m.log_likelihood())
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-10 * abs(bounds[0]))


def test_the_kaplan_meier_curve_is_unchanged():
    X, y, metadata = rows()
    censored = np.abs(metadata["censored"]) % 2
    e = split_episodes(X, y, {**metadata, "censored": censored}, times=CUTS)
    whole = KaplanMeier(y, censored, metadata["entry"], metadata["weights"])
    pieces = KaplanMeier(e.Y, *(e.Y_metadata[key] for key in ("censored", "entry", "weights")))
    np.testing.assert_allclose(pieces.values, whole.values, atol=1e-12)


def test_what_an_episode_has():
    e = split_episodes([[1.0], [2.0]], [5.0, 1.0], {"censored": [0, 1]}, times=[2.0, 4.0])
    assert e.rows.tolist() == [0, 0, 0, 1] and e.X[:, 0].tolist() == [1.0, 1.0, 1.0, 2.0]
    assert e.start.tolist() == [0.0, 2.0, 4.0, 0.0] and e.Y.tolist() == [2.0, 4.0, 5.0, 1.0]
    assert e.Y_metadata["censored"].tolist() == [1.0, 1.0, 0.0, 1.0]
    own = split_episodes([[1.0], [2.0]], [5.0, 1.0], times=[[4.0, 4.0], []])
    assert own.Y.tolist() == [4.0, 5.0, 1.0] and own.Y_metadata["censored"].tolist() == [1, 0, 0]


def test_survival_along_a_path_of_inputs():
    """Weibull times of shape 2 whose log-scale is the input itself."""
    X = np.linspace(-1.0, 1.0, 9)[:, None]
    m = cgp.ChainedGP(
        X, np.ones(9), WeibullSurvival(), [cgp.kernels.RBF(1, 1e-12)] * 2, X,
        [cgp.means.Linear(1, 1.0), cgp.means.Constant(np.log(2.0))], {"censored": 0},
    )  # fmt: skip
    e = split_episodes([[0.0], [0.5]], [3.0, 2.0], {"entry": [0.0, 0.5]}, times=[1.0])
    e.X[:, 0] = [0.0, 1.0, 0.5, -1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cgp.errors.UnfittedWarning)
        S = episode_survival(m, e)
        bands = episode_survival(m, e, bands=(5, 95), size=20)
    hazard = [1.0, (9.0 - 1.0) * np.exp(-2.0), 0.75 * np.exp(-1.0), 3.0 * np.exp(2.0)]
    want = np.exp(-np.array([hazard[0], hazard[0] + hazard[1], hazard[2], hazard[2] + hazard[3]]))
    np.testing.assert_allclose(S, want, rtol=1e-4)
    assert len(bands) == 3 and (bands[1] <= bands[2]).all()
    with pytest.raises(InputError, match="in the order"):
        episode_survival(m, e._replace(rows=e.rows[::-1]))
    with pytest.raises(InputError, match="bands"):
        episode_survival(m, e, bands=(95, 5))
    other = cgp.ChainedGP(X, np.ones(9), cgp.likelihoods.HetGamma(), num_inducing=3, ties=None)
    with pytest.raises(InputError, match="no survival likelihood"):
        episode_survival(other, e)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_stay_frames(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"age": [50.0, 60.0], "dose": [0.0, 0.0]})
    e = split_episodes(frame, [3.0, 1.0], times=2.0)
    assert isinstance(e.X, frames.DataFrame) and list(e.X["age"]) == [50.0, 50.0, 60.0]
    m = cgp.ChainedGP(e.X, e.Y, WeibullSurvival(), Y_metadata=e.Y_metadata, num_inducing=2)
    assert m.input_names == ["age", "dose"]


def test_what_cannot_be_cut_is_told():
    with pytest.raises(InputError, match="row for each of the 2 times"):
        split_episodes([[1.0]], [5.0, 1.0], times=[2.0])
    with pytest.raises(InputError, match="one sequence for each of the 2 rows"):
        split_episodes([[1.0], [1.0]], [5.0, 1.0], times=[[2.0]])
    with pytest.raises(InputError, match="before its entry"):
        split_episodes([[1.0], [1.0]], [5.0, 1.0], {"entry": [0.0, 2.0]}, times=[2.0])
    with pytest.raises(InputError, match="must be numbers"):
        split_episodes([[1.0], [1.0]], [5.0, 1.0], times=[np.nan])


def test_episodes_are_printed_in_a_line():
    found = split_episodes(np.arange(3.0)[:, None], [1.0, 2.0, 3.0], times=[1.5])
    assert repr(found) == "<5 episodes of 3 rows: X, Y, Y_metadata, rows, start>"
