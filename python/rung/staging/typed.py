# SPDX-License-Identifier: Apache-2.0
"""Typed graphs for rung.stage(): torch_geometric's HeteroData, and arguments by type."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from ctypes import c_uint32
from types import SimpleNamespace
from typing import Any

from .._library import QUANT_FORMATS, QUANT_SCALES, c, string, text
from ..errors import InvalidError
from ..sizes import fanout_array, relation_fanouts, whole_number
from .sources import Sources, named_sources, texts

Lists = tuple[list[Any], list[Any]]   # structs of types and of relations


def is_hetero(data: Any) -> bool:
    """Return whether an object is a HeteroData of torch_geometric."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(data, pyg.HeteroData)


def masks(store: Any, where: str) -> dict[str, Any]:
    """Return the masks of a Data, or of a type of a HeteroData, by name of the split.

    Raises:
        InvalidError: a mask has several columns.
    """
    found = {}
    for key, mask in store.to_dict().items():
        if not key.endswith("_mask"):
            continue
        if mask.ndim != 1:
            raise InvalidError(f"{where}.{key}: has {mask.ndim} dimensions; pass splits= with one "
                               f"column for each split, such as {where}.{key}[:, 0]")
        found[key.removesuffix("_mask")] = mask
    return found


def quantization(given: Any) -> tuple[int, int]:
    """Return format and scales of the argument `quantize`, such as "int8" or "int8:column"."""
    form, colon, scales = given.partition(":") if isinstance(given, str) else ("", "", "")
    if form not in QUANT_FORMATS[1:] or scales not in (QUANT_SCALES if colon else ("",)):
        raise InvalidError(f"quantize={given!r}: unknown value; use 'int8', 'int4' or 'fp8', with "
                           "scales per ':row' (default) or ':column'")
    return QUANT_FORMATS.index(form), QUANT_SCALES.index(scales or "row")


def _of_type(given: Any, argument: str, name: str) -> Any:
    """Return the entry for a type of an argument by type, or None."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidError(f"{argument}: has type {type(given).__name__}; use a dict by type, such "
                           f"as {{{name!r}: ...}}")
    return None if given is None else given.get(name)


def _refuse_unknown(given: Any, argument: str, known: list[Any]) -> None:
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise InvalidError(f"{argument}: {name!r} is unknown; use one of "
                               f"{', '.join(map(repr, known))}")


def _type(sources: Sources, name: str, store: Any, given: SimpleNamespace) -> Any:
    """Return the struct of a type of a HeteroData."""
    where = f"data[{name!r}]"
    x, y, splits = store.get("x"), store.get("y"), _of_type(given.splits, "splits", name)
    described = c.rung_stage_type(name=string(name, "data"))
    if x is None:
        count = store.num_nodes
        if count is None:
            raise InvalidError(f"{where}: has no x and no num_nodes; set one of them")
        described.vertex_count = whole_number(count, f"{where}.num_nodes", 2**63 - 1)
    else:
        described.features = sources.spec(x, f"{where}.x")
        described.vertex_count = int(store.get("num_nodes") or 0)
    if y is not None:
        described.labels = sources.spec(y, f"{where}.y")
    described.splits, described.split_count = named_sources(
        sources, masks(store, where) if splits is None else splits,
        f"{where} splits", c.rung_stage_split)
    arrays = _of_type(given.arrays, "arrays", name)
    described.arrays, described.array_count = named_sources(sources, arrays, f"{where} arrays",
                                                            c.rung_stage_array)
    sources.note_left_out(where, store, {"x", "y", "num_nodes", *(arrays or ())})
    return described


def _relation(sources: Sources, edge_type: tuple[str, str, str], store: Any) -> Any:
    """Return the struct of an edge type of a HeteroData."""
    where = f"data[{', '.join(map(repr, edge_type))}]"
    if store.get("edge_index") is None:
        cure = "use the HeteroData as it was before ToSparseTensor()" if "adj_t" in store else (
            "set it, or delete the edge type")
        raise InvalidError(f"{where}: has no edge_index; {cure}")
    source, name, target = (string(part, "data") for part in edge_type)
    described = c.rung_stage_relation(source=source, name=name, target=target)
    described.specs, described.spec_count = texts(
        [sources.spec(store.edge_index, f"{where}.edge_index")])
    if store.get("edge_attr") is not None:
        described.rows = sources.spec(store.edge_attr, f"{where}.edge_attr")
    sources.note_left_out(where, store, {"edge_index", "edge_attr"})
    return described


def hetero_lists(sources: Sources, given: SimpleNamespace) -> Lists:
    """Return types and relations of `given.data`, a HeteroData.

    Raises:
        InvalidError: a source is missing, or a dict has an unknown type.
    """
    data = given.data
    if given.dataset is not None:
        raise InvalidError("data: dataset is given as well; use only one of them")
    if given.in_place:
        raise InvalidError("in_place=True: the features are in memory; describe their files in a "
                           "dataset.json, and pass it as dataset=")
    for argument in ("splits", "arrays"):
        _refuse_unknown(getattr(given, argument), argument, data.node_types)
    if not data.edge_types:
        raise InvalidError("data: has no edge types; set the edge_index of one, or stage each type "
                           "by itself with features=")
    sources.note_left_out("data", data._global_store, ())
    return ([_type(sources, name, data[name], given) for name in data.node_types],
            [_relation(sources, key, data[key]) for key in data.edge_types])


def _opposite(relation: Any) -> Any:
    """Return the relation with turned edges, as torch_geometric's ToUndirected names it."""
    turned = type(relation).from_buffer_copy(relation)   # its texts belong to `relation`
    turned.source, turned.target = relation.target, relation.source
    turned.name, turned.reversed = b"rev_" + relation.name, not relation.reversed
    turned.fanouts = None
    return turned


def _key(relation: Any) -> tuple[str, str, str]:
    return text(relation.source), text(relation.name), text(relation.target)


def _add_opposites(relations: list[Any]) -> None:
    """Add opposite directions, unless one is already the opposite of another, as in MAG240M."""
    names = {_key(relation) for relation in relations}
    for relation in list(relations):
        source, name, target = _key(relation)
        opposites = {(target, f"rev_{name}", source)}
        if name.startswith("rev_"):
            opposites.add((target, name.removeprefix("rev_"), source))
        if source == target:
            relation.undirected = 1
        elif not opposites & names:
            relations.append(_opposite(relation))
            names.add(_key(relations[-1]))


def _set_fanouts(opts: Any, relations: list[Any], given: SimpleNamespace) -> None:
    """Use a dict of fanouts by edge type; its largest numbers are the data set's fanouts."""
    if not isinstance(given.fanouts, Mapping):
        for relation in relations if len(fanout_array(given.fanouts)) else ():
            relation.fanouts = None   # those of a description
        return
    keys = [_key(relation) for relation in relations]
    _refuse_unknown(given.fanouts, "fanouts", keys)
    hops = [relation_fanouts(given.fanouts[key]) if key in given.fanouts else None for key in keys]
    for key, one in zip(keys, hops):
        if one is None or len(one) != len(hops[0] or one) or not len(one):
            raise InvalidError(f"fanouts: {key!r} has {'none' if one is None else len(one)}; use "
                               "the same number of hops, at least one, for every edge type")
    for relation, one in zip(relations, hops):
        relation.fanouts = one
    # the value for all neighbours is the largest one
    most = [max(1, *column) for column in zip(*hops)]
    opts.fanouts, opts.fanout_count = (c_uint32 * len(most))(*most), len(most)


def _set_quantize(opts: Any, types: list[Any], given: Any) -> None:
    """Quantize the features of all types that have some, or those of the types in a dict."""
    opts.quantize = opts.quant_scales = 0
    if isinstance(given, Mapping):
        _refuse_unknown(given, "quantize", [text(one.name) for one in types])
    for one in types if given is not None else ():
        name = text(one.name)
        if isinstance(given, Mapping) and name in given and not one.features:
            raise InvalidError(f"quantize: type {name!r} has no features; leave it out")
        form = given.get(name) if isinstance(given, Mapping) else given
        if form is not None and one.features:
            one.quantize, one.quant_scales = quantization(form)


def set_lists(opts: Any, lists: Lists, given: SimpleNamespace) -> None:
    """Apply the arguments for all types and relations to the lists, and set them in the options.

    Raises:
        InvalidError: an argument that typed graphs do not have, or an unknown type or relation.
    """
    described = () if is_hetero(given.data) else ("splits", "arrays")
    for argument in ("features", "graph", "labels", *described):
        if getattr(given, argument) is not None:
            raise InvalidError(f"{argument}: the graph is typed; "
                               + ("change the description" if described else "set it in data"))
    if given.score_source is not None:
        raise InvalidError("score_source: the graph is typed; use score=, 'blend' or 'expected'")
    if given.vertex_count:
        raise InvalidError("vertex_count: the graph is typed; set num_nodes of its types")
    types, relations = lists
    opts.graph.undirected = opts.graph.dedup = 0
    if given.undirected:
        _add_opposites(relations)
    for relation in relations:
        relation.dedup |= bool(given.dedup)
    _set_fanouts(opts, relations, given)
    _set_quantize(opts, types, given.quantize)
    opts.types, opts.type_count = (c.rung_stage_type * len(types))(*types), len(types)
    opts.relations = (c.rung_stage_relation * len(relations))(*relations)
    opts.relation_count = len(relations)


def refuse(given: SimpleNamespace) -> None:
    """Refuse arguments that only typed graphs have.

    Raises:
        InvalidError: one of them was given.
    """
    for argument in ("fanouts", "quantize"):
        if isinstance(getattr(given, argument), Mapping):
            raise InvalidError(f"{argument}: is a dict, but the graph is not typed; use one value "
                               "for the whole graph")
    if given.seed_type is not None:
        raise InvalidError(f"seed_type={given.seed_type!r}: the graph is not typed; leave it out")
