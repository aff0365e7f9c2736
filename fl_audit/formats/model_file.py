"""Files of trained models, from runs and from other programs.

A model is identified by the SHA-256 of its parameters: all arrays, each in C order, as
little-endian float32, concatenated. This digest does not depend on the format of a file:

    hashlib.sha256(b"".join(np.asarray(a, "<f4").tobytes() for a in arrays)).hexdigest()

Nothing is unpickled, and no code of a file is run.

>>> model_digest([np.float32([[1, 2]]), np.float32([3])]) == model_digest([np.float32([1, 2, 3])])
True
"""

import hashlib
import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.extras import import_extra
from fl_audit.formats.npy_file import AnyArray, opened, read_array, read_arrays
from fl_audit.formats.text_files import atomic_writer

NamedArray = tuple[str, AnyArray]


def model_digest(arrays: Iterable[AnyArray]) -> str:
    """The SHA-256 of a model's parameters, in hexadecimal digits."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, "<f4").data)
    return digest.hexdigest()


def write_model(path: Path, arrays: Sequence[Float32Array]) -> None:
    """Writes the arrays of a model as NPZ, in order, atomically."""
    named = {f"variable_{number:04}": np.asarray(array) for number, array in enumerate(arrays)}
    with atomic_writer(path) as file:
        np.savez(file, **named)


def read_model(path: Path, dim: int) -> Float32Array:
    """Reads a file written by `write_model` as one vector, float32 of shape (dim,)."""
    arrays = list(read_arrays(path, "a model").values())
    if any(array.dtype != np.float32 for array in arrays):
        raise InputError(f"{path}: must hold float32")
    model: Float32Array = np.concatenate(
        [np.zeros(0, np.float32), *(array.ravel() for array in arrays)]
    )
    if model.shape != (dim,) or not np.isfinite(model).all():
        raise InputError(f"{path}: must hold {dim:,} finite parameters, has {model.size:,}")
    return model


# The files of other programs.


_SEVERAL = "; must be .npy, .npz, .safetensors, .h5, .keras, or a folder of TensorFlow"


def read_saved_arrays(path: Path) -> list[NamedArray]:
    """The floating-point arrays in a file or folder of another program, with names.

    Args:
      path: An NPY, NPZ or safetensors file, Keras' weights (HDF5 or .keras), or a checkpoint or
        SavedModel of TensorFlow.
    """
    if path.is_dir() or path.with_name(f"{path.name}.index").exists():
        named = _of_tensorflow(path)
    elif not path.exists():
        raise InputError(f"{path}: no such file or folder")
    elif (read := _READERS.get(path.suffix)) is not None:
        named = read(path)
    else:
        raise InputError(f"{path}: is of no kind that is read without pickle{_SEVERAL}")
    return [(name, array) for name, array in named if array.dtype.kind == "f"]


def _of_hdf5(path: Path) -> list[NamedArray]:
    with opened(path, "a model") as file:
        return _datasets(file)


def _of_keras(path: Path) -> list[NamedArray]:
    with opened(path, "a model") as file, zipfile.ZipFile(file) as members:
        return _datasets(io.BytesIO(members.read("model.weights.h5")))


def _datasets(file: IO[bytes]) -> list[NamedArray]:
    h5py: Any = import_extra("h5py")
    named: list[NamedArray] = []

    def see(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            named.append((name, np.asarray(item[()])))

    with h5py.File(file, "r") as content:
        content.visititems(see)
    return named


_SAFETENSORS_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_LONGEST_HEADER = 1 << 26


def _of_safetensors(path: Path) -> list[NamedArray]:
    with opened(path, "a model") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError(f"its header asks for {length:,} bytes")
        header = json.loads(file.read(length))
        content = file.read()
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
    named = []
    with opened(path, "a model"):
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] in _SAFETENSORS_TYPES:
                start, end = entry["data_offsets"]
                flat = np.frombuffer(content[start:end], _SAFETENSORS_TYPES[entry["dtype"]])
                if entry["dtype"] == "BF16":  # the upper half of a float32
                    flat = (flat.astype("<u4") << 16).view("<f4")
                named.append((name, flat.reshape(entry["shape"])))
    return named


def _of_tensorflow(path: Path) -> list[NamedArray]:
    tensorflow: Any = import_extra("tensorflow")
    variables = path / "variables" / "variables"
    prefix = variables if variables.parent.is_dir() else path
    try:
        reader = tensorflow.train.load_checkpoint(str(prefix))
        names = sorted(reader.get_variable_to_shape_map())
        return [(name, np.asarray(reader.get_tensor(name))) for name in names]
    except (tensorflow.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: is no checkpoint of TensorFlow{_SEVERAL}") from error


_READERS = {
    ".npy": lambda path: [("", read_array(path, "a model"))],
    ".npz": lambda path: list(read_arrays(path, "a model").items()),
    ".safetensors": _of_safetensors,
    ".h5": _of_hdf5,
    ".hdf5": _of_hdf5,
    ".keras": _of_keras,
}


# The arrays of a file that are the model.


def candidates(arrays: Sequence[NamedArray], sizes: Sequence[int]) -> Iterator[list[AnyArray]]:
    """Candidates for a model's arrays in a file, in the order of the model's variables.

    A candidate is one array of all parameters; or consecutive arrays of the variables' sizes, by
    their order in the file or by name (in a checkpoint other arrays surround them); or, if no other
    array has a variable's size, the arrays of each size in the order of their names.
    """
    dim, by_name = sum(sizes), sorted(arrays, key=lambda named: natural_order(named[0]))
    yield from ([array] for _, array in arrays if array.size == dim)
    for ordered in (arrays, by_name):
        for start in range(len(ordered) - len(sizes) + 1):
            run = [array for _, array in ordered[start : start + len(sizes)]]
            if [array.size for array in run] == list(sizes):
                yield run
    of_size: dict[int, list[AnyArray]] = defaultdict(list)
    for _, array in by_name:
        of_size[array.size].append(array)
    if all(len(of_size[size]) == list(sizes).count(size) for size in sizes):
        yield [of_size[size].pop(0) for size in sizes]


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts dense_2 before dense_10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
