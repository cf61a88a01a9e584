"""Draws the figures of docs/extremes.md by the code on the page: python docs/make_extremes.py."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

HERE = Path(__file__).parent
NAMES = ("extremes_return_levels", "extremes_mean_excess")


def main():
    page = (HERE / "extremes.md").read_text("utf-8")
    scope = {}
    for source in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(source, scope)
    for number, name in zip(plt.get_fignums(), NAMES, strict=True):
        path = HERE / "images" / f"{name}.png"
        plt.figure(number).savefig(path, dpi=130)
        with Image.open(path) as image:  # a palette of 64 colours: a third of the size
            small = image.convert("RGB").quantize(64)
        small.save(path, optimize=True)
        print(path)


if __name__ == "__main__":
    main()
