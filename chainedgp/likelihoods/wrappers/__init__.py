"""Likelihoods made from others: a latent held constant, point masses, rounding, scipy.stats."""
