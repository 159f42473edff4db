"""The site: every page of docs/ and an API reference from the docstrings; `make site` builds it offline."""

import gputrain

project = "gputrain"
version = release = gputrain.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["notebooks"]
default_role = "code"  # single backticks in docstrings name code
html_theme = "furo"
html_title = "gputrain"
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_default_options = {"members": True, "member-order": "bysource", "inherited-members": "Exception"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository, which a test follows

for call in ("plan", "doctor", "submit", "run", "map"):  # autodoc reads defaults in the source
    del getattr(gputrain.Trainer, call).__signature__
