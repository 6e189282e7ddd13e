# SPDX-License-Identifier: Apache-2.0
"""The cases of PyG's suites for feature stores, loaders, samplers and Lightning, each with the
store of PyG's tests and with rung's.

PyG's source distribution has no tests. test_peer_suites.py runs the suites of a checkout.
"""

from __future__ import annotations

import pytest

import rung

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import stores  # noqa: E402
from torch_geometric.data import Data, HeteroData, TensorAttr  # noqa: E402
from torch_geometric.data.remote_backend_utils import num_nodes, size  # noqa: E402
from torch_geometric.loader import (  # noqa: E402
    LinkLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NodeLoader,
)
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput  # noqa: E402
from torch_geometric.testing import MyFeatureStore, MyGraphStore  # noqa: E402
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE  # noqa: E402
from typed_stores import pyg_graph_store  # noqa: E402

import rung.pyg  # noqa: E402

CITES = ("paper", "cites", "paper")
WRITES = ("author", "writes", "paper")

needs_sampler = pytest.mark.skipif(
    not WITH_PYG_LIB and not WITH_TORCH_SPARSE,
    reason="PyG's NeighborSampler needs pyg-lib or torch-sparse, which are not installed")


@pytest.fixture(params=["PyG's", "rung's"])
def store_class(request) -> type:
    return MyFeatureStore if request.param == "PyG's" else stores.pyg_feature_store()


def graph_class(store_class: type) -> type:
    """Return the store of edges that goes with a store of tensors."""
    return MyGraphStore if store_class is MyFeatureStore else pyg_graph_store()


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.arange(120, dtype=torch.float32).reshape(40, 3)


def edges_between(sources: int, targets: int, count: int) -> torch.Tensor:
    """Return distinct edges [2, count] in random order."""
    of = torch.randperm(sources * targets, generator=torch.Generator().manual_seed(3))[:count]
    return torch.stack((of // targets, of % targets))


class InEdges(BaseSampler):
    """Samples all in-edges of the seeds: one hop, without pyg-lib and torch-sparse."""

    def __init__(self, edges: dict, typed: bool):
        self.edges, self.typed = edges, typed

    def sample_from_nodes(self, index, **kwargs):
        return self._sample({index.input_type: index.node}, (index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None):
        """Positive links only: their two ends are the seeds."""
        source, _, target = index.input_type
        nodes = torch.cat((index.row, index.col))
        ends, places = nodes.unique(return_inverse=True)
        assert source == target
        links = places.reshape(2, -1)
        return self._sample({source: ends}, (index.input_id, links, index.label, None))

    def _sample(self, seeds, metadata):
        nodes, found = {**seeds}, {}
        for kind in {end for edge in self.edges for end in (edge[0], edge[2])}:
            nodes.setdefault(kind, torch.empty(0, dtype=torch.int64))
        for kind, edges in self.edges.items():
            wanted = seeds.get(kind[2], torch.empty(0, dtype=torch.int64))
            row, col = edges[:, torch.isin(edges[1], wanted)]
            fresh = row.unique()
            nodes[kind[0]] = torch.cat((nodes[kind[0]], fresh[~torch.isin(fresh, nodes[kind[0]])]))
            found[kind] = row, col
        place = {kind: {int(v): at for at, v in enumerate(of)} for kind, of in nodes.items()}
        rows = {k: torch.tensor([place[k[0]][int(v)] for v in found[k][0]]) for k in found}
        cols = {k: torch.tensor([place[k[2]][int(v)] for v in found[k][1]]) for k in found}
        if self.typed:
            return HeteroSamplerOutput(node=nodes, row=rows, col=cols,
                                       edge=dict.fromkeys(found), metadata=metadata)
        (kind,) = found
        return SamplerOutput(node=nodes[None], row=rows[kind], col=cols[kind], edge=None,
                             metadata=metadata)


def test_tensors_are_put_read_replaced_and_removed(store_class, rows):
    store = store_class()
    attr = TensorAttr("paper", "x", torch.arange(40))
    assert store.put_tensor(rows, attr)
    assert torch.equal(store.get_tensor(attr), rows)
    assert torch.equal(store.get_tensor("paper", "x", index=torch.tensor([39, 0])), rows[[39, 0]])
    assert store.get_tensor("paper", "x", index=torch.tensor([], dtype=torch.int64)).shape == (0, 3)
    assert store.get_tensor_size(attr) == (40, 3)
    assert store.update_tensor(rows * 2, attr)
    assert torch.equal(store.get_tensor(attr), rows * 2)
    assert [(a.group_name, a.attr_name) for a in store.get_all_tensor_attrs()] == [("paper", "x")]
    assert store.remove_tensor(attr)
    assert not store.get_all_tensor_attrs()
    with pytest.raises(KeyError):
        store.get_tensor(attr)


def test_every_form_of_an_index(store_class, rows):
    store = store_class()
    everything = torch.arange(40)
    store["paper", "x", everything] = rows
    for found in (store["paper", "x", everything], store["paper", "x", None],
                  store["paper", "x", :], store["paper"]["x"][:], store["paper"].x[:],
                  store.view().paper.x[:]):
        assert torch.equal(found, rows)
    assert torch.equal(store["paper"].x[torch.tensor([7])], rows[[7]])
    assert store["paper"] == store.view(TensorAttr("paper"))
    assert store["paper"].x == store.view(TensorAttr("paper", "x"))
    with pytest.raises(AttributeError):
        _ = store.view("paper", index=None).x.y
    view = store.view("paper")
    view.attr_name = "x"
    view["index"] = everything
    assert torch.equal(view(), rows) and view == store.view("paper", "x", everything)
    del store["paper", "x", everything]
    with pytest.raises(KeyError):
        _ = store["paper", "x", everything]


def test_an_attribute_without_a_name(store_class, rows):
    store = store_class()
    store["paper", None, None] = rows
    assert torch.equal(store["paper"](), rows)
    del store["paper"]
    with pytest.raises(KeyError):
        store["paper"]()


def test_attributes_without_groups(store_class, rows):
    class Ungrouped(TensorAttr):
        def __init__(self, attr_name=TensorAttr().attr_name, index=TensorAttr().index):
            super().__init__(None, attr_name, index)

    store = store_class()
    store.__dict__["_tensor_attr_cls"] = Ungrouped
    everything = torch.arange(40)
    store["x", everything] = rows
    for found in (store["x", everything], store["x"][everything], store["x"][:], store["x", :]):
        assert torch.equal(found, rows)


@pytest.mark.parametrize("hetero_data", [False, True])
def test_counts_are_inferred(store_class, hetero_data):
    store = store_class()
    graph = HeteroData() if hetero_data else graph_class(store_class)()
    store.put_tensor(torch.arange(30), group_name="author", attr_name="x", index=None)
    graph.put_edge_index(edges_between(30, 12, 20), edge_type=WRITES, layout="coo", size=(30, 12))
    assert num_nodes(store, graph, "author") == 30
    assert num_nodes(store, graph, "paper") == 12
    assert size(store, graph, WRITES) == (30, 12)
    with pytest.raises(ValueError, match="infer"):
        num_nodes(store, graph, "venue")


@pytest.mark.parametrize("per_worker", [False, True])
def test_a_loader_without_types(store_class, rows, per_worker):
    edges, labels = edges_between(40, 40, 300), torch.arange(40) % 4
    store = store_class()
    store.put_tensor(rows, group_name=None, attr_name="x", index=None)
    store.put_tensor(labels, group_name=None, attr_name="y", index=None)
    loader = NodeLoader((store, Data(num_nodes=40)), batch_size=16, filter_per_worker=per_worker,
                        node_sampler=InEdges({(None, None, None): edges}, typed=False),
                        input_nodes=torch.arange(40))
    seen = []
    for batch in loader:
        assert torch.equal(batch.x, rows[batch.n_id]) and torch.equal(batch.y, labels[batch.n_id])
        found = batch.n_id[batch.edge_index]
        wanted = edges[:, torch.isin(edges[1], batch.n_id[: batch.batch_size])]
        assert sorted(map(tuple, found.T.tolist())) == sorted(map(tuple, wanted.T.tolist()))
        seen += batch.n_id[: batch.batch_size].tolist()
    assert seen == list(range(40))


def typed_stores(store_class, rows):
    edges = {CITES: edges_between(40, 40, 200), WRITES: edges_between(25, 40, 150)}
    of = {"paper": rows, "author": torch.arange(25).double()}
    features, graph = store_class(), graph_class(store_class)()
    for kind, tensor in of.items():
        features.put_tensor(tensor, group_name=kind, attr_name="x", index=None)
    for kind, found in edges.items():
        graph.put_edge_index((found[0], found[1]), edge_type=kind, layout="coo",
                             size=(len(of[kind[0]]), 40))
    return features, graph, edges, of


def seeds_of(batch) -> set[int]:
    return set(batch["paper"].n_id[: batch["paper"].batch_size].tolist())


def check_typed(batch, edges, of, seeds):
    for kind, tensor in of.items():
        assert torch.equal(batch[kind].x, tensor[batch[kind].n_id])
    for kind in edges:
        index = batch[kind].edge_index
        found = torch.stack((batch[kind[0]].n_id[index[0]], batch[kind[2]].n_id[index[1]]))
        there = set(map(tuple, edges[kind].T.tolist()))
        into = sum(int(target) in seeds for target in edges[kind][1])
        assert set(map(tuple, found.T.tolist())) <= there
        assert index.shape[1] >= into


def test_a_loader_with_types(store_class, rows):
    features, graph, edges, of = typed_stores(store_class, rows)
    loader = NodeLoader((features, graph), batch_size=16, input_nodes=("paper", torch.arange(40)),
                        node_sampler=InEdges(edges, typed=True))
    for batch in loader:
        check_typed(batch, edges, of, seeds_of(batch))
    assert len(loader) == 3


def test_a_loader_of_links(store_class, rows):
    features, graph, edges, of = typed_stores(store_class, rows)
    loader = LinkLoader((features, graph), batch_size=50, edge_label_index=(CITES, edges[CITES]),
                        link_sampler=InEdges(edges, typed=True))
    at = 0
    for batch in loader:
        links = batch["paper"].n_id[batch[CITES].edge_label_index]
        assert torch.equal(links, edges[CITES][:, at : at + 50])
        check_typed(batch, edges, of, set(links.flatten().tolist()))
        at += links.shape[1]
    assert at == 200


@needs_sampler
def test_pygs_sampler_without_types(store_class, rows):
    edges = edges_between(40, 40, 300)
    features, graph = store_class(), graph_class(store_class)()
    features.put_tensor(rows, group_name=None, attr_name="x", index=None)
    graph.put_edge_index((edges[0], edges[1]), edge_type=None, layout="coo", size=(40, 40))
    options = {"num_neighbors": [-1, -1], "batch_size": 8, "input_nodes": torch.arange(40)}
    plain = NeighborLoader(Data(x=rows, edge_index=edges), **options)
    loader = NeighborLoader((features, graph), **options)
    assert str(plain) == str(loader) and len(plain) == len(loader)
    for a, b in zip(plain, loader, strict=True):
        assert (a.num_nodes, a.num_edges, a.batch_size) == (b.num_nodes, b.num_edges, b.batch_size)
        assert torch.equal(a.x.sort(0)[0], b.x.sort(0)[0])


@needs_sampler
def test_pygs_sampler_with_types(store_class, rows):
    features, graph, edges, of = typed_stores(store_class, rows)
    loader = NeighborLoader((features, graph), num_neighbors=[-1], batch_size=16,
                            input_nodes=("paper", range(40)))
    for batch in loader:
        check_typed(batch, edges, of, seeds_of(batch))
    links = LinkNeighborLoader((features, graph), num_neighbors=[-1], batch_size=50,
                               edge_label_index=(CITES, edges[CITES]))
    for batch in links:
        check_typed(batch, edges, of, set())


@pytest.fixture
def lightning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)   # Lightning writes its logs there
    return pytest.importorskip("pytorch_lightning")


def test_lightning_trains_on_rungs_sampler(lightning, tmp_path, rows):
    """LightningNodeData with a sampler that PyG does not know, and Trainer.fit() over it."""
    from torch_geometric.data.lightning import LightningNodeData
    from torch_geometric.nn import SAGEConv

    edges, labels = edges_between(40, 40, 300), torch.arange(40) % 4
    rung.stage(tmp_path / "g", graph=edges, features=rows, labels=labels, draws="new")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.losses = SAGEConv(3, 4), []

        def training_step(self, batch, _):
            assert torch.equal(batch.x, rows[batch.n_id])
            out = self.layer(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            self.losses.append(float(loss))
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.001)

    with rung.open(tmp_path / "g", host="max") as store:
        features = rung.FeatureStore(store, {"y": labels})
        module = LightningNodeData(
            (features, Data(num_nodes=40)),
            node_sampler=rung.pyg.Sampler(rung.Dataset(store.path), (5,)),
            input_train_nodes=torch.arange(40), batch_size=8, filter_per_worker=False)
        model = Model()
        lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False,
                          enable_checkpointing=False, enable_progress_bar=False,
                          enable_model_summary=False).fit(model, module)
    assert len(model.losses) == 10 and all(loss > 0 for loss in model.losses)


@needs_sampler
def test_lightning_takes_links_of_a_store(lightning, store_class, rows):
    from torch_geometric.data.lightning import LightningLinkData

    features, graph, _, of = typed_stores(store_class, rows)
    module = LightningLinkData((features, graph), input_train_edges=CITES, loader="neighbor",
                               num_neighbors=[5], batch_size=32, num_workers=0)
    batch = next(iter(module.train_dataloader()))
    assert "edge_label_index" in batch[CITES]
    assert torch.equal(batch["paper"].x, of["paper"][batch["paper"].n_id])
