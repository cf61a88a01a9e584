"""The parameters of a model: leaves of paramz, where their values may lie, and their priors."""
