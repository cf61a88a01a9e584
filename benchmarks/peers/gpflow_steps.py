"""Times Adam steps of GPflow on the model in an npz file; run by GPflow's own interpreter.

    python gpflow_steps.py model.npz result.npz steps

The first step, which compiles, is not counted. Saves seconds, processor seconds of all threads, and
the bound before the first and the last step.
"""

import sys
import time

import numpy as np
from gpflow_model import adam_step, make_model, tf
from tf_keras.optimizers import Adam


def main(source, target, steps):
    arrays = np.load(source)
    data = (tf.constant(arrays["X"]), tf.constant(arrays["y"][:, None]))
    model, optimizer = make_model(arrays), Adam(0.01)
    loss = model.training_loss_closure(data, compile=False)
    step = adam_step(model, optimizer, loss)
    bounds = [-float(step())]
    start, processor = time.perf_counter(), time.process_time()
    bounds += [-float(step()) for _ in range(int(steps))]
    times = time.perf_counter() - start, time.process_time() - processor
    np.savez(target, seconds=times[0], processor=times[1], bounds=np.array(bounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
