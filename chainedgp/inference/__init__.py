"""Finding parameters: q at fixed hyperparameters, the profiled bound, stochastic methods."""
