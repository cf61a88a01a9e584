"""chainedgp, timed under the same conditions as its peers; see serve.py."""

from serve import serve


def load(threads):
    import numpy as np

    from chainedgp import ChainedGP, kernels, likelihoods, means

    def build(a):
        D, name = a["X"].shape[1], str(a["likelihood"])
        kw = {"nu": float(a["nu"])} if "nu" in a else {}
        if name == "Gaussian":
            kw = {"variance": float(a["scale2"])}
        kernel = [
            kernels.RBF(D, float(v), l, ARD=True)
            for v, l in zip(a["variance"], a["lengthscale"], strict=True)
        ]
        mean = [means.Constant(float(value)) for value in a["mean"]]
        m = ChainedGP(
            a["X"],
            a["y"],
            getattr(likelihoods, name)(**kw),
            kernel,
            a["Z"],
            mean,
            jitter=float(a["jitter"]),
            num_threads=threads,
            num_nodes=int(a["our_nodes"]) or None,
        )
        lower = np.tril_indices(len(a["Z"]))
        m.q_mu[:] = a["q_mu"]
        m.q_sqrt[:] = a["q_sqrt"][:, *lower].T

        def evaluate():
            m.parameters_changed()
            m.objective_function_gradients()
            return m.log_likelihood()

        return evaluate

    return build


if __name__ == "__main__":
    serve(load)
