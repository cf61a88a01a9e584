"""The variational posterior and its bound.

`sparse` has one latent's prior at its inducing inputs, `gaussian` a Gaussian q(v), `family` what
q may be; its members `mean_field` and `joint` are made of `blocks`, and `choice` picks one for a
likelihood. `shards` makes the passes over rows and keeps their `sites`, `sums` are what a pass
takes and returns, and `evaluator` joins them to the bound.
"""
