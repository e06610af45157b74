extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
myst_heading_anchors = 4
project = "Maia"
html_theme = "alabaster"
