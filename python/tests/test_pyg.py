# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric: its FeatureStore over rung, its loaders, and training that comes out the same to the bit."""

import os

import numpy as np
import pytest

import rung

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, TensorAttr   # noqa: E402
from torch_geometric.loader import NodeLoader   # noqa: E402
from torch_geometric.nn import SAGEConv   # noqa: E402

CORA = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data", "cora.npz")


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
    rung.stage(path / "g", graph=edges, features=rows, labels=labels, splits={"train": train, "test": test}, fanouts=(5, 5), batch_size=64, draws="new")
    return {"path": path / "g", "rows": rows, "edges": edges, "labels": labels, "train": train, "test": test}


@pytest.fixture
def store(graph):
    with rung.open(graph["path"], host="40%") as opened:
        yield opened


def test_protocol(store, graph):
    rows = torch.from_numpy(graph["rows"])
    features = rung.FeatureStore(store, {"y": torch.from_numpy(graph["labels"])})
    assert {(attr.group_name, attr.attr_name) for attr in features.get_all_tensor_attrs()} == {(None, "x"), (None, "y")}
    assert features.get_tensor_size(group_name=None, attr_name="x", index=None) == (1200, 40)
    assert features.get_tensor_size(group_name=None, attr_name="x", index=slice(0, 7)) == (7, 40)
    for index in (torch.tensor([4, 4, 1199]), np.array([3]), slice(10, 20), slice(None, None, 100), None, 5, -1):
        found = features.get_tensor(group_name=None, attr_name="x", index=index)
        assert torch.equal(found, rows if index is None else rows[index])
    assert torch.equal(features[None, "x", torch.tensor([8])], rows[[8]])
    assert isinstance(features.get_tensor(group_name=None, attr_name="x", index=np.array([3]), convert_type=True), np.ndarray)
    both = features.multi_get_tensor([TensorAttr(None, "x", torch.tensor([1, 2])), TensorAttr(None, "y", torch.tensor([1, 2]))])
    assert torch.equal(both[0], rows[[1, 2]]) and both[1].tolist() == graph["labels"][[1, 2]].tolist()
    for change in (lambda: features.put_tensor(rows, group_name=None, attr_name="x", index=None),
                   lambda: features.update_tensor(rows[:1], group_name=None, attr_name="x", index=torch.tensor([0])),
                   lambda: features.remove_tensor(group_name=None, attr_name="x", index=None)):
        with pytest.raises(rung.NotSupportedError, match="stage them anew"):
            change()
    assert features.put_tensor(torch.zeros(3), group_name="paper", attr_name="z", index=None)
    assert features.remove_tensor(group_name="paper", attr_name="z", index=None)
    assert features.get_tensor(group_name="paper", attr_name="z", index=None) is None
    with pytest.raises(rung.RangeError, match="1200"):
        features.get_tensor(group_name=None, attr_name="x", index=torch.tensor([1200]))


def test_several_attributes_and_types(tmp_path):
    stores, rows = {}, {}
    for number, key in enumerate((("paper", "x"), ("paper", "year"), ("author", "x"))):
        rows[key] = np.random.default_rng(number).standard_normal((50 + 10 * number, 3 + number)).astype(np.float32)
        rung.stage(tmp_path / str(number), graph=np.array([[0], [1]]), features=rows[key])
        stores[key] = rung.open(tmp_path / str(number), host="max")
    features = rung.FeatureStore(stores)
    index = torch.tensor([3, 0, 49])
    found = features.multi_get_tensor([TensorAttr(*key, index) for key in rows])
    assert all(torch.equal(tensor, torch.from_numpy(rows[key])[index]) for tensor, key in zip(found, rows))
    for opened in stores.values():
        opened.close()


class Net(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.first, self.second = SAGEConv(width, 32), SAGEConv(32, classes)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def train_and_test(make_batches, width, classes, epochs, labels, evaluate):
    """Losses of every step, and the accuracy in the end."""
    torch.manual_seed(0)
    model = Net(width, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(epochs):
        for batch in make_batches():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], labels[batch.n_id[: batch.batch_size]])
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
    """Trained from memory and from the store, by PyG's loader with the same sampler."""
    rows, edges, labels = torch.from_numpy(rows), torch.from_numpy(edges), torch.from_numpy(labels).long()
    results = []
    with rung.open(path, host=host, share=True) as store, rung.Dataset(path) as dataset:
        for data in (Data(x=rows, edge_index=edges), (rung.FeatureStore(store), Data(edge_index=edges, num_nodes=len(rows)))):
            def batches(seeds, shuffle, data=data):
                sampler = rung.pyg.Sampler(dataset, (10, 10), seed=4)
                return NodeLoader(data, node_sampler=sampler, input_nodes=torch.from_numpy(seeds).long(), batch_size=batch_size, shuffle=shuffle,
                                  filter_per_worker=False, num_workers=workers, generator=torch.Generator().manual_seed(9))

            loader = batches(train, True)
            results.append(train_and_test(lambda loader=loader: loader, rows.shape[1], int(labels.max()) + 1, epochs, labels, lambda batches=batches: batches(test, False)))
        served = store.stats()
    return results, served


def test_training_is_the_same_to_the_bit(graph):
    import rung.pyg   # noqa: F401

    (memory, ladder), served = both_ways(**{name: value for name, value in graph.items()}, host="30%", epochs=3, batch_size=64)
    assert memory == ladder
    assert memory[1] > 0.4   # of 0.2 by chance
    assert served.device_reads > 0


@pytest.mark.skipif(not os.path.exists(CORA), reason="cora.npz is not there")
def test_cora_is_the_same_to_the_bit(tmp_path):
    import rung.pyg   # noqa: F401

    with np.load(CORA) as cora:
        rows, edges, labels = cora["node_feat"], cora["edge_index"], cora["node_label"].reshape(-1)
        train, test = cora["train_idx"], cora["test_idx"]
    rung.stage(tmp_path / "cora", graph=edges, features=rows, labels=labels, splits={"train": train}, fanouts=(10, 10), batch_size=32, draws="new")
    (memory, ladder), served = both_ways(tmp_path / "cora", rows, edges, labels, train, test, "20%", 5, 32)
    assert memory == ladder
    assert memory[1] > 0.70
    assert served.device_reads > 0


def test_neighbor_loader(graph, store):
    """PyG's own sampling, where one of its extensions is installed."""
    from torch_geometric import typing
    from torch_geometric.loader import NeighborLoader

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        pytest.skip("neither pyg-lib nor torch-sparse is installed: NeighborLoader samples with them")
    edges = torch.from_numpy(graph["edges"])
    graph_store = Data(edge_index=edges, num_nodes=1200)
    loader = NeighborLoader((rung.FeatureStore(store), graph_store), num_neighbors=[5, 5], input_nodes=torch.from_numpy(graph["train"]), batch_size=64,
                            filter_per_worker=False)
    count = 0
    for batch in loader:
        assert torch.equal(batch.x, torch.from_numpy(graph["rows"])[batch.n_id])
        count += batch.batch_size
    assert count == 300


@pytest.mark.parametrize("share", [False, True])
def test_workers_that_gather_themselves(graph, share):
    import rung.pyg   # noqa: F401

    with rung.open(graph["path"], host="50%", share=share) as store, rung.Dataset(graph["path"]) as dataset:
        loader = NodeLoader((rung.FeatureStore(store), Data(edge_index=torch.from_numpy(graph["edges"]), num_nodes=1200)),
                            node_sampler=rung.pyg.Sampler(dataset, (4,), threads=1), input_nodes=torch.from_numpy(graph["train"]).long(), batch_size=100,
                            filter_per_worker=True, num_workers=2)
        for batch in loader:
            assert torch.equal(batch.x, torch.from_numpy(graph["rows"])[batch.n_id])
        assert torch.equal(store.gather(torch.tensor([3])), torch.from_numpy(graph["rows"])[[3]])


def test_own_loader_gives_what_pyg_gives(graph, store):
    edges = set(zip(*graph["edges"].tolist()))
    for batch in rung.Loader(store, form="pyg", fanouts=(5, 5)):
        assert torch.equal(batch.x, torch.from_numpy(graph["rows"])[batch.n_id])
        assert batch.y.tolist() == graph["labels"][batch.n_id[: batch.batch_size].numpy()].tolist()
        assert sum(batch.num_sampled_nodes) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.edge_index.shape[1]
        assert all((batch.n_id[a].item(), batch.n_id[b].item()) in edges for a, b in batch.edge_index.T.tolist())
        assert graph["train"][batch.input_id.numpy()].tolist() == batch.n_id[: batch.batch_size].tolist()


def test_graphbolt(store, graph):
    rows = torch.from_numpy(graph["rows"])
    feature = rung.Feature(store, {"made": "here"})
    ids = torch.tensor([5, 5, 1199])
    assert torch.equal(feature.read(ids), rows[ids]) and torch.equal(feature.read(), rows)
    assert feature.read_async_num_stages(ids.device) == 1 and feature.read_async_num_stages(torch.device("cuda")) == 0
    stages = list(feature.read_async(ids))
    assert len(stages) == 1 and torch.equal(stages[0].wait(), rows[ids])
    many = [list(feature.read_async(torch.arange(number, number + 50)))[0] for number in range(30)]   # more than the store has requests for
    assert all(torch.equal(future.wait(), rows[number : number + 50]) for number, future in enumerate(many))
    assert feature.size() == torch.Size([40]) and feature.count() == 1200 and feature.metadata() == {"made": "here"}
    with pytest.raises(rung.NotSupportedError):
        feature.update(rows)
