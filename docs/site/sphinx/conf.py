"""Sphinx builds the site from the repository itself: its pages stay where they are, and links between them hold.

`scripts/site` calls it with this folder as the configuration and the repository as the source.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.domains.c import CDomain
from sphinx.domains.cpp import CPPDomain
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(Path(__file__).parent))

project = "icecore"
author = "the icecore authors"
root_doc = "docs/site/index"
extensions = ["myst_parser", "breathe"]
include_patterns = ["*.md", "docs/**.md", "docs/**/*.md", "src/**/README.md", "server/**README.md", "tools/README.md",
                    "bench/**README.md"]
exclude_patterns = ["build", "**/.*", "docs/site/sphinx"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "none"
# A namespace is declared by each header, and a specialisation of a template has the names of another one.
suppress_warnings = ["misc.highlighting_failure", "myst.header", "duplicate_declaration.cpp"]
breathe_projects = {"icecore": str(ROOT / "build/site/doxygen/xml")}
breathe_default_project = "icecore"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
cpp_id_attributes = ["gnu::visibility(\"default\")", "gnu::visibility(\"hidden\")"]

html_theme = "furo"
html_title = "icecore"
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "search-scorer.js")
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e99", "color-brand-content": "#0b6e99"},
    "dark_css_variables": {"color-brand-primary": "#6cc5e9", "color-brand-content": "#6cc5e9"},
}


class Verbs(Directive):
    """Every verb of the command as its --help describes it."""

    def run(self):
        icecore = os.environ["ICECORE_CLI"]

        def said(*words):
            return subprocess.run([icecore, *words], capture_output=True, text=True, check=True).stdout

        sections = []
        names = [line.split()[0] for line in said("--help").splitlines() if line.startswith("  ") and line[2:3].islower()]
        for name in dict.fromkeys(names):
            section = nodes.section(ids=[f"verb-{name}"], names=[f"verb-{name}"])
            section += nodes.title(text=f"icecore {name}")
            section += nodes.literal_block(text=said(name, "--help").rstrip(), language="none", classes=["verb"])
            sections.append(section)
        if len(sections) < 10:
            raise self.error(f"{icecore} --help names only {len(sections)} verbs")
        return sections


class Declared:
    """A domain whose parameters are no objects: a search finds functions, not the arguments of them."""

    def get_objects(self):
        return (found for found in super().get_objects() if found[2] not in ("functionParam", "templateParam"))


class C(Declared, CDomain):
    pass


class Cpp(Declared, CPPDomain):
    pass


class FoldersAreNames(SphinxPostTransform):
    """A link to a folder of the repository leads nowhere in a site: it is shown as the name."""

    default_priority = 5

    def run(self):
        here = (ROOT / self.env.docname).parent
        for link in list(self.document.findall(lambda node: isinstance(node, nodes.Element) and "reftarget" in node)):
            target = link["reftarget"].split("#")[0]
            if target and not link.get("refexplicit_page") and (here / target).is_dir():
                link.replace_self(nodes.inline("", "", *link.children))


def described_elsewhere(app, env, added, changed, removed):
    """The pages that show headers or verbs, if these have changed since the pages were written: Sphinx compares only the
    pages' own text."""
    here = Path(__file__).parent
    headers = [*sorted((ROOT / "include/icecore").iterdir()), here / "Doxyfile", here / "read-header"]
    shown = {"doxygenfile": headers, "icecore-verbs": [Path(os.environ["ICECORE_CLI"])]}
    known = getattr(env, "icecore_described", {})
    now = {sign: hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() for sign, files in shown.items()}
    env.icecore_described = now
    stale = [sign for sign in now if now[sign] != known.get(sign)]
    return [name for name in env.found_docs if any(f"```{{{sign}}}" in Path(env.doc2path(name)).read_text() for sign in stale)]


def setup(app):
    app.connect("env-get-outdated", described_elsewhere)
    app.add_directive("icecore-verbs", Verbs)
    app.add_domain(C, override=True)
    app.add_domain(Cpp, override=True)
    app.add_post_transform(FoldersAreNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
