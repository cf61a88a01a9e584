"""The variational bound: one latent on a chunk, shards of rows, the evaluator."""
