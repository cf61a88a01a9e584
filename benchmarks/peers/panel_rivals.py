"""The rivals of the panel, each as its users write it: see panel_answer.py.

Trees get the inputs as they are; all others standardised ones, by the training rows. A method is a
function of the task that returns the law of the test rows and the clock of its fit. Distributions
are those of scipy.stats, with a row for each test row.
"""

import warnings

import numpy as np
from panel_answer import Clock, answer_of, work
from scipy import special, stats

EXACT_ROWS = 1500  # An exact GP is fitted to at most so many rows, drawn at random.
ROUNDS, PATIENCE = 2000, 200  # of boosting: at most so many, and so many without a gain end it.
INDUCING, STEPS = 100, 1000  # of the variational GPs of GPflow and GPyTorch
NODES = 32  # Gauss–Hermite nodes for a mixture over a normal latent.


def standardised(task):
    """Inputs with mean 0 and variance 1 in the training rows, without columns constant there."""
    mean, sd = task["X"].mean(axis=0), task["X"].std(axis=0)
    kept = sd > 0.0
    return [((task[key] - mean) / np.where(kept, sd, 1.0))[:, kept] for key in ("X", "X_new")]


def columns(*parameters):
    """Parameters (n,) as (n, 1), so that a law has a row for each."""
    return [np.asarray(p, dtype=float).reshape(-1, 1) for p in parameters]


# ---- real targets --------------------------------------------------------------------------------


def boosted_law(task, estimator, law, *targets):
    """NGBoost as in its paper: rounds chosen on a fifth of the training rows, then all rows."""
    import ngboost
    from ngboost import distns

    def make(rounds):
        Dist = getattr(distns, law)
        kind = getattr(ngboost, estimator)
        return kind(Dist=Dist, n_estimators=rounds, random_state=0, verbose=False)

    X = task["X"]
    order = np.random.default_rng(0).permutation(len(X))
    held, rest = np.split(order, [len(X) // 5])
    with Clock() as fit:
        first = make(ROUNDS)
        fifth = X[held], *[t[held] for t in targets]
        first.fit(X[rest], *[t[rest] for t in targets], *fifth, early_stopping_rounds=PATIENCE)
        model = make(max(1, int(first.best_val_loss_itr or ROUNDS - 1) + 1)).fit(X, *targets)
    return model.pred_dist(task["X_new"]), fit


def ngboost_normal(task):
    law, fit = boosted_law(task, "NGBRegressor", "Normal", task["y"])
    return stats.norm(*columns(law.loc, law.scale)), fit


def exact_gp(task):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, X_new = standardised(task)
    rows = np.random.default_rng(0).permutation(len(X))[:EXACT_ROWS]
    signal = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.sqrt(X.shape[1]) * np.ones(X.shape[1]))
    with Clock() as fit:
        kernel = signal + WhiteKernel(0.1, (1e-8, 1e2))
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        model.fit(X[rows], task["y"][rows])
    return stats.norm(*columns(*model.predict(X_new, return_std=True))), fit


def boosted_mean(task):
    """Gradient boosting; the constant noise is that of the residuals of 5-fold cross-validation."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    X, y = task["X"], task["y"]
    with Clock() as fit:
        model = GradientBoostingRegressor(random_state=0)
        folds = KFold(5, shuffle=True, random_state=0)  # Some tables are sorted.
        sd = np.sqrt(np.mean((cross_val_predict(model, X, y, cv=folds) - y) ** 2))
        model.fit(X, y)
    return stats.norm(*columns(model.predict(task["X_new"])), sd), fit


def gpboost_heteroscedastic(task):
    """GPs for mean and log-variance (Vecchia); mean and variance of the response as a normal's."""
    import gpboost

    X, X_new = standardised(task)
    center, scale = task["y"].mean(), task["y"].std()
    with Clock() as fit:
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="gaussian_ard",
            gp_approx="vecchia",
            likelihood="gaussian_heteroscedastic_fixed_and_random",
            num_parallel_threads=1,
        )
        model.fit(y=(task["y"] - center) / scale)
    law = model.predict(gp_coords_pred=X_new, predict_var=True, predict_response=True)
    return stats.norm(*columns(center + scale * law["mu"], scale * np.sqrt(law["var"]))), fit


class Normals:
    """Normals mixed over a normal log-standard-deviation, by Gauss–Hermite nodes.

    p(y) = Σ_k w_k N(y | mean, variance + e^{2 g_k}), where g_k are the nodes of N(log_sd, spread).
    """

    def __init__(self, mean, variance, log_sd, spread):
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        self.weights = weights / weights.sum()
        self.location = mean[:, None]
        g = log_sd[:, None] + np.sqrt(spread)[:, None] * nodes
        self.sd = np.sqrt(variance[:, None] + np.exp(2.0 * g))

    def _each(self, function, y):
        """A function of each normal at y, (n, k, nodes)."""
        y = np.broadcast_to(np.atleast_2d(y), (len(self.sd), np.atleast_2d(y).shape[1]))
        law = stats.norm(self.location[:, :, None], self.sd[:, None, :])
        return getattr(law, function)(y[:, :, None])

    def logpdf(self, y):
        """log p(y)."""
        return special.logsumexp(self._each("logpdf", y), b=self.weights, axis=2)

    def cdf(self, y):
        """P(Y ≤ y)."""
        return self._each("cdf", y) @ self.weights

    def ppf(self, q):
        """Quantiles by bisection, between those of the widest normal."""
        q = np.atleast_1d(q)
        reach = self.sd.max(axis=1, keepdims=True) * np.abs(stats.norm.ppf(q))
        lower, upper = self.location - reach, self.location + reach
        for _ in range(60):
            middle = 0.5 * (lower + upper)
            short = self.cdf(middle) < q
            lower, upper = np.where(short, middle, lower), np.where(short, upper, middle)
        return 0.5 * (lower + upper)

    def mean(self):
        """E[Y], (n, 1)."""
        return self.location


def scaled_back(task, mean, variance, log_sd, spread):
    """The law in the units of the target, of one that was fitted to the standardised target."""
    center, scale = task["y"].mean(), task["y"].std()
    return Normals(center + scale * mean, scale**2 * variance, np.log(scale) + log_sd, spread)


def gp_task(task):
    """Standardised inputs, target and new inputs, and at most INDUCING rows to begin Z with."""
    X, X_new = standardised(task)
    y = (task["y"] - task["y"].mean()) / task["y"].std()
    Z = np.unique(X, axis=0)
    Z = Z[np.random.default_rng(0).permutation(len(Z))[:INDUCING]]
    return X, y[:, None], X_new, Z


def gpflow_two_latents(task):
    """SVGP with GPs for mean and log-scale; the likelihood and optimisers of its own example."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    X, y, X_new, Z = gp_task(task)
    lengthscales = np.full(X.shape[1], np.sqrt(X.shape[1]))
    with Clock() as fit:
        kernels = [gpflow.kernels.SquaredExponential(lengthscales=lengthscales) for _ in range(2)]
        points = gpflow.inducing_variables.InducingPoints(Z)
        model = gpflow.models.SVGP(
            gpflow.kernels.SeparateIndependent(kernels),
            gpflow.likelihoods.HeteroskedasticTFPConditional(
                tfp.distributions.Normal, scale_transform=tfp.bijectors.Exp()
            ),
            gpflow.inducing_variables.SharedIndependentInducingVariables(points),
            num_latent_gps=2,
        )
        loss = model.training_loss_closure((tf.constant(X), tf.constant(y)))
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
        natural, adam = gpflow.optimizers.NaturalGradient(0.1), tf.optimizers.Adam(0.01)

        @tf.function
        def step():
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
            with tf.GradientTape() as tape:
                value = loss()
            gradients = tape.gradient(value, model.trainable_variables)
            adam.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        for _ in range(STEPS):
            step()
    mean, variance = (f.numpy() for f in model.predict_f(tf.constant(X_new)))
    return scaled_back(task, mean[:, 0], variance[:, 0], mean[:, 1], variance[:, 1]), fit


def gpytorch_two_latents(task):
    """SVGP with GPs for mean and log-variance; the expectation of the noise model is written here,

    since GPyTorch has no likelihood with two latents of this kind.
    """
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    X, y, X_new, Z = (torch.tensor(a) for a in gp_task(task))
    two = torch.Size([2])

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.TrilNaturalVariationalDistribution(len(Z), batch_shape=two)
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, Z.repeat(2, 1, 1), q, True)
            )
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=two)
            rbf = gpytorch.kernels.RBFKernel(X.shape[1], batch_shape=two)
            rbf.lengthscale = np.sqrt(X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf, batch_shape=two)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    with Clock() as fit:
        model = Model()
        q = list(model.variational_parameters())
        natural = gpytorch.optim.NGD(q, num_data=len(X), lr=0.1)
        adam = torch.optim.Adam(model.hyperparameters(), lr=0.01)
        for _ in range(STEPS):
            natural.zero_grad()
            adam.zero_grad()
            f = model(X)
            (m, g), (v, w) = f.mean, f.variance
            expected = -0.5 * (g + ((y[:, 0] - m) ** 2 + v) * torch.exp(0.5 * w - g))
            kl = model.variational_strategy.kl_divergence().sum()
            (-(expected.sum() - kl) / len(X)).backward()
            natural.step()
            adam.step()
    model.eval()
    with torch.no_grad():
        f = model(X_new)
        (m, g), (v, w) = f.mean.numpy(), f.variance.numpy()
    return scaled_back(task, m, v, g / 2.0, w / 4.0), fit


def hetgpy_joint(task):
    """Its `hetGP`: a GP for the mean and a smoothed log-noise, by maximum likelihood."""
    import hetgpy

    X, y, X_new, _ = gp_task(task)
    low, high = X.min(axis=0), X.max(axis=0)
    X, X_new = (
        (x - low) / (high - low) for x in (X, X_new)
    )  # Its bounds are for inputs in [0, 1].
    with Clock() as fit:
        model = hetgpy.hetGP()
        model.mle(X=X, Z=y[:, 0], covtype="Gaussian")
    law = model.predict(x=X_new)
    center, scale = task["y"].mean(), task["y"].std()
    sd = scale * np.sqrt(law["sd2"] + law["nugs"])
    return stats.norm(*columns(center + scale * law["mean"], sd)), fit


# ---- survival ------------------------------------------------------------------------------------


class Steps:
    """The law of survival curves that are step functions, (n, k) at times (k,); no density."""

    def __init__(self, times, curves):
        self.times = np.concatenate([[-np.inf], times])
        self.F = np.concatenate([np.zeros((len(curves), 1)), 1.0 - curves], axis=1)

    def cdf(self, t):
        """F at times (k,), or (n, k) for each row."""
        at = np.searchsorted(self.times, np.atleast_2d(t), side="right") - 1
        return np.take_along_axis(self.F, np.broadcast_to(at, (len(self.F), at.shape[1])), axis=1)

    def sf(self, t):
        """1 − F."""
        return 1.0 - self.cdf(t)

    def ppf(self, q):
        """The first time at which F is q; ∞ where it never is."""
        at = (self.F[:, :, None] < np.asarray(q) - 1e-12).sum(axis=1)
        return np.append(self.times, np.inf)[at]


def frame_of(task):
    """The training rows as lifelines takes them, and the test rows' inputs."""
    import pandas

    X, X_new = standardised(task)
    names = [f"x{d}" for d in range(X.shape[1])]
    train = pandas.DataFrame(X, columns=names).assign(time=task["y"], seen=1 - task["censored"])
    return train, pandas.DataFrame(X_new, columns=names)


def kaplan_meier(task):
    from lifelines import KaplanMeierFitter

    with Clock() as fit:
        model = KaplanMeierFitter().fit(task["y"], 1 - task["censored"])
    curve = model.survival_function_
    times, S = curve.index.to_numpy(), curve.to_numpy()[:, 0]
    return Steps(times, np.tile(S, (len(task["y_new"]), 1))), fit


def cox(task):
    from lifelines import CoxPHFitter

    train, new = frame_of(task)
    with Clock() as fit:
        # Without the small penalty it stops where inputs are collinear, and with its own first step
        # its Newton search runs away in some folds of whas.
        options = {"step_size": 0.5, "max_steps": 500}
        model = CoxPHFitter(penalizer=1e-4).fit(train, "time", "seen", fit_options=options)
    curves = model.predict_survival_function(new)
    law = Steps(curves.index.to_numpy(), curves.to_numpy().T)
    law.risk = model.predict_log_partial_hazard(new).to_numpy()
    return law, fit


def accelerated(task, name, location, shape, law):
    """A linear log-location and a constant shape."""
    import lifelines

    train, new = frame_of(task)
    with Clock() as fit:
        model = getattr(lifelines, name)(penalizer=1e-4).fit(train, "time", "seen")
    slopes = model.params_[location]
    scale = np.exp(new.to_numpy() @ slopes[new.columns].to_numpy() + slopes["Intercept"])
    return law(np.exp(model.params_[shape]["Intercept"]), scale=scale[:, None]), fit


def weibull_aft(task):
    return accelerated(task, "WeibullAFTFitter", "lambda_", "rho_", stats.weibull_min)


def log_logistic_aft(task):
    return accelerated(task, "LogLogisticAFTFitter", "alpha_", "beta_", stats.fisk)


def ngboost_survival(task):
    """NGBoost's log-normal for censored times."""
    law, fit = boosted_law(task, "NGBSurvival", "LogNormal", task["y"], 1 - task["censored"])
    mu, sigma = columns(law.loc, law.scale)
    return stats.lognorm(sigma, scale=np.exp(mu)), fit


# ---- counts --------------------------------------------------------------------------------------


def negative_binomial(mean, alpha):
    """Variance mean + alpha mean²."""
    return stats.nbinom(1.0 / alpha, 1.0 / (1.0 + alpha * mean))


def negative_binomial_glm(task):
    import statsmodels.api as sm

    X, X_new = (sm.add_constant(x, has_constant="add") for x in independent_columns(task))
    with Clock() as fit:
        model = sm.NegativeBinomial(task["y"], X).fit(disp=False, maxiter=500)
    return negative_binomial(*columns(model.predict(X_new)), model.params[-1]), fit


def independent_columns(task):
    """Standardised inputs without columns that follow from others, such as the last word's."""
    X, X_new = standardised(task)
    kept = []
    for d in range(X.shape[1]):
        if np.linalg.matrix_rank(np.c_[np.ones(len(X)), X[:, [*kept, d]]]) == len(kept) + 2:
            kept.append(d)
    return X[:, kept], X_new[:, kept]


def ngboost_poisson(task):
    law, fit = boosted_law(task, "NGBRegressor", "Poisson", task["y"].astype(int))
    return stats.poisson(*columns(law.mean())), fit


class Mixture:
    """Negative binomials mixed over a normal log-mean, by Gauss–Hermite nodes."""

    def __init__(self, mean, variance, alpha):
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        self.weights = weights / weights.sum()
        latent = mean[:, None] + np.sqrt(variance)[:, None] * nodes
        self.means, self.alpha = np.exp(latent), alpha

    def _mixed(self, function, y):
        """E[function(y)] over the nodes, (n, k)."""
        y = np.broadcast_to(np.atleast_2d(y), (len(self.means), np.atleast_2d(y).shape[1]))
        each = negative_binomial(self.means[:, None, :], self.alpha)
        return getattr(each, function)(y[:, :, None]) @ self.weights

    def logpmf(self, y):
        """The log-probability of counts."""
        return np.log(self._mixed("pmf", y))

    def cdf(self, y):
        """P(Y ≤ y)."""
        return self._mixed("cdf", y)

    def ppf(self, q):
        """The least count with cdf ≥ q, by a search upwards."""
        q = np.atleast_1d(q)
        result = np.zeros((len(self.means), len(q)))
        for _ in range(10_000):
            short = self.cdf(result) < q
            if not short.any():
                break
            result += short
        return result

    def mean(self):
        """E[Y], (n, 1)."""
        return (self.means @ self.weights)[:, None]


def gpboost_negative_binomial(task):
    """A GP for the log-mean and a constant dispersion."""
    import gpboost

    X, X_new = standardised(task)
    with Clock() as fit:
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="gaussian_ard",
            gp_approx="vecchia",
            likelihood="negative_binomial",
            num_parallel_threads=1,
        )
        model.fit(y=task["y"], X=np.ones((len(X), 1)))
    law = model.predict(
        gp_coords_pred=X_new,
        X_pred=np.ones((len(X_new), 1)),
        predict_var=True,
        predict_response=False,
    )
    shape = float(np.ravel(model.get_aux_pars(format_pandas=False))[0])
    return Mixture(law["mu"], law["var"], 1.0 / shape), fit


METHODS = {
    ("regression", "NGBoost"): ngboost_normal,
    ("regression", "sklearn-GP"): exact_gp,
    ("regression", "boosted-mean"): boosted_mean,
    ("regression", "GPBoost"): gpboost_heteroscedastic,
    ("regression", "GPflow"): gpflow_two_latents,
    ("regression", "GPyTorch"): gpytorch_two_latents,
    ("regression", "hetGPy"): hetgpy_joint,
    ("survival", "Kaplan-Meier"): kaplan_meier,
    ("survival", "Cox"): cox,
    ("survival", "Weibull-AFT"): weibull_aft,
    ("survival", "log-logistic-AFT"): log_logistic_aft,
    ("survival", "NGBoost"): ngboost_survival,
    ("counts", "NB-GLM"): negative_binomial_glm,
    ("counts", "NGBoost"): ngboost_poisson,
    ("counts", "GPBoost"): gpboost_negative_binomial,
}


def run(task, method, _):
    """The rival's answer."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        law, fit = METHODS[str(task["kind"]), method](task)
        answer = answer_of(law, task, risk=getattr(law, "risk", None))
    told = sorted({str(w.message).splitlines()[0][:200] for w in said if str(w.message)})
    return answer, fit, {"warnings": told[:5]}


if __name__ == "__main__":
    work(run)
