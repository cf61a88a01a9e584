"""Models in files: one npz archive of plain arrays with a versioned JSON header. No pickle.

The header says how to rebuild the parts by their constructors; values are arrays, bit for bit. A
file never names anything to import: classes come from a table of this package's own, and from
`load(path, classes=…)`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..model import ChainedGP
from .archive import FileFormatError, read_archive, write_archive
from .classes import Classes, kind_of, table_of
from .reader import Reader, parts_of
from .writer import FORMAT, Writer

__all__ = ["FORMAT", "FileFormatError", "load", "save"]


def save(model: ChainedGP, path: str | os.PathLike[str], data: bool = True) -> None:
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
    if type(model) is not ChainedGP:
        raise InputError(f"model must be a ChainedGP; got {type(model).__name__}.")
    writer = Writer()
    header = writer.model(model, data)
    _check_rebuilds(header, writer, model)
    write_archive(path, header, writer.arrays)


def load(path: str | os.PathLike[str], classes: Sequence[type] | type = ()) -> ChainedGP:
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
    own = _checked_classes(classes)
    header, arrays = read_archive(path, FORMAT)
    try:
        return Reader(arrays, own).model(header)
    except Exception as error:  # whatever a constructor makes of a hostile argument
        known = isinstance(error, InputError)
        reason = str(error) if known else f"its contents are wrong: {error!r}"
        raise FileFormatError(f"{os.fspath(path)} cannot be loaded: {reason}") from error


def _checked_classes(classes: Sequence[type] | type) -> Classes:
    given = [classes] if isinstance(classes, type) else list(classes)
    for cls in given:
        if not (isinstance(cls, type) and kind_of(cls)):
            raise InputError(
                f"classes must be classes of likelihoods, kernels, means or priors; got {cls!r}."
            )
    return table_of(given)


def _check_rebuilds(header: dict[str, Any], writer: Writer, model: ChainedGP) -> None:
    """What cannot be loaded must not be saved: rebuild the parts if some class is the user's."""
    if not writer.own:
        return
    reader = Reader(writer.arrays, writer.own)
    reader.columns = model.X.shape[1]
    nodes = [header["likelihood"], *header["kernels"], *header["means"]]
    for node, part in zip(nodes, parts_of(model), strict=True):
        name = type(part).__name__
        try:
            shapes = [leaf.shape for leaf in reader.build(node).flattened_parameters]
        except Exception as error:
            raise InputError(
                f"{name} cannot be saved: its constructor fails with the stored arguments "
                f"({error}). Give the right ones by a method constructor_arguments(self) -> dict."
            ) from error
        if shapes != [leaf.shape for leaf in part.flattened_parameters]:
            raise InputError(
                f"{name} cannot be saved: rebuilt by its constructor it has other parameters. Give "
                "the right arguments by a method constructor_arguments(self) -> dict."
            )
