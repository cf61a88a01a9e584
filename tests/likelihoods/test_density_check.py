"""What predictions say of a density that is NaN at latents where it is needed."""

import numpy as np
import pytest

from chainedgp import ChainedGP, Likelihood
from chainedgp.errors import InputError, UnfittedWarning
from chainedgp.likelihoods.density_check import check_predicted


class ScaleItself(Likelihood):
    """The second latent is a scale less 3, which nothing keeps positive."""

    latents = ("location", "scale")

    def log_density(self, y, f, g):
        scale = g + 3.0
        return -0.5 * ((y - f) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi)


class Bounded(ScaleItself):
    """The same with −inf where there is no density, which is allowed."""

    def log_density(self, y, f, g):
        return np.where(g > -3.0, super().log_density(y, f, np.maximum(g, -2.999)), -np.inf)


X = np.linspace(0.0, 1.0, 20)[:, None]
Y = np.sin(6.0 * X) + 1000.0


@pytest.mark.parametrize("ask", ["predict", "predict_quantiles", "predictive", "plot"])
def test_a_density_that_is_nan_under_q_is_refused_before_predictions(ask):
    m = ChainedGP(X, Y, ScaleItself(), num_inducing=5)
    call = getattr(m, ask)
    with (
        pytest.warns(UnfittedWarning),
        pytest.raises(InputError, match=r"ScaleItself\.log_density returned NaN at row") as caught,
    ):
        call() if ask == "plot" else call(X[:3])
    text = str(caught.value)
    assert "location = " in text and "−inf is allowed" in text
    assert float(text.split("scale = ")[-1].split(";")[0]) < -3.0


def test_the_row_is_the_one_where_the_density_is_nan():
    means, variances = np.zeros((50, 2)), np.full((50, 2), 0.01)
    check_predicted(ScaleItself(), means, variances, {})
    means[37, 1] = -2.8
    with pytest.raises(InputError, match="at row 37, where y = 1 and the latents are") as caught:
        check_predicted(ScaleItself(), means, variances, {})
    assert caught.value.rows == [37]
    means[37, 1], variances[37, 1] = -2.0, 0.04  # Here it is NaN at 5 standard deviations.
    check_predicted(ScaleItself(), means, variances, {})


def test_a_density_that_is_0_is_no_error():
    check_predicted(Bounded(), np.zeros((2, 2)), np.full((2, 2), 4.0), {})
