"""The bytes of a saved model: an uncompressed npz archive that is checked before it is read.

Layout: a zip file of stored `.npy` entries, which `numpy.load` reads too. The entry `header` is
JSON in UTF-8; its field `arrays` gives dtype and shape of every other entry. The comment of the
archive, its last 64 bytes, is the SHA-256 of all bytes before: damage anywhere is noticed.

Since nothing is compressed and entries may not overlap, no file can ask for more memory than a
small multiple of its own size.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import secrets
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from ...data.types import FilePath
from ...errors import InputError
from ...linalg import Array

try:
    import fcntl
except ImportError:  # Windows has no such locks: files that a killed save leaves stay there.
    fcntl = None  # type: ignore[assignment]

HEADER, SUFFIX = "header", ".npy"  # The first entry of the archive is header.npy, all end in .npy.
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Header: TypeAlias = dict[str, Json]
LARGEST_HEADER = 16 * 2**20  # A header of more bytes is refused before it is read.
DIGEST_BYTES = 64  # A SHA-256 in hexadecimal has so many characters, one byte each.
BLOCK = 2**20  # So many bytes are read at once for the digest.
LONGEST_REASON = 300  # A message repeats at most so many characters of what a file says.


class FileFormatError(InputError):
    """A file of a model that is damaged, is no chainedgp model, or needs what is not there."""


def write_archive(path: FilePath, header: Header, arrays: Mapping[str, Array]) -> None:
    """Write the header and arrays of a saved model: beside `path`, then moved there in one step.

    A file that is replaced keeps its permissions, and a symbolic link stays one: the file that it
    leads to is replaced. What a save left behind that was killed is removed by the next one.
    """
    table = {key: [array.dtype.str, list(array.shape)] for key, array in arrays.items()}
    text = json.dumps({**header, "arrays": table}).encode()
    if len(text) > LARGEST_HEADER:
        raise InputError(f"the description of the model takes {len(text)} bytes: too large.")
    entries: dict[str, Array] = {HEADER: np.frombuffer(text, np.uint8), **arrays}
    target = os.path.realpath(_checked_path(path))
    folder = os.path.dirname(target)
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder} to save {target} in: make it first.")
    _remove_leftovers(target)
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "x+b") as file:
            if fcntl:  # the lock goes with the process, so that others see whether it still lives
                fcntl.flock(file, fcntl.LOCK_EX)
            with zipfile.ZipFile(file, "w") as archive:
                archive.comment = b"0" * DIGEST_BYTES
                for key, array in entries.items():
                    # ZipInfo has a fixed date: equal models give equal files
                    info = zipfile.ZipInfo(key + SUFFIX)
                    with archive.open(info, "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, version=(1, 0), allow_pickle=False)
            digest = _digest(file)
            file.seek(-DIGEST_BYTES, os.SEEK_END)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def _remove_leftovers(target: str) -> None:
    """Remove the temporary files that killed saves left beside a file, unless locked.

    A living process locks its own.
    """
    for path in glob.glob(glob.escape(target) + ".????????.tmp") if fcntl else ():
        with suppress(OSError), open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.remove(path)


def shortened(reason: object) -> str:
    """Words of an error in reading a file, cut where a hostile file would have megabytes."""
    text = str(reason)
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} …"


def read_archive(path: FilePath, newest: int) -> tuple[Header, dict[str, Array]]:
    """The header and arrays of a file with a format up to `newest`; FileFormatError if bad."""
    path = _checked_path(path)
    with open(path, "rb") as file:
        try:
            return _read(file, newest)
        except FileFormatError as error:
            raise FileFormatError(f"{path} cannot be loaded: {shortened(error)}") from None
        except Exception as error:  # zipfile, json and numpy have errors of their own
            reason = shortened(error)
            raise FileFormatError(f"{path} cannot be loaded: it is damaged ({reason}).") from error


def _checked_path(path: object) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be the name of a file; got {type(path).__name__}.")
    return str(os.fspath(path))


def _digest(file: BinaryIO) -> bytes:
    """SHA-256, in hex, of all bytes of a file but the last, which hold it."""
    left = file.seek(0, os.SEEK_END) - DIGEST_BYTES
    file.seek(0)
    sha = hashlib.sha256()
    while left > 0:
        block = file.read(min(BLOCK, left))
        if not block:
            break
        sha.update(block)
        left -= len(block)
    return sha.hexdigest().encode()


def _read(file: BinaryIO, newest: int) -> tuple[Header, dict[str, Array]]:
    size = file.seek(0, os.SEEK_END)
    digest = _digest(file)
    if size <= DIGEST_BYTES or file.read(DIGEST_BYTES) != digest:
        raise FileFormatError("it is damaged, or was not written by chainedgp's save.")
    with zipfile.ZipFile(file) as archive:
        entries = _checked_entries(archive, size)
        first = entries.pop(HEADER, None)
        if first is None or first.file_size > LARGEST_HEADER:
            raise FileFormatError("it has no header.")
        header = json.loads(_read_array(archive, first, None).tobytes())
        _check_format(header, newest)
        table = header.pop("arrays")
        if set(table) != set(entries):
            raise FileFormatError("its arrays are not those that its header lists.")
        return header, {key: _read_array(archive, entries[key], table[key]) for key in table}


def _check_format(header: Any, newest: int) -> None:
    version = header.get("format") if isinstance(header, dict) else None
    if not isinstance(version, int) or version < 1:
        raise FileFormatError("its header is not that of a chainedgp model.")
    if version > newest:
        raise FileFormatError(
            f"it has format {version}, written by chainedgp {str(header.get('version'))[:40]}; "
            f"this version reads formats up to {newest}: update chainedgp."
        )


def _checked_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries of an archive by key: all uncompressed, none twice, no larger than the file."""
    infos = archive.infolist()
    entries = {info.filename.removesuffix(SUFFIX): info for info in infos}
    plain = all(
        info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        for info in infos
    )
    if not plain:
        raise FileFormatError("its entries are compressed.")
    if len(entries) < len(infos) or sum(info.file_size for info in infos) > size:
        raise FileFormatError("its entries are doubled, or larger than the file.")
    return entries


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, expected: Any) -> Array:
    """One array of a saved model; its own header must agree with the entry's size and the file."""
    with archive.open(info) as entry:
        if np.lib.format.read_magic(entry) != (1, 0):
            raise FileFormatError(f"the array {info.filename} has an unknown version.")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(entry)
        if dtype.hasobject or dtype.kind not in "biuf":
            raise FileFormatError(f"the array {info.filename} has dtype {dtype}: not numbers.")
        start, count = entry.tell(), math.prod(shape)
        if min(shape, default=0) < 0 or start + count * dtype.itemsize != info.file_size:
            raise FileFormatError(f"the array {info.filename} is not as large as its shape.")
        if expected is not None and [dtype.str, list(shape)] != expected:
            raise FileFormatError(f"the array {info.filename} is not what the header says.")
        values = np.frombuffer(bytearray(entry.read()), dtype, count)  # reading checks the CRC
    return values.reshape(shape, order="F" if fortran else "C")
