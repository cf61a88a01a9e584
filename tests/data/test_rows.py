"""Rows: what is read, sliced, taken, thinned, cut into chunks and joined; nobody slices by hand."""

import ast
import copy
import dataclasses
import pickle

import numpy as np
import pytest
from paths import ROOT

import chainedgp.likelihoods as liks
from chainedgp.data.rows import Rows, rows_of
from chainedgp.errors import InputError
from chainedgp.posterior.shards import Shard

N = 11


def some_rows(X=None, y=None, weights=True):
    X = np.arange(2.0 * N).reshape(N, 2) if X is None else X
    y = np.arange(N) % 4.0 if y is None else y
    return Rows(X, y, {"exposure": 1.0 + np.arange(N)}, 0.5 + np.arange(N) if weights else None)


def memmap(path, array):
    array = np.asarray(array)
    made = np.memmap(path, array.dtype, "w+", shape=array.shape)
    made[:] = array
    return made


def same(rows, other):
    assert np.array_equal(rows.X, other.X) and np.array_equal(rows.y, other.y)
    assert list(rows.metadata) == list(other.metadata)
    for key, value in rows.metadata.items():
        assert np.array_equal(value, other.metadata[key])
    assert (rows.weights is None) == (other.weights is None)
    assert rows.weights is None or np.array_equal(rows.weights, other.weights)


# ---- slicing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    "which",
    [slice(3, 7), slice(None, None, 3), slice(9, None), np.array([7, 0, 7]), np.arange(N) % 3 == 0],
    ids=["slice", "step", "tail", "numbers", "booleans"],
)
def test_all_parts_of_the_rows_are_sliced_together(which, weights):
    rows = some_rows(weights=weights)
    part, numbers = rows[which], np.arange(N)[which]
    assert part.num_rows == len(numbers)
    for k, i in enumerate(numbers):
        assert np.array_equal(part.X[k], [2.0 * i, 2.0 * i + 1.0])
        assert part.y[k] == i % 4 and part.metadata["exposure"][k] == 1.0 + i
        assert part.weights[k] == 0.5 + i if weights else part.weights is None
    same(rows.take(which), part)
    assert np.array_equal(rows.inputs(which), part.X)
    assert np.array_equal(rows.targets(which), part.y)


def test_a_slice_of_a_memmap_stays_on_disk_and_what_is_taken_does_not(tmp_path):
    whole = some_rows()
    rows = some_rows(
        memmap(tmp_path / "X", whole.X.astype("float32")),
        memmap(tmp_path / "y", whole.y.astype("float32")),
    )
    part = rows[2:9]
    assert rows.on_disk and part.on_disk and isinstance(part.y, np.memmap)
    assert np.shares_memory(part.X, rows.X)
    assert not whole.on_disk
    taken = rows.take(slice(2, 9))
    same(taken, whole[2:9])
    assert not taken.on_disk and taken.X.dtype == taken.y.dtype == np.float64
    assert rows.inputs().dtype == rows.targets().dtype == np.float64
    read = Rows.read(rows.X, rows.y, None, liks.Poisson())
    assert read.X is rows.X and np.shares_memory(read.y, rows.y)


def test_chunks_are_all_rows_once():
    rows = some_rows()
    for size in (1, 4, N, 100):
        chunks = rows.chunks(size)
        assert all(chunk.stop - chunk.start <= size for chunk in chunks)
        same(Rows.joined([rows[chunk] for chunk in chunks]), rows)
    same(Rows.joined([some_rows(weights=False)] * 1), some_rows(weights=False))


@pytest.mark.parametrize(("most", "left"), [(3, [0, 3, 6, 9]), (6, range(N)), (100, range(N))])
def test_thinned_rows_are_spread_over_all(most, left):
    same(some_rows().thinned(most), some_rows()[np.array(left)])


def test_keywords_are_parameters_and_metadata():
    rows = some_rows()
    kw = rows.keywords(slice(2), rows=3.0, self=4.0)  # names that a likelihood's author may choose
    assert list(kw) == ["rows", "self", "exposure"] and kw["rows"] == 3.0
    assert np.array_equal(kw["exposure"], [1.0, 2.0])
    assert np.array_equal(rows.keywords()["exposure"], rows.metadata["exposure"])
    assert rows.Y_metadata == {"exposure": rows.metadata["exposure"], "weights": rows.weights}
    assert "weights" not in some_rows(weights=False).Y_metadata


def test_rows_of_leaves_scalars_alone():
    found = rows_of({"nu": 4.0, "n": np.float64(2.0), "w": np.arange(4)}, slice(1, 3))
    assert found["nu"] == 4.0 and found["n"] == 2.0 and np.array_equal(found["w"], [1, 2])


def test_rows_are_immutable_and_travel():
    rows = some_rows()
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows.y = rows.y[::-1]
    for other in (copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))):
        same(other, rows)
        assert not np.shares_memory(other.X, rows.X)


def test_a_shard_is_made_of_rows():
    shard = Shard(some_rows())
    assert shard.num_rows == N and shard.rows.weights is not None


# ---- reading ------------------------------------------------------------------------------------


def test_reading_checks_and_makes_arrays():
    given = {"exposure": 2.0, "weights": np.ones((3, 1))}
    rows = Rows.read([1, 2, 3], [[0], [1], [4]], given, liks.Poisson())
    assert rows.X.shape == (3, 1) and rows.y.shape == (3,)
    assert np.array_equal(rows.metadata["exposure"], [2.0, 2.0, 2.0])
    assert np.array_equal(rows.weights, np.ones(3)) and list(rows.metadata) == ["exposure"]
    assert Rows.read([1, 2], [0, 1], None, liks.Poisson()).weights is None
    unread = {"weights": "what was weighed"}
    assert Rows.read([1, 2], [0, 1], unread, liks.Poisson(), weighted=False).weights is None


def test_missing_targets_are_dropped_with_all_that_belongs_to_them():
    y = np.where(np.arange(N) % 3 == 1, np.nan, np.arange(N) % 4.0)
    given = some_rows()
    rows = Rows.read(given.X, y, given.Y_metadata, liks.Poisson(), missing="drop")
    same(rows, given[~np.isnan(y)])
    with pytest.raises(InputError, match=r'Y has 4 missing .* row 1. .*missing="drop"'):
        Rows.read(given.X, y, given.Y_metadata, liks.Poisson())
    with pytest.raises(InputError, match="nothing is left to fit"):
        Rows.read(given.X, np.full(N, np.nan), None, liks.Poisson(), missing="drop")


@pytest.mark.parametrize(
    ("X", "Y", "metadata", "words"),
    [
        ([1, np.nan], [0, 1], None, "Xnew has 1 value that is missing"),
        ([1, 2], [0, 1, 2], None, "Ynew has 3 rows but the inputs have 2"),
        ([1, 2], [0, -1], None, "1 of 2"),
        ([1, 2], [0, 1], {"exposure": [1, 0]}, r"Y_metadata\['exposure'\] must be positive; row 1"),
        ([1, 2], [0, 1], {"weights": [1, -1]}, r"Y_metadata\['weights'\] must not be negative"),
        ([1, 2], [0, 1], {"speed": 1}, "'speed', which Poisson does not use"),
        ([[1, 2]], [0], None, "Xnew has 2 columns; the model was built with 1"),
    ],
)
def test_what_cannot_be_used_is_told_by_the_names_of_the_caller(X, Y, metadata, words):
    with pytest.raises(InputError, match=words):
        Rows.read(X, Y, metadata, liks.Poisson(), columns=1, names=("Xnew", "Ynew"))


# ---- nobody slices metadata by hand -------------------------------------------------------------


def sliced_by_hand(source):
    """Lines in which the values of a mapping are restricted to rows, one name after another."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.DictComp):
            loops, values = node.generators, [node.value]
        elif isinstance(node, ast.For):
            assigned = [n for n in ast.walk(node) if isinstance(n, ast.Assign)]
            into_mapping = [n for n in assigned if isinstance(n.targets[0], ast.Subscript)]
            loops, values = [node], [n.value for n in into_mapping]
        else:
            continue
        for loop in loops:
            over_items = ast.unparse(loop.iter).endswith(".items()")
            names = [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
            for part in (n for value in values for n in ast.walk(value)):
                if not isinstance(part, ast.Subscript):
                    continue
                of_item = over_items and ast.unparse(part.value) == names[-1]
                of_key = isinstance(part.value, ast.Subscript) and (
                    ast.unparse(part.value.slice) == names[0]
                )
                if of_item or of_key:
                    found.append(part.lineno)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "kw = {key: value[rows] for key, value in metadata.items()}",
        "kw = {k: v[:3] if np.ndim(v) else v for k, v in model.Y_metadata.items()}",
        "kw = {k: np.asarray(v[rows]) for k, v in kw.items() if k != 'weights'}",
        "kw = {key: metadata[key][rows] for key in metadata}",
        "for key, value in metadata.items():\n    part[key] = value[a:b]",
    ],
)
def test_slices_by_hand_are_seen(line):
    assert sliced_by_hand(line)
    assert not sliced_by_hand("kw = {key: 2.0 * value for key, value in metadata.items()}")


def test_only_data_slices_metadata():
    package = ROOT / "chainedgp"
    paths = [p for p in package.rglob("*.py") if p.parent != package / "data"]
    assert len(paths) > 100
    found = {str(p.relative_to(ROOT)): sliced_by_hand(p.read_text("utf-8")) for p in paths}
    assert not {path: lines for path, lines in found.items() if lines}
