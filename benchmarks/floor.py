"""Our evaluation (value and all gradients) against its floor: what no evaluation can do without.

    python benchmarks/floor.py [threads] [repetitions]

n = 10,000, D = 18, b = 2, ARD RBF, free Z. The floor: per latent one triangular inverse, the two
matrix products of M² a row (one of them symmetric), one exp(n × M), distance products both ways;
and the bare log-densities; on as many threads. They alternate, each four times, so that caches are
full; least times count, [of the wall, of the processor]. Exits with 1 if both exceed 1.5.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg import lapack
from workloads import LIKELIHOODS, clock, evaluate, make_model

from chainedgp.linalg import one_blas_thread

ROWS, CHUNK, D, BAR = 10_000, 512, 18, 1.5


def stages(m, M):
    """Name, work and how often it is done; values do not matter, sizes do."""
    draw, kw = np.random.default_rng(0).random, m.likelihood.parameter_values()
    L, S, K = np.tril(draw((M, M))) + M * np.eye(M), draw((M, M)), draw((M, CHUNK))
    Z, X, y, f = draw((M, D + 2)), draw((CHUNK, D + 2)), draw(CHUNK), draw(CHUNK)
    g = draw((8 if kw else 1, CHUNK))  # the Student-t is integrated over 8 nodes in g
    yield "inverse", lambda: lapack.dtrtri(L, lower=1), 2
    yield "products", lambda: (S @ K, K @ K.T), 2 * ROWS / CHUNK
    yield "exp", lambda: np.exp(K), 2 * ROWS / CHUNK
    yield "distances", lambda: (Z @ X.T, K @ X), 2 * ROWS / CHUNK
    yield "log-densities", lambda: m.likelihood.log_density(y, f, g, **kw), ROWS / CHUNK


def repeat(work, count, threads, pool):
    """Do `work` so many times, spread over the threads."""
    with one_blas_thread():
        for part in [pool.submit(lambda: [work() for _ in range(count)]) for _ in range(threads)]:
            part.result()


def main(threads=1, repetitions=10):
    met, pool = True, ThreadPoolExecutor(threads)
    for name, M in ((name, M) for name in LIKELIHOODS for M in (100, 300)):
        m = make_model(name, ROWS, M, D, threads)
        names, works, counts = zip(*stages(m, M), strict=True)
        jobs = [(w, round(c / threads), threads, pool) for w, c in zip(works, counts, strict=True)]
        calls = [lambda m=m: evaluate(m), *(lambda job=job: repeat(*job) for job in jobs)]
        rounds = [[[clock(f) for _ in range(4)] for f in calls] for _ in range(repetitions)]
        least = 1e3 * np.min(rounds, axis=(0, 2))
        ratio, shares = least[0] / least[1:].sum(0), 100 * least[1:, 1] / least[0, 1]
        print(f"{name}, M = {M}: {least[0].round(1)} ms, {ratio.round(2)} × floor; shares", end=" ")
        print(*(f"{n} {s:.0f} %" for n, s in zip(names, shares, strict=True)), sep=", ", flush=True)
        met &= ratio.min() <= BAR
    return int(not met)


raise SystemExit(main(*map(int, sys.argv[1:])))
