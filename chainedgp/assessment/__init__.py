"""How good a model is: leave-one-out, cross-validation, metrics, and the questions of `check`."""
