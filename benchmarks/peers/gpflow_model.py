"""The two-latent model in GPflow; imported by the workers that GPflow's interpreter runs."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gpflow
import tensorflow as tf
import tensorflow_probability as tfp


def make_likelihood(name, nu, nodes):
    """The scale of TensorFlow Probability is e^{g/2}: a variance, or squared scale, of e^g."""
    distribution = tfp.distributions.Normal
    if name == "HetStudentT":

        def distribution(loc, scale):
            return tfp.distributions.StudentT(tf.constant(nu, loc.dtype), loc, scale)

    return gpflow.likelihoods.HeteroskedasticTFPConditional(
        distribution_class=distribution,
        scale_transform=lambda g: tf.exp(0.5 * g),
        quadrature=gpflow.quadrature.NDiagGHQuadrature(2, nodes),
    )


def make_model(model):
    """SVGP, whitened, shared inducing inputs, from the arrays of an npz file."""
    kernels = [
        gpflow.kernels.SquaredExponential(variance=v, lengthscales=l) + gpflow.kernels.Constant(b)
        for v, l, b in zip(model["variance"], model["lengthscale"], model["bias"], strict=True)
    ]
    mean = gpflow.functions.Constant(model["mean"]) if model["mean"].any() else None
    nu = float(model["nu"]) if "nu" in model else 0.0
    return gpflow.models.SVGP(
        kernel=gpflow.kernels.SeparateIndependent(kernels),
        likelihood=make_likelihood(str(model["likelihood"]), nu, int(model["nodes"])),
        inducing_variable=gpflow.inducing_variables.SharedIndependentInducingVariables(
            gpflow.inducing_variables.InducingPoints(model["Z"])
        ),
        mean_function=mean,
        num_latent_gps=2,
        q_mu=model["q_mu"],
        q_sqrt=model["q_sqrt"],
        whiten=True,
    )
