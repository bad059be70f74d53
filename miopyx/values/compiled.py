"""Compiled modules, which Python does not find by itself: all lie together in the package's `_compiled` library.

One library instead of many makes the package smaller by a third, and importing it faster.  PEP 489 describes libraries
with the init functions of several modules; their importing is left to a finder like this one.  Modules of two folders
may have the same name, so an init function's has the folders, too: PyInit_miopyx_api__softmax.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import ModuleType

# Written by the build: the library's name, and a line for each folder with its modules in the library.
NAMES = "modules.txt"
LIBRARY = "_compiled"

_python = FileFinder.path_hook(
    (ExtensionFileLoader, EXTENSION_SUFFIXES),  # somebody's own module beside ours
    (SourceFileLoader, SOURCE_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES))
_folders: dict[str, tuple[str, frozenset[str]]] = {}


class Loader(ExtensionFileLoader):
    """Makes a module by the init function of its whole name; Python looks for one of a name's last part."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        whole = spec.name.replace(".", "_")
        module = super().create_module(ModuleSpec(f"{spec.parent}.{whole}", self, origin=spec.origin))
        module.__name__ = spec.name
        return module


class Finder:
    """Finds what is in one folder of ours: compiled modules by their names, the others as Python does."""

    def __init__(self, folder: str) -> None:
        self._library, self._names = _folders[folder]
        self._others = _python(folder)
        self.invalidate_caches = self._others.invalidate_caches

    def find_spec(self, name: str, target: object = None) -> ModuleSpec | None:
        own = name.rpartition(".")[2]
        if own not in self._names:
            return None if own == LIBRARY else self._others.find_spec(name, None)
        spec = ModuleSpec(name, Loader(name, self._library), origin=self._library)
        spec.has_location = True
        return spec

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """Return what pkgutil lists: names, and whether they are packages."""
        import pkgutil

        for name, package in pkgutil.iter_importer_modules(self._others, prefix):  # type: ignore[attr-defined]
            if name != prefix + LIBRARY:
                yield name, package
        for name in sorted(self._names):
            yield prefix + name, False


def _hook(folder: str) -> Finder:
    if folder not in _folders:
        raise ImportError("not a folder of miopyx", path=folder)
    return Finder(folder)


def listed(root: str) -> list[str]:
    """Return the lines about the package in a folder; none where nothing there was compiled for this Python."""
    try:
        with open(f"{root}/{NAMES}", encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    return lines if lines[0].removeprefix(LIBRARY) in EXTENSION_SUFFIXES else []


def install(path: Sequence[str]) -> bool:
    """Let `import` find the compiled modules of the package with this path; return whether there are any."""
    for root in path:
        library, *lines = listed(root) or [""]
        for line in filter(None, lines):
            folder, *names = line.split(" ")
            for each in path:  # an editable installation's sources are elsewhere
                at = each.removesuffix("miopyx") + folder
                _folders[at] = f"{root}/{library}", frozenset(names)
                sys.path_importer_cache.pop(at, None)  # made before anything compiled was known
        if library:
            sys.path_hooks[:] = [_hook, *(x for x in sys.path_hooks if getattr(x, "__module__", "") != __name__)]
            return True
    return False
