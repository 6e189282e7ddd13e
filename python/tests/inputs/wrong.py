# SPDX-License-Identifier: Apache-2.0
"""Wrong descriptions of inputs: functions that get a good array, write a file "bad.*", and return
its SRC and words of the message. The lists have those of a kind of input."""

import os
import zipfile

import numpy as np

PAPERS, AUTHORS, EDGES = 100, 40, 300
NUMBERS = np.random.default_rng(31)
ROWS = NUMBERS.random((PAPERS, 4)).astype("<f4")
CITES = NUMBERS.integers(0, PAPERS, (2, EDGES))
WRITES = np.stack([NUMBERS.integers(0, AUTHORS, EDGES), NUMBERS.integers(0, PAPERS, EDGES)])
ARRAYS = {"x": ROWS, "y": np.arange(PAPERS), "year": np.arange(PAPERS), "train": np.arange(30),
          "valid": np.arange(30, 50), "cites": CITES, "writes": WRITES,
          "weight": NUMBERS.random((EDGES, 3)), "score": np.ones(PAPERS, "<f4")}


def saved(array, name="bad.npy"):
    np.save(name, array)
    return name


def written(content, name="bad.npy"):
    with open(name, "wb") as file:
        file.write(content)
    return name


def bytes_of(array):
    with open(saved(array, "other.npy"), "rb") as file:
        return file.read()


def missing(_good):
    return "bad.npy", "No such file"


def folder(_good):
    os.mkdir("bad.npy")
    return "bad.npy", "not a regular file"


def pipe(_good):
    os.mkfifo("bad.npy")
    return "bad.npy", "not a regular file"


def empty_file(_good):
    return written(b""), ""


def text(_good):
    return written(b"1,2\n" * 999), "not a .npy file"


def hdf5(_good):
    return written(b"\x89HDF\r\n\x1a\n" + bytes(4000), "bad.h5"), "not a .npy file"


def truncated(good):
    return written(bytes_of(good)[:-1]), "truncated"


def big_endian(good):
    return saved(good.astype(good.dtype.newbyteorder(">"))), "big-endian"


def objects(good):
    return saved(good.astype(object)), "object"


def complex_numbers(good):
    return saved(good.astype("<c8")), "<c8"


def archive_without_member(good):
    np.savez("bad.npz", other=good)
    return "bad.npz", "other"


def unknown_member(good):
    np.savez("bad.npz", other=good)
    return "bad.npz:x", "other"


def damaged_member(good):
    np.savez("bad.npz", x=good)
    with open("bad.npz", "r+b") as file:
        file.truncate(os.path.getsize("bad.npz") // 2)
    return "bad.npz:x", ""


def not_an_archive(good):
    os.rename(saved(good), "bad.npz")
    return "bad.npz:x", ""


def compressed(good):
    with zipfile.ZipFile("bad.zip", "w") as archive:
        archive.writestr("x.npy", bytes_of(good))
    return "bad.zip", "not a .npy file"


def shape_of(array):
    return "x".join(map(str, array.shape))


def raw(good, front=b"", back=b"", dtype=None, shape=None, words=""):
    written(front + good.tobytes() + back, "bad.bin")
    names = {"<f4": "f32", "<i8": "i64", "<f8": "f64"}
    return f"raw:bad.bin,{dtype or names[good.dtype.str]},{shape or shape_of(good)}{words}"


def raw_too_short(good):
    return raw(good[..., :-1], shape=shape_of(good)), "bytes are missing"


def raw_left_over(good):
    return raw(good, back=b"\1"), "1 bytes are left over"


def raw_left_over_after_an_offset(good):
    return raw(good, b"12", b"\1", words=",2"), "1 bytes are left over"


def raw_of_narrower_values(good):
    return raw(good, dtype="u8"), "bytes are left over"


def raw_of_fewer_columns(good):
    return raw(good, shape=shape_of(good[:-1])), "bytes are left over"


def raw_without_shape(good):
    return raw(good).rsplit(",", 1)[0], "raw:FILE,DTYPE,DIM"


def raw_of_an_unknown_dtype(good):
    return raw(good, dtype="f7"), "f32 f64"


def raw_of_too_many_bytes(good):
    return raw(good, shape="4294967296x4294967296"), "63 bits"


def raw_with_an_unknown_word(good):
    return raw(good, words=",0,trailing=all"), "raw:FILE,DTYPE,DIM"


def raw_that_ignores_without_an_offset(good):
    return raw(good, words=",trailing=ignore"), "raw:FILE,DTYPE,DIM"


def raw_of_a_known_format(good):
    np.savez("bad.npz", x=good)
    return f"raw:bad.npz,{raw(good).split(',', 1)[1]}", "OFFSET"


def raw_npy(good):
    saved(good)
    return f"raw:bad.npy,{raw(good).split(',', 1)[1]}", "OFFSET"


FILES = [missing, folder, pipe, empty_file, text, hdf5, truncated, big_endian, objects,
         complex_numbers, archive_without_member, unknown_member, damaged_member, not_an_archive,
         compressed, raw_too_short, raw_left_over, raw_left_over_after_an_offset,
         raw_of_narrower_values, raw_of_fewer_columns, raw_without_shape, raw_of_an_unknown_dtype,
         raw_of_too_many_bytes, raw_with_an_unknown_word, raw_that_ignores_without_an_offset,
         raw_of_a_known_format, raw_npy]


def one_row_less(good):
    return saved(good[:-1]), str(len(good))


def one_row_more(good):
    return saved(np.concatenate([good, good[:1]])), str(len(good))


def no_rows(good):
    return saved(good[:0]), ""


def rows_without_bytes(good):
    return saved(np.empty((len(good), 0), "<f4")), "0 bytes"


def columns_first(good):
    return saved(np.asfortranarray(np.stack([good, good], 1))), "ascontiguousarray"


def one_number(_good):
    return saved(np.float32(1)), ""


ROW_ARRAYS = [*FILES, one_row_less, one_row_more, no_rows, rows_without_bytes, columns_first,
              one_number]

# another number of features is one of vertices: the message names the next array
FEATURES = [wrong for wrong in ROW_ARRAYS if wrong not in (one_row_less, one_row_more)]


def repeated_id(_good):
    return saved(np.array([5, 7, 5])), "entries 0 and 2 are both 5"


def id_too_large(_good):
    return saved(np.array([5, PAPERS])), f"entry 1 is {PAPERS}"


def negative_id(_good):
    return saved(np.array([5, 3, -1])), "entry 2 is -1"


def ids_as_floats(_good):
    return saved(np.array([5.0, 3.0])), "f64"


def ids_in_two_dimensions(_good):
    return saved(np.array([[5], [3]])), "2-D"


def more_ids_than_vertices(_good):
    return saved(np.arange(PAPERS + 1)), str(PAPERS + 1)


def mask_of(vertices, dtype, one=1):
    return (np.arange(vertices) >= vertices // 2).astype(dtype) * np.array(one, dtype)


def short_mask(_good):
    return saved(mask_of(PAPERS - 1, bool)), f"has {PAPERS - 1} entries"


def long_mask(_good):
    return saved(mask_of(PAPERS + 1, bool)), f"has {PAPERS + 1} entries"


def mask_as_u8(_good):
    return saved(mask_of(PAPERS, "u1")), "astype(bool)"


def mask_as_i8(_good):
    return saved(mask_of(PAPERS, "i1")), "astype(bool)"


def mask_as_i32(_good):
    return saved(mask_of(PAPERS, "<i4")), "astype(bool)"


def mask_as_i64(_good):
    return saved(mask_of(PAPERS, "<i8")), "astype(bool)"


def mask_of_another_value(_good):
    return saved(mask_of(PAPERS, "u1", 99)), "astype(bool)"


def mask_as_integers_of_another_length(_good):
    return saved(mask_of(PAPERS - 9, "u1")), "astype(bool)"


def mask_as_text(_good):
    return written(b"0\n1\n" * (PAPERS // 2), "bad.csv"), "astype(bool)"


def mask_as_raw_bytes(_good):
    return raw(mask_of(PAPERS, "u1"), dtype="u8"), "astype(bool)"


def text_with_a_header(_good):
    return written(b"id\n5\n", "bad.csv"), "line 1"


IDS = [*FILES, repeated_id, id_too_large, negative_id, ids_as_floats, ids_in_two_dimensions,
       more_ids_than_vertices, short_mask, long_mask, mask_as_u8, mask_as_i8, mask_as_i32,
       mask_as_i64, mask_of_another_value, mask_as_integers_of_another_length, mask_as_text,
       mask_as_raw_bytes, text_with_a_header]


def no_train_ids(_good):
    return saved(np.empty(0, "<i8")), "no train vertex"


def no_true_entry(_good):
    return saved(np.zeros(PAPERS, bool)), "no train vertex"


TRAIN_IDS = [*IDS, no_train_ids, no_true_entry]


def with_edge(good, source, destination):
    return np.concatenate([good[:, :-1], [[source], [destination]]], 1)


def source_too_large(good):
    return saved(with_edge(good, PAPERS, 0)), f"source id {PAPERS}"


def destination_too_large(good):
    return saved(with_edge(good, 0, PAPERS)), f"destination id {PAPERS}"


def negative_source(good):
    return saved(with_edge(good, -1, 0)), "-1"


def edges_as_floats(good):
    return saved(good.astype("<f4")), "f32"


def three_rows_of_ends(good):
    return saved(np.concatenate([good, good[:1]])), "3"


def one_row_of_ends(good):
    return saved(good[0]), "1 dimensions"


def three_dimensions(good):
    return saved(good[:, :, None]), "3 dimensions"


def columns(indptr, indices):
    saved(np.array(indptr))
    return f"csc:bad.npy,{saved(np.array(indices, '<i8'), 'bad-indices.npy')}"


def short_indptr(_good):
    return columns([0] * PAPERS, []), str(PAPERS)


def indptr_beyond_its_indices(_good):
    return columns([0] * PAPERS + [9], [1]), "9"


def indptr_before_its_indices(_good):
    return columns([0] * PAPERS + [1], [1, 2]), "2"


def falling_indptr(_good):
    return columns([0] * 50 + [2, 1] + [2] * 49, [1, 2]), "51"


def indices_too_large(_good):
    return columns([0] * PAPERS + [1], [PAPERS * 9]), str(PAPERS * 9)


GRAPHS = [*FILES, source_too_large, destination_too_large, negative_source, edges_as_floats,
          three_rows_of_ends, one_row_of_ends, three_dimensions, short_indptr,
          indptr_beyond_its_indices, indptr_before_its_indices, falling_indptr, indices_too_large]


def score_as_doubles(good):
    return saved(good.astype("<f8")), "astype('<f4')"


def score_with_nan(good):
    return saved(np.where(np.arange(len(good)) == 40, np.nan, good).astype("<f4")), "score 40"


SCORES = [*FILES, one_row_less, one_row_more, no_rows, score_as_doubles, score_with_nan]
