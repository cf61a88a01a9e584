"""A default fit of this package on a task of the panel: see panel_answer.py.

The method is the name of a likelihood; options are keyword arguments of `ChainedGP`, and perhaps
`kernel_from`: the name of another likelihood, whose fit says what the kernel of the first latent is
and stays.
"""

import warnings

from panel_answer import Clock, answer_of, work

import chainedgp as cgp


def make(task, method, metadata, options):
    """A model that is not fitted."""
    likelihood = getattr(cgp.likelihoods, method)()
    return cgp.ChainedGP(task["X"], task["y"], likelihood, Y_metadata=metadata, **options)


def run(task, method, options):
    """The model as a user writes it, with inputs and target as they are in the table."""
    metadata = new = None
    if "censored" in task:
        metadata, new = {"censored": task["censored"]}, {"censored": task["censored_new"]}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Clock() as fit:
            simpler = options.pop("kernel_from", None)
            m = make(task, method, metadata, options)
            if simpler is not None:
                other = make(task, simpler, metadata, options)
                other.optimize()
                m.kernels[0][:] = other.kernels[0].param_array
                m.kernels[0].fix(warning=False)
            result = m.optimize()
        seen = m.log_predictive_density(task["X_new"], task["y_new"], Y_metadata=new)
        answer = answer_of(m.predictive(task["X_new"]), task, seen[:, 0])
    facts = {
        "converged": bool(result.converged),
        "reason": result.reason,
        "iterations": result.iterations,
        "bound": float(m.log_likelihood()),
        "warnings": sorted({str(w.message).splitlines()[0][:200] for w in said}),
    }
    return answer, fit, facts


if __name__ == "__main__":
    work(run)
