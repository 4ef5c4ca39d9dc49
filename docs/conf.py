"""The site of the documentation: these pages, and what a target in Python needs of the API.

`tox -e docs` builds it into build/docs, and fails for a warning.
"""

from fuzz.version import __version__

project = "gcfuzz"
version = release = __version__
author = "the authors of gcfuzz"
extensions = ["myst_parser", "autodoc2"]
exclude_patterns = ["findings/reproducers"]
html_theme = "furo"
html_title = f"gcfuzz {release}"

myst_heading_anchors = 3
# Links to folders of the repository. A test checks all links.
suppress_warnings = ["myst.xref_missing"]

autodoc2_packages = ["../fuzz"]
autodoc2_skip_module_regexes = [r"fuzz\.(?!protocol).*"]
autodoc2_output_dir = "api"
autodoc2_render_plugin = "myst"
autodoc2_hidden_objects = ["private", "inherited", "undoc"]
