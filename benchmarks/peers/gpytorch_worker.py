"""GPyTorch's variational GP under the conditions of serve.py.

Two latents are a batch of two; the expectation is closed for HetGaussian (the fastest there is) and
a product grid of Gauss–Hermite nodes for HetStudentT. GPyTorch adds its jitter to the variance at
the data too, so its bound differs by that much.
"""

import math

import numpy as np
from serve import serve


def load(threads):
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self, a):
            M, b = a["q_mu"].shape
            q = gpytorch.variational.CholeskyVariationalDistribution(M, torch.Size([b]))
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.tensor(a["Z"]), q, True, jitter_val=float(a["jitter"])
            )
            super().__init__(strategy)
            shape = torch.Size([b])
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            rbf = gpytorch.kernels.RBFKernel(a["X"].shape[1], batch_shape=shape)
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf, batch_shape=shape)
            self.mean_module.initialize(constant=torch.tensor(a["mean"]))
            rbf.lengthscale = torch.tensor(a["lengthscale"])[:, None, :]
            self.covar_module.outputscale = torch.tensor(a["variance"])
            q.variational_mean.data = torch.tensor(a["q_mu"].T.copy())
            q.chol_variational_covar.data = torch.tensor(a["q_sqrt"])
            strategy.variational_params_initialized.fill_(1)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    def gaussian(y, m, v):
        half = 0.5 * ((y - m[0]) ** 2 + v[0]) * torch.exp(0.5 * v[1] - m[1])
        return -0.5 * math.log(2 * math.pi) - 0.5 * m[1] - half

    def student_t(y, m, v, x, w, nu):
        f = m[0] + v[0].sqrt() * x[:, None, None]
        g = m[1] + v[1].sqrt() * x[:, None]
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log()
        tail = torch.log1p((y - f) ** 2 * (torch.exp(-g) / nu))
        return torch.einsum("i,j,ijn->n", w, w, constant - 0.5 * g - 0.5 * (nu + 1) * tail)

    def build(a):
        X, y, model = torch.tensor(a["X"]), torch.tensor(a["y"]), SVGP(a)
        x, w = np.polynomial.hermite_e.hermegauss(int(a["nodes"]))
        x, w = torch.tensor(x), torch.tensor(w / w.sum())
        nu = torch.nn.Parameter(torch.tensor(float(a.get("nu", 4.0))))
        parameters = [*model.parameters(), nu]

        def evaluate():
            for parameter in parameters:
                parameter.grad = None
            f = model(X)
            m, v = f.mean, f.variance
            if str(a["likelihood"]) == "HetStudentT":
                expected = student_t(y, m, v, x, w, nu)
            else:
                expected = gaussian(y, m, v)
            bound = expected.sum() - model.variational_strategy.kl_divergence().sum()
            bound.backward()
            return bound.item()

        return evaluate

    return build


if __name__ == "__main__":
    serve(load)
