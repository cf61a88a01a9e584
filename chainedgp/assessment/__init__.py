"""How good a model is: leave-one-out, cross-validation, metrics and questions of `m.check()`."""
