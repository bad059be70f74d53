"""Where the compiled package is, for a Python that found its sources first: one started in a clone, say."""

from __future__ import annotations

import sys
from pathlib import Path

from . import compiled


def installed(sources: str) -> str:
    """Return the folder of the installed package that was built of the sources in a folder.

    Raises
    ------
    ImportError
        Where none is further along sys.path, or one of other sources.
    """
    here, others = Path(sources).resolve(), []
    for entry in sys.path:
        folder = Path(entry or ".", "miopyx").resolve()
        if folder == here or not compiled.listed(str(folder)):
            continue
        if (folder / "__init__.py").read_bytes() == (here / "__init__.py").read_bytes():
            return str(folder)
        others.append(str(folder))
    what = (f"{', '.join(others)} was built of others: install these again" if others
            else "no installed miopyx is on sys.path: install these")
    raise ImportError(f"{here} has the sources of miopyx, not its compiled modules, and {what} (pip install "
                      f"{here.parent}), or start Python in another folder, or with -P", name="miopyx")
