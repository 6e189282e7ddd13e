# SPDX-License-Identifier: Apache-2.0
"""Typed batches against a replay in Python of their hops, and what typed stores refuse."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.sampler import NeighborSampler  # noqa: E402

import rung  # noqa: E402
import rung.pyg  # noqa: E402
from rung.errors import ClosedError, InvalidError, NotSupportedError  # noqa: E402

COUNTS = {"paper": 150, "author": 200, "venue": 5}
WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")
IN = ("paper", "in", "venue")
REV = ("venue", "rev_in", "paper")
# the lists of the first are larger than what the least budget holds
EDGES = {WRITES: 12000, CITES: 500, IN: 150, REV: 150}


def make():
    """Return a graph with edges that occur twice, and with rows of the edges of two relations."""
    draw = np.random.default_rng(11)
    data = HeteroData()
    data["paper"].x = torch.from_numpy(draw.random((COUNTS["paper"], 200), np.float32))
    data["paper"].y = torch.arange(COUNTS["paper"]) % 7
    data["paper"].train_mask = torch.arange(COUNTS["paper"]) % 3 == 0
    data["author"].x = torch.from_numpy(draw.integers(0, 255, (COUNTS["author"], 300), np.uint8))
    data["author"].y = torch.arange(COUNTS["author"]).to(torch.bfloat16)
    data["venue"].num_nodes = COUNTS["venue"]
    for relation, count in EDGES.items():
        data[relation].edge_index = torch.from_numpy(
            np.stack([draw.integers(0, COUNTS[relation[0]], count),
                      draw.integers(0, COUNTS[relation[2]], count)]))
    data[CITES].edge_index[:, 40:80] = data[CITES].edge_index[:, :40]
    data[WRITES].edge_attr = torch.arange(12000 * 20, dtype=torch.float32).reshape(12000, 20)
    data[CITES].edge_attr = torch.arange(500).reshape(500, 1).to(torch.int64)
    return data


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    data = make()
    path = tmp_path_factory.mktemp("content") / "typed.rung"
    rung.stage(path, data=data, fanouts=(3, 2, 2), batch_size=20)
    return data, path


def least(path):
    with pytest.raises(InvalidError) as error:
        rung.open(path, host=1)
    return error.value.min_bytes


class Lists:
    """The lists of each relation as staged, and the original ids, without the sampler."""

    def __init__(self, path):
        with rung.Dataset(path) as dataset:
            types = dataset.types
        self.relations = [found.edge_type for found in types.relations]
        self.indptr, self.indices, self.edges, self.original = {}, {}, {}, {}
        for found in types.relations:
            with rung.Dataset(path / found.folder) as part:
                graph = part.graph()
                self.indptr[found.edge_type] = graph.indptr.tolist()
                self.indices[found.edge_type] = graph.indices.tolist()
            if found.rows_folder:
                with rung.Dataset(path / found.rows_folder) as part:
                    self.edges[found.edge_type] = part.array("vertex_of_rank")
        for kind in types.vertex:
            with rung.Dataset(path / kind.folder) as part:
                self.original[kind.name] = part.array("vertex_of_rank")


def replay(batch, lists, fanouts, draws):
    """Check each hop of a batch against the lists; only which edges are drawn is the sampler's."""
    ranks = {kind: found.tolist() for kind, found in batch.ranks.items()}
    known = {kind: found[: batch.seed_count if kind == batch.seed_type else 0]
             for kind, found in ranks.items()}
    before = dict.fromkeys(known, 0)
    at = dict.fromkeys(batch.positions, 0)
    for hop in range(len(fanouts)):
        ends = {kind: len(found) for kind, found in known.items()}
        assert {kind: found[hop] for kind, found in batch.counts.items()} == ends
        for relation in lists.relations:
            source, _, target = relation
            block = batch.blocks[relation][hop]
            indptr, indices = block.indptr.tolist(), block.indices.tolist()
            assert block.dst_count == ends[target]
            for vertex in range(ends[target]):
                drawn = indices[indptr[vertex] : indptr[vertex + 1]]
                if draws == "new" and vertex < before[target]:
                    assert not drawn
                    continue
                rank = known[target][vertex]
                first, end = lists.indptr[relation][rank : rank + 2]
                wanted = lists.indices[relation][first:end]
                number = end - first if fanouts[hop] == -1 else min(fanouts[hop], end - first)
                assert len(drawn) == number
                for index in drawn:   # new sources in the order of their first appearance
                    if index == len(known[source]):
                        known[source].append(ranks[source][index])
                    assert index < len(known[source])
                found = [known[source][index] for index in drawn]
                if number == len(wanted):
                    assert sorted(found) == sorted(wanted)
                if relation in at:
                    here = batch.positions[relation][at[relation] :][: len(drawn)].tolist()
                    assert [lists.indices[relation][each] for each in here] == found
                    assert len(set(here)) == len(here)
                    assert all(first <= each < end for each in here)
                    at[relation] += len(drawn)
        before = ends
    assert known == ranks
    assert all(len(set(found)) == len(found) for found in ranks.values())
    assert at == {relation: len(found) for relation, found in batch.positions.items()}


@pytest.mark.parametrize("draws", ["new", "all"])
@pytest.mark.parametrize("fanouts", [(3, 2, 2), (-1, 1), (-1,)])
def test_batches_equal_a_replay_of_their_hops(staged, fanouts, draws):
    data, path = staged
    lists = Lists(path)
    for host in (least(path), "max"):
        with rung.open(path, host=host) as store:
            loader = rung.Loader(store, "train", fanouts=fanouts, draws=draws, seed=2)
            assert len(loader) == 3
            for batch in loader:
                replay(batch, lists, fanouts, draws)
                for kind in ("paper", "author"):
                    vertices = torch.from_numpy(lists.original[kind].astype(np.int64))
                    ids = vertices[batch.ranks[kind]]
                    assert torch.equal(batch.vertices(kind), ids)
                    assert torch.equal(batch.features[kind], data[kind].x[ids])
                for relation in (WRITES, CITES):
                    edges = batch.edge_ids(relation)
                    row, col = batch.edge_index(relation)
                    ends = torch.stack([batch.vertices(relation[0])[row],
                                        batch.vertices(relation[2])[col]])
                    assert torch.equal(data[relation].edge_index[:, edges], ends)
                    assert torch.equal(batch.edge_rows[relation], data[relation].edge_attr[edges])
            del batch, loader


def test_ranks_share_the_seeds_and_their_batches_do_not_depend_on_memory(staged):
    _, path = staged
    found = {}
    for host in (least(path), "max"):
        for number in (0, 1):
            with rung.open(path, host=host) as store:
                loader = rung.Loader(store, "train", form="pyg", rank=number, world_size=2,
                                     batch_size=5, seed=4)
                found[host, number] = [batch.clone() for batch in loader]
                assert len(loader) == len(found[host, number]) == 5
                del loader
    seeds = torch.cat([batch["paper"].n_id[:5] for number in (0, 1)
                       for batch in found["max", number]])
    assert len(seeds.unique()) == 50
    for (_, number), batches in found.items():
        for batch, other in zip(batches, found["max", number]):
            for relation in EDGES:
                assert torch.equal(batch[relation].edge_index, other[relation].edge_index)
            assert torch.equal(batch[WRITES].edge_attr, other[WRITES].edge_attr)
            assert torch.equal(batch["author"].x, other["author"].x)


def test_labels_of_every_type_keep_their_dtype(staged):
    data, path = staged
    with rung.open(path) as store:
        loader = rung.Loader(store, "train", form="pyg")
        for batch in loader:
            assert batch["author"].y.dtype == torch.bfloat16
            assert torch.equal(batch["author"].y, data["author"].y[batch["author"].n_id])
        features = rung.FeatureStore(store)
        index = torch.tensor([3, 180, 3])
        assert torch.equal(features["author", "y", index], data["author"].y[index])
        del batch, loader


def test_numpy_batches_have_the_content_of_torch(staged):
    _, path = staged
    with rung.open(path) as store:
        for batch, other in zip(rung.Loader(store, "train", arrays="numpy", seed=3),
                                rung.Loader(store, "train", arrays="torch", seed=3)):
            assert isinstance(batch.features["paper"], np.ndarray)
            assert np.array_equal(batch.edge_rows[CITES], other.edge_rows[CITES].numpy())
            for relation in EDGES:
                assert np.array_equal(batch.edge_index(relation),
                                      other.edge_index(relation).numpy())
            assert np.array_equal(batch.edge_ids(WRITES), other.edge_ids(WRITES).numpy())
        del batch, other


# ---- edges for PyG ----

def test_every_layout_of_every_relation_has_its_edges(staged):
    data, path = staged
    with rung.Dataset(path) as dataset:
        graph = rung.GraphStore(dataset)
    for relation in EDGES:
        wanted = sorted(map(tuple, data[relation].edge_index.T.tolist()))
        row, col = graph.get_edge_index(edge_type=relation, layout="coo")
        assert sorted(zip(row.tolist(), col.tolist())) == wanted
        row, colptr = graph.get_edge_index(edge_type=relation, layout="csc")
        assert len(colptr) == COUNTS[relation[2]] + 1
        col = torch.arange(len(colptr) - 1).repeat_interleave(colptr.diff())
        assert sorted(zip(row.tolist(), col.tolist())) == wanted
        rowptr, col = graph.get_edge_index(edge_type=relation, layout="csr")
        assert len(rowptr) == COUNTS[relation[0]] + 1
        row = torch.arange(len(rowptr) - 1).repeat_interleave(rowptr.diff())
        assert sorted(zip(row.tolist(), col.tolist())) == wanted
    for layout in ("coo", "csc", "csr"):
        with pytest.raises(KeyError):
            graph.get_edge_index(edge_type=("a", "b", "c"), layout=layout)


def test_ids_that_pyg_gives_to_edges_are_their_numbers(staged):
    """PyG samples CSC, and turns positions into ids by the permutation that csc() returns."""
    data, path = staged
    with rung.Dataset(path) as dataset:
        graph = rung.GraphStore(dataset)
    graph.get_edge_index(edge_type=WRITES, layout="csc")   # asked for before: not used instead
    rows, colptrs, permutations = graph.csc()
    for relation in (WRITES, CITES):
        colptr, permutation = colptrs[relation], permutations[relation]
        col = torch.arange(len(colptr) - 1).repeat_interleave(colptr.diff())
        assert torch.equal(data[relation].edge_index[:, permutation],
                           torch.stack([rows[relation], col]))


def test_pyg_refuses_to_draw_by_time_from_lists_in_another_order(tmp_path):
    data = make()
    del data[WRITES].edge_attr, data[CITES].edge_attr
    times = {"paper": {"time": np.arange(COUNTS["paper"])}}
    rung.stage(tmp_path / "times.rung", data=data, arrays=times)
    with rung.open(tmp_path / "times.rung") as store:
        graph = rung.GraphStore(store)
        assert {attr.layout.value for attr in graph.get_all_edge_attrs()} == {"csc"}
        with pytest.raises(ValueError, match="by source time"):
            NeighborSampler((rung.FeatureStore(store), graph), [2], time_attr="time")


def test_pyg_knows_types_that_have_no_tensors(staged):
    """PyG's samplers take the types from the attributes of the feature store alone."""
    _, path = staged
    with rung.open(path) as store:
        features = rung.FeatureStore(store)
        groups = {attr.group_name for attr in features.get_all_tensor_attrs()}
        assert set(COUNTS) <= groups
        index = torch.tensor([4, 0])
        assert torch.equal(features["venue", "n_id", index], index)
        assert features.get_tensor_size(group_name="paper", attr_name="n_id") is None


# ---- counters and errors ----

def test_every_table_and_list_has_counters(staged):
    _, path = staged
    with rung.open(path, host=least(path)) as store:
        loader = rung.Loader(store, "train", warm_up=False)
        rows = sum(len(batch.ranks["author"]) for batch in loader)
        del loader
        found = store.stats()
        folders = {".".join(relation) for relation in EDGES}
        assert set(found) == {"vertices/paper", "vertices/author",
                              *(f"edges/{folder}" for folder in folders),
                              "edge_rows/author.writes.paper", "edge_rows/paper.cites.paper"}
        assert sum(tier.hits for tier in found["vertices/author"].tiers) == rows
        lists = {tier.name: tier for tier in found["edges/author.writes.paper"].tiers}
        assert lists["nvme"].rows > 0 and lists["nvme"].hits > 0
    with pytest.raises(ClosedError):
        store.stats()


def test_the_type_of_the_seeds_has_a_name(staged):
    _, path = staged
    with rung.Dataset(path) as dataset, rung.open(path) as store:
        assert dataset.seed_type == store.seed_type == "paper"
        with rung.Dataset(path / "vertices" / "author") as part:
            assert part.seed_type == part.vertex_types[0]


def test_what_cannot_be_sampled_is_refused(staged):
    _, path = staged
    with rung.open(path) as store, rung.Dataset(path) as dataset:
        for graph in (store, dataset):
            with pytest.raises(NotSupportedError, match="the graph has types"):
                rung.NeighborSampler(graph)
        with pytest.raises(NotSupportedError, match="with the store of"):
            rung.pyg.Sampler(dataset, [3])
        for fanouts in ((), {}, {WRITES: []}):
            with pytest.raises(InvalidError, match="no hops to sample"):
                rung.Loader(store, "train", fanouts=fanouts)
        for fanouts in ({WRITES: 5}, 5, {WRITES: [-2]}):
            with pytest.raises(InvalidError, match="fanouts="):
                rung.Loader(store, "train", fanouts=fanouts)
        rows = next(iter(rung.Loader(store["paper"], "train", fanouts=())))   # as the error says
        assert rows.features.shape[1] == 200
        del rows


def test_a_graph_without_features_is_sampled_by_pygs_sampler_alone(tmp_path):
    data = make()
    for kind in ("paper", "author"):
        data[kind].num_nodes = COUNTS[kind]
        del data[kind].x
    rung.stage(tmp_path / "bare.rung", data=data, fanouts=(2,), batch_size=20)
    with rung.open(tmp_path / "bare.rung") as store:
        with pytest.raises(NotSupportedError, match="no type has features"):
            rung.Loader(store, "train")
        assert rung.pyg.Sampler(store, [2])._sampler.sample(torch.arange(3)).seed_count == 3
