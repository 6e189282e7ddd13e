# SPDX-License-Identifier: Apache-2.0
"""librung through ctypes: finding the library, and declaring its functions from its C headers.

Calls release the GIL while they run.

`c` has the structs, callbacks and constants of the headers under their C names:
`c.rung_store_opts()`, `c.RUNG_RANKS`.

The headers are parsed when the package is imported, so that each declaration exists only once.
They use a few forms of C. An unsupported form raises LibraryError, and python/tests/test_layout
compares the result with a compiler's.

Pointers are converted as follows. `char *` is bytes. `void *`, pointers to 64-bit integers and
pointers to undefined structs are integers, as numpy and handles use addresses. All others are
ctypes pointers.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

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
_ADDRESSES = (None, ctypes.c_int64, ctypes.c_uint64)   # a pointer to one of these is an integer

_CONSTANT = re.compile(r"^#define (RUNG_\w+) (\d+)\s*$", re.M)
_ENUM = re.compile(r"^enum (?:(\w+) )?\{([^{}()]*)\}", re.M)
_ENUMERATOR = re.compile(r"\s*(RUNG_\w+)(?: = (\d+)(?: << (\d+))?)?\s*")
_STRUCT = re.compile(r"^struct (\w+) \{([^{}]*)\};", re.M)
_CALLBACK = re.compile(r"^typedef (\w+) \(\*(\w+)\)\(([^()]*)\);", re.M)
_FUNCTION = re.compile(r"^RUNG_API ([^;()]*?)(\w+)\(([^()]*)\);", re.M)
_BEGINNING = re.compile(r"^(?:struct \w+ \{|RUNG_API )", re.M)   # start of a struct or function
_TYPE = re.compile(r"\s*(struct |enum |)(unsigned long long|\w+)([^;]*)")
_NAME = re.compile(r"\s*(\**)(\w+)((?:\[[^]]+\])*)\s*")


def _parts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """Return the groups of a match of all of `text`. Raises ValueError if there is none."""
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found.groups()


class Struct(ctypes.Structure):
    """A C struct. A first field named `size` is set, also in nested structs.

    The library reads the size to find out for which version the caller was built.
    """

    _nested_: tuple[str, ...] = ()   # names of the fields that are structs

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_size()

    def _set_size(self) -> None:
        if self._fields_[0][0] == "size":
            self.size = ctypes.sizeof(self)
        for name in self._nested_:
            getattr(self, name)._set_size()


class Headers:
    """The declarations of the headers in a folder, by their C names.

    Attributes:
        structs: subclasses of `Struct`
        constants: values of `#define`s and enumerators
        enums: names of the enumerators of each named enum, in their order
        callbacks: ctypes function types
        functions: type of the result, and list of the types of the arguments

    Raises:
        LibraryError: a declaration has an unsupported form.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        text = self._read()
        self.constants = {name: int(value) for name, value in _CONSTANT.findall(text)}
        self.enums: dict[str, list[str]] = {}
        for name, body in _ENUM.findall(text):
            values = self._enumerators(body)
            self.constants.update(values)
            if name:
                self.enums[name] = list(values)
        self.structs: dict[str, type[Struct]] = {}
        self._bodies = dict(_STRUCT.findall(text))
        self.callbacks: dict[str, Any] = {}
        for result, name, arguments in _CALLBACK.findall(text):
            self.callbacks[name] = ctypes.CFUNCTYPE(_SCALARS[result], *self._arguments(arguments))
        for name in self._bodies:
            self._struct(name)
        self.functions: dict[str, tuple[Any, list[Any]]] = {
            name: (self._declared(result + name)[0][1], self._arguments(arguments))
            for result, name, arguments in _FUNCTION.findall(text)}
        # A declaration that the patterns miss would be absent without an error.
        if len(self.functions) + len(self._bodies) != len(_BEGINNING.findall(text)):
            raise LibraryError(f"{folder}: a struct or function is declared in an unsupported form")

    def _read(self) -> str:
        """Return the text of all headers without comments and `const`."""
        parts = []
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), encoding="utf-8") as header:
                code, *commented = header.read().split("/*")
            parts += [code, *(part.partition("*/")[2] for part in commented)]
        return "".join(parts).replace("const ", "")

    @staticmethod
    def _enumerators(body: str) -> dict[str, int]:
        """Return the values of an enum by name; an enum of another form has none."""
        values: dict[str, int] = {}
        for part in body.split(","):
            found = _ENUMERATOR.fullmatch(part)
            if found is None:
                return {}
            name, first, shift = found.groups()
            values[name] = (int(first) << int(shift or 0) if first
                            else list(values.values())[-1] + 1 if values else 0)
        return values

    def _struct(self, name: str) -> type[Struct] | None:
        """Return a struct's class, created at first use; None for an undefined struct."""
        if name in self._bodies and name not in self.structs:
            made: Any = type(name, (Struct,), {})
            self.structs[name] = made
            declarations = self._bodies[name].split(";")[:-1]
            fields = [field for text in declarations for field in self._declared(text)]
            made._nested_ = tuple(field for field, of in fields if of in self.structs.values())
            made._fields_ = fields
        return self.structs.get(name)

    def _arguments(self, text: str) -> list[Any]:
        return [] if text == "void" else [self._declared(one)[0][1] for one in text.split(",")]

    def _declared(self, text: str) -> list[tuple[str, Any]]:
        """Return the names and types of a declaration such as "char *a, *b" or "int size[2]"."""
        try:
            kind, base, names = _parts(_TYPE, text)
            of = self._base(kind, base)
            found = [_parts(_NAME, part) for part in names.split(",")]
            return [(name, self._derived(of, len(stars), sizes)) for stars, name, sizes in found]
        except (KeyError, ValueError):
            raise LibraryError(f"{self.folder}: {text.strip()!r}: the declaration has an "
                               "unsupported form") from None

    def _base(self, kind: str, name: str) -> Any:
        if kind == "struct ":
            return self._struct(name)
        if kind == "enum ":
            return ctypes.c_int
        return _SCALARS[name] if name in _SCALARS else self.callbacks[name]

    def _derived(self, of: Any, stars: int, sizes: str) -> Any:
        """Return a pointer or array type.

        Args:
            of: type of the element
            stars: number of `*`s
            sizes: array sizes, such as "[8][COUNT + 1]"; "" for none
        """
        for _ in range(stars):
            if of is ctypes.c_char:
                of = ctypes.c_char_p
            else:
                of = ctypes.c_void_p if of in _ADDRESSES else ctypes.POINTER(of)
        for size in sizes[1:-1].split("][")[::-1] if sizes else ():
            of *= sum(self.constants[part] if part in self.constants else int(part)
                      for part in size.split(" + "))
        return of


def _folders() -> list[str]:
    """Return the folders of the package: an editable install has one besides the source tree."""
    return list(sys.modules[str(__package__)].__path__)


def _find_headers() -> str:
    """Return the folder of the C headers: in the wheel, otherwise in the source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    carried = [os.path.join(folder, "include", "rung") for folder in _folders()]
    tree = os.path.join(os.path.dirname(os.path.dirname(here)), "include", "rung")
    for folder in (*carried, tree):
        if os.path.isdir(folder):
            return folder
    raise LibraryError(f"{carried[0]}: the C headers of the package are missing; reinstall rung")


_headers = Headers(_find_headers())
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = _headers.functions
# Any, because type checkers do not read the headers. Annotate a struct as Any, too.
c: Any = SimpleNamespace(**_headers.structs, **_headers.callbacks, **_headers.constants)


def _words(enum: str, prefix: str) -> tuple[str, ...]:
    """Return the Python names of an enum's values, each at its number."""
    return tuple(name.removeprefix(prefix).lower() for name in _headers.enums[enum])


DEVICES = _words("rung_device", "RUNG_DEVICE_")
ENGINES = _words("rung_engine", "RUNG_ENGINE_")
NUMA_POLICIES = _words("rung_numa", "RUNG_NUMA_")
ROW_ORDERS = _words("rung_row_order", "RUNG_ROW_ORDER_")
STAGE_PADS = _words("rung_stage_pad", "RUNG_STAGE_PAD_")
DRAWS = _words("rung_draws", "RUNG_DRAWS_")
QUANT_FORMATS = _words("rung_quant_format", "RUNG_QUANT_")
QUANT_SCALES = _words("rung_quant_scales", "RUNG_SCALES_")
PHASES = _words("rung_read_phase", "RUNG_READ_PHASE_")[:-1]   # the last is the number of phases


def _find() -> str:
    """Return the path of librung: RUNG_LIBRARY, else the wheel's copy, else an installed one."""
    given = os.environ.get("RUNG_LIBRARY")
    if given:
        return given
    carried = [os.path.join(folder, "librung.so") for folder in _folders()]
    found = [path for path in carried if os.path.exists(path)]
    if found:
        return found[0]
    from ctypes.util import find_library  # slow to import, and needed only here

    return find_library("rung") or carried[0]


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        cure = ("unset RUNG_LIBRARY, or set it to librung.so" if os.environ.get("RUNG_LIBRARY")
                else "reinstall rung, or set RUNG_LIBRARY to librung.so")
        told = str(error) if path in str(error) else f"{path}: {error}"
        raise LibraryError(f"{told}; {cure}") from None
    for name, (result, args) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{path}: has no {name}(); install librung {VERSION} from the same "
                               "checkout as this package") from None
        function.restype, function.argtypes = result, args
    found = library.rung_version().decode()
    if found != VERSION:
        raise LibraryError(f"{path}: librung {found}, but this package needs {VERSION}; install "
                           "both from the same checkout")
    return library


lib: Any = _load()


def raise_last(status: int) -> NoReturn:
    """Raise the exception of a library call that has just failed.

    The library keeps its last message per thread, so call this on the thread of the failed call.
    """
    raise error_of(status, lib.rung_status_name(status).decode(),
                   os.fsdecode(lib.rung_last_error()), lib.rung_last_error_min_bytes())


def check(status: int) -> int:
    """Return `status`, or raise its exception if it is negative."""
    if status < 0:
        raise_last(status)
    return status


def string(value: str | bytes | os.PathLike[str], name: str) -> bytes:
    """Return a path or name as bytes for the library.

    Raises:
        InvalidError: it is neither text nor a path, or contains a zero byte, at which C would end
            it.
    """
    try:
        found = os.fsencode(value)
    except TypeError:
        raise InvalidError(f"{name}={value!r}: has type {type(value).__name__}; use a str or a "
                           "path") from None
    if b"\0" in found:
        raise InvalidError(f"{name}={value!r}: contains a zero byte; remove it")
    return found


def text(value: bytes | None) -> str:
    """Return a string of the library; "" for NULL."""
    return os.fsdecode(value) if value else ""


