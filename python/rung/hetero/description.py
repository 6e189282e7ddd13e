# SPDX-License-Identifier: Apache-2.0
"""The types and relations of a typed data set, from the library's description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._library import UINT32_MAX, text

EdgeType = tuple[str, str, str]   # source type, name, target type, as in PyG


@dataclass(frozen=True)
class VertexType:
    """A type of vertices.

    Attributes:
        name: str
        vertex_count: int
        folder: of its data set, below that of the typed one
        has_features: whether its vertices have rows
    """

    name: str
    vertex_count: int
    folder: str
    has_features: bool


@dataclass(frozen=True)
class Relation:
    """Edges from vertices of one type to vertices of another.

    Attributes:
        edge_type: (source type, name, target type)
        source, target: indices of the types
        edge_count: int
        folder: of the data set of its lists
        rows_folder: of the data set of its edge rows; "" if it has none
        fanouts: as staged, hop 0 (from the seeds) first; -1: all neighbours; 0: none
    """

    edge_type: EdgeType
    source: int
    target: int
    edge_count: int
    folder: str
    rows_folder: str
    fanouts: tuple[int, ...]


@dataclass(frozen=True)
class Types:
    """Types and relations of a typed data set, in their order, and the type of the seeds."""

    vertex: tuple[VertexType, ...]
    relations: tuple[Relation, ...]
    seed_type: int

    def index(self, name: str) -> int | None:
        """Return the index of a type; None: there is no such type."""
        return next((i for i, kind in enumerate(self.vertex) if kind.name == name), None)


def types_of(info: Any) -> Types | None:
    """Return the types in a description of the library; None: the data set is not typed."""
    if not info.type_count:
        return None
    vertex = tuple(VertexType(text(kind.name), kind.vertex_count, text(kind.folder),
                              bool(kind.has_features))
                   for kind in info.types[: info.type_count])
    relations = tuple(
        Relation((vertex[found.source_type].name, text(found.name),
                  vertex[found.target_type].name),
                 found.source_type, found.target_type, found.edge_count, text(found.folder),
                 text(found.rows_folder) if found.rows_folder else "",
                 tuple(-1 if fanout == UINT32_MAX else fanout
                       for fanout in found.fanouts[: info.fanout_count]))
        for found in info.relations[: info.relation_count])
    return Types(vertex, relations, info.seed_type)
