"""`update`: new rows by their sites, against a full inner loop over all rows."""

import warnings

import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.errors import InputError
from chainedgp.inference import update
from chainedgp.likelihoods import Bernoulli, Beta, Gaussian, HetGaussian, Poisson, WeibullSurvival


def simulated(n, rng):
    X = rng.uniform(-3.0, 3.0, (n, 1))
    f, g = np.sin(2.0 * X[:, 0]), -1.0 + 0.7 * np.cos(X[:, 0])
    return X, f + np.exp(0.5 * g) * rng.standard_normal(n)


def fitted(X, y, likelihood=None, metadata=None, num_inducing=8, **kw):
    m = cgp.ChainedGP(
        X, y, likelihood or HetGaussian(), Y_metadata=metadata, num_inducing=num_inducing, **kw
    )
    m.optimize(max_iters=5)
    m.optimize(only="variational")
    return m


def full_loop(m, X, y, metadata=None):
    """The bound of a copy whose q is found with all rows."""
    other = m.copy()
    other.set_data(X, y, metadata)
    other.optimize(only="variational")
    return other


@pytest.fixture
def quiet():
    """Fits of a few iterations warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("posterior", ["mean_field", "joint"])
def test_few_rows_agree_with_a_full_inner_loop(quiet, posterior):
    X, y = simulated(150, np.random.default_rng(0))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    m = fitted(X[:140], y[:140], metadata={"weights": weights[:140]}, posterior=posterior)
    values = [np.array(leaf) for leaf in m._parts.leaves[:-2]]
    told = m.update(X[140:], y[140:], {"weights": weights[140:]}, tolerance=1e-6)
    other = full_loop(m, X, y, {"weights": weights})
    assert told.converged and told.num_rows == 10 and m.X.shape == (150, 1)
    assert "10 rows were added" in str(told)
    assert abs(m.log_likelihood() - other.log_likelihood()) < 1e-5
    np.testing.assert_allclose(m.predict(X)[0], other.predict(X)[0], atol=1e-3)
    kept = [np.array(leaf) for leaf in m._parts.leaves[:-2]]  # All but those of q.
    assert all(map(np.array_equal, values, kept))


@pytest.mark.parametrize("kind", [HetGaussian, Beta])
def test_many_rows_are_not_seen_again(quiet, kind):
    rng = np.random.default_rng(2)
    X, y = simulated(6020, rng)
    y = y if kind is HetGaussian else np.clip(rng.beta(np.exp(0.5 * y + 1.0), 2.0), 1e-6, 1 - 1e-6)
    m = fitted(X[:6000], y[:6000], kind())
    before = m.problem.counts[0]
    told = m.update(X[6000:], y[6000:])
    assert told.sweeps == 0 and told.sampled == 500 and told.converged
    assert m.problem.counts[0] == 0 < before  # No pass over all rows.
    other = full_loop(m, X, y)
    gap = other.log_likelihood() - m.log_likelihood()
    assert -1e-6 < gap < 1e-3
    # The sites of old and new rows sum up to q.
    evaluator = m.problem.evaluator
    m.problem.set_hyperparameters()
    for part, own in zip(evaluator.gaussians(evaluator.gram()), m._parts.q(), strict=True):
        np.testing.assert_allclose(part.mu, own.mu, atol=1e-6)
        np.testing.assert_allclose(part.S, own.S, atol=1e-7)
    old = m.log_likelihood()
    m.optimize(max_iters=3)
    assert m.log_likelihood() > old


def test_rows_that_contradict_take_steps_over_all(quiet):
    X, y = simulated(4100, np.random.default_rng(3))
    y[4000:] += 3.0
    m = fitted(X[:4000], y[:4000])
    told = m.update(X[4000:], y[4000:])
    assert told.sweeps > 0 and told.sampled == 0
    gap = full_loop(m, X, y).log_likelihood() - m.log_likelihood()
    assert -1e-6 < gap < 2e-3


def test_the_bound_beside_sites_is_exact_for_a_gaussian_noise(quiet, monkeypatch):
    """Its sites do not depend on q, so that old ones are never out of date."""
    X, y = simulated(400, np.random.default_rng(4))
    m = fitted(X[:200], y[:200], Gaussian())
    monkeypatch.setattr(update, "SAMPLES", (48,))
    told = m.update(X[200:], y[200:])
    assert told.sweeps == 0 and told.gap < 1e-8
    gap = full_loop(m, X, y).log_likelihood() - m.log_likelihood()
    assert abs(gap) < 1e-6


def test_a_model_that_was_never_fitted_sees_all_rows(quiet):
    X, y = simulated(60, np.random.default_rng(5))
    m = cgp.ChainedGP(X[:50], y[:50], HetGaussian(), num_inducing=8)
    told = m.update(X[50:], y[50:])
    assert told.steps == 0 and told.sweeps > 0 and told.converged


def test_repeated_targets_are_found_among_all_rows(quiet):
    X, y = simulated(120, np.random.default_rng(6))
    y = np.round(y, 1)
    m = fitted(X[:100], y[:100])
    m.update(X[100:], y[100:])
    other = full_loop(m, X, y)
    assert m._ties.num_values == other._ties.num_values
    assert abs(m.log_likelihood() - other.log_likelihood()) < 1e-3


def test_updated_models_are_stored(quiet, tmp_path):
    X, y = simulated(90, np.random.default_rng(7))
    m = fitted(X[:80], y[:80])
    m.update(X[80:], y[80:])
    m.save(tmp_path / "m.cgp")
    again = cgp.load(tmp_path / "m.cgp")
    assert again.X.shape == (90, 1)
    assert again.log_likelihood() == pytest.approx(m.log_likelihood(), abs=1e-9)
    again.update(X[:3], y[:3])
    assert again.X.shape == (93, 1)
    m.save(tmp_path / "bare.cgp", data=False)
    with pytest.raises(InputError, match="saved without its data"):
        cgp.load(tmp_path / "bare.cgp").update(X[:3], y[:3])


def test_frames_and_classes(quiet):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(8)
    frame = pandas.DataFrame({"dose": rng.normal(size=60), "age": rng.normal(size=60)})
    labels = np.where(frame["dose"] + rng.normal(size=60) > 0.0, "yes", "no")
    m = fitted(frame[:50], labels[:50], Bernoulli())
    m.update(frame[50:], labels[50:])
    assert m.X.shape == (60, 2) and m.class_names == ("no", "yes")
    assert set(m.Y[50:, 0]) <= {0.0, 1.0}
    with pytest.raises(InputError, match="perhaps"):
        m.update(frame[50:], ["perhaps"] * 10)
    with pytest.raises(InputError, match="dose"):
        m.update(frame[50:].rename(columns={"dose": "weight"}), labels[50:])
    with pytest.raises(InputError, match="3 columns"):
        m.update(np.zeros((2, 3)), ["no", "yes"])
    assert m.X.shape == (60, 2)


def test_metadata_must_be_those_of_the_old_rows(quiet):
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(40, 1)), rng.weibull(2.0, 40)
    m = fitted(X[:30], y[:30], WeibullSurvival(), {"censored": np.zeros(30)})
    with pytest.raises(InputError, match="new rows have no Y_metadata 'censored'"):
        m.update(X[30:], y[30:])
    m.update(X[30:], y[30:], {"censored": 1, "weights": 2.0})
    assert m.Y_metadata["censored"].tolist() == [0.0] * 30 + [1.0] * 10
    assert m.Y_metadata["weights"].tolist() == [1.0] * 30 + [2.0] * 10
    m.update(X[:2], y[:2], {"censored": 0})
    assert m.Y_metadata["weights"][-2:].tolist() == [1.0, 1.0]
    m = fitted(X[:30], rng.poisson(3.0, 30), Poisson())
    with pytest.raises(InputError, match="old rows have no Y_metadata 'exposure'"):
        m.update(X[:2], [1, 2], {"exposure": 2.0})


def test_an_interrupted_update_leaves_the_model_as_it_was(quiet, monkeypatch):
    X, y = simulated(40, np.random.default_rng(12))
    m = fitted(X, y)
    bound, before = m.log_likelihood(), m.param_array.copy()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    # By then the new rows alone have moved q.
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(update, "_over_all_rows", interrupted)
        m.update(X[:5], y[:5] + 3.0)
    assert m.X.shape == (40, 1)
    np.testing.assert_array_equal(m.param_array, before)
    assert m.log_likelihood() == bound


def test_what_update_cannot_do_is_told(quiet, tmp_path, monkeypatch):
    X, y = simulated(40, np.random.default_rng(10))
    m = fitted(X, y)
    bound = m.log_likelihood()
    for tolerance in (0.0, -1.0, "much"):
        with pytest.raises(InputError, match="tolerance"):
            m.update(X[:2], y[:2], tolerance=tolerance)
    with pytest.raises(InputError, match="Ynew has 1 missing value"):
        m.update(X[:2], [1.0, np.nan])
    m.copy().update(X[:2], [1.0, np.nan], missing="drop")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(update, "find_q", interrupted)
        m.update(X[:2], y[:2])
    assert m.X.shape == (40, 1) and m.log_likelihood() == bound
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.raises(InputError, match="memmap"):
        m.update(on_disk, y)
    other = fitted(on_disk, y)
    with pytest.raises(InputError, match="the model's rows are in a memmap"):
        other.update(X[:2], y[:2])
    with pytest.raises(InputError, match="Dask"):
        dask = pytest.importorskip("dask.array")
        m.update(dask.from_array(X, chunks=20), y)


def test_one_row_and_one_step_are_singular():
    one, two = (str(update.Update(k, k, 0, 1e-9, 0, True)) for k in (1, 2))
    assert one.startswith("1 row was added, with 1 natural-gradient step over")
    assert two.startswith("2 rows were added, with 2 natural-gradient steps over")
