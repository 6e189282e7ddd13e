# SPDX-License-Identifier: Apache-2.0
"""The division of one budget among the tables of a typed data set."""

from __future__ import annotations

import os
from ctypes import byref, sizeof
from types import SimpleNamespace
from typing import Any

from .._library import c, check, lib, string, text
from ..errors import InvalidError
from ..interrupts import long_call
from ..owned import Owned
from ..sizes import plan_opts, size_share


def _open_folder(path: str | os.PathLike[str]) -> Owned:
    found = Owned(lib.rung_dataset_close)
    check(lib.rung_dataset_open(string(path, "path"), byref(found.pointer)))
    return found


def divide_tables(path: str | os.PathLike[str],
                  given: SimpleNamespace) -> list[tuple[str, bool, Any]]:
    """Return the folder of each table of a typed data set, whether it has lists, and its part.

    Args:
        given: the arguments of `plan_tables()` by name
    """
    typed = _open_folder(path)
    info = lib.rung_dataset_info(typed).contents
    names = [(text(kind.folder), False) for kind in info.types[: info.type_count]
             if kind.has_features]
    for relation in info.relations[: info.relation_count]:
        names.append((text(relation.folder), True))
        names += [(text(relation.rows_folder), False)] if relation.rows_folder else []
    if not names:
        raise InvalidError(f"{os.fspath(path)!r}: has one type; use rung.plan()")
    parts = [_open_folder(os.path.join(os.fspath(path), name)) for name, _ in names]
    tables = (c.rung_plan_table * len(parts))()
    for table, part, (_, lists) in zip(tables, parts, names):
        table.size, table.ds, table.lists = sizeof(table), part.pointer, lists
    # a share such as "10%" is of the rows of all tables: the folder above them has none
    rows = sum(lib.rung_dataset_info(part.pointer).contents.feature_bytes for part in parts)
    opts = plan_opts(given, rows)
    try:
        long_call(lib.rung_plan_tables, byref(opts), tables, len(parts))
    except InvalidError as error:
        if given.host is None or not size_share(given.host) or not error.min_bytes:
            raise
        opts.host_bytes = error.min_bytes   # a share of few rows can be less than slots need
        long_call(lib.rung_plan_tables, byref(opts), tables, len(parts))
    return [(name, lists, table) for (name, lists), table in zip(names, tables)]
