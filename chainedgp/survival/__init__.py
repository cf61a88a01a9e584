"""Survival studies: Kaplan–Meier curves, checks of a fit, episodes, competing risks.

Likelihoods of event times are in `chainedgp.likelihoods`, and survival functions and hazards are
methods of `m.predictive(X)`. This module has what a study needs beside these.
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
