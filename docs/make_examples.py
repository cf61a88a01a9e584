"""Draws the figures of docs/examples.md by the scripts in examples/: python docs/make_examples.py.

Names of scripts as arguments draw theirs alone. All take one or two minutes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
FIGURES = {
    "table_with_categories": "effects.png",
    "counts_with_exposure": "moths.png",
    "classification": "map.png",
    "forecast": "forecast.png",
    "survival_study": "along.png",
    "extremes": "maxima.png",
    "growth_centiles": "growth_chart.png",
    "faulty_sensor": "sensor.png",
    "scipy_noise": "inverse_gaussian.png",
}


def main():
    folder = HERE / "images" / "examples"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        script, path = HERE.parent / "examples" / f"{name}.py", folder / f"{name}.png"
        with tempfile.TemporaryDirectory() as output:
            subprocess.run([sys.executable, script, "--output", output], check=True)
            with Image.open(
                Path(output) / FIGURES[name]
            ) as image:  # a palette: a third of the size
                small = image.convert("RGB").quantize(128)
        small.save(path, optimize=True)
        print(path)


if __name__ == "__main__":
    main()
