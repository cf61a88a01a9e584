"""Draws by Monte Carlo from the posterior that q approximates, of latents and hyperparameters."""
