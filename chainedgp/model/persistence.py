"""Save and load models: one npz archive of plain arrays with a versioned JSON header. No pickle.

The header says how to rebuild the parts by their constructors; values are arrays, bit for bit. A
file never names anything to import: classes come from a table of this package's own, and from
`load(path, classes=…)`. The format is in `chainedgp.model.files`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..data.types import FilePath
from ..errors import InputError
from .chained_gp import ChainedGP
from .files import FORMAT, FileFormatError, read_model

__all__ = ["FORMAT", "FileFormatError", "load", "save"]


def save(model: ChainedGP, path: FilePath, data: bool = True) -> None:
    """Write a model to a file that `load` reads; the file appears whole or not at all.

    Parameters
    ----------
    model : ChainedGP
        Parts of your own classes are rebuilt by their constructors: an argument must be kept as an
        attribute of the same name (`self.power` or `self._power`), or the class gives all of them
        by a method `constructor_arguments(self) -> dict`.
    path : str or PathLike
        The file; it is replaced if it exists.
    data : bool
        Whether to store the rows (X, Y, Y_metadata) too. Without them the loaded model predicts,
        and fits after `set_data`.

    Raises
    ------
    InputError : something in the model cannot be stored, by name.
    """
    if not isinstance(model, ChainedGP):
        raise InputError(f"model must be a ChainedGP; got {type(model).__name__}.")
    model.save(path, data)


def load(path: FilePath, classes: Sequence[type] | type = ()) -> ChainedGP:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or PathLike
        The file.
    classes : a class or several
        Your own classes that the model uses (likelihoods, kernels, means, priors).

    Raises
    ------
    FileFormatError : the file is damaged, is none of ours, comes from a newer version, or needs a
        class that is not given. It is an InputError.
    """
    return read_model(path, classes, ChainedGP._from_contents)
