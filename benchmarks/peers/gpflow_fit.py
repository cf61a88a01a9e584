"""GPflow's optimisers on the model in an npz file; run by GPflow's own interpreter.

    python gpflow_fit.py model.npz result.npz seconds

Every method starts from the same point and runs for `seconds` after compilation: one step is run
first, then the parameters and the optimiser's memory are put back and the clock starts. All
methods work on all rows, so each step's loss, which it computes anyway, is the bound; recording it
costs nothing. The clock stops for no one: what GPflow does between steps counts.
The jitter is GPflow's own default.
"""

import sys
import time
from contextlib import contextmanager

import numpy as np
from gpflow_model import adam_step, gpflow, make_model, tf
from tf_keras.optimizers import Adam


class TimeIsUp(Exception):
    """Raised inside SciPy's loop."""


class Clock:
    """Seconds since the start, bound, and processor seconds of all threads since the start."""

    def __init__(self, limit):
        self.limit, self.trace = limit, []
        self.start, self.start_cpu = time.perf_counter(), time.process_time()

    def point(self, bound):
        """Record a bound; False when the time is up."""
        now = time.perf_counter() - self.start
        if now < self.limit:
            self.trace.append((now, bound, time.process_time() - self.start_cpu))
        return now < self.limit


@contextmanager
def failures_shown():
    """A factorisation that fails ends the run and is reported; the end of the time just ends it."""
    try:
        yield
    except TimeIsUp:
        pass
    except tf.errors.InvalidArgumentError as error:
        words = ("Cholesky", "NaN values")
        cause = next((word for word in words if word in str(error)), str(error).splitlines()[0])
        print(f"    stopped by an error: {cause}", flush=True)


def run_steps(step, state, limit):
    """Call `step` (compiled, returns the loss before it) until the time is up."""
    before = {variable.ref(): variable.numpy() for variable in state()}
    step()
    for variable in state():  # the first step made the optimiser's memory, which starts at 0
        variable.assign(before.get(variable.ref(), tf.zeros_like(variable)))
    clock = Clock(limit)
    with failures_shown():
        while clock.point(-float(step())):
            pass
    return clock.trace


def adam(model, data, rate, limit):
    """Adam on everything, q included."""
    optimizer, loss = Adam(rate), model.training_loss_closure(data, compile=False)

    step = adam_step(model, optimizer, loss)
    return run_steps(step, lambda: [*model.trainable_variables, *optimizer.variables], limit)


def natural_gradients(model, data, gamma, limit):
    """Natural gradients of length gamma for q, then Adam (0.01) for everything else, in turn."""
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    optimizer, loss = Adam(0.01), model.training_loss_closure(data, compile=False)
    natural = gpflow.optimizers.NaturalGradient(gamma=gamma)

    @tf.function
    def step():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape() as tape:
            value = loss()
        gradient = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradient, model.trainable_variables, strict=True))
        return value

    q = [model.q_mu.unconstrained_variable, model.q_sqrt.unconstrained_variable]
    return run_steps(step, lambda: [*q, *model.trainable_variables, *optimizer.variables], limit)


def lbfgs(model, data, _, limit):
    """GPflow's SciPy L-BFGS on everything; every evaluation's bound is recorded."""
    clocks = []

    class Timed(gpflow.optimizers.Scipy):
        def eval_func(self, closure, variables, **options):
            evaluate = super().eval_func(closure, variables, **options)
            evaluate(self.initial_parameters(variables).numpy())  # compiles
            clocks.append(Clock(limit))

            def timed(x):
                value, gradient = evaluate(x)
                if not clocks[0].point(-float(value)):
                    raise TimeIsUp
                return value, gradient

            return timed

    loss = model.training_loss_closure(data, compile=False)
    options = {"maxiter": 100_000, "maxfun": 1_000_000}
    with failures_shown():
        done = Timed().minimize(loss, model.trainable_variables, options=options)
        print(f"    ended by itself: {done.message}", flush=True)
    return clocks[0].trace


RUNS = (
    *((f"Adam {rate}", adam, rate) for rate in (0.003, 0.01, 0.03, 0.1)),
    *((f"natgrad {g} + Adam 0.01", natural_gradients, g) for g in (0.1, 0.5, 1.0)),
    ("L-BFGS", lbfgs, None),
)


def main(source, target, seconds):
    arrays = np.load(source)
    data = (tf.constant(arrays["X"]), tf.constant(arrays["y"][:, None]))
    traces = {}
    for name, method, setting in RUNS:
        trace = np.array(method(make_model(arrays), data, setting, float(seconds)))
        trace = trace.reshape(-1, 3)
        traces[name] = trace
        finite = np.where(np.isfinite(trace[:, 1]), trace[:, 1], -np.inf)
        best = int(np.argmax(finite))
        print(
            f"  {name:<24} {len(trace):6d} evaluations, start {trace[0, 1]:.6g}, "
            f"best {finite[best]:.6g} at {trace[best, 0]:.1f} s "
            f"({trace[best, 2]:.1f} processor s)",
            flush=True,
        )
    np.savez(target, **traces)


if __name__ == "__main__":
    main(*sys.argv[1:])
