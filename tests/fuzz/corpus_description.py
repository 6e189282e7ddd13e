# SPDX-License-Identifier: Apache-2.0
"""The seeds of the fuzz target "description": a dataset.json over the files of fuzz_description.c.
Standard library only."""
import copy
import json

BASE = {
    "format": "rung-source", "version": 1, "name": "a test",
    "about": {"seed": 5, "scale": [0.5, None]},
    "vertex_types": [{"name": "paper", "count": 64, "features": "x.npy", "labels": "x.npy",
                      "arrays": {"year": "raw:f,i16,64,0,trailing=ignore", "id": "range:0,64"},
                      "splits": {"train": "range:0,9", "a-B_9": "every:2,0,1,x.npy"}}],
    "relations": [{"name": "cites", "source": "paper", "target": "paper", "edges": "e.npy",
                   "count": 32, "undirected": True}],
    "training": {"fanouts": [25, 10], "batch_size": 64, "draws": "new"},
}
PAPER, CITES = ("vertex_types", 0), ("relations", 0)


def changed(*path, value):
    """The text with one value replaced, or removed by KeyError."""
    root = copy.deepcopy(BASE)
    at = root
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if value is KeyError:
        del at[path[-1]]
    return json.dumps(root, ensure_ascii=False)


def accepted():
    yield "base", json.dumps(BASE)
    for key in ("name", "about", "training"):
        yield "without-" + key, changed(key, value=KeyError)
    for key in ("labels", "arrays", "splits"):
        yield "without-" + key, changed(*PAPER, key, value=KeyError)
    for key in ("count", "undirected"):
        yield "without-edge-" + key, changed(*CITES, key, value=KeyError)
    for name, spec in (("raw", "raw:f,u32,64x4,16,trailing=ignore"),
                       ("pad", "pad:64,raw:f,i32,60,0,trailing=ignore"),
                       ("every", "every:64,0,1,raw:f,u8,4096")):
        yield "features-" + name, changed(*PAPER, "features", value=spec)
    for name, spec in (("raw", "raw:f,u32,2x16,0,trailing=ignore"), ("csc", "csc:range:0,65,x.npy"),
                       ("csr", "csr:raw:f,u32,65,16,trailing=ignore,"
                               "raw:f,u32,9,0,trailing=ignore")):
        root = json.loads(changed(*CITES, "edges", value=spec))
        del root["relations"][0]["count"]
        yield "edges-" + name, json.dumps(root)


    author = {"name": "author", "count": 64, "splits": {"train": "range:0,9"}}
    writes = dict(BASE["relations"][0], source="author", name="writes", undirected=False,
                  rows="raw:f,u8,32x3,0,trailing=ignore", fanouts=[0, 4])
    for name, relation in (("rows", writes), ("reversed", dict(writes, reversed=True)),
                           ("lists", dict(writes, edges="csc:range:0,65,x.npy", count=64,
                                          rows="x.npy"))):
        root = copy.deepcopy(BASE)
        root["vertex_types"].append(author)
        root["relations"].append(relation)
        root["training"]["seed_type"] = "author"
        root["vertex_types"][0]["quantize"] = "int8:column"
        yield "typed-" + name, json.dumps(root)


def refused():
    for key in ("format", "version", "vertex_types", "relations"):
        yield "without-" + key, changed(key, value=KeyError)
    for path in [(key,) for key in BASE] + [PAPER + (key,) for key in BASE["vertex_types"][0]] + [
            CITES + (key,) for key in BASE["relations"][0]] + [
            ("training", key) for key in BASE["training"]]:
        for name, value in (("null", None), ("number", -1), ("real", 0.5), ("lists", [[[]]]),
                            ("bell", "a\a")):
            yield "%s-is-%s" % ("-".join(map(str, path)), name), changed(*path, value=value)
    for name, path, value in (
            ("type-key", PAPER + ("more",), 1), ("key", ("more",), 1), ("two-types", (
                "vertex_types",), BASE["vertex_types"] * 2), ("no-types", ("vertex_types",), []),
            ("two-relations", ("relations",), BASE["relations"] * 2),
            ("name", PAPER + ("name",), "a b"), ("end", CITES + ("source",), "author"),
            ("rows", PAPER + ("count",), 63), ("edges", CITES + ("count",), 31),
            ("edge-rows", CITES + ("rows",), "x.npy"), ("hops", CITES + ("fanouts",), [1] * 3),
            ("seed-type", ("training", "seed_type"), "author"),
            ("quantize", PAPER + ("quantize",), "int8:none"),
            ("huge", PAPER + ("count",), 1 << 62), ("no-file", PAPER + ("features",), "y.npy"),
            ("long", PAPER + ("features",), "x" * 9000), ("commas", CITES + ("edges",),
                                                          "csc:" + "," * 300),
            ("pads", PAPER + ("features",), "pad:1," * 300 + "x.npy"),
            ("array", PAPER + ("arrays",), {"a.b": "x.npy"}),
            ("fanouts", ("training", "fanouts"), [1] * 17)):
        yield name, changed(*path, value=value)
    text = json.dumps(BASE)
    yield "twice", text.replace('"count": 64', '"count": 64, "count": 64')
    yield "deep", '{"about":' * 4000
    yield "list", "[%s]" % text
    yield "manifest", text.replace("rung-source", "rung-dataset")
    for cut in (0, 1, 10, len(text) // 3, len(text) - 1):
        yield "cut-%d" % cut, text[:cut]
