# SPDX-License-Identifier: Apache-2.0
"""Writes dicts of integers and arrays as torch.save() does, without torch and NumPy: pickle only
needs the names of the classes."""
import io
import pickle
import struct
import sys
import types
import zipfile


def _reconstruct(*_):
    return None


class ndarray:   # pylint: disable=invalid-name
    def __init__(self, values, code="i8", order="<", shape=None):
        letter = {"i1": "b", "u1": "B", "i2": "h", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
                  "f4": "f"}[code]
        self.content = struct.pack("%s%d%s" % (">" if order == ">" else "<", len(values), letter),
                                   *values)
        self.shape = (len(values),) if shape is None else shape
        self.dtype = dtype(code, order)

    def __reduce__(self):
        return _reconstruct, (ndarray, (0,), b"b"), (1, self.shape, self.dtype, False, self.content)


class dtype:   # pylint: disable=invalid-name
    known = {}

    def __new__(cls, code, order="<", *_):
        if (code, order) not in cls.known:   # one object for all arrays, as in NumPy
            made = super().__new__(cls)
            made.code, made.order = code, order
            cls.known[code, order] = made
        return cls.known[code, order]

    def __reduce__(self):
        return dtype, (self.code, False, True), (3, self.order, None, None, None, -1, -1, 0)


def dict_pickle(entries, module="numpy.core.multiarray", protocol=2):
    """The pickle of a dict whose values are integers, lists (arrays of int64), or ndarrays."""
    fakes = {"numpy": types.ModuleType("numpy"),
             module.rpartition(".")[0]: types.ModuleType("package"),
             module: types.ModuleType(module)}
    for kind in (ndarray, dtype):
        setattr(fakes["numpy"], kind.__name__, kind)
        kind.__module__ = "numpy"
    _reconstruct.__module__ = module
    fakes[module]._reconstruct = _reconstruct
    kept = {name: sys.modules.get(name) for name in fakes}
    sys.modules.update(fakes)
    try:
        stream = io.BytesIO()
        pickle.Pickler(stream, protocol).dump({key: ndarray(value) if isinstance(value, list)
                                               else value for key, value in entries.items()})
        return stream.getvalue()
    finally:
        for name, was in kept.items():
            sys.modules.pop(name)
            if was:
                sys.modules[name] = was


def write(path, content, folder="archive"):
    """A file of torch.save(); `content` is a dict as above, or the bytes of a pickle."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(folder + "/data.pkl", content if isinstance(content, bytes)
                         else dict_pickle(content))
        archive.writestr(folder + "/version", "3\n")
    return path
