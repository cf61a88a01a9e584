"""Likelihoods made from other distributions: a latent held constant, point masses, scipy.stats."""
