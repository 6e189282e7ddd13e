#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a node classification dataset from the Debian package archive.

    tools/debian_graph.py OUT [--typed] [--input FILE] [--force]

Every Debian machine has a description of its archive as text (`apt-cache dumpavail`; --input
reads a file of the same format). These files are written to the folder OUT:

    edges.npy         int64 [2, E], dependency (row 0) -> package (row 1), for Pre-Depends, Depends,
                      Recommends and Suggests. All alternatives of "a | b" count; versions and
                      architectures are cut off; names without a package (virtual ones) are left
                      out. An edge is listed once, and a package never depends on itself.
    features.npy      float16 [N, 512], words of name and description: 1 + log(count), times
                      log(N / packages with the word), hashed by CRC-32 (nine bits for the column,
                      one for the sign), scaled to length 1
    labels.npy        int64 [N], Section without its area ("contrib/libs" is "libs"); -1 without a
                      section
    train.npy, valid.npy, test.npy
                      int64 ids, 60/20/20 by a hash of the name, so that a package stays in its
                      split if the archive changes; packages without a section are in no split
    packages.txt, classes.txt
                      line i has the name of package i, class i

With --typed the graph has three vertex types, and another label:

    dataset.json      names and files of the types and relations, for rung stage --dataset
    depends.npy       int64 [2, E], dependency -> package, as edges.npy above
    maintained_by.npy, in_section.npy
                      package -> maintainer (by the address), package -> section without its area
    features.npy      of the packages, as above. The other types have none: a model learns a vector
                      for each of their vertices
    labels.npy        the role of a package in its debtags, such as program, shared-lib or plugin;
                      -1 if it has none or several, or one of fewer than 20 packages
    maintainers.txt, sections.txt, and the other files as above

Relations against these edges (needed_by, maintains, has_package) read the same files.

The label is not the section, because the vertices of sections would contain it. Roles are debtags,
which are written independently of the control file, and half of the packages have none: a model
that predicts them is of use. A role does depend on the section: in Debian 12, the most frequent
role of the section is that of 88 % of the labelled packages in the split test. A model of the
typed graph has to be better than this, and not only than one of the packages.

Packages are numbered in the order of their names. If a name has several stanzas, the first counts.
The same input gives the same bytes.
"""
import argparse
import array
import collections
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

COLUMNS = 512
RELATIONS = ("pre-depends", "depends", "recommends", "suggests")
FIELDS = RELATIONS + ("section", "description", "maintainer", "tag")
ROLE = re.compile(r"\brole::([a-z-]+)")
ROLE_PACKAGES_MIN = 20   # of a class
PACKAGE_NAME = re.compile(r"\s*([a-z0-9][a-z0-9+.-]+)")
WORD = re.compile(r"[a-z][a-z0-9]*[a-z]|[a-z]\b")


def read_stanzas(lines):
    """{name: {field: text}} of the fields in FIELDS; continuation lines are joined by newlines."""
    packages, name, stanza, field = {}, None, {}, None
    for line in lines:
        line = line.rstrip("\n")
        if not line.strip():
            if name:
                packages.setdefault(name, stanza)
            name, stanza, field = None, {}, None
        elif line[0] in " \t":
            if field:
                stanza[field] += "\n" + line.strip()
        else:
            key, _, text = line.partition(":")
            key = key.lower()
            field = None
            if key == "package":
                name = text.strip()
            elif key in FIELDS:
                field = key
                stanza[field] = text.strip()
    if name:
        packages.setdefault(name, stanza)
    return packages


def dependencies(stanza):
    """Names to which a stanza refers, including alternatives: "a (>= 1) | b:any [amd64], c" gives
    a, b and c."""
    names = set()
    for relation in RELATIONS:
        for clause in stanza.get(relation, "").replace("\n", " ").split(","):
            for alternative in clause.split("|"):
                match = PACKAGE_NAME.match(alternative)
                if match:
                    names.add(match.group(1))
    return names


def words(name, stanza):
    """The number of occurrences of each word. The name is split at everything except letters. Its
    parts count twice: as words, and marked by "~", because a word in a name has another meaning
    than in a sentence."""
    count = collections.Counter(WORD.findall(stanza.get("description", "").lower()))
    for part in re.findall(r"[a-z]+", name):
        count[part] += 1
        count["~" + part] += 1
    return count


def feature_rows(counts):
    """Yield the bytes of one float16 row per counter.

    Words are added in sorted order and lengths by fsum(), because float addition depends on the
    order: the same input must give the same bytes.
    """
    holders = collections.Counter()   # packages with the word
    for count in counts:
        holders.update(count.keys())
    column, sign, idf = {}, {}, {}
    for word, held in holders.items():
        code = zlib.crc32(word.encode())
        column[word] = code % COLUMNS
        sign[word] = 1.0 if code & COLUMNS else -1.0
        idf[word] = math.log(len(counts) / held)
    for count in counts:
        row = collections.defaultdict(float)
        for word in sorted(count):
            row[column[word]] += sign[word] * idf[word] * (1.0 + math.log(count[word]))
        length = math.sqrt(math.fsum(value * value for value in row.values()))
        packed = bytearray(2 * COLUMNS)
        for i, value in row.items():
            struct.pack_into("<e", packed, 2 * i, value / length if length else 0.0)
        yield packed


def split_of(name):
    """The split of a package, 60/20/20, determined by its name only."""
    return ("train", "train", "train", "valid", "test")[zlib.crc32(b"split " + name.encode()) % 5]


def write_npy(path, descr, shape, chunks):
    """Write a .npy of format version 1: a header, then the bytes of `chunks`."""
    shape_text = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape_text)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1"))
        for chunk in chunks:
            out.write(chunk)


def int64_bytes(values):
    numbers = array.array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def write_ids(path, values):
    write_npy(path, "<i8", (len(values),), [int64_bytes(values)])


def numbered(texts):
    """The sorted distinct texts except "", and the number of each text among them, -1 for ""."""
    distinct = sorted(set(texts) - {""})
    number = {text: i for i, text in enumerate(distinct)}
    return distinct, [number.get(text, -1) for text in texts]


def sections_of(packages, names):
    return [packages[name].get("section", "").rpartition("/")[2] for name in names]


def roles_of(packages, names):
    """The role of each package, "" if it has none or several, or a rare one."""
    found = [ROLE.findall(packages[name].get("tag", "")) for name in names]
    single = [roles[0] if len(roles) == 1 else "" for roles in found]
    count = collections.Counter(single)
    return [role if count[role] >= ROLE_PACKAGES_MIN else "" for role in single]


def address(stanza):
    """The address of the maintainer: the same one has several names."""
    text = stanza.get("maintainer", "")
    return text.rpartition("<")[2].strip("> ").lower()


def dependency_edges(packages, names):
    number = {name: i for i, name in enumerate(names)}
    return [(number[dep], i) for i, name in enumerate(names)
            for dep in sorted(dependencies(packages[name])) if dep in number and dep != name]


def write_edges(path, edges):
    write_npy(path, "<i8", (2, len(edges)), [int64_bytes(edge[end] for edge in edges)
                                             for end in (0, 1)])


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as text:
        text.writelines(line + "\n" for line in lines)


def write_packages(packages, names, labels, out):
    """Write features, labels, splits and names. Returns the number of packages in each split."""
    splits = {"train": [], "valid": [], "test": []}
    for i, name in enumerate(names):
        if labels[i] >= 0:
            splits[split_of(name)].append(i)
    write_npy(os.path.join(out, "features.npy"), "<f2", (len(names), COLUMNS),
              feature_rows([words(name, packages[name]) for name in names]))
    write_ids(os.path.join(out, "labels.npy"), labels)
    for split, ids in splits.items():
        write_ids(os.path.join(out, split + ".npy"), ids)
    write_lines(os.path.join(out, "packages.txt"), names)
    return "%d features (%.1f MB); train %d, valid %d, test %d" % (
        COLUMNS, len(names) * COLUMNS * 2 / 1e6, len(splits["train"]), len(splits["valid"]),
        len(splits["test"]))


def make(packages, out):
    """Write the dataset of {name: stanza} to the folder `out`. Returns a one-line summary."""
    names = sorted(packages)
    edges = dependency_edges(packages, names)
    classes, labels = numbered(sections_of(packages, names))
    write_edges(os.path.join(out, "edges.npy"), edges)
    write_lines(os.path.join(out, "classes.txt"), classes)
    return "%d packages, %d edges, %d sections, %s" % (
        len(names), len(edges), len(classes), write_packages(packages, names, labels, out))


def description(counts, edges):
    """dataset.json of the typed graph."""
    relations = []
    for name, reverse, source, target in (("depends", "needed_by", "package", "package"),
                                          ("maintained_by", "maintains", "package", "maintainer"),
                                          ("in_section", "has_package", "package", "section")):
        forward = {"name": name, "source": source, "target": target, "edges": name + ".npy",
                   "count": len(edges[name])}
        relations += [forward, {**forward, "name": reverse, "source": target, "target": source,
                                "reversed": True}]
    types = [{"name": name, "count": count} for name, count in counts.items()]
    types[0].update(features="features.npy", labels="labels.npy",
                    splits={split: split + ".npy" for split in ("train", "valid", "test")})
    return {"format": "rung-source", "version": 1, "name": "packages of Debian",
            "about": {"generator": "tools/debian_graph.py --typed"}, "vertex_types": types,
            "relations": relations,
            "training": {"fanouts": [10, 10], "batch_size": 256, "draws": "new"}}


def make_typed(packages, out):
    """The same with vertex types."""
    names = sorted(packages)
    classes, labels = numbered(roles_of(packages, names))
    maintainers, maintainer = numbered([address(packages[name]) for name in names])
    sections, section = numbered(sections_of(packages, names))
    edges = {"depends": dependency_edges(packages, names)}
    for name, targets in (("maintained_by", maintainer), ("in_section", section)):
        edges[name] = [(i, target) for i, target in enumerate(targets) if target >= 0]
    counts = {"package": len(names), "maintainer": len(maintainers), "section": len(sections)}
    for name, pairs in edges.items():
        write_edges(os.path.join(out, name + ".npy"), pairs)
    for name, lines in (("classes", classes), ("maintainers", maintainers),
                        ("sections", sections)):
        write_lines(os.path.join(out, name + ".txt"), lines)
    with open(os.path.join(out, "dataset.json"), "w", encoding="utf-8") as file:
        json.dump(description(counts, edges), file, indent=2)
        file.write("\n")
    return "%d packages, %d maintainers, %d sections, %d dependencies, %d roles, %s" % (
        *counts.values(), len(edges["depends"]), len(classes),
        write_packages(packages, names, labels, out))


def read_archive(path):
    """The stanzas of a file; with path None those of apt-cache."""
    if path:
        with open(path, encoding="utf-8", errors="replace") as text:
            return read_stanzas(text)
    with subprocess.Popen(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, encoding="utf-8",
                          errors="replace") as apt:
        packages = read_stanzas(apt.stdout)
    if apt.returncode:
        sys.exit("apt-cache dumpavail: exit %d" % apt.returncode)
    return packages


def main():
    parser = argparse.ArgumentParser(description="Write a node classification dataset of the "
                                                 "Debian package archive.")
    parser.add_argument("out", metavar="OUT", help="folder to create")
    parser.add_argument("--input", metavar="FILE",
                        help="read stanzas from FILE instead of `apt-cache dumpavail`")
    parser.add_argument("--typed", action="store_true",
                        help="write packages, maintainers and sections as vertex types")
    parser.add_argument("--force", action="store_true",
                        help="replace OUT if it is such a dataset")
    args = parser.parse_args()
    out = args.out.rstrip("/")
    is_ours = all(os.path.isfile(os.path.join(out, name))
                  for name in ("packages.txt", "classes.txt", "labels.npy"))
    if os.path.lexists(out) and not (args.force and is_ours):
        sys.exit("%s: exists%s" % (out, " and is not such a dataset; choose another folder"
                                   if args.force else
                                   "; --force replaces it"))
    try:
        packages = read_archive(args.input)
    except OSError as error:
        sys.exit("%s: %s" % (error.filename or args.input, error.strerror))
    if not packages:
        sys.exit("%s: no packages; run `apt-get update` first" % (args.input or "apt-cache "
                                                                                "dumpavail"))
    partial = out + ".partial"   # renamed when complete: OUT exists completely or not at all
    shutil.rmtree(partial, ignore_errors=True)
    try:
        os.makedirs(partial)
        summary = (make_typed if args.typed else make)(packages, partial)
        if os.path.lexists(out):
            shutil.rmtree(out)
        os.rename(partial, out)
    except OSError as error:
        sys.exit("%s: %s" % (error.filename or partial, error.strerror))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print("%s: %s" % (out, summary))


if __name__ == "__main__":
    main()
