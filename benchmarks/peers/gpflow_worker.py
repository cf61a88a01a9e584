"""GPflow's SVGP, compiled, under the conditions of serve.py."""

from serve import serve


def load(threads):
    from gpflow_model import gpflow, make_model, tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)

    def build(arrays):
        gpflow.config.set_default_jitter(float(arrays["jitter"]))
        model = make_model(arrays)
        data = (tf.constant(arrays["X"]), tf.constant(arrays["y"][:, None]))
        variables = model.trainable_variables

        @tf.function
        def compiled():
            with tf.GradientTape() as tape:
                bound = model.elbo(data)
            return bound, tape.gradient(bound, variables)

        def evaluate():
            bound, gradients = compiled()
            for gradient in gradients:
                gradient.numpy()
            return bound.numpy()

        return evaluate

    return build


if __name__ == "__main__":
    serve(load)
