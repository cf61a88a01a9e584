"""Writes a page for every shipped likelihood, from likelihoods.toml and the classes themselves.

The pages are written whenever the documentation is built. Their pictures take minutes and are kept
in images/likelihoods; `python docs/make_likelihoods.py [names …]` draws them. Their right half is
made by the code on the page: data are simulated from the likelihood, the model fitted and plotted.
"""

import argparse
import re
import tomllib
import warnings
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy import stats
from scipy.special import expit

import chainedgp as cgp

L = cgp.likelihoods
HERE = Path(__file__).parent
TABLE = HERE / "likelihoods.toml"
PICTURES = HERE / "images" / "likelihoods"
COLOURS = ("#0072B2", "#D55E00", "#009E73")  # of Okabe and Ito
BASES = {"Likelihood", "Survival"}  # contracts, not models: in the reference
ROWS, SEED = 150, 1
SUPPORT = {
    "real": "any real number",
    "positive": "positive numbers",
    "unit": "strictly between 0 and 1",
    "counts": "0, 1, 2, …",
    "binary": "0 or 1",
    "categories": "0, 1, …, K − 1",
}
METADATA = {
    "exposure": "area, time or population of the row, by which the rate is multiplied. It is 1 "
    "where it is not given, also in predictions, which are then for one unit of exposure; figures "
    "take the median of the data.",
    "trials": "number of trials of the row; required",
    "censored": "0: seen (default); 1: the event came later than y; −1: it came earlier; 2: it "
    "came between y and `y_upper`",
    "y_upper": "upper end of the interval of rows with `censored` = 2",
    "entry": "left truncation: the row is in the data only because its time is after `entry`",
    "rounding": "the width to which the row was rounded; it replaces that of the likelihood",
}
WORDS = {"log_scale2": "squared scale", "log_nu": "degrees of freedom ν"}

HEAD = """# Which likelihood?

A likelihood is the distribution of the target y, given the inputs. One or more of its parameters,
such as a mean or a scale, follow latent functions of the inputs, which the model learns; others are
constants. Choose by the kind of target. Each picture shows simulated data and a fit; its title
leads to a page with the density, its parameters and code.

| your target | begin with | and if that does not fit |
|---|---|---|
"""
CHOICES = {
    "real numbers": ("HetGaussian", "outliers: HetStudentT"),
    "real numbers with skewed noise": ("SHASH", "positive targets: HetGamma, BoxCoxT"),
    "positive amounts": ("HetGamma", "zeros too: Tweedie, Inflated"),
    "growth and other normative curves": ("BoxCoxNormal", "heavier tails: BoxCoxT, SHASH"),
    "largest values, exceedances": ("GEV", "above a threshold: GeneralisedPareto"),
    "angles": ("VonMises", ""),
    "counts, also with exposure": ("NegativeBinomial", "many zeros: ZeroInflatedPoisson, Hurdle"),
    "successes among trials": ("Binomial", "more scatter: BetaBinomial"),
    "shares between 0 and 1": ("BetaMeanPrecision", "exact 0 or 1: ZeroOneInflatedBeta"),
    "yes or no": ("Bernoulli", "see [classification](../classification.md)"),
    "one of K classes": ("Softmax", "in an order: Ordinal"),
    "times to an event, some censored": (
        "LogLogisticSurvival",
        "WeibullSurvival, LogNormalSurvival",
    ),
    "a quantile, whatever the noise": ("AsymmetricLaplace", ""),
    "numbers that are no counts, rounded to few digits": ("Rounded", ""),
    "none of these": ("[a likelihood of your own](../writing_a_likelihood.md)", "ScipyLikelihood"),
}


@cache
def table():
    """The entries, one for every shipped likelihood and no other."""
    entries = tomllib.loads(TABLE.read_text("utf-8"))
    missing = set(L.__all__) - BASES ^ set(entries)
    if missing:
        raise SystemExit(f"{TABLE.name} and chainedgp.likelihoods differ: {sorted(missing)}")
    return entries


def build(name):
    """(source, object) of the likelihood on the page."""
    source = table()[name].get("make", f"L.{name}()")
    return source, eval(source, {"L": L})


def letters(name, likelihood):
    """A letter for each latent."""
    return table()[name].get("letters", "fghk")[: len(likelihood.latents)]


# ---- data and checks ----------------------------------------------------------------------------


def keywords(name, likelihood):
    """Parameters and metadata of the simulated rows."""
    return {**likelihood.parameter_values(), **table()[name].get("metadata", {})}


def simulate(name, likelihood):
    """Inputs X (n, 1), targets y (n,) and Y_metadata or None, drawn from the likelihood."""
    rng = np.random.default_rng(SEED)
    x = np.sort(rng.uniform(0.0, 10.0, ROWS))
    latents = [eval(source, {"np": np, "x": x}) for source in table()[name]["truth"]]
    kw = keywords(name, likelihood)
    y = np.asarray(likelihood.sample(rng, *latents, **kw), dtype=float)
    if likelihood.support == "unit" and not likelihood.atoms:
        y = np.clip(y, 1e-6, 1.0 - 1e-6)
    metadata = dict(table()[name].get("metadata", {})) or None
    if "censored" in likelihood.metadata_names:
        end = rng.uniform(0.2, 3.0, ROWS) * np.median(y)
        metadata, y = {"censored": (y > end).astype(float)}, np.minimum(y, end)
    return x[:, None], y, metadata


def check_scipy(name):
    """The distribution that the page names in scipy.stats is the likelihood's own."""
    source = table()[name].get("scipy")
    if source is None:
        return
    likelihood = build(name)[1]
    y = simulate(name, likelihood)[1][:40]
    kw = keywords(name, likelihood)
    if "exposure" in likelihood.metadata_names:
        kw["exposure"] = 2.5
    for values in table()[name]["show"]:
        scope = {"stats": stats, "np": np, "expit": expit, **kw}
        scope |= dict(zip(letters(name, likelihood), values, strict=True))
        dist = eval(source, scope)
        log_p = dist.logpdf if hasattr(dist.dist, "logpdf") else dist.logpmf
        ours = likelihood.log_density(y, *(np.full(y.size, float(v)) for v in values), **kw)
        true = log_p(y)
        near = true > -30.0  # Laws of extremes go on smoothly where theirs has nothing left.
        np.testing.assert_allclose(ours[near], true[near], rtol=1e-8, atol=1e-8, err_msg=name)


# ---- pictures -----------------------------------------------------------------------------------


def draw_family(ax, name, likelihood):
    """The density for a few values of the latents."""
    kw, styles = keywords(name, likelihood), ["-", "--", ":"]
    classes = likelihood.support in ("binary", "categories")
    discrete = classes or likelihood.support == "counts"
    y = family_grid(name, likelihood, kw, discrete)
    for k, values in enumerate(table()[name]["show"]):
        latents = [np.full(y.size, float(v)) for v in values]
        with np.errstate(divide="ignore"):
            p = np.exp(likelihood.log_density(y, *latents, **kw))
        symbols = zip(letters(name, likelihood), values, strict=True)
        label = ", ".join(f"{letter} = {v:g}" for letter, v in symbols).replace("-", "−")
        if classes:  # side by side
            ax.bar(y + 0.25 * (k - 1), p, 0.22, color=COLOURS[k], label=label)
        elif discrete:
            ax.plot(y, p, "o" + styles[k], color=COLOURS[k], ms=3.5, lw=0.8, label=label)
        else:
            ax.plot(y, p, styles[k], color=COLOURS[k], label=label)
        for atom in likelihood.atoms:
            mass = likelihood.log_density(np.array([atom]), *(v[:1] for v in latents), **kw)
            ax.plot([atom, atom], [0, np.exp(mass[0])], "o-", color=COLOURS[k], ms=4, lw=1)
    ax.set(xlabel="y", ylabel="probability" if discrete else "density", ylim=(0, None))
    if not discrete:
        ax.set_ylim(0, min(ax.get_ylim()[1], 4.0))
    ax.xaxis.get_major_locator().set_params(integer=discrete)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(framealpha=0.85, edgecolor="none", fontsize=8)


def family_grid(name, likelihood, kw, discrete):
    """Where the densities are drawn."""
    if likelihood.support == "unit":
        return np.linspace(0.001, 0.999, 400)
    if likelihood.support in ("binary", "categories"):
        return np.arange(top(name) + 1.0)
    if "trials" in kw:
        return np.arange(kw["trials"] + 1.0)
    first, last = likelihood.target_support.ends
    if np.isfinite([first, last]).all():
        return np.linspace(first, last, 400)
    rng = np.random.default_rng(0)
    draws = [
        likelihood.sample(rng, *(np.full(500, float(v)) for v in values), **kw)
        for values in table()[name]["show"]
    ]
    low, high = np.quantile(np.ravel(draws), [0.005, 0.995 if discrete else 0.96])
    if discrete:
        return np.arange(np.ceil(high) + 1.0)
    return np.linspace(low if np.isinf(first) else first + 1e-3, high, 400)


def top(name):
    """The highest class in the simulated data."""
    return simulate(name, build(name)[1])[1].max()


def code(name):
    """The code on the page, which also makes the picture."""
    source, likelihood = build(name)
    extra = ", Y_metadata=metadata" if simulate(name, likelihood)[2] else ""
    return (
        "L = cgp.likelihoods\n"
        f"likelihood = {source}\n"
        f"m = cgp.ChainedGP(X, y, likelihood, num_inducing=20{extra})\n"
        "m.optimize()\n"
        "m.plot()\n"
    )


def run(name, ax, **options):
    """Run the page's code on simulated data; `options` go to `optimize`. ax: None does not plot."""
    X, y, metadata = simulate(name, build(name)[1])
    scope = {"cgp": cgp, "X": X, "y": y, "metadata": metadata, "ax": ax, "options": options}
    source = code(name).replace("m.optimize()", "m.optimize(**options)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cgp.errors.ChainedGPWarning)
        exec(source.replace("m.plot()", "ax is None or m.plot(ax=ax)"), scope)
    return scope["m"]


def draw(name):
    """The densities, and the fit."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained")
    draw_family(left, name, build(name)[1])
    run(name, right)
    path = PICTURES / f"{name}.png"
    figure.savefig(path, dpi=100)
    plt.close(figure)
    with Image.open(path) as image:  # a palette of 64 colours: a third of the size
        small = image.convert("RGB").quantize(64)
    small.save(path, optimize=True)


# ---- pages --------------------------------------------------------------------------------------


def link(latent, letter):
    """What a latent drives, in words."""
    if latent in WORDS:
        return f"{WORDS[latent]} = $e^{{{letter}}}$"
    if re.fullmatch(r"logit_\d+", latent):
        return f"weight of class {int(latent[6:]) - 1} ∝ $e^{{{letter}}}$"
    for prefix, formula in (
        ("log_odds_", f"odds of the mass at {latent[9:]} against the base = $e^{{{letter}}}$"),
        ("log_", f"{latent[4:].replace('_', ' ')} = $e^{{{letter}}}$"),
        ("logit_", f"{latent[6:]} by the logistic function of ${letter}$"),
        ("logit", f"probability = $1/(1 + e^{{-{letter}}})$"),
    ):
        if latent.startswith(prefix):
            return formula
    return f"{latent.replace('_', ' ')} = ${letter}$"


def expectation(likelihood):
    """How E[log p] is found, in words."""
    if isinstance(likelihood, L.ConstantLatent):
        base = likelihood.base  # a constant needs no nodes
        if base.exact_expectation or base.quadrature_latent not in (None, *likelihood.latents):
            return "closed form"
    if likelihood.exact_expectation:
        return "closed form"
    if likelihood.quadrature_latent:
        return f"analytic, except over `{likelihood.quadrature_latent}`, which uses quadrature"
    if likelihood.own_expectation and not isinstance(likelihood, L.Rounded):
        return "partly analytic, the rest by quadrature"
    return "quadrature" if len(likelihood.latents) > 1 else "quadrature in one dimension"


def parameters(name, likelihood):
    """The parameters and their starts: those that were left open start where the data say."""
    _, y, metadata = simulate(name, likelihood)
    found = likelihood.initial_parameters(y, **keywords(name, likelihood) | (metadata or {}))
    values = likelihood.parameter_values().items()
    shown = [f"`{key}`" if key in found else f"`{key}` (starts at {v:g})" for key, v in values]
    return ", ".join(shown) + (" (the start is chosen from the data)" if found else "")


def page(name):
    """The page of one likelihood, in MyST."""
    entry, (source, likelihood) = table()[name], build(name)
    rows = "\n".join(
        f"| `{latent}` | ${letter}$ | {link(latent, letter)} |"
        for latent, letter in zip(likelihood.latents, letters(name, likelihood), strict=True)
    )
    facts = [
        f"Targets\n: {targets(likelihood)}",
        f"Expected log-density\n: {expectation(likelihood)}",
    ]
    if likelihood.parameter_keys:
        facts.insert(1, f"Parameters\n: {parameters(name, likelihood)}")
    for key in likelihood.metadata_names:
        facts.append(f'`Y_metadata["{key}"]`\n: {METADATA[key]}')
    if "scipy" in entry:
        facts.append(f"In scipy.stats\n: `{entry['scipy']}`")
    example = f" (here as `{source}`)" if "make" in entry else ""
    discrete = likelihood.support in ("binary", "categories", "counts")
    seen = "probabilities" if discrete else "the density"
    return f"""# {name}

$$
{entry["density"]}
$$

{entry["when"]}

| latent{example} | symbol | what it drives |
|---|---|---|
{rows}

{(chr(10) * 2).join(facts)}

![Densities and a fit](../images/likelihoods/{name}.png)

*Left: {seen} for a few values of the latents. Right: {ROWS} rows simulated
from the likelihood, and the model that this code fits to them:*

```python
{code(name)}```

```{{eval-rst}}
.. autoclass:: chainedgp.likelihoods.{name}
```
"""


def targets(likelihood):
    """The support in words, with the atoms."""
    words = likelihood.target_support.words
    text = SUPPORT[likelihood.support] if isinstance(likelihood.support, str) else words
    atoms = [f"{atom:g}" for atom in likelihood.atoms]
    return text + (f", and exactly {' or '.join(atoms)}" if atoms else "")


def first_sentence(text):
    """Where a text first ends a sentence; a colon or a full stop inside a word is none."""
    text = " ".join(text.split())
    found = re.search(r"[.:](?= |$)", text)
    return text[: found.start()] + "." if found else text


def card(name):
    """A thumbnail, the name, and what the likelihood is for."""
    purpose = first_sentence(table()[name]["when"]).removeprefix("Use it ")
    purpose = purpose[:1].upper() + purpose[1:]
    return f"""::::{{container}} card
[{name}]({name}.md)

![A fit with {name}](../images/likelihoods/{name}.png)

{purpose}
::::
"""


def overview():
    """The page that lists them."""
    names = re.compile(rf"\b({'|'.join(table())})\b")
    lines = [HEAD.rstrip("\n")]
    for target, words in CHOICES.items():
        begin, further = (names.sub(r"[`\1`](\1.md)", text) for text in words)
        lines.append(f"| {target} | {begin} | {further} |")
    lines.append("")
    for group in dict.fromkeys(entry["group"] for entry in table().values()):
        names = [name for name, entry in table().items() if entry["group"] == group]
        lines += [f"## {group}\n", ":::::{container} cards thumbnails\n", *map(card, names)]
        lines.append(":::::\n")
    lines.append("```{toctree}\n:hidden:\n")
    return "\n".join([*lines, *table(), "```\n"])


def write(folder):
    """All pages."""
    folder.mkdir(exist_ok=True)
    (folder / "index.md").write_text(overview(), "utf-8")
    for name in table():
        check_scipy(name)
        (folder / f"{name}.md").write_text(page(name), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures of the likelihoods.")
    parser.add_argument("names", nargs="*", help="likelihoods; none draws all")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names or table():
        draw(name)
