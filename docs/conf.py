"""Settings of the documentation; `bash docs/build.sh` builds it."""

import sys
from pathlib import Path

import miopyx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "miopyx"
author = "the authors of miopyx"
copyright = author
release = version = miopyx.__version__

extensions = ["myst_parser", "stubs", "charts"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
root_doc = "index"
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Every name of this package that a page or a signature mentions is described somewhere; other projects' are not linked.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!mi|.*Descriptor|Handle|Plan|Solver).*")]
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False

pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = "miopyx"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
