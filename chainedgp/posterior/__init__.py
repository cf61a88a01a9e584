"""The variational posterior and its bound.

`sparse` has one latent's prior at its inducing inputs, `gaussian` a Gaussian q(v), `family` what
q may be; its members `mean_field` and `joint` are made of `blocks`, and `choice` picks one for a
likelihood. `shards` passes over the rows, on `threads`, and keeps their `sites`; rows with the same
inputs (`replicates`) share their work. `sums` are what a pass takes and returns, and `evaluator`
joins them to the bound.
"""
