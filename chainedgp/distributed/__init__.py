"""Fitting on a Dask cluster: rows and sites stay on workers, sums of size M² travel.

`ChainedGP(X, Y, …)` uses this folder if X is a Dask array. Rows are divided among the workers; each
part becomes a `Shard`, the same one that runs on a single machine, held by an actor. A pass sends
every shard the small task, with the steps on its sites that were queued since the last pass, and
adds up the sums in the order of the rows. So the result is the same, to the last bit, whichever
worker holds which rows.

A worker may die. Its rows are read again from the Dask array by another worker, and its sites are
made again from the (θ, q) they came from, which the head remembers (`Ledger`): a few passes over
those rows alone. The fit goes on as if nothing had happened.

Dask is imported by the functions that need it, when a Dask array has come.
"""

from .blocks import Predict, map_blocks
from .dask_evaluator import DaskEvaluator, distribute

__all__ = ["DaskEvaluator", "Predict", "distribute", "map_blocks"]
