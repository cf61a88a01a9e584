"""Classes: probabilities, the class decided for, labels, frames, files and figures."""

import json
import warnings
import zipfile
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm

import chainedgp as cgp
from chainedgp.baselines import LaplaceGP
from chainedgp.data.labels import class_names_of, coded
from chainedgp.errors import ChainedGPWarning, InputError
from chainedgp.likelihoods import Bernoulli, HetGaussian, HetProbit, Ordinal, Softmax

matplotlib.use("Agg")
rng = np.random.default_rng(3)
N = 40
X = rng.uniform(-2, 2, size=(N, 1))
CODES = np.digitize(X[:, 0] + 0.4 * rng.normal(size=N), [-0.7, 0.8])
LABELS = np.array(["low", "mid", "up"])[CODES]  # sorted text keeps this order
LIKELIHOODS = {
    "Bernoulli": (Bernoulli(), CODES > 0),
    "HetProbit": (HetProbit(), CODES > 0),
    "Softmax": (Softmax(3), CODES),
    "Softmax with a constant": (Softmax(3).with_constant("logit_3", 0.0), CODES),
    "Ordinal": (Ordinal(3), CODES),
}


def fitted(likelihood, y, inputs=X):
    m = cgp.ChainedGP(inputs, y, likelihood, num_inducing=5)
    m.optimize(only="variational", messages=False)
    return m


@pytest.fixture(scope="module")
def model():
    return fitted(Softmax(3), pd.Series(LABELS, name="size"), pd.DataFrame({"x": X[:, 0]}))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_probabilities_are_those_of_the_classes_and_sum_to_one(name):
    likelihood, y = LIKELIHOODS[name]
    m = fitted(likelihood, np.asarray(y, dtype=float))
    p, K = m.predict_proba(X[:6]), len(np.unique(y))
    assert isinstance(p, np.ndarray) and p.shape == (6, K)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    np.testing.assert_allclose(p, m.predict_density(X[:6], np.arange(K)), atol=1e-5)
    # An independent oracle: shares of the classes at many draws of the latents from q.
    means, covariances = m.predict_latents(X[:6], cross_cov=True)
    for i in (0, 5):
        at = dict(mean=means[i], cov=covariances[i], allow_singular=True)
        draws = multivariate_normal(**at).rvs(40_000, random_state=1).reshape(40_000, -1).T
        if name == "Bernoulli":
            chance = [expit(-draws[0]), expit(draws[0])]
        elif name == "HetProbit":
            chance = [ndtr(s * draws[0] * np.exp(-0.5 * draws[1])) for s in (-1, 1)]
        elif name == "Ordinal":
            cuts = np.cumsum([m.likelihood.cutpoint[0], m.likelihood.gap_1[0]])
            below = [0.0, *(expit(c - draws[0]) for c in cuts), 1.0]
            chance = [b - a for a, b in pairwise(below)]
        else:
            logits = np.vstack([draws, np.zeros(40_000)])[:3]
            chance = np.exp(logits) / np.exp(logits).sum(axis=0)
        np.testing.assert_allclose(p[i], [np.mean(c) for c in chance], atol=0.01)


def test_probability_of_a_bernoulli_against_an_integral():
    m = fitted(Bernoulli(), (CODES > 0).astype(float))
    mean, variance = m.predict_latents(X[:1])
    law = norm(mean[0, 0], np.sqrt(variance[0, 0]))
    expected = quad(lambda f: expit(f) * law.pdf(f), *law.interval(1 - 1e-14), epsabs=1e-12)[0]
    np.testing.assert_allclose(m.predict_proba(X[:1])[0, 1], expected, rtol=1e-6)


def test_probabilities_of_numbers_are_an_error():
    m = cgp.ChainedGP(X, X[:, 0], HetGaussian(), num_inducing=4)
    with pytest.raises(InputError, match=r"predict_proba is for classes.*HetGaussian.*Softmax"):
        m.predict_proba(X)


def test_text_labels_are_codes_with_names(model):
    assert model.class_names == ("low", "mid", "up")
    np.testing.assert_array_equal(model.Y[:, 0], CODES)
    same = fitted(Softmax(3), CODES.astype(float))
    assert same.class_names is None and same.log_likelihood() == model.log_likelihood()
    new = pd.DataFrame({"x": [-1.0, 0.0, 1.0]}, index=["a", "b", "c"])
    p = model.predict_proba(new)
    assert list(p.columns) == ["low", "mid", "up"] and list(p.index) == ["a", "b", "c"]
    np.testing.assert_array_equal(p.to_numpy(), same.predict_proba(new.to_numpy()))
    # Labels of new rows are understood, and those that are unknown refused.
    one = model.log_predictive_density(new, ["low", "mid", "up"])
    np.testing.assert_allclose(np.exp(one[:, 0]), np.diag(p), rtol=1e-5)
    with pytest.raises(InputError, match=r"Ynew has labels that are no class.*'huge'.*'low'"):
        model.log_predictive_density(new, ["low", "mid", "huge"])
    assert "low, mid, up" in str(model.summary())
    assert model.copy().class_names == model.class_names


def test_frames_show_probabilities_and_the_class_and_no_mean(model):
    pl = pytest.importorskip("polars")
    new = pd.DataFrame({"x": [-1.8, 1.8]}, index=[7, 9])
    table = model.predict_frame(new)
    assert list(table.columns) == ["class", "P(low)", "P(mid)", "P(up)"]
    assert list(table["class"]) == ["low", "up"] and list(table.index) == [7, 9]
    np.testing.assert_array_equal(table.to_numpy()[:, 1:], model.predict_proba(new).to_numpy())
    theirs = model.predict_frame(pl.DataFrame({"x": [-1.8, 1.8]}))
    assert isinstance(theirs, pl.DataFrame) and theirs["class"].to_list() == ["low", "up"]
    plain = fitted(Bernoulli(), (CODES > 0).astype(float)).predict_frame(np.array([-1.8, 1.8]))
    assert list(plain.columns) == ["class", "P(0)", "P(1)"] and list(plain["class"]) == [0, 1]
    laplace = LaplaceGP(X, (CODES > 0).astype(float), Bernoulli())
    assert "mean" not in laplace.predict_frame(X[:2])


@pytest.mark.long
def test_averages_over_hyperparameters_have_classes_too(model):
    around = model.over_hyperparameters(size=10)
    p = around.predict_proba(X[:4])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    assert list(around.predict_frame(X[:4]).columns) == ["class", "P(low)", "P(mid)", "P(up)"]


def test_what_counts_as_labels_and_in_which_order():
    pl = pytest.importorskip("polars")
    text = ["b", "a", None, "b"]
    enum = pl.Series(text, dtype=pl.Enum(["b", "a"]))
    for Y, names in (
        (text, ("a", "b")),
        (np.array(["b", "a"]), ("a", "b")),
        (pd.Series(text), ("a", "b")),
        (pd.DataFrame({"y": text}), ("a", "b")),
        (pd.Categorical(text, categories=["b", "a"]), ("b", "a")),
        (pd.Series(pd.Categorical([2, 1], categories=[2, 1])), ("2", "1")),
        (pd.Series(text, dtype="category"), ("a", "b")),
        (pl.Series(text), ("a", "b")),
        (pl.Series(text, dtype=pl.Categorical), ("a", "b")),
        (enum, ("b", "a")),
    ):
        assert class_names_of(Y, 2, False, "Bernoulli") == names
        codes = coded(Y, names, "Y")
        if len(codes) == 4:
            expected = [names.index("b"), names.index("a"), np.nan, names.index("b")]
            np.testing.assert_array_equal(codes, expected)
    for numbers in ([0, 1], np.array([True, False]), pd.Series([0.0, 1.0])):
        assert class_names_of(numbers, 2, False, "Bernoulli") is None
        assert coded(numbers, ("a", "b"), "Y") is numbers
    assert class_names_of(text, None, False, "HetGaussian") is None
    # A category without rows is a class where there is one for it.
    assert class_names_of(pd.Categorical(["a"], ["a", "b"]), 2, False, "Bernoulli") == ("a", "b")
    assert class_names_of(pd.Categorical(["a", "b"], list("abc")), 2, False, "B") == ("a", "b")


def test_labels_that_do_not_fit_the_likelihood_are_errors():
    with pytest.raises(InputError, match=r"Y has 3 classes \('low', 'mid', 'up'\); Bernoulli is"):
        cgp.ChainedGP(X, LABELS, Bernoulli())
    with pytest.raises(InputError, match=r"without an order, which Ordinal needs.*ordered=True"):
        cgp.ChainedGP(X, LABELS, Ordinal(3))
    ordered = pd.Categorical(LABELS, ["up", "low", "mid"], ordered=True)
    assert cgp.ChainedGP(X, ordered, Ordinal(3)).class_names == ("up", "low", "mid")
    some = LABELS.astype(object)
    some[3] = None
    with pytest.raises(InputError, match=r"Y has 1 missing value"):
        cgp.ChainedGP(X, some, Softmax(3))
    assert len(cgp.ChainedGP(X, some, Softmax(3), missing="drop").Y) == N - 1
    with pytest.raises(InputError, match=r"numbers"):
        cgp.ChainedGP(X, LABELS, HetGaussian())


def test_class_names_are_kept_in_files(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    again = cgp.load(path)
    assert again.class_names == ("low", "mid", "up")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.set_data(pd.DataFrame({"x": [0.0, 1.0]}), ["up", "low"])
    np.testing.assert_array_equal(again.Y[:, 0], [2, 0])
    # A model of codes is stored as before, and a header without names is one of codes.
    fitted(Bernoulli(), (CODES > 0).astype(float)).save(path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(np.load(archive.open("header.npy")).tobytes())
    assert "class_names" not in header and cgp.load(path).class_names is None


def test_figures_show_probabilities_of_named_classes(model):
    ax = model.plot(num=20)
    assert ax.get_ylabel() == "probability"
    assert [line.get_label() for line in ax.lines[:3]] == ["size = low", "size = mid", "size = up"]
    grid = ax.lines[0].get_xdata()[:, None]
    drawn = np.array([line.get_ydata() for line in ax.lines[:3]]).T
    np.testing.assert_allclose(drawn, model.predict_proba(grid), atol=1e-12)
    two = np.column_stack([X, rng.normal(size=N)])
    m = cgp.ChainedGP(two, LABELS, Softmax(3), num_inducing=5)
    ax = m.plot(num=8)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["y = low", "y = mid", "y = up"]
    assert ax.images[0].get_array().shape == (8, 8, 3)
    assert "P(y = mid)" in [a.get_ylabel() for a in m.plot(what="mid", num=8).figure.axes]
    binary = cgp.ChainedGP(two, np.where(CODES > 0, "yes", "no"), Bernoulli(), num_inducing=5)
    assert "P(y = yes)" in [a.get_ylabel() for a in binary.plot(num=8).figure.axes]
    one = cgp.ChainedGP(X, np.where(CODES > 0, "yes", "no"), HetProbit(), num_inducing=5)
    assert one.plot(num=8).get_ylabel() == "P(y = yes)"
    matplotlib.pyplot.close("all")


# ---- scores of labels, and classes that have no mean ---------------------------------------------


def three_classes(n=45):
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    codes = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(n), [-0.7, 0.7])
    return X, codes, np.array(["ash", "birch", "cedar"])[codes]


def quick(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainedGPWarning)
        model.optimize(messages=False, max_iters=2)


@pytest.mark.parametrize("likelihood", [Softmax(3), Ordinal(3)], ids=["Softmax", "Ordinal"])
def test_several_classes_have_no_mean(likelihood):
    X, codes, _ = three_classes()
    m = cgp.ChainedGP(X, codes, likelihood, num_inducing=4, posterior="mean_field")
    quick(m)
    with pytest.raises(InputError, match=r"3 classes, whose codes have no mean.*predict_proba"):
        m.predict(X)
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1.0, atol=1e-9)


def test_scores_of_labels():
    """Metrics and cross-validation take the labels, and give what codes give."""
    X, codes, labels = three_classes()
    m = cgp.ChainedGP(X, labels, Softmax(3), num_inducing=4, posterior="mean_field")
    quick(m)
    p = m.predictive(X)
    assert cgp.metrics.nlpd(p, labels) == cgp.metrics.nlpd(p, codes)
    expected = -np.mean(np.log(m.predict_proba(X)[np.arange(45), codes]))
    assert cgp.metrics.nlpd(p, labels) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(InputError, match="y has labels that are no class of the model: 'oak'"):
        cgp.metrics.nlpd(p, ["oak", *labels[1:]])

    def make(X, Y):
        options = {"num_inducing": 4, "num_threads": 1, "posterior": "mean_field"}
        return cgp.ChainedGP(X, Y, Softmax(3), **options)

    names = ["rows", "nlpd", "accuracy", "brier", "seconds"]
    tables = [
        cgp.cross_validate(make, X, Y, 3, fit=quick, num_threads=1)
        for Y in (
            codes,
            labels,
            list(labels),
            pd.Series(labels, dtype="category"),
            pd.Categorical(labels),
            pd.DataFrame({"tree": labels}),
        )
    ]
    for table in tables:
        assert list(table.columns) == names
        for name in names[:-1]:
            np.testing.assert_allclose(table[name], tables[0][name], rtol=1e-10)
    held = np.sort(np.array_split(np.random.default_rng(0).permutation(45), 3)[0])
    rest = np.setdiff1d(np.arange(45), held)
    one = make(X[rest], codes[rest])
    quick(one)
    p = one.predict_proba(X[held])
    truth = np.eye(3)[codes[held]]
    assert tables[0]["accuracy"][0] == np.mean(p.argmax(1) == codes[held])
    assert tables[0]["brier"][0] == pytest.approx(np.mean(((p - truth) ** 2).sum(1)), rel=1e-6)


def test_cross_validation_of_two_labels_and_a_table():
    X, codes, _ = three_classes()
    table = pd.DataFrame({"x": X[:, 0], "soil": np.resize(["clay", "sand"], 45)})
    labels = np.where(codes > 0, "yes", "no")
    found = cgp.cross_validate(
        lambda X, Y: cgp.ChainedGP(X, Y, Bernoulli(), num_inducing=5, num_threads=1),
        table,
        labels,
        2,
        fit=quick,
        num_threads=1,
    )
    assert found["accuracy"].mean() > 0.7 and np.isfinite(found.log_density).all()
