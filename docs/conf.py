"""How Sphinx builds the documentation site: ``make docs`` writes it to build/docs.

Pages are plain Markdown, readable on a code host. Which page lies under which is in contents.toml; the
navigation is added here, when a page is read.
"""

import logging
import re
import tomllib
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sphinx.util.typing import stringify_annotation

import slidejoin
from slidejoin.predicate import Bound
from slidejoin.window import Duration

HERE = Path(__file__).parent
CONTENTS = tomllib.loads((HERE / "contents.toml").read_text(encoding="utf-8"))

project = "slidejoin"
release = version = slidejoin.__version__
project_copyright = "the slidejoin authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["_static", "**/.ipynb_checkpoints"]

# --- Markdown and notebooks ---
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_output_stderr = "remove"  # libraries tell there what depends on the machine
nb_merge_streams = True
logging.getLogger("traitlets").setLevel(logging.WARNING)
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- API reference ---
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
toc_object_entries_show_parents = "hide"
# A reference to a name of slidejoin must be found; names of other libraries are not looked up.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!slidejoin\b).*")]

ALIASES = {
    "ArrayLike": ArrayLike,
    "DTypeLike": DTypeLike,
    "Bound": Bound,
    "Duration": Duration,
    "How": slidejoin.How,
    "NDArray[int64]": NDArray[np.int64],
}
SPELLED_OUT = {name: stringify_annotation(alias, "smart") for name, alias in ALIASES.items()}

# --- the site: nothing is loaded from elsewhere ---
html_theme = "furo"
html_title = f"slidejoin {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#0b63a5", "color-brand-content": "#0b63a5"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
}


def add_navigation(app, docname, source):
    """Append the hidden table of contents of a page, as contents.toml has it.

    Examples end with an empty line, as doctest wants it; the site does not show it.
    """
    source[0] = re.sub(r"(```python\n(?:(?!```).)*?)\n+```", r"\1\n```", source[0], flags=re.DOTALL)
    is_markdown = Path(app.env.doc2path(docname)).suffix == ".md"
    for part in CONTENTS["part"]:
        if part["under"] == docname:
            options = [":hidden:", *([f":caption: {part['caption']}"] if "caption" in part else [])]
            lines = [*options, "", *(f"/{page}" for page in part["pages"])]
            if is_markdown:
                lines = ["```{toctree}", *lines, "```"]
            else:
                lines = [".. toctree::", *(f"   {line}" for line in lines)]
            source[0] += "\n\n" + "\n".join(lines) + "\n"


def name_aliases(app, what, name, obj, options, signature, returned):
    """Write the names of type aliases in signatures instead of what they stand for."""

    def named(text):
        for alias, long in SPELLED_OUT.items():
            text = text.replace(long, alias)
        return text

    return signature and named(signature), returned and named(returned)


def setup(app):
    """Connect the hooks."""
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-signature", name_aliases)
