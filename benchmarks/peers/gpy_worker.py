"""GPy's SVGP, one latent and Gaussian noise, under the conditions of serve.py."""

from serve import serve


def load(threads):
    from gpy_bound import make_svgp

    def build(arrays):
        svgp = make_svgp(arrays)

        def evaluate():
            svgp.parameters_changed()
            return svgp.log_likelihood()

        return evaluate

    return build


if __name__ == "__main__":
    serve(load)
