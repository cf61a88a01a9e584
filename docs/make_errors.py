"""Writes errors.md, the messages for bad inputs, from the list that the tests use as well."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "tools"))

from bad_inputs import page  # noqa: E402

if __name__ == "__main__":
    (HERE / "errors.md").write_text(page(), encoding="utf-8")
