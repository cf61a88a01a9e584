"""The variational posterior and its bound.

`sparse` has one latent's prior at its inducing inputs, `gaussian` a Gaussian q(v), `family` what q
may be and `mean_field` the first family; `shards` makes the passes over rows and keeps their
`sites`, `sums` are what a pass takes and returns, and `evaluator` joins them to the bound.
"""
