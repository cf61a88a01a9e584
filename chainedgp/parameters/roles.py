"""Roles of parameters: what each is to its kernel or mean function, whatever its name is."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """What a leaf (a parameter) is to its kernel or mean, which says so in `roles`.

    Fits act on roles, never on names: a leaf without one is fitted like any other number, but it
    gets none of the help that stands here.
    """

    #: A covariance is proportional to it. A fit that ends below constant latents makes them small
    #: and begins again.
    VARIANCE = "variance"
    #: Correlations grow with it. The fit of a new model tries several, of default kernels and where
    #: the latents play the same role.
    LENGTHSCALE = "lengthscale"
    #: A distance in X after which the function comes again. The more periods the data span, the
    #: smaller are the steps in its logarithm.
    PERIOD = "period"
    #: The one number that a mean function adds everywhere.
    LEVEL = "level"
    #: The slopes of a mean function, one for each column of X. Beside a level they are fitted
    #: around the centre of X: where X is far from 0, as years are, they would move all of the line.
    SLOPE = "slope"
