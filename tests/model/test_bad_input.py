"""What cannot be used is refused before any work, by an error that names the argument."""

from __future__ import annotations

import numpy as np
import pytest
from bad_inputs import BAD, CALLS, NAMES, PARTS, K, L, X, Y, build, changed, likelihood_of, page
from cases import problem
from paths import ROOT

import chainedgp as cgp
from chainedgp.errors import InputError


def assert_refused(call, words):
    with pytest.raises(InputError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("case", BAD)
def test_model_refuses(case):
    keywords, words = BAD[case]
    assert_refused(lambda: build(**keywords), words)


def test_the_good_arguments_are_accepted():
    """What the table varies is usable as it stands."""
    assert np.isfinite(build().log_likelihood())


def test_nothing_is_evaluated_before_the_refusal(monkeypatch):
    def forbidden(*args, **kw):
        raise AssertionError("work was done")

    for name in ("starts_from", "select_inducing"):
        monkeypatch.setattr(f"chainedgp.model.chained_gp.{name}", forbidden)
    assert_refused(lambda: build(Y=changed(Y, 7, np.nan)), ["Y"])
    assert_refused(lambda: build(Y_metadata={"trials": 1.0}), ["trials"])
    assert_refused(lambda: build(kernels=[K.RBF(2)] * 3), ["kernels"])


@pytest.mark.parametrize("call", [
    lambda m: cgp.ChainedGP(X, Y, L.HetGaussian(), inducing=5),
    lambda m: cgp.ChainedGP(X, Y, L.HetGaussian(), kernel=K.RBF(2)),
    lambda m: m.optimize(max_iter=3),
    lambda m: m.predict(X, full=True),
    lambda m: m.posterior_samples(X, seed=3),
    lambda m: m.set_data(X, Y, metadata={}),
])  # fmt: skip
def test_unknown_keywords_are_type_errors(call):
    m = build()
    with pytest.raises(TypeError, match="unexpected keyword"):
        call(m)


@pytest.mark.parametrize("case", CALLS)
def test_method_refuses_and_the_model_is_unchanged(case):
    call, words = CALLS[case]
    m = build()
    m.q_mu[:] = 0.1
    before = np.array(m.param_array), m.log_likelihood(), m.jitter, m.X, m.Y
    evaluations = m.problem.evaluator.num_likelihood
    assert_refused(lambda: call(m), words)
    assert m.problem.evaluator.num_likelihood == evaluations
    np.testing.assert_array_equal(m.param_array, before[0])
    assert (m.log_likelihood(), m.jitter) == before[1:3]
    np.testing.assert_array_equal(m.X, before[3])
    np.testing.assert_array_equal(m.Y, before[4])


def test_targets_are_checked_wherever_they_enter():
    lik, y, _ = problem("Beta", X)
    m = cgp.ChainedGP(X, y, lik, num_inducing=4)
    assert_refused(lambda: m.log_predictive_density(X, y + 1.0), ["Beta"])
    assert_refused(lambda: m.set_data(X, y - 1.0), ["Beta"])


def test_thread_setting_of_the_environment_is_checked(monkeypatch):
    for value in ("0", "many", "-2", ""):
        monkeypatch.setenv("CHAINEDGP_NUM_THREADS", value)
        assert_refused(build, ["CHAINEDGP_NUM_THREADS"])
    monkeypatch.setenv("CHAINEDGP_NUM_THREADS", "3")
    assert build().num_threads == 3


@pytest.mark.parametrize("case", NAMES)
def test_likelihood_refuses_names(case):
    attributes, words = NAMES[case]
    assert_refused(likelihood_of(attributes), words)


@pytest.mark.parametrize("case", PARTS)
def test_part_refuses(case):
    assert_refused(*PARTS[case])


# ---- the page ----


def test_the_page_of_messages_is_up_to_date():
    """`python docs/make_errors.py` writes it."""
    folder = ROOT / "docs"
    table = page()
    assert table == (folder / "errors.md").read_text("utf-8")
    assert table.count("\n| ") > 60
