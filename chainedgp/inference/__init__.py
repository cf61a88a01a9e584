"""Inference: fits of hyperparameters and q, by the profiled bound or by stochastic methods."""
