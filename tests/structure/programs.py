# SPDX-License-Identifier: Apache-2.0
"""The programs that shell and Python scripts call by name, where their text shows it.

A *word* of a command is its text. An expansion in it is a mark: EXPANDED name EXPANDED, with "@" at
the end of the name for all elements of an array. Words of Python that are not literals are empty.
"""
import ast
import collections
import re

EXPANDED = "\0"
PROGRAM = re.compile(r"[a-z][a-z0-9_.+-]*")
ASSIGNMENT = re.compile(r"(\w+)(?:\[\w+\])?\+?=(.*)", re.S)
# Programs, builtins and functions that call another program, with the number of words before it.
WRAPPERS = {"builtin": 0, "command": 0, "env": 0, "exec": 0, "flock": 1, "nice": 0, "nohup": 0,
            "setarch": 0, "sudo": 0, "timeout": 1, "unshare": 0, "xargs": 0,
            "rung_as_root": 0, "trial": 1, "check_script": 1}
KEYWORDS = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "{", "}",
            "!", "time"}
DECLARING = {"declare", "export", "local", "readonly"}
BUILTINS = KEYWORDS | DECLARING | {
    ".", ":", "[", "[[", "builtin", "break", "case", "cd", "command", "compgen", "continue", "echo",
    "complete", "eval", "exec", "exit", "false", "for", "getopts", "hash", "jobs", "kill", "let",
    "mapfile", "popd", "printf", "pushd", "pwd", "read", "return", "set", "shift", "shopt",
    "source", "test", "trap", "true", "type", "ulimit", "umask", "unset", "wait"}


class Shell:
    """The commands of a script: lists of words. Backquotes are not read as commands."""

    def __init__(self, text):
        self.text, self.at, self.heredocs = text, 0, []
        self.commands, self.functions = [], set()
        self.values = collections.defaultdict(list)   # {variable: lists of words}
        self._parse()

    def _match(self, pattern):
        found = re.compile(pattern).match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def _parse(self, end=None):
        """Read commands up to the character `end`."""
        words = []
        while self.at < len(self.text):
            if self._match(r"(?:[ \t]|\\\n)+|\#[^\n]*"):
                continue
            if self._match(r"\n"):
                self._flush(words)
                self._skip_heredocs()
            elif end and self._match(re.escape(end)):
                break
            elif self._match(r";;&?|;&"):
                self._flush(words)
                self._skip_pattern()
            elif self._match(r"&&|\|\||\|&|&(?!>)|[;|)]"):
                self._flush(words)
            elif self._match(r"\(\("):
                self._skip_arithmetic()
            elif words and self._match(r"\([ \t]*\)"):
                self.functions.add(words.pop())
            elif self._match(r"\("):
                self._flush(words)
                self._parse(")")
            elif not self._redirection(words):
                self._add(words, self._word())
        self._flush(words)

    def _add(self, words, word):
        if not words and word in KEYWORDS:
            return
        if not words and word == "[[":
            while self.at < len(self.text) and not self._match(r"\s\]\]"):
                if not self._match(r"[\s()<>&|;]"):
                    self._word()
        elif not words and ASSIGNMENT.fullmatch(word):
            self._assign(word)
        elif words and words[0] == "case" and word == "in":
            words.clear()
            self._skip_pattern()
        else:
            words.append(word)

    def _assign(self, word):
        name, value = ASSIGNMENT.fullmatch(word).groups()
        if value:
            self.values[name].append([value])

    def _flush(self, words):
        if words and words[0] in DECLARING:
            for word in words:
                if ASSIGNMENT.fullmatch(word):
                    self._assign(word)
        if words and words[0] == "for":
            self.values[words[1]] += [[word] for word in words[3:]]
        elif words:
            self.commands.append(list(words))
        words.clear()

    def _redirection(self, words):
        number = self.text[self.at - 1].isdigit()
        heredoc = self._match(r"<<(-?)[ \t]*(['\"]?)(\w+)\2")
        if heredoc:
            self.heredocs.append((heredoc[3], heredoc[1], heredoc[2]))
        elif self._match(r"(?:&>>?|[<>]&|<<<|>>|>\||<>|[<>](?!\())[ \t]*"):
            self._word()
        else:
            return False
        if number and words and words[-1].isdigit():
            words.pop()
        return True

    def _skip_heredocs(self):
        for name, dash, quote in self.heredocs:
            end = re.compile(rf"^{chr(9) + '*' if dash else ''}{name}$", re.M).search(
                self.text, self.at)
            stop = end.start() if end else len(self.text)
            while self.at < stop and not quote:
                if not self._match(r"[^$\\]+|\\."):
                    self._expansion()
            self.at = end.end() if end else stop
        self.heredocs = []

    def _skip_pattern(self):
        """From "in" or ";;" of a case to its next commands, or beyond its end."""
        while self.at < len(self.text):
            self._match(r"(?:\s|\#[^\n]*|\()*")
            if self._match(r"esac\b|\)"):
                return
            if not self._match(r"\|"):
                self._word()

    def _skip_arithmetic(self):
        depth = 2
        while depth and self.at < len(self.text):
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1

    def _word(self):
        start, word = self.at, ""
        while self.at < len(self.text):
            plain = self._match(r"[^\s;&|()<>\\'\"$]+")
            if plain:
                word += plain[0]
            elif self._match(r"\\\n"):
                pass
            elif self._match(r"\$?'"):
                word += self._match(r"[^']*")[0]
                self.at += 1
            elif self._match('"'):
                while not self._match(r'"|\Z'):
                    quoted = self._match(r'[^"$\\]+|\\\n|\\.')
                    word += quoted[0] if quoted else self._expansion()
            elif self._match(r"[<>]\("):
                self._parse(")")
                word += EXPANDED
            elif self.text[self.at] == "$":
                word += self._expansion()
            elif ASSIGNMENT.fullmatch(word) and self._match(r"\("):
                self._array(ASSIGNMENT.fullmatch(word)[1])
            elif self._match(r"\\."):
                word += self.text[self.at - 1]
            else:
                break
        if self.at == start:
            self.at += 1   # a character that begins nothing
        return word

    def _array(self, name):
        words = []
        while self.at < len(self.text) and not self._match(r"\)"):
            if not self._match(r"\s+|\#[^\n]*"):
                words.append(self._word())
        self.values[name].append(words)

    def _expansion(self):
        """At a "$"."""
        if self._match(r"\$\(\("):
            self._skip_arithmetic()
            return EXPANDED
        if self._match(r"\$\("):
            self._parse(")")
            return EXPANDED
        braced = self._match(r"\$\{[#!]?(\w+|[@*#?!$-])(\[[@*]\])?")
        if not braced:
            name = self._match(r"\$(\w+|[@*#?!$-])")
            self.at += not name
            return EXPANDED + name[1] + EXPANDED if name else "$"
        default = self._match(r":?-(?=([\w.+-]+)\})")
        if default:
            self.values[braced[1]].append([default[1]])
        while not self._match(r"\}|\Z"):
            if not self._match(r'[^$}"\\]+|\\.|"'):
                self._expansion()
        return EXPANDED + braced[1] + ("@" if braced[2] else "") + EXPANDED

    def literals(self, word, seen=()):
        """The possible values of a word, if its variables have literal values: the first element
        of an array, or all if another variable has them."""
        name = re.fullmatch(EXPANDED + r"(\w+)(@?)" + EXPANDED, word)
        if not name:
            return set() if EXPANDED in word else {word}
        if word in seen:
            return set()
        return {literal for words in self.values[name[1]]
                for value in (words if seen else words[:1])
                for literal in self.literals(value, (*seen, word))}

    def programs(self):
        for words in self.commands:
            yield from (name for name in programs_of(words, self) if name not in self.functions)


def programs_of(words, shell=None):
    """The programs that a command calls: the first word, what it starts, and looks up."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if ASSIGNMENT.fullmatch(word):
            continue
        if EXPANDED in word:
            yield from filter(PROGRAM.fullmatch, shell.literals(word) if shell else ())
            if "@" in word:
                continue   # it may be a prefix of the command
            return
        if word not in BUILTINS and PROGRAM.fullmatch(word):
            yield word
        if word in ("sh", "bash", "dash"):
            options = [i for i in range(at, len(words)) if re.fullmatch(r"-\w*c", words[i])]
            words = ["eval", *words[options[0] + 1:]] if options else []
            word, at = "eval", 1
        if word in ("eval", "trap") and at < len(words):
            yield from Shell(words[at]).programs()
        if word == "find":
            for i in range(at, len(words)):
                if words[i] in ("-exec", "-execdir"):
                    yield from programs_of(words[i + 1:], shell)
        if word not in WRAPPERS:
            return
        while at < len(words) and words[at].startswith("-"):
            at += 1
        at += WRAPPERS[word]


def parameters(function):
    arguments = function.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


class Python:
    """The commands of a module: lists of words, passed to subprocess or a function that does it."""

    def __init__(self, text, modules=None):
        """modules: {name: runners}. A runner is a function that runs a command: the index of its
        parameter, and whether the command is the arguments from there instead of a list."""
        self.nodes, self.scopes, self.runners = [], {}, {}
        self.bound = collections.defaultdict(list)   # {(functions around, name): values}
        self._visit(ast.parse(text), ())
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, (ast.For, ast.comprehension)):
                for value in self._elements(node.iter):
                    self._bind(node.target, value)
            elif isinstance(node, ast.ImportFrom):
                runners = (modules or {}).get((node.module or "").split(".")[-1], {})
                self.runners.update((alias.name, runners[alias.name]) for alias in node.names
                                    if alias.name in runners)
        functions = [n for n in self.nodes if isinstance(n, ast.FunctionDef)]
        for function in functions:
            self.runners.pop(function.name, None)
        for function in [*functions, *functions]:   # again, as they call each other
            self._find_runner(function)

    def _visit(self, node, scope):
        self.nodes.append(node)
        self.scopes[node] = scope
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            scope = (*scope, node)
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def _values(self, name):
        """The nodes that a name is bound to, in the innermost function that binds it."""
        scope = self.scopes[name]
        for depth in range(len(scope), -1, -1):
            values = self.bound.get((scope[:depth], name.id))
            if values or (depth and name.id in parameters(scope[depth - 1])):
                return values or []
        return []

    def _bind(self, target, value):
        if isinstance(target, ast.Name):
            self.bound[self.scopes[target], target.id].append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, (ast.Tuple, ast.List)):
            for one, its in zip(target.elts, value.elts):
                self._bind(one, its)

    def _elements(self, node):
        if isinstance(node, (ast.Tuple, ast.List)):
            return node.elts
        if isinstance(node, ast.Name):
            return [e for value in self._values(node)
                    if isinstance(value, (ast.Tuple, ast.List)) for e in value.elts]
        return []

    def _find_runner(self, function):
        names = [arg.arg for arg in function.args.args]
        method = names[:1] in (["self"], ["cls"])
        several = function.args.vararg and function.args.vararg.arg
        for call in ast.walk(function):
            command = self._command(call) if isinstance(call, ast.Call) else None
            if isinstance(command, (ast.List, ast.Tuple)) and command.elts:
                command = command.elts[0]   # [*command, ...]
                command = command.value if isinstance(command, ast.Starred) else None
            if isinstance(command, ast.Name) and command.id == several:
                self.runners[function.name] = len(names) - method, True
            elif isinstance(command, ast.Name) and command.id in names:
                self.runners[function.name] = names.index(command.id) - method, False

    def _command(self, call):
        """The node of the command that a call runs, or None."""
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        module = getattr(getattr(call.func, "value", None), "id", "")
        if module == "subprocess":
            index, several = 0, False
        elif name in self.runners:
            index, several = self.runners[name]
        else:
            return None
        if several:
            return ast.List(call.args[index:], ast.Load())
        return call.args[index] if index < len(call.args) else None

    def _strings(self, node, depth=4):
        """The possible values of a node that are literals."""
        parts = []
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else set()
        if isinstance(node, ast.Name):
            parts = self._values(node)
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Call):   # os.environ.get("CC", "cc")
            parts = node.args[1:] if getattr(node.func, "attr", "") == "get" else []
        return {text for part in parts if depth for text in self._strings(part, depth - 1)}

    def _commands(self, node, depth=4):
        """The possible values of a node as lists of words."""
        if isinstance(node, ast.Name) and depth:
            return [words for value in self._values(node)
                    for words in self._commands(value, depth - 1)] or [[""]]
        if isinstance(node, ast.BinOp):
            return [a + b for a in self._commands(node.left) for b in self._commands(node.right)]
        if not isinstance(node, (ast.List, ast.Tuple)):
            return [[""]]
        found = [[]]
        for element in node.elts:
            if isinstance(element, ast.Starred):
                ends = self._commands(element.value, depth - 1) if depth else []
            else:
                ends = [[text] for text in sorted(self._strings(element))]
            found = [start + end for start in found for end in ends or [[""]]][:64]
        return found

    def programs(self):
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) == "which" and node.args:
                yield from filter(PROGRAM.fullmatch, self._strings(node.args[0]))
            command = self._command(node)
            if command is not None:
                for words in self._commands(command):
                    yield from programs_of(words)
