"""Markdown of the API: signatures from the .pyi stubs, texts from the docstrings of the installed package."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import miopyx

ROOT = Path(__file__).resolve().parents[2]
# What stubs call by names that say little to users; of other private names the underscore is left out.
ALIASES = {"_Int": "int", "_Ints": "Sequence[int]", "_Real": "float", "SupportsFloat": "float", "SupportsIndex": "int",
           "_Data": "Buffer", "_Array": "ndarray", "NDArray": "ndarray"}
INDENTED = re.compile(r"[ \t]+")


@cache
def stub_of(module: str) -> ast.Module:
    """Return the parsed stub of a module, or its source where it is Python."""
    base = ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".pyi"), base.with_suffix(".py"), base / "__init__.pyi", base / "__init__.py"):
        if path.exists():
            return ast.parse(path.read_text(encoding="utf-8"))
    raise LookupError(f"{module} has neither a stub nor a Python source")


def definition(module: str, name: str) -> ast.FunctionDef | ast.ClassDef:
    for node in stub_of(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{module} does not define {name}")


def exported(module: str) -> list[str]:
    """Return what the package exports of a module, in the module's order."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [node.name for node in stub_of(module).body
                                                 if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    # Through the package: with logging on it exports wrappers.
    return [name for name in names if name in (miopyx.__all__ if module.startswith("miopyx.api") else names)]


class _Readable(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(ALIASES.get(node.id, node.id.lstrip("_"))), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "NDArray":
            return ast.copy_location(ast.Name("ndarray"), node)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Keep `miopenX_t | int` as the enumeration: a member is an int."""
        node = self.generic_visit(node)  # type: ignore[assignment]
        if isinstance(node.left, ast.Name) and node.left.id.endswith("_t") and ast.unparse(node.right) == "int":
            return node.left
        return node


def signature(node: ast.FunctionDef, method: bool = False) -> str:
    arguments = _Readable().visit(ast.parse(ast.unparse(node.args).join(("def f(", "): ...")))).body[0].args
    if method and arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args.pop(0)
    returns = f" -> {ast.unparse(_Readable().visit(node.returns))}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def markdown(text: str | None) -> list[str]:
    """Return a docstring in NumPy's form as lines of Markdown."""
    lines = inspect.cleandoc(text or "").splitlines()
    out: list[str] = []
    i, items = 0, False
    while i < len(lines):
        line = lines[i]
        if i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1]):
            out += ["", f"**{line}**", ""]
            items, i = True, i + 2
            continue
        if items and line and not INDENTED.match(line):
            # An item has an indented text behind it; else the section has ended.
            following = next((later for later in lines[i + 1:] if later), "")
            if INDENTED.match(following) or " : " in line:
                name, _, kind = line.partition(" : ")
                out += [f"- `{name}`" + (f": {_escaped(kind)}  " if kind else "  ")]
                body, i = [], i + 1
                while i < len(lines) and (not lines[i] or INDENTED.match(lines[i])):
                    body.append(lines[i].strip())
                    i += 1
                out += [f"  {_escaped(part)}".rstrip() for part in body]
                continue
            items = False
        out.append(_escaped(line))
        i += 1
    return out


def _escaped(line: str) -> str:
    """Escape what Markdown would take for its own outside of code."""
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    parts[::2] = [re.sub(r"([*<\\\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _block(kind: str, head: str, body: list[str], depth: int, of_type: str = "") -> list[str]:
    fence = ":" * (3 + depth)
    return ["", f"{fence}{{{kind}}} {head}", *([f":type: {of_type}"] if of_type else []), "", *body, fence, ""]


def source_of(module: str) -> list[str]:
    """Return a line that names the file where a module is written."""
    base = ROOT.joinpath(*module.split("."))
    path = next(base.with_suffix(end) for end in (".pyx", ".py") if base.with_suffix(end).exists())
    return ["", f"Source: `{path.relative_to(ROOT)}`", ""]


def function(module: str, name: str, node: ast.FunctionDef) -> list[str]:
    doc = getattr(miopyx, name, None) or getattr(importlib.import_module(module), name)
    if not doc.__doc__:
        raise LookupError(f"{module}.{name} has no docstring")
    return _block("py:function", name + signature(node), [*markdown(doc.__doc__), *source_of(module)], 0)


def members(cls: type) -> list[tuple[ast.FunctionDef, str]]:
    """Return the stubs of a class's public members and where they are from, own ones first."""
    found: dict[str, tuple[ast.FunctionDef, str]] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("miopyx"):
            try:
                stub = definition(base.__module__, base.__name__)
            except LookupError:
                continue
            for node in stub.body:
                if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__call__"):
                    found.setdefault(node.name, (node, base.__module__))
    return list(found.values())


def fields(cls: type) -> list[str]:
    """Return the fields of a named tuple, each with the comment behind it."""
    base = ROOT.joinpath(*cls.__module__.split("."))
    source = base.with_suffix(".py").read_text(encoding="utf-8").splitlines()
    out: list[str] = []
    for node in definition(cls.__module__, cls.__name__).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comment = source[node.end_lineno - 1].partition("#")[2].strip()
            kind = ast.unparse(_Readable().visit(node.annotation)).replace("enums.", "")
            out += _block("py:attribute", node.target.id, markdown(comment), 0, kind)
    return out


def constructor(cls: type) -> str:
    if hasattr(cls, "_fields"):
        return ""
    for base in cls.__mro__:
        if base.__module__.startswith("miopyx"):
            for node in definition(base.__module__, base.__name__).body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    return signature(node, method=True).removesuffix(" -> None")
    return ""


def klass(cls: type, without: set[str]) -> list[str]:
    text = next((base.__doc__ for base in cls.__mro__ if base.__module__.startswith("miopyx") and base.__doc__), None)
    if not text:
        raise LookupError(f"{cls.__name__} has no docstring")
    body = markdown(text)
    if hasattr(cls, "_fields"):
        body += fields(cls)
    for node, _ in members(cls):
        if node.name in without:
            continue
        doc = markdown(getattr(cls, node.name).__doc__)
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        if "property" in marks:
            of_type = ast.unparse(_Readable().visit(node.returns)) if node.returns else ""
            body += _block("py:property", node.name, doc, 0, of_type)
        else:
            kind = "py:classmethod" if "classmethod" in marks else "py:method"
            body += _block(kind, node.name + signature(node, "staticmethod" not in marks), doc, 0)
    return _block("py:class", cls.__name__ + constructor(cls), [*body, *source_of(cls.__module__)], 1)


def described(names: list[str], without: set[str] = frozenset()) -> dict[str, list[str]]:
    """Return the lines that describe each name; modules stand for what they export."""
    found: dict[str, list[str]] = {}
    for name in names:
        parent, _, last = name.rpartition(".")
        home = importlib.import_module(parent)
        if not hasattr(home, last) or inspect.ismodule(getattr(home, last)):
            module = importlib.import_module(name)
            inner = described([f"{module.__name__}.{one}" for one in exported(name)], without)
            found.update(inner)
            continue
        thing: Any = getattr(home, last)
        if inspect.isclass(thing):
            found[last] = klass(thing, without)
        else:
            where = inspect.unwrap(thing).__module__
            node = definition(where, last)
            assert isinstance(node, ast.FunctionDef)
            found[last] = function(where, last, node)
    return found


def enumerations() -> list[str]:
    """Return every enumeration with its members."""
    out: list[str] = []
    for name in miopyx.enums.__all__:
        one = getattr(miopyx, name)
        if inspect.isclass(one):
            body = ["| member | value |", "| --- | --- |",
                    *(f"| `{alias}` | {int(member)} |" for alias, member in one.__members__.items())]
            doc = markdown(one.__doc__) if one.__doc__ and "__doc__" in vars(one) else []
            out += _block("py:class", name, [*doc, "", *body], 0)
    return out


def statuses() -> list[str]:
    """Return every exception with its status."""
    out = _block("py:class", "MIOpenError", markdown(miopyx.MIOpenError.__doc__), 0)
    for name in miopyx.errors.__all__:
        error = getattr(miopyx, name)
        if error is not miopyx.MIOpenError:
            also = [base.__name__ for base in error.__bases__ if base is not miopyx.MIOpenError]
            text = f"`{error.status.name}`" + (f"; also a `{also[0]}`." if also else ".")
            own = markdown(vars(error)["__doc__"]) if vars(error).get("__doc__") else []
            out += _block("py:class", name, [f"Status {text}", "", *own], 0)
    return out
