"""Figures inside a page, so that they take its colours: ```{chart} NAME``` of bench/charts.py, ```{drawing} FILE```."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]


def bench_charts() -> Any:
    if "bench_charts" not in sys.modules:
        spec = importlib.util.spec_from_file_location("bench_charts", ROOT / "bench" / "charts.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["bench_charts"] = module
    return sys.modules["bench_charts"]


class _Figure(SphinxDirective):
    required_arguments = 1
    has_content = True

    def svg(self, name: str) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        text = self.svg(self.arguments[0])
        # Text output has the caption alone.
        drawing = nodes.raw("", f'<div class="drawing">{text}</div>', format="html")
        caption = nodes.container(classes=["drawn"])
        self.state.nested_parse(self.content, self.content_offset, caption)
        return [drawing, caption] if self.content else [drawing]


class Chart(_Figure):
    def svg(self, name: str) -> str:
        self.env.note_dependency(str(ROOT / "bench" / "charts.py"))
        return bench_charts().svg(name)


class Drawing(_Figure):
    def svg(self, name: str) -> str:
        path, _ = self.env.relfn2path(name)
        self.env.note_dependency(path)
        return Path(self.env.srcdir, path).read_text(encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chart", Chart)
    app.add_directive("drawing", Drawing)
    return {"version": "1", "parallel_read_safe": True}
