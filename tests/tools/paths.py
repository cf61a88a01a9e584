"""Where things lie: the checkout, and the files that tests compare with."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "stored"
