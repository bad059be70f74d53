"""API pages from what there is, see stub_text.py.

    ```{stubs}
    miopyx.Handle
    miopyx.api._pooling
    ```

describes the named objects, and of a module every name that the package exports, in the module's order.
`enumerations` lists every enumeration with its members, `statuses` every exception with its status.
"""

from __future__ import annotations

import re
from typing import Any

import stub_text
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class _Made(SphinxDirective):
    has_content = True
    option_spec = {"without": directives.unchanged}  # noqa: RUF012 - docutils' own way

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(StringList(self.lines(), source="stubs"), self.content_offset, holder)
        return holder.children


class Stubs(_Made):
    def lines(self) -> list[str]:
        without = set(re.split(r"[ ,]+", self.options.get("without", "")))
        blocks = stub_text.described([line.strip() for line in self.content if line.strip()], without)
        return [line for block in blocks.values() for line in block]


class Enumerations(_Made):
    def lines(self) -> list[str]:
        return stub_text.enumerations()


class Statuses(_Made):
    def lines(self) -> list[str]:
        return stub_text.statuses()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("stubs", Stubs)
    app.add_directive("enumerations", Enumerations)
    app.add_directive("statuses", Statuses)
    return {"version": "1", "parallel_read_safe": True}
