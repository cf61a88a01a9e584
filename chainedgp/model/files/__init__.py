"""The format of saved models: one npz archive of plain arrays with a versioned JSON header.

`archive` has the bytes, `contents` what they say of a model, `classes` the parts that a file may
name. `writer` makes a file of a model, and `reader` a model of a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...data.types import FilePath
from ...errors import InputError
from .archive import FileFormatError, Header, read_archive, shortened, write_archive
from .classes import Classes, kind_of, table_of
from .contents import Contents
from .reader import Reader
from .writer import FORMAT, Writer

__all__ = ["FORMAT", "FileFormatError", "read_model", "write_model"]

Model = TypeVar("Model")


def write_model(path: FilePath, model: Contents) -> None:
    """Write a model to a file; InputError says by name what cannot be stored."""
    writer = Writer()
    header = writer.model(model)
    _check_rebuilds(header, writer, model)
    write_archive(path, header, writer.arrays)


def read_model(
    path: FilePath, classes: Sequence[type] | type, make: Callable[[Contents], Model]
) -> Model:
    """Read a saved model; whatever its parts or `make` raise names the file.

    It is a FileFormatError.

    classes : a user's own, of which parts of the model may be.
    make : puts the model together from the contents of the file.
    """
    own = _checked_classes(classes)
    header, arrays = read_archive(path, FORMAT)
    try:
        return make(Reader(arrays, own).model(header))
    except Exception as error:  # whatever a constructor makes of a hostile argument
        known = isinstance(error, InputError)
        reason = shortened(error if known else f"its contents are wrong: {error!r}")
        raise FileFormatError(f"{os.fspath(path)} cannot be loaded: {reason}") from error


def _checked_classes(classes: Sequence[type] | type) -> Classes:
    """The classes that a user gave for `load`, by kind and name."""
    given = [classes] if isinstance(classes, type) else list(classes)
    for cls in given:
        if not (isinstance(cls, type) and kind_of(cls)):
            raise InputError(
                f"classes must be classes of likelihoods, kernels, means or priors; got {cls!r}."
            )
    return table_of(given)


def _check_rebuilds(header: Header, writer: Writer, model: Contents) -> None:
    """Before saving a model, rebuild its parts if a class is the user's: they must load again."""
    if not writer.own:
        return
    reader = Reader(writer.arrays, writer.own)
    reader.columns = model.num_columns
    nodes = [header["likelihood"], *header["kernels"], *header["means"]]
    for node, part in zip(nodes, model.parts, strict=True):
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
