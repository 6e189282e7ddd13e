# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: its FeatureStore on rung, its loaders, and training with equal results to the
bit."""

import os

import numpy as np
import pytest
from conftest import SOURCE

import rung

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, TensorAttr  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.nn import SAGEConv  # noqa: E402

CORA = os.path.join(SOURCE, "..", "shared", "data", "cora.npz")


def made_graph(vertices=1200):
    rng = np.random.default_rng(7)
    edges = rng.integers(0, vertices, (2, 8 * vertices))
    labels = rng.integers(0, 5, vertices)
    rows = (rng.standard_normal((vertices, 40)) + 2 * np.eye(5, 40)[labels]).astype(np.float32)
    order = rng.permutation(vertices)
    return rows, edges, labels, order[:300], order[300:]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("pyg")
    rows, edges, labels, train, test = made_graph()
    rung.stage(path / "g", graph=edges, features=rows, labels=labels,
               splits={"train": train, "test": test}, fanouts=(5, 5), batch_size=64, draws="new")
    return {"path": path / "g", "rows": rows, "edges": edges, "labels": labels, "train": train,
            "test": test}


@pytest.fixture
def store(graph):
    with rung.open(graph["path"], host="40%") as opened:
        yield opened


def test_protocol(store, graph):
    rows = torch.from_numpy(graph["rows"])
    features = rung.FeatureStore(store, {"y": torch.from_numpy(graph["labels"])})
    assert ({(attr.group_name, attr.attr_name)
             for attr in features.get_all_tensor_attrs()} == {(None, "x"), (None, "y")})
    assert features.get_tensor_size(group_name=None, attr_name="x", index=None) == (1200, 40)
    assert features.get_tensor_size(group_name=None, attr_name="x", index=slice(0, 7)) == (7, 40)
    for index in (torch.tensor([4, 4, 1199]), np.array([3]), slice(10, 20), slice(None, None, 100),
                  slice(5, 3), [], None, 5, -1):
        found = features.get_tensor(group_name=None, attr_name="x", index=index)
        assert torch.equal(found, rows if index is None else rows[index])
    assert features.get_tensor(group_name=None, attr_name="y", index=[]).shape == (0,)
    assert torch.equal(features[None, "x", torch.tensor([8])], rows[[8]])
    assert isinstance(features.get_tensor(group_name=None, attr_name="x", index=np.array([3]),
                                          convert_type=True), np.ndarray)
    both = features.multi_get_tensor([TensorAttr(None, "x", torch.tensor([1, 2])),
                                      TensorAttr(None, "y", torch.tensor([1, 2]))])
    assert (torch.equal(both[0], rows[[1, 2]])
            and both[1].tolist() == graph["labels"][[1, 2]].tolist())
    for change in (lambda: features.put_tensor(rows, group_name=None, attr_name="x", index=None),
                   lambda: features.update_tensor(rows[:1], group_name=None, attr_name="x",
                                                  index=torch.tensor([0])),
                   lambda: features.remove_tensor(group_name=None, attr_name="x", index=None)):
        with pytest.raises(rung.NotSupportedError, match="stage them again"):
            change()
    assert features.put_tensor(torch.zeros(3), group_name="paper", attr_name="z", index=None)
    assert features.remove_tensor(group_name="paper", attr_name="z", index=None)
    with pytest.raises(KeyError, match=r"no such tensor: \('paper', 'z'\); use one of 'x', 'y'"):
        features.get_tensor(group_name="paper", attr_name="z", index=None)
    with pytest.raises(rung.RangeError, match="1200"):
        features.get_tensor(group_name=None, attr_name="x", index=torch.tensor([1200]))


def test_objects_other_than_a_store_are_refused(store):
    for given in ("graph.rung", torch.zeros(3)):
        with pytest.raises(rung.InvalidError, match=r"stores: has type \w+; use a rung.Store"):
            rung.FeatureStore(given)
    with pytest.raises(rung.InvalidError, match="'x': has type str; use a rung.Store"):
        rung.FeatureStore({"x": "graph.rung"})
    with pytest.raises(rung.InvalidError, match="dataset: has type str; use a rung.Dataset"):
        rung.pyg.Sampler("graph.rung", (5,))
    with pytest.raises(rung.InvalidError, match="tensors: has type Tensor; use a dict"):
        rung.FeatureStore(store, torch.zeros(3))


def test_put_and_remove_never_fail_silently(store, graph):
    """PyG ignores the results of put_tensor() and remove_tensor() for fs[...] = and del fs[...]."""
    labels = torch.from_numpy(graph["labels"])
    features = rung.FeatureStore(store, {"y": labels.clone()})
    rows = torch.tensor([7, 8, 9])
    every = torch.ones(3, dtype=torch.bool)
    for number, index in enumerate((torch.arange(3), slice(None), slice(0, 3), [0, 1, 2], every)):
        features[None, f"new{number}", index] = rows
        assert torch.equal(features[None, f"new{number}", None], rows)
        assert features.remove_tensor(None, f"new{number}", index)
    for index in (torch.tensor([0, 1]), torch.tensor([2, 1, 0]), slice(1, 4), 0):
        with pytest.raises(rung.InvalidError, match="put 'w': a new tensor needs all rows"):
            features[None, "w", index] = rows
    features[None, "y", torch.tensor([5, 2])] = torch.tensor([70, 71])
    assert features.update_tensor(torch.tensor([72]), None, "y", torch.tensor([4]))
    labels[[5, 2, 4]] = torch.tensor([70, 71, 72])
    assert torch.equal(features[None, "y", None], labels)
    with pytest.raises(rung.InvalidError, match="remove 'y': rows cannot be removed"):
        features.remove_tensor(None, "y", torch.tensor([0]))
    for missing in (lambda: features[None, "nope", None],
                    lambda: features.__delitem__((None, "nope"))):
        with pytest.raises(KeyError, match="no such tensor: 'nope'; use one of 'x', 'y'"):
            missing()
    assert features.get_tensor_size(None, "nope") is None
    del features[None, "y"]
    with pytest.raises(KeyError, match="no such tensor: 'y'; use one of 'x'"):
        features.multi_get_tensor([TensorAttr(None, name, torch.arange(2)) for name in ("x", "y")])
    with pytest.raises(rung.InvalidError, match=r"mask \[3\]: the tensor has 1200 rows"):
        features[None, "x", every]
    for twice in (({"x": store, (None, "x"): store},), (store, {"x": rows}),
                  (store, {"y": rows, (None, "y"): rows})):
        with pytest.raises(rung.InvalidError, match="duplicate key"):
            rung.FeatureStore(*twice)


def test_several_attributes_and_types(tmp_path):
    stores, rows = {}, {}
    for number, key in enumerate((("paper", "x"), ("paper", "year"), ("author", "x"))):
        rows[key] = np.random.default_rng(number).standard_normal((
            50 + 10 * number, 3 + number)).astype(np.float32)
        rung.stage(tmp_path / str(number), graph=np.array([[0], [1]]), features=rows[key])
        stores[key] = rung.open(tmp_path / str(number), host="max")
    features = rung.FeatureStore(stores)
    index = torch.tensor([3, 0, 49])
    found = features.multi_get_tensor([TensorAttr(*key, index.clone()) for key in rows])
    assert all(torch.equal(tensor, torch.from_numpy(rows[key])[index]) for tensor,
               key in zip(found, rows))
    for opened in stores.values():
        opened.close()


class Net(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.first, self.second = SAGEConv(width, 32), SAGEConv(32, classes)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def train_and_test(make_batches, width, classes, epochs, labels, evaluate):
    """Return the losses of all steps and the final accuracy."""
    torch.manual_seed(0)
    model = Net(width, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(epochs):
        for batch in make_batches():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index)[
                : batch.batch_size], labels[batch.n_id[: batch.batch_size]])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    right = count = 0
    with torch.no_grad():
        for batch in evaluate():
            found = model(batch.x, batch.edge_index)[: batch.batch_size].argmax(1)
            right += (found == labels[batch.n_id[: batch.batch_size]]).sum().item()
            count += batch.batch_size
    return losses, right / count


def both_ways(path, rows, edges, labels, train, test, host, epochs, batch_size, workers=0):
    """Train from memory and from the store, with PyG's loader and the same sampler."""
    rows, edges, labels = torch.from_numpy(
        rows), torch.from_numpy(edges), torch.from_numpy(labels).long()
    results = []
    with rung.open(path, host=host, share=True) as store, rung.Dataset(path) as dataset:
        for data in (Data(x=rows, edge_index=edges),
                     (rung.FeatureStore(store), Data(edge_index=edges, num_nodes=len(rows)))):
            def batches(seeds, shuffle, data=data):
                sampler = rung.pyg.Sampler(dataset, (10, 10), seed=4)
                return NodeLoader(data, node_sampler=sampler,
                                  input_nodes=torch.from_numpy(seeds).long(), batch_size=batch_size,
                                  shuffle=shuffle,
                                  filter_per_worker=False, num_workers=workers,
                                  generator=torch.Generator().manual_seed(9))

            loader = batches(train, True)
            results.append(train_and_test(lambda loader=loader: loader, rows.shape[1],
                                          int(labels.max()) + 1, epochs, labels,
                                          lambda batches=batches: batches(test, False)))
        served = store.stats()
    return results, served


def test_training_is_the_same_to_the_bit(graph):
    import rung.pyg  # noqa: F401

    (memory, ladder), served = both_ways(**graph, host="30%", epochs=3, batch_size=64)
    assert memory == ladder
    assert memory[1] > 0.4   # chance: 0.2
    assert served.device_reads > 0


@pytest.mark.skipif(not os.path.exists(CORA), reason="cora.npz was not found")
def test_cora_is_the_same_to_the_bit(tmp_path):
    import rung.pyg

    with np.load(CORA) as cora:
        rows, edges, labels = cora["node_feat"], cora["edge_index"], cora["node_label"].reshape(-1)
        train, test = cora["train_idx"], cora["test_idx"]
    rung.stage(tmp_path / "cora", graph=edges, features=rows, labels=labels,
               splits={"train": train}, fanouts=(10, 10), batch_size=32, draws="new")
    (memory, ladder), served = both_ways(tmp_path / "cora", rows, edges, labels, train, test, "20%",
                                         5, 32)
    assert memory == ladder
    assert memory[1] > 0.70
    assert served.device_reads > 0


def test_neighbor_loader(graph, store):
    """PyG's own sampling, if one of its extensions is installed."""
    from torch_geometric import typing
    from torch_geometric.loader import NeighborLoader

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        pytest.skip("neither pyg-lib nor torch-sparse is installed: NeighborLoader samples with "
                    "them")
    edges = torch.from_numpy(graph["edges"])
    graph_store = Data(num_nodes=1200)
    graph_store.put_edge_index(edges, layout="coo", size=(1200, 1200))
    loader = NeighborLoader((rung.FeatureStore(store), graph_store), num_neighbors=[5, 5],
                            input_nodes=torch.from_numpy(graph["train"]), batch_size=64,
                            filter_per_worker=False)
    count = 0
    for batch in loader:
        assert torch.equal(batch.x, torch.from_numpy(graph["rows"])[batch.n_id])
        count += batch.batch_size
    assert count == 300


@pytest.mark.parametrize("share, method", [(False, "fork"), (True, "fork"), (True, "spawn")])
def test_workers_that_gather(graph, share, method):
    import rung.pyg

    rows, edges, train = (torch.from_numpy(graph[name]) for name in ("rows", "edges", "train"))
    path = graph["path"]
    batches = []
    with rung.open(path, host="50%", share=share) as store, rung.Dataset(path) as dataset:
        data = rung.FeatureStore(store), Data(edge_index=edges, num_nodes=1200)
        for workers in (0, 1 if method == "spawn" else 2):
            sampler = rung.pyg.Sampler(dataset, (4,), seed=3, threads=1)
            loader = NodeLoader(data, node_sampler=sampler, input_nodes=train.long(),
                                batch_size=100, filter_per_worker=True, num_workers=workers,
                                multiprocessing_context=method if workers else None)
            batches.append(list(loader))
        for here, there in zip(*batches, strict=True):
            assert torch.equal(here.n_id, there.n_id)
            assert torch.equal(here.edge_index, there.edge_index)
            assert torch.equal(there.x, rows[there.n_id])
        assert torch.equal(store.gather(torch.tensor([3])), rows[[3]])


def test_seeds_drawn_with_replacement(graph, store):
    """PyG's NeighborLoader accepts them, too: each has a row and edges, as seeds have there."""
    from torch_geometric.loader import ImbalancedSampler

    import rung.pyg

    train, labels = torch.from_numpy(graph["train"]), torch.from_numpy(graph["labels"])
    torch.manual_seed(0)
    options = {"input_nodes": train, "batch_size": 100,
               "sampler": ImbalancedSampler(labels, input_nodes=train)}
    sampler = rung.pyg.Sampler(rung.Dataset(graph["path"]), [5, 5])
    loader = NodeLoader((rung.FeatureStore(store), Data(num_nodes=1200)), node_sampler=sampler,
                        filter_per_worker=False, **options)
    repeats, rows = 0, torch.from_numpy(graph["rows"])
    edges = set(map(tuple, graph["edges"].T.tolist()))
    for batch in loader:
        assert batch.batch_size == 100 == batch.num_sampled_nodes[0]
        assert torch.equal(batch.n_id[:100], train[batch.input_id])
        assert torch.equal(batch.x, rows[batch.n_id])
        assert set(map(tuple, batch.n_id[batch.edge_index].T.tolist())) <= edges
        seeds, targets = batch.n_id[:100].tolist(), batch.edge_index[1]
        counts = torch.bincount(targets, minlength=len(batch.n_id))[:100].tolist()
        repeats += 100 - len(set(seeds))
        assert all(count == counts[seeds.index(seed)] for seed, count in zip(seeds, counts))
    assert repeats > 0


def test_a_sampler_refuses_input_it_would_ignore(graph, store):
    """Seeds with a type or a time, links, and negative ids, which numpy counts from the end."""
    from torch_geometric.data import HeteroData
    from torch_geometric.loader import LinkLoader
    from torch_geometric.sampler import NodeSamplerInput

    import rung.pyg

    sampler = rung.pyg.Sampler(rung.Dataset(graph["path"]), (5,))
    typed = HeteroData()
    typed["paper"].num_nodes = typed["author"].num_nodes = 1200
    typed["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [2, 3]])
    features = rung.FeatureStore({("paper", "x"): store}, {("author", "x"): torch.randn(1200, 3)})
    options = {"node_sampler": sampler, "batch_size": 4, "filter_per_worker": False}
    loader = NodeLoader((features, typed), input_nodes=("author", torch.arange(10)), **options)
    with pytest.raises(rung.NotSupportedError, match="type 'author'.*NeighborSampler"):
        next(iter(loader))
    seeds = {"input_id": None, "node": torch.arange(4)}
    with pytest.raises(rung.NotSupportedError, match="times.*input_time"):
        sampler.sample_from_nodes(NodeSamplerInput(**seeds, time=torch.arange(4)))
    with pytest.raises(rung.NotSupportedError, match="weights"):
        sampler.sample_from_nodes(NodeSamplerInput(**seeds), weights=None)
    with pytest.raises(rung.RangeError, match=r"seeds\[1\]=-1"):
        sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=torch.tensor([2, -1])))
    links = LinkLoader(Data(num_nodes=1200, edge_index=torch.tensor([[0, 1], [2, 3]])),
                       link_sampler=sampler, batch_size=2)
    with pytest.raises(rung.NotSupportedError, match="links"):
        next(iter(links))
    # untyped seeds with attributes of several types: one list of ids cannot belong to both
    plain = NodeLoader((features, typed), input_nodes=torch.arange(10), **options)
    with pytest.raises(rung.InvalidError, match="'author'.*'paper'"):
        next(iter(plain))


def test_rungs_loader_returns_the_same_as_pygs(graph, store):
    for arrays in ("numpy", "jax"):
        with pytest.raises(rung.InvalidError, match=f"arrays='{arrays}'"):
            rung.Loader(store, form="pyg", arrays=arrays)
    edges = set(zip(*graph["edges"].tolist()))
    for batch in rung.Loader(store, form="pyg", fanouts=(5, 5)):
        assert torch.equal(batch.x, torch.from_numpy(graph["rows"])[batch.n_id])
        assert batch.y.tolist() == graph["labels"][batch.n_id[: batch.batch_size].numpy()].tolist()
        assert (sum(batch.num_sampled_nodes) == batch.num_nodes
                and sum(batch.num_sampled_edges) == batch.edge_index.shape[1])
        assert all((batch.n_id[a].item(), batch.n_id[b].item()) in edges for a,
                   b in batch.edge_index.T.tolist())
        assert (graph["train"][batch.input_id.numpy()].tolist() == batch.n_id[
            : batch.batch_size].tolist())
