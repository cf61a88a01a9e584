"""What a method of the panel says about the test rows, as arrays.

A law is a distribution in the manner of scipy.stats with one row for each test row: `logpdf` (or
`logpmf`), `cdf`, `sf` take (n, k) or (k,), `ppf` takes (k,), all return (n, k); `mean` (n, 1).
"""

import json
import sys
import time

import numpy as np

SMALL = 1e-9  # Below it a difference of two cdfs is rounding: density times width is taken.


def answer_of(law, task, log_density=None, risk=None):
    """The arrays of a law.

    log_density (n,): log p(y), of a censored row log S(y); below, upto (n,): F(y⁻) and F(y), of
    a censored row F(y) and 1; quantiles (n, 3); mean (n,); log_interval (n,): the log-probability
    of y ± step/2 over the step; survival (n, k) at the times and risk (n,), higher if earlier.
    """
    kind, y = str(task["kind"]), task["y_new"][:, None]
    upto = law.cdf(y)[:, 0]
    answer = {"below": upto, "upto": upto, "quantiles": np.array(law.ppf(task["levels"]))}
    if kind == "counts":
        answer["below"] = law.cdf(y - 1.0)[:, 0]
    if kind == "survival":
        censored = task["censored_new"] > 0
        answer["upto"] = np.where(censored, 1.0, upto)
        answer["survival"] = law.sf(task["times"])
        answer["risk"] = -answer["quantiles"][:, 1] if risk is None else risk
        if log_density is None and hasattr(law, "logpdf"):
            log_density = np.where(censored, law.logsf(y)[:, 0], law.logpdf(y)[:, 0])
    else:
        mean = law.mean() if callable(law.mean) else law.mean
        answer["mean"] = np.broadcast_to(mean, y.shape)[:, 0]
        if log_density is None:
            log_density = (law.logpmf if kind == "counts" else law.logpdf)(y)[:, 0]
    if log_density is not None:
        answer["log_density"] = log_density
    step = float(task["step"])
    if step > 0.0:
        p = (law.cdf(y + step / 2) - law.cdf(y - step / 2))[:, 0]
        rounding = p < SMALL
        answer["log_interval"] = np.where(
            rounding, log_density, np.log(np.where(rounding, 1.0, p) / step)
        )
    return answer


class Clock:
    """Wall and processor seconds of a with-block."""

    def __enter__(self):
        """Start both clocks."""
        self.start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        """Stop them."""
        self.wall = time.perf_counter() - self.start[0]
        self.processor = time.process_time() - self.start[1]


def work(run):
    """Run `run(task, method, options) -> (arrays, clock of the fit, facts)` on the command line's.

    The command line: a task's npz file, the file of the answer, the method, options as JSON.
    """
    source, target, method, options = sys.argv[1:]
    with np.load(source) as arrays:
        task = dict(arrays)
    with Clock() as whole:
        answer, fit, facts = run(task, method, json.loads(options))
    facts |= {"processor": fit.processor, "wall": fit.wall}
    facts["predict_processor"] = whole.processor - fit.processor
    np.savez(target, facts=json.dumps(facts), **answer)
