"""The no-U-turn sampler (NUTS) over inducing values and hyperparameters, where q is not enough.

The sampler is nutpie's. It moves in coordinates in which a Gaussian near the posterior, made of q
and of the curvature at the fit, is N(0, I), and starts from draws of that Gaussian.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.arguments import as_generator, fraction, positive_int, shows_progress
from ..data.types import Seed
from ..errors import ConvergenceWarning, InputError, warn
from ..inference.problem import Problem
from ..linalg import Array
from ..posterior.mean_field import MEAN_FIELD
from .averaged import Averaged, Columns, Point
from .density import LogJoint, point, whitened_q
from .hyper import HyperJoint, check_proper, scales_near

if TYPE_CHECKING:
    from arviz import InferenceData

PREDICTIVE_DRAWS = 200  # Predictions average over so many of the draws, evenly spaced.
MIXED = 1.01  # Chains whose largest R-hat is above this have not mixed.


class Sampled(Averaged):
    """Draws from the posterior by the no-U-turn sampler, and predictions that average over them.

    Attributes
    ----------
    inference_data : of arviz: the group `posterior` has the hyperparameters by their names and the
        whitened inducing values `v`, `sample_stats` what the sampler says of each draw.
    rhat, ess : the largest R-hat of any quantity, and the smallest effective number of draws.
    divergences : draws after the warm-up whose trajectories diverged; with many of them do not
        trust the draws.
    """

    def __init__(
        self, points: Averaged, inference_data: InferenceData, rhat: float, ess: float
    ) -> None:
        given = points.points, points.weights, points.columns, points.family
        super().__init__(points.problem, *given)
        self.inference_data, self.rhat, self.ess = inference_data, rhat, ess
        stats = inference_data["sample_stats"]
        self.divergences = int(np.asarray(stats["diverging"]).sum())

    def __repr__(self) -> str:
        sizes = self.inference_data["posterior"].sizes
        return (
            f"<{sizes['chain']} chains of {sizes['draw']} draws: largest R-hat {self.rhat:.3f}, "
            f"smallest effective number of draws {self.ess:.0f}, {self.divergences} divergences; "
            f"predictions average over {len(self.points)} of them>"
        )


def sample(
    problem: Problem,
    columns: Columns,
    draws: int,
    chains: int,
    *,
    hyperparameters: bool,
    tune: int,
    target_accept: float,
    rng: Seed,
    messages: bool | None,
) -> Sampled:
    """Draw from the posterior by the no-U-turn sampler; see `ChainedGP.sample`."""
    draws, chains = positive_int(draws, "draws"), positive_int(chains, "chains")
    tune, target_accept = positive_int(tune, "tune"), fraction(target_accept, "target_accept")
    seed = int(as_generator(rng).integers(2**31))
    if not isinstance(hyperparameters, bool | np.bool_):
        raise InputError(f"hyperparameters must be True or False; got {hyperparameters!r}.")
    if draws < 4:
        raise InputError(f"draws must be at least 4, to compute R-hat; got {draws}.")
    if hyperparameters:
        check_proper(problem)
    nutpie, arviz = _sampler()
    model = _with_hyperparameters(problem) if hyperparameters else _inducing_values(problem)
    settings = {"target_accept": target_accept, "save_warmup": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Warnings of the libraries below are not about the model.
        running = nutpie.sample(
            model.compiled(nutpie), draws=draws, tune=tune, chains=chains, seed=seed,
            blocking=False, progress_bar=shows_progress(messages),
            low_rank_modified_mass_matrix=True, **settings,
        )  # fmt: skip
        try:
            data = running.wait()
        except BaseException:  # Ctrl-C, too, ends the threads of the chains.
            running.cancel()
            raise
        rhat, ess = _diagnosed(arviz, data, chains)
    result = Sampled(_averaged_over_draws(problem, columns, data), data, rhat, ess)
    if not rhat <= MIXED and chains > 1:
        warn(
            f"the chains have not mixed: the largest R-hat is {rhat:.3f}. Take more draws "
            f"(draws={4 * draws}) and a longer warm-up (tune={2 * tune}).",
            ConvergenceWarning,
        )
    return result


def _sampler() -> tuple[Any, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import arviz
            import nutpie
            import nutpie.compiled_pyfunc
    except ImportError as error:
        raise InputError(
            f"m.sample needs nutpie and arviz ({error}): pip install 'chainedgp[mcmc]'."
        ) from None
    return nutpie, arviz


class _Model(NamedTuple):
    """A density as the sampler nutpie takes it: functions that make one for each chain's thread."""

    size: int
    make_density: Callable[[], Callable[[Array], tuple[float, Array]]]
    # This makes what is kept of a draw.
    make_draw: Callable[[], Callable[[Array], dict[str, Array]]]
    example: dict[str, Array]

    def compiled(self, nutpie: Any) -> Any:
        """The density as nutpie's sampler has it."""
        return nutpie.compiled_pyfunc.from_pyfunc(
            ndim=self.size,
            make_logp_fn=self.make_density,
            make_expand_fn=lambda *_: self.make_draw(),
            expanded_dtypes=[np.dtype(float)] * len(self.example),
            expanded_shapes=[value.shape for value in self.example.values()],
            expanded_names=list(self.example),
            make_initial_point_fn=lambda seed: np.random.default_rng(seed).standard_normal(
                self.size
            ),
        )


def _inducing_values(problem: Problem) -> _Model:
    """The density of inducing values v alone for the sampler, where q is N(0, I)."""
    density, (mean, root) = LogJoint(problem), whitened_q(problem)

    def log_density(z: Array) -> tuple[float, Array]:
        value, slopes = density((mean + root @ z)[:, None])
        return float(value[0]), root.T @ slopes[:, 0]

    def draw(z: Array) -> dict[str, Array]:
        return {"v": mean + root @ z}

    return _Model(mean.size, lambda: log_density, lambda: draw, {"v": mean})


def _with_hyperparameters(problem: Problem) -> _Model:
    """The density of v and the free hyperparameters for the sampler, in `hyper`'s coordinates."""
    first = HyperJoint(problem)
    scales, centre = scales_near(first), first.x
    p, D = centre.size, sum(first.sizes)

    def make_density() -> Callable[[Array], tuple[float, Array]]:
        joint = HyperJoint(problem)

        def log_density(z: Array) -> tuple[float, Array]:
            value, dx, dz = joint(centre + scales @ z[:p], z[p:])
            return value, np.concatenate([scales.T @ dx, dz])

        return log_density

    def make_draw() -> Callable[[Array], dict[str, Array]]:
        joint = HyperJoint(problem)

        def draw(z: Array) -> dict[str, Array]:
            x = centre + scales @ z[:p]
            return {"v": joint.v(x, z[p:]), "free_vector": x, **joint.values(x)}

        return draw

    return _Model(p + D, make_density, make_draw, make_draw()(np.zeros(p + D)))


def _diagnosed(arviz: Any, data: InferenceData, chains: int) -> tuple[float, float]:
    """The largest R-hat of the chains, nan for one, and the smallest effective number of draws."""
    rhat = [float(part.max()) for part in arviz.rhat(data).values()] if chains > 1 else [np.nan]
    return max(rhat), min(float(part.min()) for part in arviz.ess(data).values())


def _averaged_over_draws(problem: Problem, columns: Columns, data: InferenceData) -> Averaged:
    """Predictions averaged over some draws, evenly spaced, each with all of q at its v."""
    posterior = data["posterior"]
    v = np.asarray(posterior["v"])
    v = v.reshape(-1, v.shape[-1])
    chosen = np.unique(np.linspace(0, len(v) - 1, PREDICTIVE_DRAWS).round().astype(int))
    x = np.empty((len(v), 0))
    if "free_vector" in posterior:
        x = np.asarray(posterior["free_vector"]).reshape(len(v), -1)
    cuts = np.cumsum(problem.parts.sizes)[:-1]
    points = [
        Point(x[s] if x.shape[1] else None, tuple(map(point, np.split(v[s], cuts)))) for s in chosen
    ]
    weights = np.full(len(points), 1.0 / len(points))
    return Averaged(problem, points, weights, columns, MEAN_FIELD)
