"""The two-latent model in GPflow; imported by the workers that GPflow's interpreter runs."""

import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gpflow
import tensorflow as tf
import tensorflow_probability as tfp


class ClosedHetGaussian(gpflow.likelihoods.HeteroskedasticTFPConditional):
    """HetGaussian with its expectation in closed form: GPflow at its fastest."""

    def _variational_expectations(self, X, Fmu, Fvar, Y):
        precision = tf.exp(0.5 * Fvar[:, 1] - Fmu[:, 1])
        half = 0.5 * ((Y[:, 0] - Fmu[:, 0]) ** 2 + Fvar[:, 0]) * precision
        return -0.5 * math.log(2.0 * math.pi) - 0.5 * Fmu[:, 1] - half


def make_likelihood(name, nu, nodes):
    """The scale of TensorFlow Probability is e^{g/2}: a variance, or squared scale, of e^g.

    nodes : per dimension of the grid; 0 for the closed form of HetGaussian.
    """
    if not nodes:
        return ClosedHetGaussian(scale_transform=lambda g: tf.exp(0.5 * g))
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
    kernels = []
    for v, l, bias in zip(model["variance"], model["lengthscale"], model["bias"], strict=True):
        kernel = gpflow.kernels.SquaredExponential(variance=v, lengthscales=l)
        kernels.append(kernel + gpflow.kernels.Constant(bias) if bias else kernel)
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


def adam_step(model, optimizer, loss):
    """A compiled step of the optimiser on everything, q included; returns the loss before it."""

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            value = loss()
        gradient = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradient, model.trainable_variables, strict=True))
        return value

    return step
