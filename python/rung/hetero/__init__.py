# SPDX-License-Identifier: Apache-2.0
"""Typed data sets: several types of vertices and relations between them, each with a table."""

from .description import EdgeType, Relation, Types, VertexType

__all__ = ["EdgeType", "Relation", "Types", "VertexType"]
