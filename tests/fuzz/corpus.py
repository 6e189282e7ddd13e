# SPDX-License-Identifier: Apache-2.0
"""The seeds of the fuzz targets; corpus_files.py builds their contents. Standard library only.

The replay checks that rung accepts the inputs named ok-* and refuses those named bad-*. The other
inputs may have either result."""
import gzip
import io
import os
import struct
import sys
import zipfile
import zlib

import corpus_description
from corpus_files import (CENTRAL, END, LOCAL, base, changed, graph, header, in_place,
                          manifest_text, npy, patched, raw_zip, stored, zip64)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "support"))
import torchfile   # pylint: disable=wrong-import-position

SEEDS = {}


def seed(target, name, content):
    assert (target, name) not in SEEDS, name
    SEEDS[target, name] = content.encode() if isinstance(content, str) else content


# ---- .npy ----

def npy_seeds():
    rows = bytes(range(24))
    good = npy(header(), rows)
    for version in ((1, 0), (2, 0), (3, 0)):
        seed("npy", "ok-version-%d" % version[0], npy(header(), rows, version))
    seed("npy", "ok-no-rows", npy(header(shape="(0, 3)")))
    seed("npy", "ok-rows-of-0-bytes", npy(header(shape="(3, 0)")))
    seed("npy", "ok-fortran-matrix", npy(header(fortran="True"), rows))
    seed("npy", "ok-python-2", npy(header(shape="(2L, 3L)"), rows))
    seed("npy", "ok-other-order", npy("{'shape':(6,),'fortran_order':False,'descr':\"<i4\"}", rows))
    seed("npy", "ok-eight-dimensions", npy(header("'|u1'", shape="(1, 1, 1, 1, 1, 1, 1, 4)"), rows))
    seed("npy", "ok-void-of-2", npy(header("'|V2'"), rows))
    seed("npy", "ok-trailing-bytes", good + b"more")
    for name, text in (
            ("big-endian", header("'>i4'")), ("objects", header("'|O'")), ("text", header("'<U4'")),
            ("fields", header("[('a', '<i4')]")),
            ("empty-descr", header("''")), ("long-descr", header("'<i%s'" % ("4" * 5000))),
            ("escape", header("'<i4\\x00'")),
            ("terminal-escape", header("'<i4\x1b[2J'")), ("control-key", "{'\x07descr': '<i4'}"),
            ("fortran-cube", header(fortran="True", shape="(2, 3, 1)")),
            ("fortran-word", header(fortran="Maybe")),
            ("fortran-number", header(fortran="1")), ("scalar", header(shape="()")),
            ("list-shape", header(shape="[2, 3]")),
            ("negative", header(shape="(-2, 3)")), ("no-comma", header(shape="(2 3)")),
            ("two-commas", header(shape="(2,, 3)")),
            ("one-number", header(shape="(6)")), ("real", header(shape="(2.0, 3)")),
            ("hex", header(shape="(0x2, 3)")),
            ("nested-shape", header(shape="(2, (3,))")),
            ("nine-dimensions", header(shape="(1, 1, 1, 1, 1, 1, 1, 1, 6)")),
            ("huge", header(shape="(9223372036854775807, 9223372036854775807)")),
            ("2-to-64", header(shape="(18446744073709551616, 1)")),
            ("2-to-64-less-1", header(shape="(18446744073709551615,)")),
            ("product-wraps", header(shape="(4611686018427387904, 4)")),
            ("wraps-to-small", header(shape="(4294967296, 4294967296)")),
            ("no-rows-of-huge", header(shape="(0, 9223372036854775807, 3)")),
            ("many-digits", header(shape="(%s, 3)" % ("9" * 4000))),
            ("nested-dict", "{'descr': {'descr': '<i4'}, 'fortran_order': False, 'shape': (6,)}"),
            ("deep", "{'shape': " + "(" * 5000), ("deep-dict", "{" * 5000),
            ("twice", "{'descr': '<i4', 'descr': '<i4', 'fortran_order': "
             "False, 'shape': (6,)}"), ("unknown-key", header()[:-3] + "'more': 1}"),
            ("no-shape", "{'descr': '<i4', 'fortran_order': False}"),
            ("no-descr", "{'fortran_order': False, 'shape': (6,)}"),
            ("trailing-text", header() + "print('hello')"),
            ("no-dict", "['descr']"), ("open-string", "{'descr"), ("nothing", ""),
            ("spaces", " " * 1000), ("zeros", "\0" * 100),
            ("expression", "__import__('os').system('true')")):
        seed("npy", "bad-" + name, npy(text, rows))
    for cut in (0, 1, 5, 6, 7, 8, 9, 10, 11, 20, len(good) - 25, len(good) - 24, len(good) - 1):
        seed("npy", "bad-cut-%d" % cut, good[:cut])
    seed("npy", "bad-magic", b"\x93NUMPZ" + good[6:])
    for version in ((0, 0), (1, 1), (4, 0), (255, 255)):
        seed("npy", "bad-version-%d-%d" % version, npy(header(), rows, version))
    for length in (0, 1, 10, 50, 120, 65535):
        seed("npy", "bad-length-%d" % length, npy(header(), rows, length=length))
    for length in (1 << 20, (1 << 20) + 1, 1 << 31, (1 << 32) - 1, (1 << 32) - 12):
        seed("npy", "bad-length-%d" % length, npy(header(), rows, (2, 0), length))


# ---- .npz ----

def good_npz_seeds(member):
    good, packed = stored([("x.npy", member)]), stored([("x.npy", member)], zipfile.ZIP_DEFLATED)
    seed("npz", "ok-stored", good)
    seed("npz", "ok-deflated", packed)
    seed("npz", "ok-second", stored([("y.npy", b"no npy"), ("x.npy", member)]))
    seed("npz", "ok-without-npy", stored([("x", member)]))
    seed("npz", "ok-zeros", stored([("x.npy", npy(header("'|u1'", shape="(100000,)"),
                                                  bytes(100000)))], zipfile.ZIP_DEFLATED))
    seed("npz", "ok-raw", raw_zip(data=member))
    seed("npz", "ok-zip64", zip64(member))
    seed("npz", "ok-comment", raw_zip(data=member, comment=b"c" * 300))
    seed("npz", "ok-extra", raw_zip(data=member, extra_local=b"ab\4\0what"))


def unclear_npz_seeds(member):
    """Files that readers of zip files may accept or refuse."""
    good, packed = stored([("x.npy", member)]), stored([("x.npy", member)], zipfile.ZIP_DEFLATED)
    seed("npz", "data-descriptor", raw_zip(data=member, flags=8, descriptor=b"PK\7\10"
                                           + struct.pack(
                                               "<3I", zlib.crc32(member), *[len(member)] * 2)))
    seed("npz", "before", raw_zip(data=member, before=b"#!/bin/sh\n" * 3))
    seed("npz", "end-in-comment", raw_zip(data=member, comment=END + bytes(18)))
    seed("npz", "two-ends", raw_zip(data=member, tail=END + bytes(18)))
    seed("npz", "duplicate", raw_zip(data=member) + raw_zip(data=npy(header("'<f4'"), bytes(24))))
    seed("npz", "local-sizes-differ", patched(good, LOCAL, 22, 7, 4))
    seed("npz", "crc-differs", patched(patched(good, LOCAL, 14, 7, 4), CENTRAL, 16, 7, 4))
    seed("npz", "deflated-64", patched(patched(packed, LOCAL, 8, 9, 2), CENTRAL, 10, 9, 2))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("x.npy", member)
        file.fp.seek(0, 2)
        file._didModify = True   # pylint: disable=protected-access
        file.NameToInfo.clear()
        file.writestr("x.npy", npy(header("'<f4'"), bytes(24)))
    seed("npz", "twice-the-same-name", out.getvalue())


def bad_npz_seeds(member):
    good, packed = stored([("x.npy", member)]), stored([("x.npy", member)], zipfile.ZIP_DEFLATED)
    many = stored([("%s%d" % ("long" * 30, i), b"") for i in range(9)])
    seed("npz", "bad-many-names", many)
    for name, data in (
            ("nothing", b""), ("no-zip", b"no zip at all"), ("end-alone", END + bytes(18)),
            ("no-member", stored([("y.npy", member)])),
            ("terminal-escape", stored([("\x1b[2J\x07.npy", member)])),
            ("no-npy", stored([("x.npy", b"no npy")])),
            ("empty-member", stored([("x.npy", b"")])),
            ("encrypted", raw_zip(data=bytes(12) + member, flags=1)),
            ("strong", raw_zip(data=member, flags=0x41)),
            ("unknown-method", raw_zip(data=member, method=77)),
            ("bomb", patched(packed, CENTRAL, 24, 0x7fffffff, 4)),
            ("sizes", raw_zip(data=member, size_in_entry=(0x7fffffff, 0x7fffffff))),
            ("packed-beyond-the-file", patched(patched(packed, CENTRAL, 20, 0x70000000, 4), CENTRAL,
                                               24, 0x70000000, 4)),
            ("larger-by-1", raw_zip(data=member, size_in_entry=(len(member) + 1,) * 2)),
            ("plain-differs", raw_zip(data=member, size_in_entry=(len(member), len(member) + 1))),
            ("smaller-by-1", raw_zip(data=member, size_in_entry=(len(member) - 1,) * 2)),
            ("cut-deflate", patched(packed, CENTRAL, 20, 10, 4)),
            ("local-beyond", patched(good, CENTRAL, 42, 0x7fffffff, 4)),
            ("local-negative", patched(good, CENTRAL, 42, 0xfffffffe, 4)),
            ("local-inside", patched(good, CENTRAL, 42, 3, 4)),
            ("directory-beyond", raw_zip(data=member, directory_at=0x7fffffff)),
            ("directory-negative", raw_zip(data=member, directory_at=0xfffffff0)),
            ("directory-bytes", raw_zip(data=member, directory_bytes=0x7fffffff)),
            ("local-name-length", patched(good, LOCAL, 26, 0xffff, 2)),
            ("local-extra-length", patched(good, LOCAL, 28, 0xffff, 2)),
            ("name-length", patched(good, CENTRAL, 28, 0xffff, 2)),
            ("extra-length", patched(good, CENTRAL, 30, 0xffff, 2)),
            ("comment-length", patched(good, CENTRAL, 32, 0xffff, 2)),
            ("end-comment", patched(good, END, 20, 0xffff, 2)),
            ("zip64-offset", zip64(member, offset=(1 << 64) - 8)),
            ("zip64-local", zip64(member, local_at=(1 << 64) - 30)),
            ("zip64-sizes", zip64(member, sizes=((1 << 63) - 1,) * 2)),
            ("zip64-wrap", zip64(member, sizes=((1 << 64) - 1,) * 2)),
            ("zip64-extra", zip64(member, extra_bytes=8)),
            ("zip64-extra-long", zip64(member, extra_bytes=0xffff)),
            ("zip64-locator", zip64(member, locator_at=(1 << 64) - 1)),
            ("zip64-entries", zip64(member, entries=(1 << 64) - 1))):
        seed("npz", ("bad-" if name not in ("larger-by-1", "local-name-length") else "") + name,
             data)
    for cut in (1, 4, 29, 60, len(good) - 60, len(good) - 22, len(good) - 1):
        seed("npz", "bad-cut-%d" % cut, good[:cut])


def npz_seeds():
    member = npy(header(), bytes(range(24)))
    good_npz_seeds(member)
    unclear_npz_seeds(member)
    bad_npz_seeds(member)


# ---- specs ----

def spec_seeds():
    seed("spec", "ok-raw", "0raw:@f,u32,2x512")
    seed("spec", "ok-raw-offset", "1raw:@f,u32,2x100,512,trailing=ignore")
    seed("spec", "ok-npy", "2@e.npy")
    seed("spec", "ok-two", "3@e.npy\nraw:@f,u32,2x8,0,trailing=ignore")
    for name, text in (("parts", "@e.npy+0,0"), ("part-counts", "@e.npy+0:64,0:64"),
                       ("raw-parts", "raw:@f,u32,2x100,512,trailing=ignore+0:64,0"),
                       ("range", "range:3,9"), ("no-range", "range:3,3"),
                       ("pad", "pad:9,range:3,9"), ("pad-npy", "pad:2,range:0,2"),
                       ("every", "every:3,1,3,range:0,9"),
                       ("every-raw", "every:5,0,3,raw:@f,u32,9,0,trailing=ignore")):
        seed("spec", "ok-" + name, "0" + text)
    rest = ",0,trailing=ignore"
    seed("spec", "graph-csc", f"0csc:raw:@p,u64,65{rest},raw:@f,u32,64{rest}")
    seed("spec", "graph-csr", f"1csr:raw:@p,u64,65{rest},raw:@f,u32,64{rest}")
    for name, text in (
            ("empty", ""), ("raw", "raw:"), ("commas", "raw:,,,"),
            ("more-commas", "raw:" + "," * 900), ("no-dtype", "raw:@f,2x512"),
            ("dtype", "raw:@f,u7,2x512"), ("no-dims", "raw:@f,u32,"), ("x", "raw:@f,u32,x"),
            ("2x", "raw:@f,u32,2x"), ("0x", "raw:@f,u32,0x10g"),
            ("negative", "raw:@f,u32,-2x3"), ("plus", "raw:@f,u32,+2x3"),
            ("space", "raw:@f,u32, 2x3"), ("nine", "raw:@f,u8,1x1x1x1x1x1x1x1x1"),
            ("large", "raw:@f,u32,2x513"), ("trailing", "raw:@f,u32,2x512,trailing=ignore"),
            ("trailing-word", "raw:@f,u32,2x512,0,trailing=all"),
            ("huge", "raw:@f,u64,9223372036854775807x9223372036854775807"),
            ("2-to-64", "raw:@f,u8,18446744073709551616"),
            ("wraps", "raw:@f,u8,4294967296x4294967296"),
            ("offset", "raw:@f,u32,2x512,1"), ("offset-huge", "raw:@f,u8,1,18446744073709551615"),
            ("offset-negative", "raw:@f,u8,1,-1"),
            ("offset-text", "raw:@f,u8,1,a"), ("folder", "raw:@,u8,1"),
            ("missing", "raw:@none,u8,1"), ("no-npy", "@f"),
            ("npz", "@n.npz"), ("npz-member", "@n.npz:x"), ("npz-colons", "@n.npz:.npz:.npz:"),
            ("npz-twice", "@n.npz:x.npz:y"),
            ("csc", "csc:"), ("csc-comma", "csc:,"), ("csc-commas", "csc:" + "," * 900),
            ("csc-one", "csc:@e.npy"),
            ("csc-nested", "csc:csc:@e.npy,@e.npy,@e.npy"),
            ("csc-and", "csc:raw:@p,u64,65,raw:@f,u32,64\n@e.npy"),
            ("csr-short", "csr:raw:@p,u64,64,raw:@f,u32,64"), ("percent", "%s%s%s%n%n"),
            ("part", "@e.npy+0,1"), ("part-count", "@e.npy+0,0:63"),
            ("part-huge", "@e.npy+9223372036854775807,1"), ("parts-alone", "+0,0"),
            ("range", "range:9,3"), ("range-text", "range:a,b"), ("range-one", "range:1"),
            ("range-huge", "range:0,9223372036854775807"),
            ("pad-short", "pad:1,range:0,2"), ("pad-unsigned", "pad:4096,raw:@f,u8,9"),
            ("pad-pad", "pad:9,pad:8,range:0,2"), ("pad-huge",
             "pad:9223372036854775807,range:0,2"), ("pad-none", "pad:5,"),
            ("every-empty", "every:5,3,3,range:0,9"), ("every-end", "every:2,0,3,range:0,9"),
            ("every-zero", "every:0,0,0,range:0,9"), ("every-short", "every:5,0,range:0,9"),
            ("every-pad", "every:5,0,3,pad:9,range:0,9"),
            ("pt", "@n.pt:x"), ("csv", "@n.csv.gz"), ("long", "a" * 1000)):
        seed("spec", "bad-" + name, "0" + text)
    seed("spec", "not-utf-8", b"0raw:@\xff\xfe,u8,1")


# ---- dicts of torch, ids in text ----

def pickle_seeds():
    good = torchfile.dict_pickle({"train": [1, 200, -1], "n": 70000, "none": [],
                                  "more": torchfile.ndarray([255], "u1")})
    seed("pickle", "ok-dict", good)
    seed("pickle", "ok-numbers", torchfile.dict_pickle({"a": 1, "b": 256, "c": 1 << 40, "d": -5}))
    seed("pickle", "ok-many", torchfile.dict_pickle({"k%d" % i: [i] for i in range(40)}))
    seed("pickle", "ok-numpy-2", torchfile.dict_pickle({"a": [1]}, module="numpy._core.multiarray"))
    seed("pickle", "ok-nothing", b"\x80\x02}.")
    for name, content in (
            ("floats", torchfile.dict_pickle({"a": torchfile.ndarray([1.5], "f4")})),
            ("big-endian", torchfile.dict_pickle({"a": torchfile.ndarray([1], "i8", ">")})),
            ("matrix", torchfile.dict_pickle({"a": torchfile.ndarray([1, 2], shape=(1, 2))})),
            ("protocol-4", torchfile.dict_pickle({"a": [1]}, protocol=4)),
            ("protocol-0", torchfile.dict_pickle({"a": [1]}, protocol=0)),
            ("many", torchfile.dict_pickle({"k%d" % i: 1 for i in range(65)})),
            ("key-escape", torchfile.dict_pickle({"\x1b[2J": 1})),
            ("key-long", torchfile.dict_pickle({"k" * 64: 1})),
            ("key-number", torchfile.dict_pickle({5: 1})),
            ("nested", torchfile.dict_pickle({"a": {"b": 1}})),
            ("text", torchfile.dict_pickle({"a": "b"})),
            ("call", b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R."),
            ("deep", b"\x80\x02" + b"(" * 5000), ("tuples", b"\x80\x02N" + b"\x85" * 9000),
            ("empty", b""), ("stop", b"\x80\x02."), ("length", b"\x80\x02X\xff\xff\xff\x7fa")):
        seed("pickle", "bad-" + name, content)
    for cut in (1, 2, 3, 50, 100, len(good) - 1):
        seed("pickle", "bad-cut-%d" % cut, good[:cut])


def text_seeds():
    good = "".join("%d\n" % (i * i) for i in range(60)).encode()
    seed("text", "ok-lines", good)
    seed("text", "ok-packed", gzip.compress(good, mtime=0))
    seed("text", "ok-two-members", gzip.compress(b"1\n2", mtime=0) + gzip.compress(b"3\n", mtime=0))
    seed("text", "ok-windows", b"1\r\n2\r\n3")
    seed("text", "ok-most", b"9223372036854775807\n000\n")
    seed("text", "ok-nothing", b"")
    for name, content in (("header", b"id\n1\n"), ("column", b"1,2\n"), ("negative", b"-1\n"),
                          ("too-large", b"9223372036854775808\n"), ("blank", b"1\n\n2\n"),
                          ("space", b"1 \n"), ("return", b"1\r2\n"), ("real", b"1.0\n"),
                          ("nul", b"1\0\n"), ("many-digits", b"9" * 10000)):
        seed("text", "bad-" + name, content)
        seed("text", "bad-packed-" + name, gzip.compress(content, mtime=0))
    packed = gzip.compress(good, mtime=0)
    for cut in (2, 9, 10, 11, len(packed) // 2, len(packed) - 8, len(packed) - 1):
        seed("text", "bad-cut-%d" % cut, packed[:cut])
    seed("text", "bad-crc", packed[:-8] + b"\0\0\0\0" + packed[-4:])


# ---- graphs ----

def graph_seeds():
    ids = [0, 1, 2, 3, 3, 2, 1, 1, 0, 0]
    for flags in (0, 1, 2, 3):
        for shape in (0, 16, 32, 48):
            seed("graph", "ok-list-%d" % (flags | shape), graph(flags | shape, 4, ids))
        for kind in (4, 8):
            for wide in (0, 16):
                seed("graph", "ok-lists-%d" % (flags | kind | wide),
                     graph(flags | kind | wide, 4, ids, (0, 3, 3, 9, 10)))
    seed("graph", "ok-none", graph(0, 4, []))
    seed("graph", "ok-empty-lists", graph(4, 4, [], (0,) * 5))
    seed("graph", "ok-long-list", graph(4, 4, [i % 4 for i in range(1000)],
                                        (0, 0, 1000, 1000, 1000)))
    for flags in (0, 16):
        seed("graph", "bad-id-%d" % flags, graph(flags, 4, [0, 1, 2, 4]))
        seed("graph", "bad-id-max-%d" % flags,
             graph(flags, 4, [0, 1, 2, (1 << (64 if flags else 32)) - 1]))
    for kind in (4, 8):
        for name, offsets in (("falls", (0, 3, 2, 9, 10)), ("first", (1, 3, 3, 9, 10)),
                              ("last", (0, 3, 3, 9, 9)), ("beyond", (0, 3, 3, 9, 11)),
                              ("negative", (0, -1, 3, 9, 10)), ("huge", (0, 3, 1 << 63, 9, 10)),
                              ("wraps", (0, 3, (1 << 64) - 4, 2, 10))):
            seed("graph", "bad-%s-%d" % (name, kind), graph(kind, 4, ids, offsets))
        seed("graph", "bad-id-%d" % kind, graph(kind, 4, [0, 1, 2, 3, 4], (0, 1, 2, 3, 5)))


# ---- manifests ----

def in_place_seeds():
    seed("manifest", "ok-in-place", in_place())
    seed("manifest", "ok-in-place-many",
         in_place(bytes=1 << 40, samples=["%016x" % i for i in range(64)]))
    for name, change in (
            ("none", {"in_place": KeyError}), ("text", {"in_place": "x"}),
            ("beyond", {"data_offset": 41}), ("huge", {"data_offset": 2**63 - 1}),
            ("negative", {"data_offset": -1}), ("padded", {"row_stride": 16}),
            ("path", {"file": "a/x.npz"}), ("no-path", {"file": KeyError}),
            ("bell", {"file": "/a\a"}), ("long-path", {"file": "/" + "a" * 5000}),
            ("short", {"bytes": 99}), ("time", {"mtime_ns": -1}),
            ("no-time", {"mtime_ns": None}), ("more", {"samples": ["0" * 16] * 2}),
            ("fewer", {"samples": []}),
            ("digits", {"samples": ["x" * 16]}), ("numbers", {"samples": [5]}),
            ("no-list", {"samples": {}})):
        seed("manifest", "bad-in-place-" + name, in_place(**change))


def further_array_seeds():
    arrays = base()
    arrays["arrays"] = ["year", "A-1"]
    for name, dtype, shape, size in (("year", "i16", [5], 10), ("A-1", "f64", [5, 2, 2], 160)):
        arrays["files"].insert(-2, {"name": "features_%s.npy" % name, "bytes": 4096 + size,
                                    "dtype": dtype, "shape": shape, "blocks": 1})
    for i, file in enumerate(arrays["files"]):
        file["first_block"] = i
    arrays["checksums"]["bytes"] += 16
    seed("manifest", "ok-arrays", manifest_text(arrays))
    for name, value in (("twice", ["year", "year"]), ("path", ["year", "../a"]),
                        ("fewer", ["year"]), ("order", ["A-1", "year"]), ("number", 5),
                        ("null", None), ("many", ["a%d" % i for i in range(65)])):
        seed("manifest", "bad-arrays-" + name, manifest_text(dict(arrays, arrays=value)))


def two_file_seeds():
    root = base()
    root["features"].update(files=["features.%03d.npy" % f for f in range(2)], block_rows=2)
    root["files"][0].update(bytes=4096 + 36, shape=[3, 3])
    root["files"].insert(1, {"name": "features.001.npy", "bytes": 4096 + 24, "dtype": "f32",
                             "shape": [2, 3], "blocks": 1})
    for i, file in enumerate(root["files"]):
        file["first_block"] = i
    root["checksums"]["bytes"] += 8
    seed("manifest", "ok-two-files", manifest_text(root))
    # the same files as two ranges
    del root["features"]["block_rows"]
    root["version"] = 3
    good = [{"end": 3, "files": 1}, {"end": 5, "files": 1}]
    root["features"]["ranges"] = good
    seed("manifest", "ok-ranges", manifest_text(root))
    seed("manifest", "bad-ranges-version", manifest_text(dict(root, version=1)))
    last = [{"end": 4}, {"end": 3}, {"end": 6}, {"files": 0}, {"files": 2, "block_rows": 1},
            {"files": 1 << 62}, {"stored": [4, 5]}, {"stored": [3, 4]}, {"stored": [2, 5]},
            {"stored": [-1, 5]}, {"stored": "x"}, {"stored": [3]}, {"end": "5"}]
    wrong = [[good[0], dict(good[1], **change)] for change in last]
    for name, ranges in enumerate([[], good[:1], "x", [3, 5], good * 9] + wrong):
        root["features"]["ranges"] = ranges
        seed("manifest", "bad-ranges-%d" % name, manifest_text(root))


def wrong_type_seeds():
    for key in list(base()):
        if key != "draws":
            seed("manifest", "bad-without-" + key, changed(key, value=KeyError))
        for name, value in (("null", None), ("text", "text"), ("number", 1 << 62), ("negative", -1),
                            ("real", 0.5), ("list", []),
                            ("object", {}), ("lists", [[[]]])):
            if (key, name) not in (("producer", "text"), ("fanouts", "list"), ("edges", "number")):
                seed("manifest", "bad-%s-is-%s" % (key, name), changed(key, value=value))


def wrong_value_seeds():
    for name, path, value in (
            ("version", ("version",), 2), ("vertices-0", ("vertices",), 0),
            ("vertices-max", ("vertices",), (1 << 63) - 1),
            ("edges", ("edges",), (1 << 62) + 5), ("index-bytes", ("index_bytes",), 8),
            ("shape", ("features", "shape"), [5, 3, 1 << 62, 4]),
            ("shape-deep", ("features", "shape"), [[5], 3]),
            ("shape-real", ("features", "shape"), [5.0, 3]),
            ("rows", ("features", "shape"), [6, 3]),
            ("row-bytes", ("features", "row_bytes"), 13), ("stride", ("features", "row_stride"), 4),
            ("offset", ("features", "data_offset"), 0),
            ("feature-name", ("features", "files"), ["../features.npy"]),
            ("feature-names", ("features", "files"), ["features.000.npy"] * 17),
            ("no-rows-of-features", ("features", "shape"), [5, 0]),
            ("dtype", ("features", "dtype"), "none"),
            ("method-long", ("score", "method"), "m" * 32),
            ("method-escape", ("score", "method"), "\x1b[2J"),
            ("producer-long", ("producer",), "p" * 96),
            ("producer-escape", ("producer",), "a\nb\x1b[2J"),
            ("iterations", ("score", "iterations"), 1 << 32),
            ("fanouts", ("fanouts",), [1] * 17), ("fanout-0", ("fanouts",), [0]),
            ("fanout-large", ("fanouts",), [1 << 32]),
            ("draws", ("draws",), "some"), ("split-path", ("splits",), ["train", "../a"]),
            ("split-twice", ("splits",), ["train", "train"]),
            ("split-empty", ("splits",), ["train", ""]),
            ("splits-many", ("splits",), ["s%d" % i for i in range(300)]),
            ("name", ("files", 1, "name"), "other.npy"), ("bytes", ("files", 2, "bytes"), 4095),
            ("first", ("files", 2, "first_block"), 0),
            ("blocks", ("files", 0, "blocks"), 1 << 40),
            ("labels-shape", ("files", 6, "shape"), [6]),
            ("split-shape", ("files", 7, "shape"), [6]),
            ("split-large", ("files", 7, "shape"), [(1 << 63) - 1]),
            ("sums", ("checksums", "blocks"), []),
            ("sums-many", ("checksums", "blocks"), ["0" * 16] * 2),
            ("sum-short", ("checksums", "blocks"), ["0"]),
            ("sum-upper", ("checksums", "blocks"), ["A" * 16]),
            ("algorithm", ("checksums", "algorithm"), "md5")):
        seed("manifest", "bad-" + name, changed(*path, value=value))
    big = base()   # files of 2^60 bytes: 2^40 checksums, which fit neither in memory nor in a list
    big["vertices"], big["features"]["shape"] = 1 << 57, [1 << 57, 3]
    seed("manifest", "bad-room", manifest_text(big))


def wrong_text_seeds(text):
    for name, value in (("nan", "NaN"), ("infinity", "-Infinity"), ("large-real", "1e999"),
                        ("large-integer", "9" * 400), ("hex", "0x5"),
                        ("leading-0", "05"), ("plus", "+5"), ("2-to-63", str(1 << 63)),
                        ("exponent", "5e0"), ("single-quotes", "'5'"), ("bare", "five")):
        seed("manifest", "bad-number-" + name,
             text.replace('"vertices": 5', '"vertices": ' + value))
    seed("manifest", "bad-twice", text.replace('"edges": 7', '"edges": 7, "edges": 7'))
    seed("manifest", "bad-twice-inside", text.replace('"row_bytes": 12',
                                                      '"row_bytes": 12, "row_bytes": 12'))
    seed("manifest", "bad-deep-list", '{"format": ' + "[" * 20000 + "]" * 20000 + ",")
    seed("manifest", "bad-deep-object", '{"a":' * 8000)
    seed("manifest", "bad-nul", text.replace("a test", "a\\u0000test"))
    seed("manifest", "bad-nul-byte", text.replace("a test", "a\0test"))
    seed("manifest", "bad-surrogate", text.replace("a test", "\\ud800"))
    seed("manifest", "bad-not-utf-8", text.encode().replace(b"a test", b"\xff\xfe"))
    seed("manifest", "bad-long-key", '{"%s": 1,' % ("k" * 60000))
    for cut in (0, 1, 10, len(text) // 3, len(text) - 1):
        seed("manifest", "bad-cut-%d" % cut, text[:cut])


def manifest_seeds():
    text = manifest_text(base())
    seed("manifest", "ok-base", text)
    seed("manifest", "ok-end", text + '\n "checksum": "%s"\n}\n' % ("0" * 16))
    seed("manifest", "ok-without-draws", changed("draws", value=KeyError))
    seed("manifest", "ok-more-keys", changed("another", value={"of": ["any", "kind", 1e300]}))
    further_array_seeds()
    two_file_seeds()
    in_place_seeds()
    name_seeds()
    wrong_type_seeds()
    wrong_value_seeds()
    wrong_text_seeds(text)


def name_seeds():
    names = changed("vertex_types", value=[{"name": "paper", "vertices": 5}])
    seed("manifest", "ok-type", names)
    relation = {"name": "cites", "source": "vertex", "target": "vertex", "edges": 7}
    seed("manifest", "ok-relation", changed("relations", value=[relation]))
    for name, value in (("none", []), ("two", [relation] * 2), ("number", [5]),
                        ("name", [dict(relation, name="a/b")]), ("no-name", [{}]),
                        ("long", [dict(relation, name="n" * 64)]),
                        ("source", [dict(relation, source="paper")]),
                        ("target", [dict(relation, target=None)]),
                        ("edges", [dict(relation, edges=8)])):
        seed("manifest", "bad-relations-" + name, changed("relations", value=value))
    for name, value in (("none", []), ("object", {}), ("count", [{"name": "a", "vertices": 6}]),
                        ("name", [{"name": "a b", "vertices": 5}])):
        seed("manifest", "bad-types-" + name, changed("vertex_types", value=value))


def description_seeds():
    for name, text in corpus_description.accepted():
        seed("description", "ok-" + name, text)
    for name, text in corpus_description.refused():
        seed("description", "bad-" + name, text)


def make(target, folder):
    """Write all seeds of a target to a folder, and remove any other files there."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    globals()[target + "_seeds"]()
    for (_, name), content in SEEDS.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
