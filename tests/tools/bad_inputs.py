"""Bad inputs, and what each message must name: for `test_bad_input` and docs/errors.md."""

from __future__ import annotations

import numpy as np
from cases import K, L, M, OffsetLogistic, inputs

import chainedgp as cgp
from chainedgp.errors import InputError
from chainedgp.likelihoods import Likelihood

N = 20
X = inputs(N)
Y = np.sin(X[:, 0])


def changed(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


def build(**keywords):
    arguments = {"X": X, "Y": Y, "likelihood": L.HetGaussian(), "num_inducing": 4, **keywords}
    return cgp.ChainedGP(arguments.pop("X"), arguments.pop("Y"), **arguments)


# arguments, and what the message must name: the argument, and the remedy or what was expected
BAD = {
    # X
    "X has three dimensions": ({"X": np.zeros((N, 2, 1))}, ["X", "shape"]),
    "X is a scalar": ({"X": 3.0}, ["X", "shape"]),
    "X is empty": ({"X": np.zeros((0, 2)), "Y": []}, ["X", "empty"]),
    "X has no columns": ({"X": np.zeros((N, 0))}, ["X", "empty"]),
    "X has NaN": ({"X": changed(X, (3, 1), np.nan)}, ["X", "3, 1", "NaN"]),
    "X has inf": ({"X": changed(X, (5, 0), np.inf)}, ["X", "5, 0", "infinite"]),
    "X is text": ({"X": [["a", "b"]] * N}, ["X", "numbers"]),
    "X is ragged": ({"X": [[1.0, 2.0]] * (N - 1) + [[1.0]]}, ["X", "equal length"]),
    "X is complex": ({"X": X + 1j}, ["X", "complex"]),
    "X is None": ({"X": None}, ["X"]),
    "X is masked": ({"X": np.ma.masked_greater(X, 1.0)}, ["X", "masked", "filled"]),
    "X has dates": (
        {"X": np.datetime64("2020-01-01") + np.arange(N)},
        ["X", "dates", "timedelta64"],
    ),
    # Y
    "Y is short": ({"Y": Y[:-1]}, ["Y", "19", "20"]),
    "Y has two columns": ({"Y": np.c_[Y, Y]}, ["Y", "one model per output"]),
    "Y is a row": ({"Y": Y[None]}, ["Y", "(1, 20)", "Y.T"]),
    "Y has NaN": ({"Y": changed(Y, 7, np.nan)}, ["Y", "row 7", "drop"]),
    "Y has inf": ({"Y": changed(Y, 7, -np.inf)}, ["Y", "7", "infinite"]),
    "Y is masked": ({"Y": np.ma.masked_less(Y, 0.0)}, ["Y", "masked", "filled"]),
    "Y is text": ({"Y": ["yes", "no"] * 10}, ["Y", "numbers", "0 and 1"]),
    "Y negative for Beta": ({"likelihood": L.Beta(), "Y": changed(0.5 + 0 * Y, 4, -0.1)}, ["4"]),
    "Y is 1 for Beta": ({"likelihood": L.Beta(), "Y": changed(0.5 + 0 * Y, 4, 1.0)}, ["4"]),
    "Y is 0 for times": (
        {"likelihood": L.LogLogisticSurvival(), "Y": changed(1.0 + 0 * Y, 6, 0.0)},
        ["6", "positive", "censored", "Inflated"],
    ),
    "Y is 0 for HetGamma": (
        {"likelihood": L.HetGamma(), "Y": changed(1.0 + 0 * Y, 6, 0.0)},
        ["6", "positive", "zeros use Inflated", "negative numbers"],
    ),
    "Y is no count": ({"likelihood": L.AdditivePoisson(), "Y": changed(0 * Y, 2, 0.5)}, ["2"]),
    "Y is a negative count": ({"likelihood": L.Poisson(), "Y": changed(0 * Y, 2, -1)}, ["2"]),
    "Y is not binary": ({"likelihood": L.Bernoulli(), "Y": changed(0 * Y, 9, 2.0)}, ["9"]),
    # likelihood
    "likelihood is a class": ({"likelihood": L.HetGaussian}, ["likelihood", "HetGaussian()"]),
    "likelihood is a name": ({"likelihood": "gaussian"}, ["likelihood", "gaussian", "HetGaussian"]),
    "likelihood is None": ({"likelihood": None}, ["likelihood"]),
    # kernels
    "three kernels": ({"kernels": [K.RBF(2)] * 3}, ["kernels", "3", "2 latents"]),
    "one kernel in a list": ({"kernels": [K.RBF(2)]}, ["kernels", "1", "2 latents"]),
    "no kernel": ({"kernels": []}, ["kernels", "0", "2 latents"]),
    "kernel is a name": ({"kernels": "rbf"}, ["kernel"]),
    "kernel is a class": ({"kernels": K.RBF}, ["kernel"]),
    "kernel of wrong dimension": ({"kernels": K.RBF(3)}, ["3", "2"]),
    "kernel beyond the columns": ({"kernels": K.RBF(1, active_dims=[2])}, ["active_dims", "2"]),
    # means
    "three means": ({"mean_functions": [M.Zero()] * 3}, ["mean_functions", "3", "2 latents"]),
    "mean is a number": ({"mean_functions": 0.0}, ["mean_functions", "Constant"]),
    "mean of wrong dimension": ({"mean_functions": M.Linear(3)}, ["3", "2"]),
    # Z and num_inducing
    "Z of wrong width": ({"Z": np.zeros((4, 3))}, ["Z", "3 columns", "2"]),
    "Z has NaN": ({"Z": changed(X[:4], (1, 1), np.nan)}, ["Z", "1, 1"]),
    "Z is empty": ({"Z": np.zeros((0, 2))}, ["Z", "empty"]),
    "three Z for two latents": ({"Z": [X[:4], X[:5], X[:3]]}, ["Z"]),
    "one of Z of wrong width": ({"Z": [X[:4], np.zeros((4, 3))]}, ["Z[1]", "3 columns"]),
    "num_inducing is 0": ({"num_inducing": 0}, ["num_inducing", "at least 1"]),
    "num_inducing is negative": ({"num_inducing": -3}, ["num_inducing", "-3"]),
    "num_inducing is a fraction": ({"num_inducing": 4.5}, ["num_inducing", "4.5"]),
    "num_inducing is True": ({"num_inducing": True}, ["num_inducing"]),
    "num_inducing is a name": ({"num_inducing": "ten"}, ["num_inducing", "ten"]),
    # metadata
    "metadata is a list": ({"Y_metadata": [1.0] * N}, ["Y_metadata", "dict"]),
    "metadata unknown": ({"Y_metadata": {"trials": 1.0}}, ["Y_metadata", "trials", "weights"]),
    "metadata misspelt": (
        {"likelihood": L.LogLogisticSurvival(), "Y": 1.0 + 0 * Y, "Y_metadata": {"censord": 0.0}},
        ["censord", "censored"],
    ),
    "metadata short": (
        {"likelihood": L.LogLogisticSurvival(), "Y": 1.0 + 0 * Y, "Y_metadata": {"censored": [1]}},
        ["censored", "20"],
    ),
    "metadata missing": ({"likelihood": OffsetLogistic()}, ["Y_metadata", "offset"]),
    "metadata has NaN": (
        {"likelihood": OffsetLogistic(), "Y_metadata": {"offset": changed(Y, 3, np.nan)}},
        ["offset", "3"],
    ),
    "metadata is text": (
        {"likelihood": OffsetLogistic(), "Y_metadata": {"offset": ["a"] * N}},
        ["offset", "numbers"],
    ),
    "weights short": ({"Y_metadata": {"weights": np.ones(3)}}, ["weights", "20"]),
    "weights all 0": ({"Y_metadata": {"weights": np.zeros(N)}}, ["weights", "all rows"]),
    "weights negative": ({"Y_metadata": {"weights": changed(np.ones(N), 8, -1)}}, ["weights", "8"]),
    "exposure is negative": (
        {"likelihood": L.Poisson(), "Y": 1.0 + 0 * Y, "Y_metadata": {"exposure": changed(Y, 3, 0)}},
        ["exposure", "positive", "logarithm"],
    ),
    "entry after the time": (
        {
            "likelihood": L.LogLogisticSurvival(),
            "Y": 1.0 + 0 * Y,
            "Y_metadata": {"entry": changed(0.5 + 0 * Y, 4, 2.0)},
        },
        ["1 of 20 rows", "entry = 2", "row 4"],
    ),
    "interval that ends before it begins": (
        {
            "likelihood": L.WeibullSurvival(),
            "Y": 1.0 + 0 * Y,
            "Y_metadata": {"censored": 2.0, "y_upper": changed(3.0 + 0 * Y, 4, 1.0)},
        },
        ["y_upper", "row 4"],
    ),
    "more successes than trials": (
        {"likelihood": L.Binomial(), "Y": changed(0 * Y, 4, 3.0), "Y_metadata": {"trials": 2}},
        ["1 of 20 rows", "trials", "row 4", "Y = 3"],
    ),
    "trials that are no whole numbers": (
        {"likelihood": L.Binomial(), "Y": 0 * Y, "Y_metadata": {"trials": 2.5}},
        ["20 of 20 rows", "trials", "whole"],
    ),
    # constants
    "jitter is 0": ({"jitter": 0.0}, ["jitter", "between"]),
    "jitter is negative": ({"jitter": -1e-6}, ["jitter"]),
    "jitter is NaN": ({"jitter": np.nan}, ["jitter"]),
    "jitter is large": ({"jitter": 1.0}, ["jitter"]),
    "jitter is a name": ({"jitter": "small"}, ["jitter", "small"]),
    "num_nodes is 0": ({"num_nodes": 0}, ["num_nodes", "at least 1"]),
    "posterior is unknown": (
        {"posterior": "full"},
        ["posterior", "'auto'", "'mean_field'", "'joint'", "'full'"],
    ),
    "num_threads is 0": ({"num_threads": 0}, ["num_threads", "at least 1"]),
    "ties are unknown": ({"ties": "some"}, ["ties", "'auto'", "'spread'"]),
    "priors are unknown": ({"priors": "weak"}, ["priors", "'auto'", "'default'"]),
    "missing is unknown": ({"missing": "impute"}, ["missing", "'raise'", "'drop'"]),
    "all Y missing": ({"Y": np.full(N, np.nan), "missing": "drop"}, ["Y", "NaN"]),
    # names
    "name has a blank": ({"name": "my model"}, ["name", "identifier"]),
    "name is Greek": ({"name": "σ"}, ["name", "identifier"]),
    "name is a number": ({"name": 3}, ["name"]),
    # the same mistakes are as clear when rows are dropped
    "drop: Y is short": ({"Y": Y[:-1], "missing": "drop"}, ["Y", "19", "20"]),
    "drop: Y has two columns": ({"Y": np.c_[Y, Y], "missing": "drop"}, ["Y"]),
    "drop: Y is text": ({"Y": ["a"] * N, "missing": "drop"}, ["Y", "numbers"]),
    "drop: X is text": ({"X": [["a", "b"]] * N, "missing": "drop"}, ["X", "numbers"]),
    "drop: weights short": (
        {"Y_metadata": {"weights": np.ones(3)}, "missing": "drop"},
        ["weights", "20"],
    ),
    "drop: metadata is a list": ({"Y_metadata": [1.0], "missing": "drop"}, ["Y_metadata", "dict"]),
}


# ---- methods of a model: refused, and the model is as it was ----

CALLS = {
    "unknown method": (lambda m: m.optimize("adamm"), ["method", "profile", "lbfgsb"]),
    "part of a method's name": (lambda m: m.optimize("prof"), ["method", "profile"]),
    "method is a number": (lambda m: m.optimize(3), ["method", "profile"]),
    "method and optimizer": (
        lambda m: m.optimize("lbfgsb", optimizer="lbfgsb"),
        ["method", "optimizer"],
    ),
    "unknown only": (lambda m: m.optimize(only="q"), ["only", "variational"]),
    "no iterations": (lambda m: m.optimize(max_iters=0), ["max_iters", "at least 1"]),
    "no tolerance": (lambda m: m.optimize(tolerance=0.0), ["tolerance", "positive"]),
    "half an iteration": (lambda m: m.optimize(max_iters=2.5), ["max_iters"]),
    "no row held out": (lambda m: m.optimize("adam", holdout=0.001), ["holdout", "20 rows"]),
    "all rows held out": (lambda m: m.optimize("adam", holdout=0.999), ["holdout", "20 rows"]),
    "epochs without end": (lambda m: m.optimize("adam", epochs=np.inf), ["epochs", "positive"]),
    "learning rate is text": (
        lambda m: m.optimize("adam", learning_rate="a"),
        ["learning_rate", "positive"],
    ),
    "prior without a density there": (
        lambda m: m.set_prior("mean_functions.log_variance.*", cgp.priors.LogNormal()),
        ["LogNormal", "no density", "log_variance", "Normal"],
    ),
    "callback is no function": (lambda m: m.optimize(callback=3), ["callback"]),
    "set_data of wrong width": (lambda m: m.set_data(X[:, :1], Y), ["X", "columns"]),
    "set_data of wrong length": (lambda m: m.set_data(X, Y[:5]), ["Y", "5"]),
    "set_data with NaN": (lambda m: m.set_data(X, changed(Y, 0, np.nan)), ["Y", "NaN"]),
    "set_data with unknown metadata": (lambda m: m.set_data(X, Y, {"a": 1}), ["Y_metadata", "'a'"]),
    "jitter": (lambda m: setattr(m, "jitter", 2.0), ["jitter"]),
    "Xnew of wrong width": (lambda m: m.predict(np.zeros((3, 5))), ["Xnew", "5 columns", "2"]),
    "Xnew with NaN": (lambda m: m.predict_latents([[0.0, np.nan]]), ["Xnew", "0, 1"]),
    "Xnew empty": (lambda m: m.predict(np.zeros((0, 2))), ["Xnew", "empty"]),
    "Xnew text": (lambda m: m.predict([["a", "b"]]), ["Xnew", "numbers"]),
    "Ynew of wrong length": (lambda m: m.log_predictive_density(X, Y[:4]), ["Ynew", "4"]),
    "Ynew with NaN": (lambda m: m.log_predictive_density(X[:1], [np.nan]), ["Ynew", "NaN"]),
    "metadata of a prediction": (lambda m: m.predict(X, {"exposure": 1}), ["exposure"]),
    "metadata is a list": (lambda m: m.predict(X, [1.0]), ["Y_metadata", "dict"]),
    "quantile 0": (lambda m: m.predict_quantiles(X, (0, 50)), ["quantiles", "100"]),
    "quantile 100": (lambda m: m.predict_quantiles(X, (50, 100)), ["quantiles", "100"]),
    "quantile NaN": (lambda m: m.predict_quantiles(X, (np.nan,)), ["quantiles"]),
    "quantile text": (lambda m: m.predict_quantiles(X, "median"), ["quantiles", "median"]),
    "no quantiles": (lambda m: m.predict_quantiles(X, ()), ["quantiles"]),
    "quantiles of a frame are text": (lambda m: m.predict_frame(X, "a"), ["quantiles", "'a'"]),
    "ppf of text": (lambda m: m.predictive(X).ppf("a"), ["q must be", "'a'"]),
    "interval of text": (lambda m: m.predictive(X).interval("a"), ["level", "'a'"]),
    "ppf of a percentage": (lambda m: m.predictive(X).ppf(50.0), ["between 0 and 1"]),
    "interval of a percentage": (lambda m: m.predictive(X).interval(95), ["level"]),
    "density of text": (lambda m: m.predict_density(X, "a"), ["y"]),
    "density of wrong shape": (lambda m: m.predict_density(X, np.ones((3, 2))), ["y", "shape"]),
    "no samples": (lambda m: m.posterior_samples(X, 0), ["size", "at least 1"]),
    "half a sample": (lambda m: m.posterior_samples_f(X, 1.5), ["size", "1.5"]),
    "rng is a name": (lambda m: m.posterior_samples(X, 2, rng="seed"), ["rng", "str"]),
    "rng is negative": (lambda m: m.posterior_samples(X, 2, rng=-1), ["rng", "-1"]),
    "rng is legacy": (
        lambda m: m.posterior_samples_f(X, 2, rng=np.random.RandomState(0)),
        ["rng", "Generator"],
    ),
    "latent out of range": (lambda m: m.kernels[2], ["latent", "mean, log_variance"]),
    "latent by fraction": (lambda m: m.kernels[0.5], ["latent"]),
    "kernels replaced": (lambda m: setattr(m, "kernels", K.RBF(2)), ["kernels", "new model"]),
    "likelihood replaced": (lambda m: setattr(m, "likelihood", L.Beta()), ["likelihood"]),
    "one kernel replaced": (lambda m: m.kernels.__setitem__(0, K.RBF(2)), ["kernels", "replaced"]),
}


# ---- names a likelihood may not have ----

NAMES = {
    "duplicate latents": ({"latents": ("f", "f")}, ["share a name"]),
    "Greek latent": ({"latents": ("f", "σ")}, ["σ", "letters from a to z"]),
    "latent with a blank": ({"latents": ("f", "log scale")}, ["log scale", "letters from a to z"]),
    "reserved latent": ({"latents": ("f", "size")}, ["size", "taken"]),
    "latent as string": ({"latents": "fg"}, ["latents", "tuple"]),
    "no latents": ({"latents": ()}, ["latents"]),
    "parameter as latent": ({"latents": ("f", "g"), "parameters": {"g": 1.0}}, ["share a name"]),
    "reserved parameter": ({"latents": ("f", "g"), "parameters": {"sample": 1.0}}, ["sample"]),
    "weights as parameter": ({"latents": ("f", "g"), "parameters": {"weights": 1.0}}, ["weights"]),
}


def likelihood_of(attributes):
    """A class with a density and the given attributes."""

    def log_density(self, y, f, g, **kw):
        return -((y - f) ** 2) * np.exp(-g)

    return type("Named", (Likelihood,), {**attributes, "log_density": log_density})


PARTS = {
    "HetStudentT of a parameter it has not": (lambda: L.HetStudentT(df=3.0), ["df", "nu"]),
    "HetStudentT of a number": (lambda: L.HetStudentT(3.0), ["name", "3.0", "keyword"]),
    "HetStudentT of negative nu": (lambda: L.HetStudentT(nu=-1.0), ["nu", "above one"]),
    "HetGaussian of nu": (lambda: L.HetGaussian(nu=3.0), ["nu", "none"]),
    "Softmax of one class": (lambda: L.Softmax(1), ["num_classes", "2"]),
    "constant latent unknown": (
        lambda: L.HetGaussian().with_constant("scale"),
        ["scale", "log_variance"],
    ),
    "inflated twice at 0": (lambda: L.Inflated(L.Poisson(), (0, 0)), ["at", "distinct"]),
    "atom that is no count": (lambda: L.Inflated(L.Poisson(), (0.5,)), ["at", "counts", "0.5"]),
    "atom at a negative time": (
        lambda: L.Inflated(L.WeibullSurvival(), (-1,)),
        ["at", "negative", "WeibullSurvival"],
    ),
    "RBF of no dimension": (lambda: K.RBF(0), ["input_dim", "at least 1"]),
    "RBF of negative variance": (lambda: K.RBF(1, variance=-1.0), ["variance", "positive"]),
    "RBF of three lengthscales": (
        lambda: K.RBF(2, lengthscale=[1, 2, 3], ARD=True),
        ["lengthscale", "3", "input_dim"],
    ),
    "RBF on a column twice": (lambda: K.RBF(2, active_dims=[1, 1]), ["active_dims", "twice"]),
    "kernel plus a number": (lambda: K.RBF(1) + 3.0, ["kernel", "float"]),
    "mean of text": (lambda: M.Constant("zero"), ["value", "numeric"]),
    "prior of a median that is none": (
        lambda: cgp.priors.LogGaussian((1.0, 0.0)),
        ["median", "positive", "0.0"],
    ),
    "prior of negative sd": (lambda: cgp.priors.LogNormal(0.0, -1.0), ["sd", "positive"]),
}


def refusals():
    """(section, what came, a function that is refused, words of the message)."""
    m = build()
    for case, (keywords, words) in BAD.items():
        yield "Building a model", case, lambda keywords=keywords: build(**keywords), words
    for case, (call, words) in CALLS.items():
        yield "Methods of a model", case, lambda call=call: call(m), words
    for case, (attributes, words) in NAMES.items():
        cls = likelihood_of(attributes)
        yield "Names in a likelihood of your own", case, cls, words
    for case, (call, words) in PARTS.items():
        yield "Likelihoods, kernels, means and priors", case, call, words


def message(call):
    """What the error says."""
    try:
        call()
    except InputError as error:
        return str(error)
    raise AssertionError("it was not refused")


HEAD = """# Error messages

Arguments that cannot be used are refused before any work is done, by an `InputError` (a
`ValueError`). Its message says what is wrong with which argument and, where that helps, what was
expected, what was given and what to do. The model stays as it was. These are the exact messages
for {count} bad inputs, in a model of 20 rows, two inputs and the latents `mean` and
`log_variance`; the tests provoke each of them.
"""


def page():
    """docs/errors.md."""
    parts, section, count = [], None, 0
    for title, case, call, _ in refusals():
        if title != section:
            parts.append(f"\n## {title}\n\n| bad input | what the error says |\n|---|---|\n")
            section = title
        text = message(call).replace("|", "\\|")
        parts.append(f"| {case} | {text} |\n")
        count += 1
    return HEAD.format(count=count) + "".join(parts)
