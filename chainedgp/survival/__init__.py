"""Survival studies: curves without a model, observed against predicted, episodes, several causes.

Times to an event, likelihoods of them and their predictions are in `chainedgp.likelihoods` and
`m.predictive`; here is what a study needs around these.
"""

from ..assessment.kaplan_meier import AalenJohansen, KaplanMeier
from ..assessment.survival import SurvivalCheck, survival_calibration, survival_check
from .competing_risks import CompetingRisks
from .contrasts import contrasts
from .episodes import Episodes, episode_survival, split_episodes

__all__ = [
    "AalenJohansen",
    "CompetingRisks",
    "Episodes",
    "KaplanMeier",
    "SurvivalCheck",
    "contrasts",
    "episode_survival",
    "split_episodes",
    "survival_calibration",
    "survival_check",
]
