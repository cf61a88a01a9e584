"""Small stumbles of users, each answered in words: names, attributes, what was forgotten."""

import inspect
import pickle
import warnings

import matplotlib
import numpy as np
import pytest

import chainedgp as cgp
from chainedgp.errors import (
    ArgumentError,
    CensoringWarning,
    ConvergenceWarning,
    InputError,
    UnfittedWarning,
)
from chainedgp.kernels import RBF, Linear
from chainedgp.likelihoods import HetGaussian, HetStudentT, StudentT, WeibullSurvival
from chainedgp.predictive import Predictive

matplotlib.use("Agg")
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, size=(25, 1))
Y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=25)


def make(inputs=X, **options):
    return cgp.ChainedGP(inputs, Y, HetGaussian(), num_inducing=5, **options)


NAMES = {
    "kernel": (lambda: make(kernel=RBF(1)), "ChainedGP has no argument 'kernel': write kernels="),
    "mean_function": (lambda: make(mean_function=None), "write mean_functions="),
    "inducing_points": (lambda: make(inducing_points=X[:3]), "write Z="),
    "metadata": (lambda: make(metadata={}), "write Y_metadata="),
    "weights": (lambda: make(weights=np.ones(25)), "give Y_metadata={'weights': …}"),
    "sample_weight": (lambda: make(sample_weight=1), "give Y_metadata={'weights': …}"),
    "num_node": (lambda: make(num_node=3), "write num_nodes="),
    "nothing near": (lambda: make(zebra=3), "has no argument 'zebra': it has X, Y, likelihood"),
    "max_iter": (lambda: make().optimize(max_iter=3), "optimize has no .* write max_iters="),
    "verbose": (lambda: make().optimize(verbose=True), "write messages="),
    "n_restarts": (lambda: make().optimize_restarts(n_restarts=1), "write num_restarts="),
    "df": (lambda: HetStudentT(df=4.0), "has no parameter df; it has nu. For df write nu="),
    "deg_free": (lambda: StudentT(deg_free=4.0), "StudentT has no argument .* write nu="),
    "length_scale": (lambda: RBF(1, length_scale=2.0), "RBF has no argument .* write lengthscale="),
    "center": (lambda: Linear(1, center=2.0), "Linear has no argument .* write centre="),
    "full_cov": (lambda: make().predict(X, full_cov=True), "predict_latents.Xnew, full_cov=True"),
    "return_cov": (lambda: make().predict_frame(X, return_cov=True), "posterior_samples_f"),
    "return_std": (lambda: make().predict(X, return_std=True), "the second .. 0.5"),
    "noise": (lambda: make().predict(X, include_likelihood=False), r"m\.predict_latents\(Xnew\)"),
    "kern": (lambda: make().predict(X, kern=RBF(1)), r"m\.predict_component\(Xnew, latent, part\)"),
    "percentiles": (lambda: make().predict_quantiles(X, percentiles=5), "write quantiles="),
    "samples": (lambda: make().posterior_samples(X, num_samples=5), "write size="),
    "level": (lambda: make().predict_quantiles(X, level=0.9), r"interval\(0\.95\)"),
    "of a figure": (lambda: make().plot(nums=3), "plot has no argument 'nums': write num="),
    "of another figure": (lambda: make().plot(what="sd"), "1 input is plot_fit, .* 'what'"),
}


def test_kernels_are_not_given_by_name():
    words = "kernels is a kernel for all latents, or a list with one for each, .* got a dict"
    with pytest.raises(InputError, match=words):
        make(kernels={"mean": RBF(1), "log_variance": RBF(1)})


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(case):
    call, words = NAMES[case]
    with pytest.raises(ArgumentError, match=words) as found:
        call()
    assert isinstance(found.value, InputError) and isinstance(found.value, TypeError)


def test_signatures_stay_those_of_the_functions():
    assert "kernels" in inspect.signature(cgp.ChainedGP.__init__).parameters
    assert "lengthscale" in inspect.signature(RBF.__init__).parameters
    assert "max_iters" in inspect.signature(make().optimize).parameters


def test_an_unknown_attribute_is_an_error_that_says_what_to_do(tmp_path):
    m = make()
    with pytest.raises(InputError, match=r"'num_inducing'.*constructor.*num_inducing=…"):
        m.num_inducing = 200
    with pytest.raises(InputError, match=r"'num_thread' .* Did you mean 'num_threads'\?"):
        m.num_thread = 2
    with pytest.raises(InputError, match="begin with _ are free"):
        m.zebra = 2
    with pytest.raises(InputError, match=r"'posterior'.*constructor.*posterior=…"):
        m.posterior = "joint"
    with pytest.raises(InputError, match=r"m\.X cannot be set: m.set_data\(X, Y\)"):
        m.X = m.X
    with pytest.raises(InputError, match=r"m\.latents cannot be set"):
        m.latents = ("f",)
    m.save(tmp_path / "m.npz")
    for model in (m, m.copy(), pickle.loads(pickle.dumps(m)), cgp.load(tmp_path / "m.npz")):
        model.num_threads = 1
        model.jitter = 1e-7
        model.target_name = "height"
        model.name = "another"
        model._mine = 3
        model.Z = model.Z.values + 0.01
        model.q_mu[:] = 0.1
        with pytest.raises(InputError, match="zebra"):
            model.zebra = 2
        model.optimize(messages=False, only="variational")
        assert model.last_result is not None

    class Own(cgp.ChainedGP):
        pass

    own = Own(X, Y, HetGaussian(), num_inducing=5)
    own.zebra = 2  # A class of one's own may have what it likes.


def test_predictions_of_a_model_that_was_never_fitted_warn_once():
    m = make()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        m.predict(X[:2])
        m.predict_quantiles(X[:2])
    own = [w for w in found if w.category is UnfittedWarning]
    assert len(own) == 1 and "m.optimize()" in str(own[0].message)
    assert own[0].filename == __file__
    fitted, by_hand = make(), make()
    fitted.optimize(only="variational", messages=False)
    by_hand.q_mu[:] = 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnfittedWarning)
        fitted.predict(X[:2])
        by_hand.predict(X[:2])


def test_plot_shows_its_arguments():
    known = inspect.signature(cgp.ChainedGP.plot).parameters
    assert {"levels", "limits", "num", "data", "legend", "what", "at", "ax"} <= set(known)
    assert all(p.kind is not p.VAR_KEYWORD for p in known.values())
    for function in (cgp.plotting.plot_fit, cgp.plotting.plot_map, cgp.plotting.plot_slice):
        assert set(inspect.signature(function).parameters) - {"model"} <= set(known)
    assert len(make().plot(num=7, data=False).lines[0].get_xdata()) == 7
    matplotlib.pyplot.close("all")


def test_estimators_have_the_iterations_of_a_model_and_warn_in_their_own_words():
    theirs = pytest.importorskip("sklearn.exceptions")
    estimators = pytest.importorskip("chainedgp.sklearn")
    default = inspect.signature(cgp.ChainedGP.optimize).parameters["max_iters"].default
    assert estimators.ChainedGPRegressor().max_iter == default
    with pytest.warns(theirs.ConvergenceWarning, match="larger max_iter=10") as found:
        estimators.ChainedGPRegressor(max_iter=1, num_inducing=5).fit(X, Y)
    assert issubclass(found[0].category, ConvergenceWarning)
    assert "m.optimize" not in str(found[0].message)


def test_times_without_a_word_about_censoring_warn_once():
    def survival(**options):
        return cgp.ChainedGP(X, np.exp(Y), WeibullSurvival(), num_inducing=4, **options)

    m = survival()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            m.optimize(max_iters=1, messages=False, only="variational")
    own = [w for w in found if w.category is CensoringWarning]
    assert len(own) == 1 and 'Y_metadata={"censored": c}' in str(own[0].message)
    assert own[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", CensoringWarning)
        survival(Y_metadata={"censored": 0}).optimize(only="variational", messages=False)
        make().optimize(only="variational", messages=False)


# ---- words of other libraries -------------------------------------------------------------------


def test_events_and_words_among_the_metadata():
    X, y, L = np.arange(1.0, 7.0), np.arange(1.0, 7.0), cgp.likelihoods
    with pytest.raises(InputError, match=r"Here 1 is a row without its event: .*1 - event"):
        cgp.ChainedGP(X, y, L.WeibullSurvival(), Y_metadata={"event": np.ones(6)})
    with pytest.raises(InputError, match=r"log-offset give \{'exposure': exp\(offset\)\}"):
        cgp.ChainedGP(X, y, L.Poisson(), Y_metadata={"offset": np.ones(6)})
    with pytest.raises(
        InputError,
        match=r"numbers; a comparison turns words into numbers, such as 1\.0 \* \(Y_meta",
    ):
        cgp.ChainedGP(X, y, L.WeibullSurvival(), Y_metadata={"censored": ["alive", "dead"] * 3})


def test_competing_risks_of_data_name_their_way():
    from chainedgp.survival import CompetingRisks

    with pytest.raises(InputError, match=r"CompetingRisks\.from_data\(X, Y, cause, likelihood\)"):
        CompetingRisks(np.arange(4.0), np.arange(4.0), np.arange(4))


def test_a_predictive_knows_the_words_of_others():
    p = Predictive(cgp.likelihoods.Poisson(), np.zeros((2, 1)), np.ones((2, 1)))
    np.testing.assert_allclose(p.sf([0.0, 2.0]), 1.0 - p.cdf([0.0, 2.0]))  # as scipy has it
    with pytest.raises(InputError, match="hazard is for survival likelihoods"):
        p.hazard([1.0])
    with pytest.raises(AttributeError, match=r"no 'survival': it is sf\(t\)"):
        p.survival([1.0])
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        p.nonsense  # noqa: B018
    assert pickle.loads(pickle.dumps(p)).mean[0, 0] == p.mean[0, 0]


def test_a_model_knows_the_words_of_others():
    m = cgp.ChainedGP(np.arange(6.0), np.arange(6.0), HetGaussian(), RBF(1) + Linear(1))
    for name, way in (
        ("kern", "kernels, which has one for each latent"),
        ("predict_noiseless", r"predict_latents\(Xnew\)"),
        ("score", r"log_predictive_density\(Xnew, Ynew\)\.mean\(\)"),
        ("rbf", r"m\.kernels\.mean"),
        ("nonsense", "'ChainedGP' object has no attribute 'nonsense'"),
    ):
        with pytest.raises(AttributeError, match=way):
            getattr(m, name)
    assert not hasattr(m, "fit")
    assert pickle.loads(pickle.dumps(m)).log_likelihood() == m.log_likelihood()
    assert m.copy().log_likelihood() == m.log_likelihood()


def test_distributions_of_scipy_ask_for_links():
    L = cgp.likelihoods
    with pytest.raises(InputError, match=r"from_scipy\('gumbel_r', loc='identity', scale='exp'\)"):
        L.ScipyLikelihood("gumbel_r")
    with pytest.raises(InputError, match=r"by keyword: from_scipy\(dist, loc='identity'\)"):
        L.Likelihood.from_scipy("gumbel_r", {"loc": "identity"})


def test_a_name_that_no_library_has_is_python_s_own_error():
    m = cgp.ChainedGP(
        np.linspace(0.0, 1.0, 8), np.zeros(8) + np.arange(8), cgp.likelihoods.Gaussian()
    )
    with pytest.raises(AttributeError, match="'ChainedGP' object has no attribute 'foo'"):
        m.foo  # noqa: B018
    with pytest.raises(AttributeError, match="plot_latents"):
        m.plot_f  # noqa: B018


CALLS = {
    "a score of a model": (lambda m: cgp.metrics.nlpd(m, X, Y), r"too many.*m\.predictive\(Xnew"),
    "a score of a model by name": (lambda m: cgp.metrics.crps(m, Y), r"m\.predictive\(Xnew\)"),
    "two models to compare": (lambda m: cgp.compare(m, m), "compare cannot be called so: .*models"),
    "no likelihood": (lambda m: cgp.ChainedGP(X, Y), "missing a required argument: 'likelihood'"),
    "no rows": (lambda m: m.predict(), "predict cannot be called so: .*'Xnew'"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_too_few_or_too_many_arguments_is_answered(call):
    function, words = CALLS[call]
    with pytest.raises(InputError, match=words):
        function(make())


def test_errors_inside_a_call_stay_what_they_are():
    from chainedgp.data.names import checks_names

    @checks_names
    def inner(x):
        return x + "text"

    with pytest.raises(TypeError, match="unsupported operand") as found:
        inner(1)
    assert not isinstance(found.value, ArgumentError)


def test_a_parameter_set_after_the_fit_is_told_once_until_q_is_found_anew():
    m = make()
    m.optimize(messages=False)
    m.kernels[0].variance[:] = 3.0
    with pytest.warns(UnfittedWarning, match="set after the fit.*only=.variational"):
        m.predict(m.X)
    m.predict(m.X)  # Warnings are errors here: the second prediction gives none.
    m.kernels[0].variance[:] = 2.0
    m.optimize(messages=False, only="variational")
    m.predict(m.X)
    m.q_mu[:] = 0.1  # Whoever sets q as well has said what it is to be.
    m.kernels[0].variance[:] = 3.0
    m.predict(m.X)


def test_a_parameter_set_after_new_rows_or_in_a_loaded_model_is_told(tmp_path):
    m = make()
    m.optimize(messages=False)
    m.save(tmp_path / "m.cgp")
    loaded = cgp.load(tmp_path / "m.cgp")
    m.update(m.X[:2], m.Y[:2])
    for model in (m, loaded):
        model.predict(m.X)
        model.kernels[0].variance[:] = 3.0
        with pytest.warns(UnfittedWarning, match="set after the fit"):
            model.predict(m.X)
