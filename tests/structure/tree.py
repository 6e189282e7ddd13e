# SPDX-License-Identifier: Apache-2.0
"""The source tree as the checks see it: files, units, definitions, and who uses whom.

A *unit* is a C source with its header of the same name, or one Python module. A *use* is a name
in one unit that exactly one other unit defines, with external linkage or inline in a header.
Definitions come from universal-ctags. The text is read with comments and literals blanked.
"""
import ast
import collections
import functools
import json
import os
import re
import subprocess

PRODUCT = ("include", "src", "io", "numa", "kernels", "tools", "bench", "python")
FOLDERS = PRODUCT + ("tests", "docs", "cmake", ".ci")
C_ENDINGS = (".c", ".h", ".cu", ".cuh", ".cpp")
CODE_ENDINGS = C_ENDINGS + (".py", ".sh")
TEXT_ENDINGS = CODE_ENDINGS + (".md", ".txt", ".cmake")
SKIPPED = {"build", "results", "__pycache__", "fixtures", "data", "corpus"}

BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.M)
# a member (x.name, x->name) and a tag (struct name) are no use of a function of that name
WORD = re.compile(r"(->|\.)?[ \t]*\b(struct[ \t]+|union[ \t]+|enum[ \t]+)?"
                  r"([A-Za-z_]\w*)[ \t]*(\(?)")

Definition = collections.namedtuple("Definition", "name path line end kind local type")


def blank(text):
    """Comments, strings and characters as spaces, lines where they were."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def unit_of(path):
    return os.path.splitext(path)[0]


def files(root):
    """The paths of a tree's sources and texts."""
    for name in os.listdir(root):
        if name.endswith(TEXT_ENDINGS) and os.path.isfile(os.path.join(root, name)):
            yield name
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f not in SKIPPED and not f.endswith(".egg-info")]
            for name in names:
                if name.endswith(TEXT_ENDINGS):
                    yield os.path.relpath(os.path.join(folder, name), root)


class Tree:
    """checked: the paths to report on, those named or below a named folder; by default all"""

    def __init__(self, root, names=()):
        self.root = root
        self.paths = sorted(files(root))
        names = [os.path.relpath(os.path.join(root, name), root) for name in names] or ["."]
        self.checked = {path for path in self.paths for name in names
                        if name in (".", path) or path.startswith(name + "/")}
        self.texts = {path: self._read(path) for path in self.paths}
        self.c_paths = [p for p in self.paths if p.endswith(C_ENDINGS)]
        self.definitions, self.prototypes = self._ctags()

    def _read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def _ctags(self):
        """All definitions of C files, and the (path, line) of each prototype and extern."""
        command = ["ctags", "--langmap=C:.c,C++:+.h.cu.cuh", "--output-format=json",
                   "--fields=+neKSf", "--kinds-C=+px", "--kinds-C++=+px", "-f", "-", "-L", "-"]
        out = subprocess.run(command, cwd=self.root, input="\n".join(self.c_paths), text=True,
                             stdout=subprocess.PIPE, check=True).stdout
        definitions, prototypes = [], set()
        for line in out.splitlines():
            tag = json.loads(line)
            if tag["_type"] != "tag":
                continue
            if tag["kind"] in ("prototype", "externvar"):
                prototypes.add((tag["path"], tag["line"], tag["name"]))
            elif tag["kind"] in ("function", "struct", "enum", "union", "variable"):
                if not tag["name"].startswith("__anon"):
                    definitions.append(Definition(
                        tag["name"], tag["path"], tag["line"], tag.get("end", tag["line"]),
                        tag["kind"], tag.get("file", False),
                        tag.get("typeref", "") + tag.get("signature", "")))
        return definitions, prototypes

    def public_names(self):
        return {name for path, _, name in self.prototypes if path.startswith("include/")}

    def product(self, paths=None):
        """Files that are installed or shipped: neither tests nor text."""
        return [p for p in paths or self.paths
                if p.split("/")[0] in PRODUCT and not p.startswith("python/tests/")]

    def includes(self, path):
        """(as written, the file of this tree it names or None)"""
        for name in INCLUDE.findall(self.texts[path]):
            yield name, self._resolve(path, name)

    def _resolve(self, path, name):
        own = os.path.normpath(os.path.join(os.path.dirname(path), name))
        for candidate in [own] + [os.path.join(top, name) for top in PRODUCT]:
            if candidate in self.texts:
                return candidate
        return None

    @functools.cached_property
    def uses(self):
        """{(unit, unit of the definition): names}"""
        owners = collections.defaultdict(set)
        local = collections.defaultdict(set)
        in_product = set(self.product(self.c_paths))
        for d in self.definitions:
            if d.path not in in_product or d.kind not in ("function", "variable"):
                continue
            if d.local and not d.path.endswith((".h", ".cuh")):
                local[unit_of(d.path)].add(d.name)
            else:
                owners[d.name].add(unit_of(d.path))
        found = collections.defaultdict(set)
        for path in in_product:
            unit = unit_of(path)
            for number, line in enumerate(blank(self.texts[path]).split("\n"), 1):
                if line.lstrip().startswith("#include"):
                    continue
                for member, tag, name, call in WORD.findall(line):
                    if len(owners[name]) != 1 or member or tag or name in local[unit]:
                        continue
                    if not call and not name.startswith("rung"):
                        continue   # a local variable of that name
                    owner = next(iter(owners[name]))
                    if owner != unit and (path, number, name) not in self.prototypes:
                        found[unit, owner].add(name)
        return found

    def imports(self):
        """As uses, of the Python package: module -> module, from import statements."""
        modules = {p for p in self.product() if p.startswith("python/rung/") and p.endswith(".py")}
        found = collections.defaultdict(set)
        for path in modules:
            for node in ast.parse(self.texts[path]).body:   # not those inside functions
                if not isinstance(node, ast.ImportFrom) or node.level == 0:
                    continue
                for alias in node.names:
                    name = (node.module or alias.name).split(".")[0]
                    target = f"python/rung/{name}.py"
                    if target in modules:
                        found[unit_of(path), unit_of(target)].add(alias.name)
        return found

    def python_functions(self):
        """(path, name, line, end), of the checked files"""
        for path in sorted(self.checked):
            if path.endswith(".py"):
                for node in ast.walk(ast.parse(self.texts[path])):
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        yield path, node.name, node.lineno, node.end_lineno


def circles(edges):
    """Groups of two or more nodes that reach each other (Tarjan), each sorted."""
    following = collections.defaultdict(set)
    for a, b in edges:
        following[a].add(b)
    index, low, stack, on_stack, groups = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(following[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for nxt in rest:
                if nxt not in index:
                    index[nxt] = low[nxt] = len(index)
                    stack.append(nxt)
                    on_stack.add(nxt)
                    work.append((nxt, iter(sorted(following[nxt]))))
                    break
                if nxt in on_stack:
                    low[node] = min(low[node], index[nxt])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    if len(group) > 1:
                        groups.append(sorted(group))

    for node in sorted({n for edge in edges for n in edge}):
        if node not in index:
            visit(node)
    return groups
