# SPDX-License-Identifier: Apache-2.0
"""librung by ctypes: where it is found, and its functions with the types that its headers give
them. Calls give up the GIL while they run.

`c` has what the headers name, by the names of C: `c.rung_store_opts()`, `c.RUNG_RANKS`.

The headers are read when the package is imported, so each fact is stated once, there. They keep to
a few forms of C. One that is not known here is an error, and python/tests/test_layout asks a
compiler whether it sees the same.

Pointers become what Python has for them. A string is bytes (char *). Addresses, as of numpy arrays
and handles, are numbers (void *, pointers to 64-bit integers and to structs without a definition).
All others are pointers of ctypes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
from types import SimpleNamespace
from typing import Any, NoReturn, Optional

from .errors import InvalidError, LibraryError, error_of

VERSION = "0.1.0"

BYTES_MAX = 2**64 - 1
BYTES_NONE = 2**64 - 2
UINT32_MAX = 2**32 - 1

_SCALARS: dict[str, Any] = {
    "void": None, "char": ctypes.c_char, "int": ctypes.c_int, "unsigned": ctypes.c_uint,
    "float": ctypes.c_float, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "unsigned long long": ctypes.c_ulonglong,
}
_ADDRESSES = (None, ctypes.c_int64, ctypes.c_uint64)   # of what a pointer is a number

_CONSTANT = re.compile(r"^#define (RUNG_\w+) (\d+)\s*$", re.M)
_ENUM = re.compile(r"^enum (\w+) \{\s*(RUNG_\w+(?: = 0)?(?:\s*,\s*RUNG_\w+)*)\s*\}", re.M)
_STRUCT = re.compile(r"^struct (\w+) \{([^{}]*)\};", re.M)
_CALLBACK = re.compile(r"^typedef (\w+) \(\*(\w+)\)\(([^()]*)\);", re.M)
_FUNCTION = re.compile(r"^RUNG_API ([^;()]*?)(\w+)\(([^()]*)\);", re.M)
_BEGINNING = re.compile(r"^(?:struct \w+ \{|RUNG_API )", re.M)   # of a struct or function
_TYPE = re.compile(r"\s*(struct |enum |)(unsigned long long|\w+)([^;]*)")
_NAME = re.compile(r"\s*(\**)(\w+)((?:\[[^]]+\])*)\s*")


class Struct(ctypes.Structure):
    """Structs whose first field is their size have it set, and so have those inside them.

    That is how the library knows what the caller was built for.
    """

    _nested_: tuple[str, ...] = ()   # fields that are structs

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._set_size()

    def _set_size(self) -> None:
        if self._fields_[0][0] == "size":
            self.size = ctypes.sizeof(self)
        for name in self._nested_:
            getattr(self, name)._set_size()


class Headers:
    """What the headers in a folder declare, by the names of C.

    Attributes: `structs`; `constants`, numbers and the enumerators; `enums`, their enumerators, of
    enums that count from 0; `callbacks`, types of functions; `functions`, result and arguments.
    """

    def __init__(self, folder: str):
        self.folder = folder
        text = self._read()
        self.constants = {name: int(value) for name, value in _CONSTANT.findall(text)}
        self.enums = {name: re.findall(r"RUNG_\w+", body) for name, body in _ENUM.findall(text)}
        for names in self.enums.values():
            self.constants.update((name, value) for value, name in enumerate(names))
        self.structs: dict[str, type[Struct]] = {}
        self._bodies = dict(_STRUCT.findall(text))
        self.callbacks: dict[str, Any] = {}
        for result, name, arguments in _CALLBACK.findall(text):
            self.callbacks[name] = ctypes.CFUNCTYPE(_SCALARS[result], *self._arguments(arguments))
        for name in self._bodies:
            self._struct(name)
        self.functions = {name: (self._declared(result + name)[0][1], self._arguments(arguments))
                          for result, name, arguments in _FUNCTION.findall(text)}
        if len(self.functions) + len(self._bodies) != len(_BEGINNING.findall(text)):
            raise LibraryError(f"{folder}: structs or functions of a form that is not known here")

    def _read(self) -> str:
        """The text of all headers, without comments and const."""
        parts = []
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), encoding="utf-8") as header:
                code, *commented = header.read().split("/*")
            parts += [code, *(part.partition("*/")[2] for part in commented)]
        return "".join(parts).replace("const ", "")

    def _struct(self, name: str) -> Optional[type[Struct]]:
        """A struct; None for one without a definition."""
        if name in self._bodies and name not in self.structs:
            made = self.structs[name] = type(name, (Struct,), {})
            declarations = self._bodies[name].split(";")[:-1]
            fields = [field for text in declarations for field in self._declared(text)]
            made._nested_ = tuple(field for field, of in fields if of in self.structs.values())
            made._fields_ = fields
        return self.structs.get(name)

    def _arguments(self, text: str) -> list[Any]:
        return [] if text == "void" else [self._declared(one)[0][1] for one in text.split(",")]

    def _declared(self, text: str) -> list[tuple[str, Any]]:
        """Names and types of a declaration, such as "char *name, *path" or "int size[2]"."""
        try:
            kind, base, names = _TYPE.fullmatch(text).groups()
            of = self._base(kind, base)
            found = [_NAME.fullmatch(part).groups() for part in names.split(",")]
            return [(name, self._derived(of, len(stars), sizes)) for stars, name, sizes in found]
        except (AttributeError, KeyError, ValueError):
            raise LibraryError(f"{self.folder}: {text.strip()!r}: a form that is not known "
                               "here") from None

    def _base(self, kind: str, name: str) -> Any:
        if kind == "struct ":
            return self._struct(name)
        if kind == "enum ":
            return ctypes.c_int
        return _SCALARS[name] if name in _SCALARS else self.callbacks[name]

    def _derived(self, of: Any, stars: int, sizes: str) -> Any:
        """A type with that many stars and with array sizes, such as "[8][COUNT + 1]"."""
        for _ in range(stars):
            if of is ctypes.c_char:
                of = ctypes.c_char_p
            else:
                of = ctypes.c_void_p if of in _ADDRESSES else ctypes.POINTER(of)
        for size in sizes[1:-1].split("][")[::-1] if sizes else ():
            of *= sum(self.constants[part] if part in self.constants else int(part)
                      for part in size.split(" + "))
        return of


def _find_headers() -> str:
    """Those that the wheel carries, or, in a source tree, its own."""
    here = os.path.dirname(os.path.abspath(__file__))
    carried = os.path.join(here, "include", "rung")
    tree = os.path.join(os.path.dirname(os.path.dirname(here)), "include", "rung")
    for folder in (carried, tree):
        if os.path.isdir(folder):
            return folder
    raise LibraryError(f"{carried}: no such folder: the C headers of the package are gone; "
                       "install it again ('pip install ./python')")


_headers = Headers(_find_headers())
FUNCTIONS = _headers.functions
c = SimpleNamespace(**_headers.structs, **_headers.callbacks, **_headers.constants)


def _words(enum: str, prefix: str) -> tuple[str, ...]:
    """What the enumerators are called in Python, by their numbers."""
    return tuple(name.removeprefix(prefix).lower() for name in _headers.enums[enum])


DEVICES = _words("rung_device", "RUNG_DEVICE_")
ENGINES = _words("rung_engine", "RUNG_ENGINE_")
NUMA_POLICIES = _words("rung_numa", "RUNG_NUMA_")
ROW_ORDERS = _words("rung_row_order", "RUNG_ROW_ORDER_")
STAGE_PADS = _words("rung_stage_pad", "RUNG_STAGE_PAD_")
DRAWS = _words("rung_draws", "RUNG_DRAWS_")
PHASES = _words("rung_read_phase", "RUNG_READ_PHASE_")[:-1]   # the last is their number


def _find() -> str:
    """RUNG_LIBRARY, the library that the wheel carries, or one that is installed."""
    given = os.environ.get("RUNG_LIBRARY")
    if given:
        return given
    carried = os.path.join(os.path.dirname(__file__), "librung.so")
    if os.path.exists(carried):
        return carried
    return ctypes.util.find_library("rung") or carried


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LibraryError(f"{path}: {error}; install the package ('pip install ./python') or set "
                           "RUNG_LIBRARY to librung.so") from None
    for name, (result, args) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{path}: has no {name}: it is not the librung {VERSION} that this "
                               "package is for") from None
        function.restype, function.argtypes = result, args
    found = library.rung_version().decode()
    if found != VERSION:
        raise LibraryError(f"{path}: is librung {found}, this package is for {VERSION}; install "
                           "both from the same checkout")
    return library


lib = _load()


def raise_last(status: int) -> NoReturn:
    """The exception of a call that failed on this thread."""
    raise error_of(status, lib.rung_status_name(status).decode(),
                   os.fsdecode(lib.rung_last_error()), lib.rung_last_error_min_bytes())


def check(status: int) -> int:
    """`status`, unless it is a failure."""
    if status < 0:
        raise_last(status)
    return status


def string(value: str | bytes | os.PathLike, name: str) -> bytes:
    """A path or name as the library takes it. A zero byte would end it early there."""
    found = os.fsencode(value)
    if b"\0" in found:
        raise InvalidError(f"{name}={value!r}: has a zero byte")
    return found


def text(value: bytes | None) -> str:
    """A string of the library; "" for none."""
    return os.fsdecode(value) if value else ""


