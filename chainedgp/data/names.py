"""Names of arguments: a misspelt one, or another library's, gets an error with the right name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from ..errors import ArgumentError

Function = TypeVar("Function", bound=Callable[..., Any])
# Other libraries' or habitual names of arguments, in lower case, with the names that they have
# here: the first of these that the called function has is meant.
SYNONYMS = {
    "alpha": ("nu", "shape"),
    "ard": ("ARD",),
    "censoring": ("Y_metadata",),
    "censored": ("Y_metadata",),
    "data": ("X",),
    "deg_free": ("nu",),
    "degrees_of_freedom": ("nu",),
    "df": ("nu",),
    "dof": ("nu",),
    "exposure": ("Y_metadata",),
    "fixed_inputs": ("at",),
    "inducing": ("Z",),
    "inducing_points": ("Z",),
    "inducing_variable": ("Z",),
    "iterations": ("max_iters", "max_iter"),
    "kern": ("kernels", "kernel"),
    "kernel": ("kernels",),
    "kernels": ("kernel",),
    "length_scale": ("lengthscale",),
    "lengthscales": ("lengthscale",),
    "lik": ("likelihood",),
    "m": ("num_inducing",),
    "maxiter": ("max_iters", "max_iter"),
    "mean": ("mean_functions", "mean_function"),
    "mean_function": ("mean_functions",),
    "metadata": ("Y_metadata",),
    "n_inducing": ("num_inducing",),
    "n_iter": ("max_iters", "max_iter"),
    "n_jobs": ("num_threads",),
    "n_restarts": ("num_restarts",),
    "n_samples": ("size", "draws"),
    "num_samples": ("size", "draws"),
    "percentiles": ("quantiles",),
    "q": ("quantiles",),
    "random_state": ("rng",),
    "sample_weight": ("Y_metadata",),
    "seed": ("rng",),
    "tol": ("tolerance",),
    "verbose": ("messages",),
    "visible_dims": ("input", "inputs"),
    "weights": ("Y_metadata",),
    "x": ("X", "Xnew"),
    "x_test": ("Xnew",),
    "x_train": ("X",),
    "xtest": ("Xnew",),
    "y_train": ("Y",),
    "y": ("Y", "Ynew"),
}
OF_MODELS = {
    "elbo": "log_likelihood()",
    "fit": "optimize()",
    "Gaussian_noise": "a latent function of its own, or a parameter of m.likelihood,",
    "inducing_inputs": "Z",
    "inducing_points": "Z",
    "inducing_variable": "Z",
    "kern": "kernels, which has one for each latent,",
    "kernel": "kernels, which has one for each latent,",
    "log_marginal_likelihood": "log_likelihood(), the bound on it,",
    "mean_function": "mean_functions, which has one for each latent,",
    "num_inducing": "len(m.Z)",
    "input_sensitivity": "effects(), with its figure plot_effects(),",
    "plot_confidence": "plot(), whose bands are of new targets,",
    "plot_data": "plot()",
    "plot_f": "plot_latents()",
    "plot_mean": "plot_effects(input)",
    "plot_residuals": "plot_worm(), or plot_pit(),",
    "predictive_gradients": "effects(input), the curve along an input,",
    "predict_f": "predict_latents(Xnew)",
    "predict_log_density": "log_predictive_density(Xnew, Ynew)",
    "predict_noiseless": "predict_latents(Xnew)",
    "predict_y": "predict(Xnew)",
    "sample_y": "posterior_samples(Xnew)",
    "score": "log_predictive_density(Xnew, Ynew).mean()",
    "set_XY": "set_data(X, Y)",
    "save_model": "save(path)",
    "to_dict": "save(path)",
    "training_loss": "objective_function()",
    "trainable_parameters": "summary()",
}
"""What other libraries call what a model has under another name."""
OF_PACKAGE = {
    "GPModel": "ChainedGP(X, Y, likelihood)",
    "GPR": "ChainedGP(X, Y, likelihoods.Gaussian())",
    "GPRegression": "ChainedGP(X, Y, likelihoods.Gaussian())",
    "SVGP": "ChainedGP(X, Y, likelihood)",
    "VGP": "ChainedGP(X, Y, likelihood)",
    "kern": "kernels",
    "mean_functions": "means",
    "models": "ChainedGP(X, Y, likelihood)",
    "read": "load(path)",
}
OF_KERNELS = {
    "Constant": "Bias",
    "ConstantKernel": "Bias",
    "DotProduct": "Linear",
    "ExpQuad": "RBF",
    "Exponential": "Matern12",
    "Matern": "Matern12, Matern32 or Matern52",
    "RatQuad": "RationalQuadratic",
    "RBFKernel": "RBF",
    "SquaredExponential": "RBF",
    "StdPeriodic": "Periodic",
    "WhiteKernel": "White",
}
"""What other libraries call what this package and its kernels have under another name."""
OF_PREDICTIVES = {
    "density": "pdf(y)",
    "draw": "sample(size)",
    "draws": "sample(size)",
    "log_density": "logpdf(y)",
    "log_prob": "logpdf(y)",
    "logpmf": "logpdf(y)",
    "percentile": "ppf(q)",
    "pmf": "pdf(y)",
    "prob": "pdf(y)",
    "quantile": "ppf(q)",
    "quantiles": "ppf(q)",
    "rmst": "restricted_mean(horizon)",
    "rvs": "sample(size)",
    "sd": "variance ** 0.5",
    "std": "variance ** 0.5",
    "stddev": "variance ** 0.5",
    "survival": "sf(t)",
    "survival_function": "sf(t)",
    "var": "variance",
}
"""What other libraries call what a predictive distribution has under another name."""
JOINTLY = (
    "rows are predicted one by one. Covariances of the latent functions between rows are "
    "m.predict_latents(Xnew, full_cov=True), their joint draws m.posterior_samples_f(Xnew, size)"
)
ELSEWHERE = {
    "full_cov": JOINTLY,
    "full_output_cov": JOINTLY,
    "return_cov": JOINTLY,
    "include_likelihood": "latent functions without noise are m.predict_latents(Xnew)",
    "include_noise": "latent functions without noise are m.predict_latents(Xnew)",
    "noiseless": "latent functions without noise are m.predict_latents(Xnew)",
    "kern": "one part of a sum of kernels is m.predict_component(Xnew, latent, part)",
    "return_std": "m.predict(Xnew) gives mean and variance: the second ** 0.5",
    "return_var": "m.predict(Xnew) gives mean and variance",
    "level": "percentages of both ends say it: (2.5, 97.5) for 95 %, or m.predictive(Xnew)"
    ".interval(0.95)",
}
"""What arguments of other libraries' predictions ask for, and where it is here."""
# These belong into metadata; KEYS has the names that metadata use for those of other libraries.
IN_METADATA = ("censored", "censoring", "exposure", "sample_weight", "weights")
KEYS = {"censoring": "censored", "sample_weight": "weights"}


def unknown_in(module: str, name: str, others: Mapping[str, str], known: Collection[str]) -> str:
    """What to say of a name that a module does not have."""
    words = f"module {module!r} has no attribute {name!r}"
    found = others.get(name) or (None if name[0] == "_" else meant(name, known))
    return words if found is None else f"{words}; here it is {found}"


def meant(name: str, known: Collection[str]) -> str | None:
    """The known argument name that a wrong name stands for; None if no name is near."""
    same = [own for own in known if own.lower() == name.lower()]
    others = [own for own in SYNONYMS.get(name.lower(), ()) if own in known]
    near = get_close_matches(name, list(known), n=1, cutoff=0.7)
    return next(iter([*same, *others, *near]), None)


def checks_names(function: Function) -> Function:
    """Decorate a function so that an unknown keyword argument is an error with the right name."""
    signature = inspect.signature(function)
    all_names = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    # A function that is also a method of models has the model for its first argument.
    known = [name for name in signature.parameters if name not in ("self", "model")]

    @wraps(function)
    def checked(*args: Any, **kw: Any) -> Any:
        for name in () if all_names else kw:
            if name not in signature.parameters:
                raise ArgumentError(_message(_owner(function, args), name, known))
        try:
            return function(*args, **kw)
        except TypeError as error:
            try:
                signature.bind(*args, **kw)
            except TypeError as wrong:
                raise ArgumentError(_call(_owner(function, args), str(wrong), known)) from None
            raise error

    return checked  # type: ignore[return-value]


def _owner(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What a user calls a function or constructor."""
    return type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__


def _call(owner: str, wrong: str, known: list[str]) -> str:
    """What to write where arguments are missing, or are too many."""
    way = " A predictive is m.predictive(Xnew, Y_metadata)." if "predictive" in known else ""
    return f"{owner} cannot be called so: {wrong}. It takes {', '.join(known)}.{way}"


def _message(owner: str, name: str, known: list[str]) -> str:
    """The error for an unknown argument name: what to write in its place."""
    found = meant(name, known)
    if name in ELSEWHERE and "Xnew" in known:
        return f"{owner} has no argument {name!r}: {ELSEWHERE[name]}."
    if found == "Y_metadata" and name in IN_METADATA:
        way = f"give Y_metadata={{{KEYS.get(name, name)!r}: …}}, one value per row"
    elif found is not None:
        way = f"write {found}="
    else:
        way = f"it has {', '.join(known)}"
    return f"unexpected keyword: {owner} has no argument {name!r}: {way}."
