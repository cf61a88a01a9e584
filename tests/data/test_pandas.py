"""Data frames: names of columns, columns that are no numbers, results with the index kept."""

import re

import numpy as np
import pandas as pd
import pytest

import chainedgp as cgp
from chainedgp.data.reading import SECONDS
from chainedgp.errors import InputError

N = 20


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(20, 80, N), "dose": rng.uniform(0, 5, N), "old": [0, 1] * 10}
    return pd.DataFrame(columns, index=[f"patient {i}" for i in range(N)])


@pytest.fixture(scope="module")
def target(frame):
    return pd.Series(np.sin(frame["age"] / 10), index=frame.index, name="response")


@pytest.fixture
def model(frame, target):
    kernels = [
        cgp.kernels.RBF(3, ARD=True) + cgp.kernels.Bias(3),
        cgp.kernels.RBF(2, ARD=True, active_dims=[2, 0]),
    ]
    likelihood = cgp.likelihoods.HetGaussian()
    return cgp.ChainedGP(frame, target, likelihood, kernels, num_inducing=5, num_threads=1)


def test_a_target_computed_from_a_column_has_not_its_name(frame):
    y = np.exp(0.1 * frame["dose"])  # pandas keeps the name
    m = cgp.ChainedGP(frame, y, cgp.likelihoods.HetGamma(), num_inducing=3)
    assert y.name == "dose" and m.target_name is None


def test_names_are_the_index_of_parameters(model):
    assert model.input_names == ["age", "dose", "old"] and model.target_name == "response"
    lengthscale = model.kernels.mean.rbf.lengthscale
    lengthscale["dose"] = 7.0
    assert lengthscale.values.tolist() == [1.0, 7.0, 1.0]
    lengthscale["age"].fix(warning=False)
    assert lengthscale.constraints["fixed"].tolist() == [0]
    with pytest.raises(InputError, match="no entry 'height'; it has 'age', 'dose', 'old'"):
        lengthscale["height"]
    with pytest.raises(InputError, match="no names"):
        cgp.kernels.RBF(2, ARD=True).lengthscale["age"]


def test_names_are_printed(model):
    for text in (
        str(model.kernels.mean.rbf.lengthscale),
        model.kernels.mean.rbf.lengthscale._repr_html_(),
        str(model[".*rbf.*lengthscale"]),
    ):
        text = text[text.index("lengthscale") :]  # there is a style sheet before it in HTML
        assert text.index("age") < text.index("dose") < text.index("old")
    swapped = str(model.kernels.log_variance.lengthscale)  # columns 2 and 0
    assert swapped.index("old") < swapped.index("age") and "dose" not in swapped
    assert "old" not in str(model.kernels.mean.rbf.lengthscale["dose"])
    model.input_names = None
    assert "age" not in str(model.kernels.mean.rbf.lengthscale)
    mean = cgp.means.Linear(3)
    m = cgp.ChainedGP(
        pd.DataFrame(model.X, columns=list("abc")),
        model.Y,
        cgp.likelihoods.HetGaussian(),
        mean_functions=mean,
        num_inducing=5,
    )
    assert m.mean_functions.mean.weights["b"].values == [0.0]


def test_names_are_on_the_axes(model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = model.plot_slice("dose")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("dose\n(age = 54.5, old = 0.5)", "response")
    matplotlib.pyplot.close("all")


def test_results_keep_the_index(model, frame):
    some = frame.iloc[3:8]
    table = model.predict_frame(some, (5, 50, 97.5))
    assert table.index.equals(some.index)
    assert frame[model.input_names].equals(frame)
    assert list(table.columns) == ["mean", "variance", "5%", "50%", "97.5%"]
    mean, variance = model.predict(some)
    np.testing.assert_array_equal(table["mean"], mean[:, 0])
    np.testing.assert_array_equal(table["variance"], variance[:, 0])
    alone = model.predict_quantiles(some, [97.5])[0][:, 0]  # Fewer levels end at other roundings.
    np.testing.assert_allclose(table["97.5%"], alone, rtol=1e-13)
    plain = model.predict_frame(some.to_numpy())
    assert plain.index.equals(pd.RangeIndex(5))
    with pytest.raises(InputError, match="percentages"):
        model.predict_frame(some, (0, 50))


def test_columns_must_be_those_of_the_model(model, frame):
    for wrong, message in (
        (frame[["age", "dose"]], r"lacks the column 'old'.*Give Xnew\[\['age', 'dose', 'old'\]\]"),
        (frame.rename(columns={"old": "new"}), "lacks the column 'old' and has the column 'new'"),
        (frame.assign(more=1.0), "has the column 'more', which the model does not know"),
    ):
        for call in (model.predict, model.predict_latents, model.predict_frame):
            with pytest.raises(InputError, match=message):
                call(wrong)
    expected = model.predict(frame)[0]
    np.testing.assert_array_equal(model.predict(frame[["dose", "age", "old"]])[0], expected)
    model.set_data(frame[["dose", "age", "old"]], model.Y)
    np.testing.assert_array_equal(model.X, frame.to_numpy())
    model.set_data(frame.iloc[:9], model.Y[:9])
    # a label for figures is no other column, and arrays have no names to compare
    model.input_names = ["age (years)", "dose", "old"]
    expected = model.predict(frame)[0]
    np.testing.assert_array_equal(model.predict(frame.to_numpy())[0], expected)
    np.testing.assert_array_equal(model.predict(frame.set_axis([0, 1, 2], axis=1))[0], expected)


def test_names_of_columns_must_differ(frame, target):
    bad = frame.set_axis(["age", "dose", "age"], axis=1)
    with pytest.raises(InputError, match="X has several columns named 'age': rename"):
        cgp.ChainedGP(bad, target, cgp.likelihoods.HetGaussian())


TARGETS = {
    "categorical": pd.Categorical(["a", "b"] * 10),
    "categorical ": pd.Categorical([1, 2] * 10),  # numpy would read it as numbers
    "text": ["1", "2"] * 10,  # and this
    "holds dates": pd.date_range("2020-01-01", periods=N),
    "holds durations": pd.to_timedelta(np.arange(N), unit="D"),
}


@pytest.mark.parametrize("what", TARGETS)
def test_targets_that_are_no_numbers(what, frame):
    """Among the inputs they are read, see test_columns.py."""
    bad = frame.assign(dose=TARGETS[what])
    way_out = "timedelta64" if "holds" in what else "two classes as 0 and 1"
    with pytest.raises(InputError, match=rf"Y .*{what.strip()}.*{way_out}"):
        cgp.ChainedGP(frame, bad["dose"], cgp.likelihoods.HetGaussian())


def test_ways_out(frame, target):
    colour = pd.Series(pd.Categorical(["a", "b"] * 10), index=frame.index, name="colour")
    dummies = pd.get_dummies(frame.assign(colour=colour))
    m = cgp.ChainedGP(dummies, target, cgp.likelihoods.HetGaussian(), num_inducing=5)
    assert m.input_names[-2:] == ["colour_a", "colour_b"] and set(m.X[:, -1]) == {0.0, 1.0}
    m = cgp.ChainedGP(frame["dose"], colour.cat.codes, cgp.likelihoods.Bernoulli(), num_inducing=5)
    assert m.input_names == ["dose"] and m.X.shape == (N, 1)


def test_missing_values(frame, target):
    message = r"X has 1 missing value: column 'dose' in row 19\..*drop.*impute"
    for hole in (np.nan, pd.NA):
        dose = pd.array([*frame["dose"][:-1], hole], dtype="Float64")
        with pytest.raises(InputError, match=message):
            cgp.ChainedGP(frame.assign(dose=dose), target, cgp.likelihoods.HetGaussian())
    whole = pd.array([*range(N - 1), pd.NA], dtype="Int64")
    with pytest.raises(InputError, match=r"Y has 1 missing value .*row 19"):
        cgp.ChainedGP(frame, pd.Series(whole), cgp.likelihoods.HetGaussian())
    m = cgp.ChainedGP(frame, whole, cgp.likelihoods.HetGaussian(), num_inducing=5, missing="drop")
    assert m.Y[:, 0].tolist() == list(range(N - 1))
    with pytest.raises(InputError, match='missing="drop"'):
        hole = target.copy()
        hole.iloc[3] = np.nan
        cgp.ChainedGP(frame, hole, cgp.likelihoods.HetGaussian())


class OtherFrame:
    """What a data frame of another library has: columns, and series by name."""

    def __init__(self, **columns):
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]

    def __array__(self, dtype=None, copy=None):
        return np.column_stack([np.asarray(c) for c in self._columns.values()]).astype(dtype)


def test_kernels_by_the_names_of_columns(frame, target, tmp_path):
    kern = cgp.kernels
    by_name, by_number = (
        kern.RBF(2, ARD=True, active_dims=[old, age]) * kern.Bias(3)
        + kern.Matern32(1, active_dims=[d])
        for old, age, d in (("old", "age", "dose"), (2, 0, 1))
    )
    likelihood = cgp.likelihoods.HetGaussian()
    models = [
        cgp.ChainedGP(frame, target, likelihood, k, num_inducing=5, num_threads=1)
        for k in (by_name, by_number)
    ]
    assert models[0].log_likelihood() == models[1].log_likelihood()
    rbf = models[0].kernels.mean.product.rbf
    assert rbf.active_dims.tolist() == [2, 0] and by_name.parts[0].parts[0].active_dims[0] == "old"
    assert rbf.lengthscale["age"].values.tolist() == [1.0]
    models[0].save(tmp_path / "model.npz")
    assert cgp.load(tmp_path / "model.npz").log_likelihood() == models[1].log_likelihood()
    named = cgp.ChainedGP(
        frame.to_numpy(), target, likelihood, by_name, num_inducing=5, input_names=frame.columns
    )
    assert named.kernels.mean.columns.tolist() == [0, 1, 2]
    for kernel, X, message in (
        (by_name, frame.to_numpy(), "active_dims are names.*data frame"),
        (kern.RBF(1, active_dims=["height"]), frame, "'height', but the columns of X are 'age'"),
    ):
        with pytest.raises(InputError, match=message):
            cgp.ChainedGP(X, target, likelihood, kernel)
    for bad in (["age"], "abc", ["age", "age", "old"]):
        with pytest.raises(InputError, match="input_names must be 3 different names"):
            cgp.ChainedGP(frame.to_numpy(), target, likelihood, input_names=bad)


def test_polars(model, frame, target):
    pl = pytest.importorskip("polars")
    theirs, y = pl.DataFrame(frame.to_dict("list")), pl.Series("response", target.to_list())
    m = cgp.ChainedGP(theirs, y, model.likelihood, list(model.kernels), Z=model.Z, num_threads=1)
    assert (m.input_names, m.target_name) == (model.input_names, model.target_name)
    table, expected = m.predict_frame(theirs), model.predict_frame(frame)
    assert type(table) is pl.DataFrame and table.columns == list(expected.columns)
    np.testing.assert_array_equal(table.to_numpy(), expected.to_numpy())
    np.testing.assert_array_equal(m.predict(theirs[["dose", "age", "old"]])[0], m.predict(frame)[0])
    with pytest.raises(InputError, match=r"LazyFrame.*Xnew.collect\(\)"):
        m.predict(theirs.lazy())
    bad = theirs.with_columns(pl.Series("dose", ["1", "2"] * 10))
    with pytest.raises(InputError, match=r"column 'dose' of X is text that reads.*cast"):
        cgp.ChainedGP(bad, y, model.likelihood)


def test_frames_of_other_libraries(frame, target):
    other = OtherFrame(age=frame["age"].to_numpy(), dose=frame["dose"].to_numpy())
    m = cgp.ChainedGP(other, target, cgp.likelihoods.HetGaussian(), num_inducing=5)
    assert m.input_names == ["age", "dose"]
    text = OtherFrame(age=frame["age"].to_numpy(), dose=np.array(["1", "2"] * 10))
    with pytest.raises(InputError, match="column 'dose' of X is text"):
        cgp.ChainedGP(text, target, cgp.likelihoods.HetGaussian())


def test_rows_in_another_order_are_refused():
    X = pd.DataFrame({"a": np.arange(12.0)}, index=list("abcdefghijkl"))
    y = pd.Series(np.sin(X["a"]), X.index)
    with pytest.raises(InputError, match=r"^Y has the rows of X in another order"):
        cgp.ChainedGP(X, y[::-1], cgp.likelihoods.HetGaussian())
    weights = {"weights": pd.Series(1.0, X.index[::-1])}
    with pytest.raises(InputError, match=r"^Y_metadata\['weights'\] has the rows"):
        cgp.ChainedGP(X, y, cgp.likelihoods.HetGaussian(), Y_metadata=weights)
    shifted = y.set_axis([*X.index[3:], "x", "y", "z"])
    with pytest.raises(InputError, match=r"^Y has only 9 of the 12 rows of X, by its index"):
        cgp.ChainedGP(X, shifted, cgp.likelihoods.HetGaussian())
    twice = y.set_axis([*X.index[:11], "a"])
    levels = y.set_axis(pd.MultiIndex.from_product([X.index, [0]]))
    for fine in (y, y.reset_index(drop=True), y.to_numpy()[::-1], twice, levels):
        cgp.ChainedGP(X, fine, cgp.likelihoods.HetGaussian())
    m = cgp.ChainedGP(X, y, cgp.likelihoods.HetGaussian())
    rates = cgp.ChainedGP(X, 0 * y, cgp.likelihoods.Poisson())
    for call in (
        lambda: m.log_predictive_density(X, y[::-1]),
        lambda: m.plot_pit(X, y[::-1]),
        lambda: rates.predict(X, {"exposure": y[::-1] + 2}),
        lambda: cgp.cross_validate(lambda X, Y: m, X, y[::-1], 2),
        lambda: cgp.baselines.LaplaceGP(X, y[::-1], cgp.likelihoods.Gaussian()),
    ):
        with pytest.raises(InputError, match="has the rows of X in another order"):
            call()


def test_cross_validation_keeps_the_names_of_columns(frame, target):
    def make(X, Y):
        kernel = cgp.kernels.RBF(1, active_dims=["age"])
        return cgp.ChainedGP(X, Y, cgp.likelihoods.HetGaussian(), kernel, num_inducing=4)

    given = {"fit": lambda m: None, "num_threads": 1, "messages": False}
    table = cgp.cross_validate(make, frame, target, 2, **given)
    arrays = frame[["age"]].to_numpy()

    def same(X, Y):
        return cgp.ChainedGP(
            X, Y, cgp.likelihoods.HetGaussian(), cgp.kernels.RBF(1), num_inducing=4
        )

    # the inducing inputs of the first are chosen in three dimensions: like, not the same
    assert table["nlpd"].mean() == pytest.approx(
        cgp.cross_validate(same, arrays, target, 2, **given)["nlpd"].mean(), abs=0.3
    )
    with pytest.raises(InputError, match="Y_metadata must be a dict"):
        cgp.cross_validate(make, frame, target, 2, Y_metadata=[1.0], **given)
    with pytest.raises(InputError, match="level must be strictly between 0 and 1"):
        cgp.cross_validate(make, frame, target, 2, level="a", **given)


def test_figures_refuse_other_columns(frame):
    times = np.exp(np.sin(frame["age"] / 10))
    m = cgp.ChainedGP(frame, times, cgp.likelihoods.LogLogisticSurvival(), num_inducing=4)
    other = frame[["dose", "age"]]
    for call in (lambda: m.plot_survival(other[:2]), lambda: m.plot_pit(other, times)):
        with pytest.raises(InputError, match="lacks the column"):
            call()


def test_an_index_of_dates_is_refused_with_the_way_out():
    dates = pd.date_range("2024-01-01", periods=20, freq="MS")
    y = np.arange(20.0)
    with pytest.raises(InputError, match=r"X holds dates.*X\.to_frame\(\)"):
        cgp.ChainedGP(dates, y, cgp.likelihoods.Gaussian())
    m = cgp.ChainedGP(dates.to_frame(name="month"), y, cgp.likelihoods.Gaussian(), num_inducing=5)
    with pytest.raises(InputError, match=r"Xnew holds dates.*Xnew\.to_frame\(\)"):
        m.predict(dates[:3])
    assert np.isfinite(m.predict(dates[:3].to_frame(name="month"))[0]).all()


# ---- slips --------------------------------------------------------------------------------------


def test_a_target_among_the_inputs_is_refused():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 1.0, 4.0, 3.0]})
    for target in (table["y"], table[["y"]]):
        with pytest.raises(InputError, match=r"X has the target 'y' among.*drop\(columns='y'\)"):
            cgp.ChainedGP(table, target, cgp.likelihoods.HetGaussian())
    cgp.ChainedGP(table, 2.0 * table["y"], cgp.likelihoods.HetGaussian())  # Another quantity.
    cgp.ChainedGP(table, table["y"].rename("b"), cgp.likelihoods.HetGaussian())


def test_one_row_that_is_no_frame():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "kind": ["x", "y", "x", "y"]})
    m = cgp.ChainedGP(table, np.arange(4.0), cgp.likelihoods.HetGaussian(), num_inducing=3)
    m.optimize(only="variational")
    with pytest.raises(InputError, match=r"frame\.iloc\[\[k\]\], with two brackets"):
        m.predict(table.iloc[0])
    with pytest.raises(InputError, match=r"One row is pandas\.DataFrame\(\[Xnew\]\)"):
        m.predict({"a": 1.0, "kind": "x"})
    m.predict(pd.DataFrame([{"a": 1.0, "kind": "x"}]))
    m.predict(table.iloc[[0]])


# ---- targets that are nearly numbers -------------------------------------------------------------

SPANS = {"days": 20.0, "hours": 0.8, "minutes": 0.01, "seconds": 1e-4}  # days


@pytest.mark.parametrize("unit", SPANS)
def test_durations_as_targets_are_answered_in_a_fitting_unit(unit, frame):
    stay = pd.Series(pd.to_timedelta(np.linspace(0.1, 1.0, N) * SPANS[unit], unit="D"), frame.index)
    with pytest.raises(
        InputError, match=f"Y holds durations; expected numbers. Give {unit}"
    ) as told:
        cgp.ChainedGP(frame, stay, cgp.likelihoods.HetGamma())
    assert "to_frame" not in str(told.value)  # Targets are never read from a frame with durations.
    way = re.search(r"Give \w+: (.*?), in polars (.*)\.$", str(told.value))
    numbers = eval(way[1], {"Y": stay, "numpy": np})
    np.testing.assert_allclose(numbers, stay.dt.total_seconds() / SECONDS[unit])
    polars = pytest.importorskip("polars")
    theirs = eval(way[2], {"Y": polars.Series(stay.to_numpy())})
    np.testing.assert_allclose(theirs, numbers, rtol=1e-6)
    cgp.ChainedGP(frame, numbers, cgp.likelihoods.HetGamma(), num_inducing=3)


def words_in(*words):
    texts = np.linspace(0.5, 2.0, N).round(2).astype(str).astype(object)
    texts[: len(words)] = words
    return texts


LIMITED = [("<LOD", "<0.05"), ("ND",), ("BDL",), ("> 9",), ("below LOQ", "<LOQ")]


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
@pytest.mark.parametrize("words", LIMITED, ids=str)
def test_limits_of_detection_are_left_censored(words, kind, frame):
    y = kind(words_in(*words))
    with pytest.raises(InputError, match=r"Y has numbers, but for .*left-censored: give the limit"):
        cgp.ChainedGP(frame.reset_index(drop=True), y, cgp.likelihoods.HetGamma())


def test_other_words_among_numbers_are_missing(frame):
    X, y = frame.reset_index(drop=True), pd.Series(words_in("n/a", "see notes", "n/a"))
    with pytest.raises(
        InputError, match=r"but for 3 of its 20 entries: 'n/a', 'see notes'"
    ) as told:
        cgp.ChainedGP(X, y, cgp.likelihoods.HetGamma())
    assert "censored" not in str(told.value)
    way = re.search(r"for missing: (pandas.*?), Y\.cast", str(told.value))[1]
    m = cgp.ChainedGP(
        X, eval(way, {"Y": y, "pandas": pd}), cgp.likelihoods.HetGamma(), num_inducing=3,
        missing="drop",
    )  # fmt: skip
    assert len(m.Y) == N - 3
    with pytest.raises(InputError, match=r"Y_metadata\['weights'\] has numbers, but for 3") as told:
        cgp.ChainedGP(
            X, frame["dose"].to_numpy(), cgp.likelihoods.HetGamma(), Y_metadata={"weights": y}
        )
    assert "missing=" not in str(told.value)
    labels = pd.Series(words_in(*["yes", "no"] * 10))  # Most entries are words: classes are meant.
    with pytest.raises(InputError, match=r"Ordinal.* take labels as they are"):
        cgp.ChainedGP(X, labels, cgp.likelihoods.HetGamma())


def test_targets_with_commas_are_answered(frame):
    X, y = frame.reset_index(drop=True), pd.Series(["1,5", "2,5", "-", "3"] * 5)
    with pytest.raises(InputError, match=r"numbers for people such as '1,5': Y\.str\.replace"):
        cgp.ChainedGP(X, y, cgp.likelihoods.HetGamma())


def test_targets_and_metadata_beside_an_array_have_the_same_order():
    y = pd.Series(np.arange(1.0, 9.0), list("abcdefgh"))
    X, lik = np.arange(8.0)[:, None], cgp.likelihoods.HetGaussian()
    with pytest.raises(InputError, match=r"^Y_metadata\['weights'\] has the rows of Y in another"):
        cgp.ChainedGP(X, y, lik, Y_metadata={"weights": y[::-1]})
    cgp.ChainedGP(X, y[::-1], lik, Y_metadata={"weights": y.to_numpy()})


@pytest.mark.filterwarnings("ignore::chainedgp.errors.UnfittedWarning")
def test_predictions_keep_the_index_of_their_rows():
    X = pd.DataFrame({"a": np.arange(8.0)}, index=list("abcdefgh"))
    y = pd.Series(np.sin(X["a"]), X.index)
    m = cgp.ChainedGP(X, y, cgp.likelihoods.HetGaussian(), num_inducing=4)
    assert m.predictive(X[:3]).index.equals(X.index[:3])
    assert m.predictive(X.to_numpy()).index is None
    predictive = m.predictive(X)
    with pytest.raises(InputError, match=r"^y has the rows of predictive in another order"):
        predictive.logpdf(y[::-1].to_frame())
    want = predictive.logpdf(y.to_numpy()[:, None])
    np.testing.assert_array_equal(predictive.logpdf(y.to_frame()), want)
