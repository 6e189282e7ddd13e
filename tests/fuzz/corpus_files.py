# SPDX-License-Identifier: Apache-2.0
"""Builds the contents of the files that corpus.py uses as seeds: .npy, .npz, graphs, manifests.
Standard library only."""
import io
import json
import struct
import zipfile
import zlib


# ---- .npy ----

def npy(text, data=b"", version=(1, 0), length=None):
    text = text.encode("latin-1") if isinstance(text, str) else text
    length = len(text) if length is None else length
    count = struct.pack("<H", length & 0xffff) if version[0] == 1 else struct.pack("<I", length)
    return b"\x93NUMPY" + bytes(version) + count + text + data


def header(descr="'<i4'", fortran="False", shape="(2, 3)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n" % (descr, fortran, shape)


# ---- .npz ----

def stored(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in members:
            file.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def patched(data, signature, offset, value, bytes_count, last=False):
    """Replace a number in the first (or last) record with this signature."""
    at = (data.rindex if last else data.index)(signature) + offset
    return data[:at] + value.to_bytes(bytes_count, "little") + data[at + bytes_count:]


LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"


def raw_zip(name=b"x.npy", data=b"", method=0, flags=0, sizes=None, extra_local=b"", extra=b"",
            local_name=None, local_at=0,
            descriptor=b"", size_in_entry=None, comment=b"", before=b"", entries=1,
            directory_at=None, directory_bytes=None, tail=b""):
    """A zip file of one member, with any false field that the arguments set."""
    packed, plain = sizes or (len(data), len(data))
    local_name = name if local_name is None else local_name
    crc = zlib.crc32(data)
    in_local = (0, 0, 0) if flags & 8 else (crc, packed, plain)
    local = LOCAL + struct.pack("<5H3I2H", 20, flags, method, 0, 33, *in_local, len(local_name),
                                len(extra_local))
    local += local_name + extra_local + data + descriptor
    at = len(before) + len(local)
    packed, plain = size_in_entry or (packed, plain)
    entry = CENTRAL + struct.pack("<6H3I5H2I", 20, 20, flags, method, 0, 33, crc, packed, plain,
                                  len(name), len(extra), 0, 0, 0, 0,
                                  local_at + len(before)) + name + extra
    end = tail + END + struct.pack("<4H2IH", 0, 0, entries, entries,
                                   len(entry) if directory_bytes is None else directory_bytes,
                                   at if directory_at is None else directory_at,
                                   len(comment)) + comment
    return before + local + entry + end


def zip64(member, sizes=None, local_at=0, offset=None, extra_bytes=None, locator_at=None,
          entries=1):
    """A zip file of one member whose numbers are all in zip64 fields."""
    packed, plain = sizes or (len(member), len(member))
    name, most = b"x.npy", 0xffffffff
    extra_local = struct.pack("<HHQQ", 1, 16, plain, packed)
    local = LOCAL + struct.pack("<5H3I2H", 45, 0, 0, 0, 33, zlib.crc32(member), most, most,
                                len(name), len(extra_local))
    local += name + extra_local + member
    extra = struct.pack("<HHQQQ", 1, 24, plain, packed, local_at)
    if extra_bytes is not None:
        extra = struct.pack("<HH", 1, extra_bytes) + extra[4:]
    entry = CENTRAL + struct.pack("<6H3I5H2I", 45, 45, 0, 0, 0, 33, zlib.crc32(member), most, most,
                                  len(name), len(extra), 0, 0, 0, 0,
                                  most) + name + extra
    at = len(local) + len(entry)
    end64 = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, entries, entries, len(entry),
                                    len(local) if offset is None else offset)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, at if locator_at is None else locator_at, 1)
    return (local + entry + end64 + locator + END
            + struct.pack("<4H2IH", 0, 0, 0xffff, 0xffff, most, most, 0))


# ---- graphs ----

def graph(flags, vertices, ids, offsets=()):
    code = "Q" if flags & 16 else "I"
    return (bytes([flags, vertices]) + struct.pack("<%dQ" % len(offsets),
                                                   *[o % (1 << 64) for o in offsets]) + \
         struct.pack("<%d%s" % (len(ids), code), *ids))


# ---- manifests ----

def base():
    """A manifest as in FORMAT.md: 5 vertices, 7 edges, rows of 3 f32."""
    files, first = [], 0
    for name, dtype, shape, size in (
            ("features.000.npy", "f32", [5, 3], 60), ("graph_indptr.npy", "u64", [6], 48),
            ("graph_indices.npy", "u32", [7], 28),
            ("vertex_of_rank.npy", "u32", [5], 20), ("rank_of_vertex.npy", "u32", [5], 20),
            ("score.npy", "f32", [5], 20),
            ("labels.npy", "i64", [5], 40), ("split_train.npy", "u32", [2], 8),
            ("split_a-B_9.npy", "u32", [0], 0)):
        files.append({"name": name, "bytes": 4096 + size, "dtype": dtype, "shape": shape,
                      "first_block": first, "blocks": 1})
        first += 1
    return {
        "format": "rung-dataset", "version": 1, "producer": "a test", "vertices": 5, "edges": 7,
        "index_bytes": 4,
        "features": {"files": ["features.000.npy"], "dtype": "f32", "shape": [5, 3],
                     "row_bytes": 12, "row_stride": 12, "data_offset": 4096},
        "score": {"method": "wrpagerank", "iterations": 20, "damping": 0.85, "tolerance": None,
                  "batches": None, "seed": None},
        "fanouts": [25, 10], "batch_size": 1024, "draws": "all", "labels": True,
        "splits": ["train", "a-B_9"], "files": files,
        "checksums": {"algorithm": "xxh3-64", "block_bytes": 1048576, "file": "checksums.npy",
                      "bytes": 4096 + 8 * len(files),
                      "blocks": ["0123456789abcdef"]}}


def manifest_text(root):
    """The text of a manifest without its last key, which the target appends."""
    return json.dumps(root, indent=1)[:-2] + ","


def changed(*path, value):
    root = base()
    at = root
    for key in path[:-1]:
        at = at[key]
    if value is KeyError:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return manifest_text(root)


def in_place(**change):
    """A manifest whose rows stay in a file of 100 bytes, from byte 40 on."""
    root = base()
    root["files"] = root["files"][1:]
    for i, file in enumerate(root["files"]):
        file["first_block"] = i
    root["checksums"]["bytes"] -= 8
    root["features"].update(files=[], data_offset=40,
                            in_place={"file": "/a/x.npz", "bytes": 100, "mtime_ns": 5,
                                      "samples": ["00112233445566ff"]})
    for key, value in change.items():
        at = root["features"]
        at = at if key in ("files", "data_offset", "row_stride", "in_place") else at["in_place"]
        if value is KeyError:
            del at[key]
        else:
            at[key] = value
    return manifest_text(root)
