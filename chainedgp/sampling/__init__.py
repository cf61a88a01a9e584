"""Draws from the posterior itself: what q stands for, by Monte Carlo."""
