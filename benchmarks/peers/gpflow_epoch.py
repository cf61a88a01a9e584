"""Seconds that a minibatch step takes in GPflow: a natural gradient on q, Adam on all else.

    python gpflow_epoch.py model.npz result.npz batch steps

Both parts of a step are compiled; batches are drawn by tf.data. One step is made before the clock
starts.
"""

import sys
import time

import numpy as np
from gpflow_model import gpflow, make_model, tf
from tf_keras.optimizers import Adam


def main(source, target, batch, steps):
    with np.load(source) as arrays:
        arrays = dict(arrays)
    model = make_model(arrays)
    model.num_data = len(arrays["X"])
    rows = tf.data.Dataset.from_tensor_slices((arrays["X"], arrays["y"][:, None]))
    batches = iter(rows.repeat().shuffle(10_000).batch(int(batch)))
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    natural, adam = gpflow.optimizers.NaturalGradient(0.05), Adam(0.005)

    @tf.function
    def step(data):
        natural.minimize(lambda: model.training_loss(data), [(model.q_mu, model.q_sqrt)])
        adam.minimize(lambda: model.training_loss(data), model.trainable_variables)

    step(next(batches))
    times = []
    for _ in range(int(steps)):
        start, processor = time.perf_counter(), time.process_time()
        step(next(batches))
        times.append((time.perf_counter() - start, time.process_time() - processor))
    np.savez(target, times=times)


if __name__ == "__main__":
    main(*sys.argv[1:])
