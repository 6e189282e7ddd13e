# SPDX-License-Identifier: Apache-2.0
"""rung._library reads the same structs, functions and constants as a C compiler."""

import ctypes
import os
import re
import shutil
import subprocess

import pytest
from conftest import SOURCE, compiler

from rung import _library, dtypes, errors
from rung._library import FUNCTIONS, c

SCALARS = {"int": ctypes.c_int, "char": ctypes.c_char, "unsigned": ctypes.c_uint,
           "unsigned int": ctypes.c_uint, "size_t": ctypes.c_size_t,
           "double": ctypes.c_double, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
           "int64_t": ctypes.c_int64, "unsigned long long": ctypes.c_ulonglong,
           "float": ctypes.c_float, "void": None}
ENUMS = {"rung_device": ("RUNG_DEVICE_", _library.DEVICES),
         "rung_engine": ("RUNG_ENGINE_", _library.ENGINES),
         "rung_numa": ("RUNG_NUMA_", _library.NUMA_POLICIES),
         "rung_row_order": ("RUNG_ROW_ORDER_", _library.ROW_ORDERS),
         "rung_stage_pad": ("RUNG_STAGE_PAD_", _library.STAGE_PADS),
         "rung_draws": ("RUNG_DRAWS_", _library.DRAWS),
         "rung_quant_format": ("RUNG_QUANT_", _library.QUANT_FORMATS),
         "rung_quant_scales": ("RUNG_SCALES_", _library.QUANT_SCALES),
         "rung_read_phase": ("RUNG_READ_PHASE_", (*_library.PHASES, "count")),
         "rung_id_space": ("RUNG_", ("ranks", "vertices")),
         "rung_dtype": ("RUNG_", ("dtype_none", *(dtype.name for dtype in dtypes.DTYPES),
                                  "dtype_count"))}
READ = _library._headers   # the headers, as the package reads them
CONSTANTS = {"RUNG_BYTES_MAX": _library.BYTES_MAX, "RUNG_BYTES_NONE": _library.BYTES_NONE,
             "UINT32_MAX": _library.UINT32_MAX,
             **READ.constants}

INCLUDE = os.path.join(SOURCE, "include")
pytestmark = pytest.mark.skipif(shutil.which(compiler()) is None,
                                reason=f"no C compiler ({compiler()}): the headers cannot be "
                                       "looked at")


class Headers:
    """The public headers after preprocessing by a C compiler."""

    def __init__(self, include, folder):
        self.include, self.folder = include, str(folder)
        names = sorted(name for name in os.listdir(os.path.join(include, "rung"))
                       if name.endswith(".h"))
        self.text = "".join(f"#include <rung/{name}>\n" for name in names)
        done = subprocess.run([compiler(), "-std=c11", "-E", "-P", "-I", include, "-x", "c", "-"],
                              input=self.text, capture_output=True, text=True, check=True)
        self.seen = re.sub(r"__attribute__\s*\(\(.*?\)\)+", "", done.stdout)

    def run(self, lines):
        """Return the output lines of a C program with these statements."""
        source, binary = os.path.join(self.folder, "layout.c"), os.path.join(self.folder, "layout")
        with open(source, "w", encoding="utf-8") as out:
            out.write(f"#include <stddef.h>\n#include <stdio.h>\n{self.text}int main(void)\n{{\n"
                      + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run([compiler(), "-std=c11", "-I", self.include, "-o", binary, source],
                       check=True)
        return subprocess.run([binary], capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def body(self, kind, name):
        """Return the text between the braces of a definition."""
        start = re.search(rf"\b{kind}\s+{name}\s*\{{", self.seen)
        assert start, f"the headers define no {kind} {name}"
        depth, at = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(self.seen[at], 0)
            at += 1
        return self.seen[start.end() : at - 1]

    def fields(self, name):
        """Return the name and type of each field."""
        inner = re.sub(r"struct\s*\{[^{}]*\}", "struct ANONYMOUS", self.body("struct", name))
        found = []
        for declaration in filter(None, (part.strip() for part in inner.split(";"))):
            first, *others = declaration.split(",")
            base, declarator = re.fullmatch(r"(.*?)(\**\s*\w+\s*(?:\[.*\])?)", first, re.S).groups()
            for one in (declarator, *others):
                field, dims = re.fullmatch(r"[\s*]*(\w+)\s*((?:\[.*\])?)", one, re.S).groups()
                found.append((field, " ".join((base + "*" * one.count("*")).split()), bool(dims)))
        return found

    def functions(self):
        """Return the result and argument types of every function."""
        found = {}
        for result, name, args in re.findall(r"([\w\s*]+?)\b(rung_\w+)\s*\(([^()]*)\)\s*;",
                                             self.seen):
            listed = [] if args.strip() == "void" else [re.sub(r"\w+\s*$", "", arg)
                                                        if not arg.strip().endswith("*") else arg
                                                        for arg in args.split(",")]
            found[name] = (" ".join(result.split()), [" ".join(arg.split()) for arg in listed])
        return found


def fits(read, type_, text, array=False):
    """Return whether a ctypes type read by the package equals this C type."""
    if array:
        return issubclass(type_, ctypes.Array) and (
            fits(read, type_._type_, text) or fits(read, type_._type_, text, array))
    text = text.replace("extern ", "")
    if "*" in text:
        if text.count("*") == 1 and re.search(r"\bchar\b", text):
            return type_ is ctypes.c_char_p
        pointed = re.sub(r"\bconst\b|\*", "", text).strip()
        name = pointed.removeprefix("struct ")
        if text.count("*") == 1 and name in read.structs:
            return type_ is ctypes.POINTER(read.structs[name])
        return type_ is ctypes.c_void_p or (type_ is not None
                                            and issubclass(type_, ctypes._Pointer))
    plain = re.sub(r"\bconst\b", "", text).strip()
    if plain.startswith("enum "):
        return type_ is ctypes.c_int
    if plain.startswith("struct "):
        return type_ is read.structs[plain.split()[1]]
    if plain.endswith("_fn"):
        return type_ is read.callbacks[plain]
    return plain in SCALARS and type_ is SCALARS[plain]


def differences(headers, read):
    """Return the differences from the headers, one line each."""
    found, lines, expected = [], [], []
    for name, cls in read.structs.items():
        fields = headers.fields(name)
        names = [field for field, _, _ in fields]
        mine = [field for field, _ in cls._fields_]
        if names != mine:
            found.append(f"struct {name} has {names}, here {mine}")
            continue
        found += [f"{name}.{field} is {text}, not {type_.__name__}"
                  for (field, text, array), (_, type_) in zip(fields, cls._fields_)
                  if not fits(read, type_, text, array)]
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append((f"sizeof({name})", ctypes.sizeof(cls)))
        for field, _ in cls._fields_:
            lines.append(f'printf("%zu\\n", offsetof(struct {name}, {field}));')
            lines.append(f'printf("%zu\\n", sizeof(((struct {name} *)0)->{field}));')
            expected += [(f"offsetof({name}, {field})", getattr(cls, field).offset),
                         (f"sizeof({name}.{field})", getattr(cls, field).size)]
    values = headers.run(lines)
    return (found + [f"{what} is {value}, here {mine}" for value,
                     (what, mine) in zip(values, expected) if int(value) != mine])


@pytest.fixture
def headers(tmp_path):
    return Headers(INCLUDE, tmp_path)


def test_structs_have_the_fields_and_offsets_of_the_headers(headers):
    assert differences(headers, READ) == []
    assert set(READ.structs) == set(re.findall(r"\bstruct (rung_\w+)\s*\{", headers.seen))


def changed(folder, before, after):
    """Return a copy of the headers with one changed line in store.h or stats.h."""
    include = folder / "include"
    shutil.copytree(INCLUDE, include)
    texts = {header: header.read_text()
             for header in (include / "rung" / name for name in ("store.h", "stats.h"))}
    header, = (header for header, text in texts.items() if before in text)
    assert texts[header].count(before) == 1
    header.write_text(texts[header].replace(before, after))
    return include


@pytest.mark.parametrize("before, after, says", [
    # the new field replaces padding, so sizeof stays the same
    ("\tuint32_t placement_count;", "\tuint32_t placement_count;\n\tuint32_t more;",
     "rung_store_stats"),
    ("\tuint64_t hits;", "\tuint32_t hits;", "hits"),
    ("\tint no_merge;", "\tunsigned no_merge;", "no_merge"),
    ("\tuint32_t requests_max;", "\tuint32_t requests_maximum;", "requests_maximum"),
])
def test_a_changed_header_is_read(tmp_path, before, after, says):
    include = changed(tmp_path, before, after)
    seen = Headers(str(include), tmp_path)
    assert says in " ".join(differences(seen, READ))
    assert differences(seen, _library.Headers(str(include / "rung"))) == []


@pytest.mark.parametrize("before, after", [
    ("\tint no_merge;", "\tint no_merge : 1;"),
    ("\tint no_merge;", "\tlong no_merge;"),
    ("\tint no_merge;", "\tint (*no_merge)(void);"),
    ("\tint no_merge;", "\tstruct { int yes; } no_merge;"),
    ("int rung_prefetch(", "int rung_prefetch(int (*fn)(void), "),
])
def test_unsupported_declarations_are_refused(tmp_path, before, after):
    with pytest.raises(errors.LibraryError, match="unsupported form"):
        _library.Headers(str(changed(tmp_path, before, after) / "rung"))


def test_options_set_their_size_and_that_of_nested_options():
    opts = c.rung_stage_opts()
    for each in (opts, opts.graph, opts.score):
        assert each.size == ctypes.sizeof(each)
    assert c.rung_loader_opts().sampler.size == ctypes.sizeof(c.rung_sampler_opts)
    assert c.rung_ids(None, 3).count == 3


def test_every_function_has_the_types_of_the_headers(headers):
    declared = headers.functions()
    assert set(FUNCTIONS) <= set(declared) and len(FUNCTIONS) > 50
    wrong = []
    for name, (result, args) in FUNCTIONS.items():
        its_result, its_args = declared[name]
        pairs = zip((result, *args), (its_result, *its_args))
        if len(args) != len(its_args) or not all(fits(READ, *pair) for pair in pairs):
            wrong.append(f"{name}: {its_result} ({', '.join(its_args)})")
    assert wrong == []


@pytest.mark.parametrize("name", ENUMS)
def test_enumerators_have_the_same_values(headers, name):
    prefix, words = ENUMS[name]
    enumerators = re.findall(r"\b(RUNG_\w+)", re.sub(r"=[^,]*", "", headers.body("enum", name)))
    assert enumerators == [prefix + word.upper() for word in words]
    assert ([int(value) for value in headers.run([f'printf("%d\\n", (int){one});'
                                                  for one in enumerators])] == list(
                                                          range(len(words))))


def test_constants_are_the_same(headers):
    values = headers.run([f'printf("%llu\\n", (unsigned long long)({name}));'
                          for name in CONSTANTS])
    assert dict(zip(CONSTANTS, map(int, values))) == CONSTANTS


def test_dtypes_have_the_same_widths_and_names(headers):
    listed = headers.run(['#define X(code, name, bytes, descr) printf("%d %s %d %s\\n", code, '
                          'name, bytes, descr);\nRUNG_DTYPE_LIST(X)'])
    assert (listed == [f"{dtype.code} {dtype.name} {dtype.dlpack[1] // 8} {dtype.numpy}"
                       for dtype in dtypes.DTYPES])


def test_every_status_has_its_own_class(headers):
    listed = headers.run(['#define X(code, value, text) puts(#code);\nRUNG_STATUS_LIST(X)'])
    assert sorted(listed) == sorted(errors._CLASSES)
    assert len(set(errors._CLASSES.values())) == len(listed)
    assert all(issubclass(cls, errors.Error) for cls in errors._CLASSES.values())


def test_the_version_matches_the_build():
    """Also the version of a wheel, which pyproject.toml finds in CMakeLists.txt."""
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
        build = file.read()
    with open(os.path.join(SOURCE, "pyproject.toml"), encoding="utf-8") as file:
        wheel = re.search(r"^regex = '(.+)'$", file.read(), re.M).group(1)
    for pattern in (r"project\(rung VERSION (?P<value>\S+)", wheel):
        assert re.search(pattern, build)["value"] == _library.VERSION
