# SPDX-License-Identifier: Apache-2.0
"""Typed data sets from HeteroData to batches: rows, edges and edge rows are those of the source."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader, NodeLoader  # noqa: E402
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE  # noqa: E402

import rung  # noqa: E402
from rung.errors import (  # noqa: E402
    ClosedError,
    InvalidError,
    NotSupportedError,
    RangeError,
)

PAPERS, AUTHORS, VENUES = 300, 200, 7
WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")
IN = ("paper", "in", "venue")
REV = ("venue", "rev_in", "paper")


def make():
    draw = np.random.default_rng(5)
    data = HeteroData()
    data["paper"].x = torch.from_numpy(draw.random((PAPERS, 600), np.float32))
    data["paper"].y = torch.arange(PAPERS) % 11
    data["paper"].train_mask = torch.arange(PAPERS) % 3 == 0
    data["author"].x = torch.from_numpy(draw.integers(0, 255, (AUTHORS, 900), np.uint8))
    data["venue"].num_nodes = VENUES

    def edges(sources, targets, count):
        return torch.from_numpy(np.stack([draw.integers(0, sources, count),
                                          draw.integers(0, targets, count)]))

    data[WRITES].edge_index = edges(AUTHORS, PAPERS, 1500)
    data[WRITES].edge_attr = torch.arange(1500 * 250, dtype=torch.float32).reshape(1500, 250)
    data[CITES].edge_index = edges(PAPERS, PAPERS, 900)
    data[IN].edge_index = edges(PAPERS, VENUES, PAPERS)
    data[REV].edge_index = data[IN].edge_index.flip(0)
    return data


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    data = make()
    path = tmp_path_factory.mktemp("hetero") / "typed.rung"
    rung.stage(path, data=data, fanouts=(4, 3), batch_size=16)
    return data, path


def least(path):
    with pytest.raises(InvalidError) as error:
        rung.open(path, host=1)
    return error.value.min_bytes


def test_the_data_set_names_its_types_and_relations(staged):
    _, path = staged
    with rung.Dataset(path) as dataset:
        assert dataset.vertex_types == ("paper", "author", "venue")
        assert set(dataset.relations) == {WRITES, CITES, IN, REV}
        assert dataset.types.vertex[2].vertex_count == VENUES
        assert not dataset.types.vertex[2].has_features
        assert dataset.types.vertex[dataset.types.seed_type].name == "paper"
        assert dataset.vertex_count == PAPERS + AUTHORS + VENUES


def test_tables_are_those_of_the_source(staged):
    data, path = staged
    for host in (least(path), "max"):
        with rung.open(path, host=host) as store:
            ids = torch.tensor([5, 0, 199, 5])
            assert torch.equal(store["paper"].gather(ids), data["paper"].x[ids])
            assert torch.equal(store["author"].gather(ids), data["author"].x[ids])
            assert torch.equal(store[WRITES].gather(ids), data[WRITES].edge_attr[ids])
            assert "venue" not in store
            with pytest.raises(KeyError, match="has no rows"):
                store["venue"]
            with pytest.raises(KeyError, match="use one of paper"):
                store["editor"]
            with pytest.raises(KeyError, match="no such relation"):
                store["paper", "writes", "author"]


def check_batch(batch, data, counts=True, repeats=False):
    """Rows belong to vertices, edges are edges of the source, and edge rows those of the edges."""
    for kind in ("paper", "author"):
        assert torch.equal(batch[kind].x, data[kind].x[batch[kind].n_id])
    assert torch.equal(batch["paper"].y, data["paper"].y[batch["paper"].n_id])
    assert "x" not in batch["venue"]
    for relation in (WRITES, CITES, IN, REV):
        sources, targets = batch[relation].edge_index
        got = torch.stack([batch[relation[0]].n_id[sources], batch[relation[2]].n_id[targets]])
        known = set(map(tuple, data[relation].edge_index.T.tolist()))
        assert all(tuple(edge) in known for edge in got.T.tolist())
        if relation == WRITES:
            assert torch.equal(got, data[relation].edge_index[:, batch[relation].e_id])
            assert torch.equal(batch[relation].edge_attr,
                               data[relation].edge_attr[batch[relation].e_id])
            assert repeats or len(batch[relation].e_id.unique()) == len(batch[relation].e_id)
        if counts:
            assert sum(batch[relation].num_sampled_edges) == got.shape[1]
    for kind in ("paper", "author", "venue") if counts else ():
        assert sum(batch[kind].num_sampled_nodes) == len(batch[kind].n_id)


def batches(path, host, **options):
    with rung.open(path, host=host) as store:
        loader = rung.Loader(store, "train", form="pyg", seed=3, **options)
        assert len(loader) == 7
        found = [batch.clone() for batch in loader]
        del loader
    return found


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        for x, y in zip(a.stores, b.stores):
            x, y = x.to_dict(), y.to_dict()
            assert x.keys() == y.keys()
            for key, value in x.items():
                equal = torch.equal(value, y[key]) if torch.is_tensor(value) else value == y[key]
                assert equal, key


def test_batches_are_hetero_data_of_the_source(staged):
    data, path = staged
    found = batches(path, "max")
    seeds = torch.cat([batch["paper"].n_id[: batch["paper"].batch_size] for batch in found])
    assert torch.equal(seeds.sort().values, data["paper"].train_mask.nonzero().flatten())
    for batch in found:
        check_batch(batch, data)
        assert batch["paper"].batch_size == len(batch["paper"].input_id)
    assert found[0][WRITES].num_edges > 0 and found[0][CITES].num_edges > 0


def test_batches_depend_on_neither_memory_nor_threads(staged):
    _, path = staged
    same(batches(path, "max", threads=1), batches(path, least(path), threads=4, look_ahead=32))


def test_fanouts_may_differ_by_relation(staged):
    data, path = staged
    with rung.open(path) as store:
        loader = rung.Loader(store, ("paper", torch.arange(20)), batch_size=10, form="pyg",
                             fanouts={WRITES: [-1, 0], IN: [0, 5]}, shuffle=False)
        for batch in loader:
            assert batch[CITES].num_edges == 0 and batch[REV].num_edges == 0
            targets = batch["paper"].n_id[batch[WRITES].edge_index[1]]
            seeds = batch["paper"].n_id[: batch["paper"].batch_size]
            wanted = torch.isin(data[WRITES].edge_index[1], seeds).sum()
            assert len(targets) == wanted and torch.isin(targets, seeds).all()
        del batch, loader


def test_typed_batches_have_the_same_content(staged):
    _, path = staged
    with rung.open(path) as store:
        loader = rung.Loader(store, "train", draws="new", seed=3)
        pyg = rung.Loader(store, "train", form="pyg", seed=3)
        for batch, other in zip(loader, pyg):
            assert isinstance(batch, rung.TypedBatch)
            assert torch.equal(batch.features["author"], other["author"].x)
            assert torch.equal(batch.edge_index(WRITES), other[WRITES].edge_index)
            assert torch.equal(batch.edge_rows[WRITES], other[WRITES].edge_attr)
            assert torch.equal(batch.labels, other["paper"].y[: batch.seed_count])
            assert "TypedBatch" in repr(batch)
        del batch, other, loader, pyg


def test_repeated_seeds_have_rows_and_edges_each(staged):
    """More of them than there are papers, too."""
    data, path = staged
    few, many = torch.tensor([7, 9, 7, 7, 250, 9]), torch.arange(3 * PAPERS) % PAPERS
    with rung.open(path, host="max") as store:
        features, graph = rung.FeatureStore(store), rung.GraphStore(store)
        for seeds in (few, many):
            options = {"input_nodes": ("paper", seeds), "batch_size": len(seeds)}
            loader = rung.Loader(store, form="pyg", shuffle=False, **options)
            node_loader = NodeLoader((features, graph), transform=features.with_edge_rows,
                                     node_sampler=rung.pyg.Sampler(store, [4, 3]), **options)
            for batch in (next(iter(loader)), next(iter(node_loader))):
                check_batch(batch, data, repeats=True)
                assert torch.equal(batch["paper"].n_id[: len(seeds)], seeds)
                counts = torch.bincount(batch[CITES].edge_index[1])[: len(seeds)].tolist()
                first = {seed: at for at, seed in reversed(list(enumerate(seeds.tolist())))}
                assert counts == [counts[first[seed]] for seed in seeds.tolist()[: len(counts)]]
            del loader, node_loader, batch


def test_a_state_continues_inside_an_epoch(staged):
    _, path = staged
    with rung.open(path) as store:
        loader = rung.Loader(store, "train", form="pyg")
        rest = []
        for i, batch in enumerate(loader):
            if i == 2:
                state = loader.state_dict()
            if i > 2:
                rest.append(batch.clone())
        again = rung.Loader(store, "train", form="pyg")
        again.load_state_dict(state)
        same(rest, [batch.clone() for batch in again])
        del loader, again, batch


# ---- PyG's loaders ----

def test_pygs_node_loader_gets_rows_of_vertices_and_edges(staged):
    data, path = staged
    with rung.open(path) as store:
        features, graph = rung.FeatureStore(store), rung.GraphStore(store)
        loader = NodeLoader((features, graph), node_sampler=rung.pyg.Sampler(store, [4, 3]),
                            input_nodes=("paper", torch.arange(0, PAPERS, 5)), batch_size=16,
                            transform=features.with_edge_rows, filter_per_worker=False)
        for batch in loader:
            assert batch[WRITES].num_edges > 0
            assert set(batch.num_sampled_nodes_dict) == {"paper", "author", "venue"}
            check_batch(batch, data)
        with pytest.raises(NotSupportedError, match="of type 'author'"):
            next(iter(NodeLoader((features, graph), input_nodes=("author", torch.arange(5)),
                                 node_sampler=rung.pyg.Sampler(store, [4]))))
        del loader, batch


needs_sampler = pytest.mark.skipif(not WITH_PYG_LIB and not WITH_TORCH_SPARSE,
                                   reason="PyG's sampler needs pyg-lib or torch-sparse")


@needs_sampler
def test_pygs_neighbor_loader_gets_rows_of_vertices_and_edges(staged):
    data, path = staged
    with rung.open(path) as store:
        features, graph = rung.FeatureStore(store), rung.GraphStore(store)
        loader = NeighborLoader((features, graph), [4, 3], batch_size=16,
                                input_nodes=("paper", torch.arange(0, PAPERS, 5)),
                                transform=features.with_edge_rows, filter_per_worker=False)
        for batch in loader:
            check_batch(batch, data, counts=WITH_PYG_LIB)   # torch-sparse does not count
            assert batch[WRITES].num_edges > 0 and batch["venue"].num_nodes > 0
        del loader, batch


@needs_sampler
def test_pygs_link_loader_gets_rows_of_vertices_and_edges(staged):
    data, path = staged
    wanted = data[CITES].edge_index   # pyg-lib 0.8 needs a relation into the type of each end
    with rung.open(path, host=least(path)) as store:
        features, graph = rung.FeatureStore(store), rung.GraphStore(store)
        loader = LinkNeighborLoader((features, graph), [4, 3], edge_label_index=(CITES, wanted),
                                    batch_size=250, transform=features.with_edge_rows,
                                    filter_per_worker=False)
        links = []
        for batch in loader:
            check_batch(batch, data, counts=WITH_PYG_LIB)
            assert batch[WRITES].num_edges > 0
            links.append(batch["paper"].n_id[batch[CITES].edge_label_index])
        assert torch.equal(torch.cat(links, 1), wanted)
        del loader, batch


def test_the_graph_store_has_the_edges_of_the_source(staged):
    data, path = staged
    with rung.Dataset(path) as dataset:
        graph = rung.GraphStore(dataset)
    row, col = graph.get_edge_index(edge_type=WRITES, layout="coo", size=(AUTHORS, PAPERS))
    assert torch.equal(torch.stack([row, col]), data[WRITES].edge_index)   # by number
    for relation in (CITES, IN, REV):
        attr = next(each for each in graph.get_all_edge_attrs() if each.edge_type == relation)
        row, colptr = graph.get_edge_index(attr)
        col = torch.arange(len(colptr) - 1).repeat_interleave(colptr.diff())
        assert (sorted(zip(row.tolist(), col.tolist()))
                == sorted(map(tuple, data[relation].edge_index.T.tolist())))
    rows, _colptrs, _ = graph.csc()
    assert set(rows) == {WRITES, CITES, IN, REV}
    with pytest.raises(NotSupportedError, match="cannot be changed"):
        graph.put_edge_index((row, col), edge_type=IN, layout="coo", size=(PAPERS, VENUES))


def test_feature_store_has_rows_labels_and_edge_rows(staged):
    data, path = staged
    with rung.open(path, host=least(path)) as store:
        features = rung.FeatureStore(store)
        index = torch.tensor([7, 3, 199])
        assert torch.equal(features["paper", "x", index], data["paper"].x[index])
        assert torch.equal(features["author", "x", index], data["author"].x[index])
        assert torch.equal(features["paper", "y", index], data["paper"].y[index])
        assert torch.equal(features[WRITES, "edge_attr", index], data[WRITES].edge_attr[index])
        assert features.get_tensor_size(group_name=WRITES, attr_name="edge_attr") == (1500, 250)


# ---- errors ----

def test_what_typed_stores_do_not_have_is_refused(staged):
    _, path = staged
    for option in ({"gpu": "1GiB"}, {"share": True}, {"device": "cuda"}):
        with pytest.raises(NotSupportedError, match="leave it out"):
            rung.open(path, **option)
    with pytest.raises(InvalidError, match="structure="):
        rung.open(path, structure="1MiB")
    store = rung.open(path)
    with pytest.raises(NotSupportedError, match="sampled on the CPU"):
        rung.Loader(store, "train", sample_on="gpu")
    with pytest.raises(InvalidError, match="is not a relation"):
        rung.Loader(store, "train", fanouts={("a", "b", "c"): [1]})
    with pytest.raises(InvalidError, match="different numbers of hops"):
        rung.Loader(store, "train", fanouts={WRITES: [1], CITES: [1, 2]})
    with pytest.raises(InvalidError, match="seeds are of type 'paper'"):
        rung.Loader(store, ("author", [1, 2]))
    with pytest.raises(RangeError, match="out of range"):
        rung.Loader(store, [PAPERS])
    with pytest.raises(InvalidError, match="unknown value"):
        rung.Loader(store, form="dgl")
    store.close()
    with pytest.raises(ClosedError):
        rung.Loader(store, "train")


def test_a_typed_store_pickles_by_opening_it_again(staged):
    import pickle

    data, path = staged
    with rung.open(path) as store, pickle.loads(pickle.dumps(store)) as other:
        assert torch.equal(other["paper"].gather(torch.arange(3)), data["paper"].x[:3])
