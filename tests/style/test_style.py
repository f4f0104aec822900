"""Each rule of style.py finds the fault it is for and passes the sound counterpart."""

import shutil
import tempfile
import unittest
from pathlib import Path

import style


class Rules(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(rule(style.Tree(root)))

    def found(self, rule, files):
        self.assertEqual(len(self.findings(rule, files)), 1, f"{rule.__name__} in {files}")

    def clean(self, rule, files):
        self.assertEqual(self.findings(rule, files), [])

    def test_public_header_that_includes_src(self):
        self.found(style.public_headers_stand_alone, {"include/icecore/a.hpp": '#include "pool/link.hpp"\n'})
        self.clean(style.public_headers_stand_alone, {"include/icecore/a.hpp": '#include "icecore/b.hpp"\n'})

    def test_layer_that_includes_upward_or_sideways(self):
        rule = style.layers_point_downward
        self.found(rule, {"src/base/a.cpp": '#include "pool/link.hpp"\n'})
        self.found(rule, {"src/index/a.cpp": '  #  include "history/record.hpp"\n'})
        self.found(rule, {"src/attic/a.cpp": ""})
        self.clean(rule, {"src/store/a.cpp": '#include "index/index.hpp"\n#include "icecore/store.hpp"\n'})

    def test_user_that_looks_inside(self):
        rule = style.users_see_only_public_headers
        self.found(rule, {"tools/a.cpp": '#include "store/core.hpp"\n'})
        self.found(rule, {"bindings/c/a.cpp": '#include "../../src/store/core.hpp"\n'})
        self.clean(rule, {"tools/a.cpp": '#include "args.hpp"\n#include <icecore/store.hpp>\n'})

    def test_header_without_purpose_or_guard(self):
        rule = style.headers_begin_with_their_purpose
        self.found(rule, {"src/base/a.hpp": "#pragma once\n"})
        self.found(rule, {"src/base/a.hpp": "// Bytes.\nint f();\n"})
        self.clean(rule, {"src/base/a.hpp": "// Bytes.\n#pragma once\n"})
        self.clean(rule, {"include/icecore/a.h": "/* C. */\n#ifndef ICECORE_A_H\n"})

    def test_long_file(self):
        self.found(style.files_fit_one_idea, {"a.py": "x\n" * (style.FILE_LINES_MAX + 1)})
        self.clean(style.files_fit_one_idea, {"a.py": "x\n" * style.FILE_LINES_MAX, "build/b.py": "x\n" * 9999})

    def test_room_that_is_full_or_says_nothing(self):
        rule = style.rooms_are_small_and_say_what_they_hold
        files = {f"src/base/{number}.cpp": "" for number in range(style.ROOM_FILES_MAX)}
        self.found(rule, files)
        self.clean(rule, files | {"src/base/README.md": "# base\n", "src/base/CMakeLists.txt": ""})
        self.found(rule, files | {"src/base/README.md": "# base\n", "src/base/one_more.hpp": ""})

    def test_work_left_undone_and_machine_paths(self):
        rule = style.nothing_is_left_undone
        self.found(rule, {"src/base/a.cpp": "// TO" + "DO: later\n"})
        self.found(rule, {"docs/a.md": "see /ho" + "me/someone/notes\n"})
        self.clean(rule, {"docs/a.md": "mastodons under docs/home/page\n"})

    def test_dead_link(self):
        rule = style.links_resolve
        self.found(rule, {"a.md": "[b](b.md)\n"})
        self.found(rule, {"a.md": "[b](b.md#no-such)\n", "b.md": "# Such\n"})
        self.clean(
            rule,
            {"a.md": "[b](b.md#g1-it-holds) [w](https://x.org) [c](#c)\n# C\n", "b.md": "## G1. `It` holds\n"},
        )
        self.clean(rule, {"a.md": "```\n[b](b.md)\n```\n`[c](c.md)`\n"})

    def test_page_that_names_a_file_that_is_gone(self):
        rule = style.named_paths_exist
        self.found(rule, {"README.md": "`src/a.cpp` -> `src/b.cpp`\n", "src/a.cpp": ""})
        self.clean(rule, {"docs/a.md": "`src/` and `src/a.cpp`, not `src/*.cpp`\n", "src/a.cpp": ""})

    def test_prose_that_runs_on(self):
        rule = style.prose_lines_are_short
        long = "word " * 30 + "\n"
        self.found(rule, {"README.md": long})
        self.found(rule, {"docs/a.md": "- " + long})
        self.clean(rule, {"docs/a.md": "| " + long + "```\n" + long + "```\n" + "x" * 130 + "\n## " + long})

    def test_figure_that_no_page_shows_and_figures_that_are_long(self):
        rule = style.figures_are_shown
        self.found(rule, {"docs/a.md": "figures/a.svg\n", "docs/figures/a.svg": ""})
        self.found(rule, {"docs/a.md": "[a](figures/a.json)\n", "docs/figures/a.json": " " * 20_000})
        self.clean(rule, {"docs/a.md": "![a](figures/a.svg) [b](figures/b.json)\n", "docs/figures/a.svg": "",
                          "docs/figures/b.json": "{}"})

    def test_design_page_without_number_or_with_a_taken_one(self):
        rule = style.design_pages_are_numbered
        self.found(rule, {"docs/design/btree.md": ""})
        self.found(rule, {"docs/design/0001-a.md": "", "docs/design/0001-b.md": ""})
        self.clean(rule, {"docs/design/0001-a.md": "", "docs/design/0002-b.md": ""})

    def test_versions_that_differ(self):
        rule = style.versions_agree
        header = "#define ICECORE_VERSION_MAJOR 1\n#define ICECORE_VERSION_MINOR 2\n#define ICECORE_VERSION_PATCH {}\n"
        cmake = "project(icecore VERSION 1.2.3 LANGUAGES CXX)\n"
        self.found(rule, {"CMakeLists.txt": cmake, "include/icecore/version.hpp": header.format(4)})
        self.found(rule, {"CMakeLists.txt": cmake, "pyproject.toml": '[project]\nversion = "1.2.0"\n'})
        self.clean(rule, {"CMakeLists.txt": cmake, "include/icecore/icecore.h": header.format(3)})

    @unittest.skipUnless(shutil.which("clang-format-16"), "clang-format-16 is not installed")
    def test_layout(self):
        def rule(tree):
            return style.badly_laid_out(tree, "clang-format-16")

        files = {".clang-format": "BasedOnStyle: Google\n"}
        self.found(rule, {**files, "a.cpp": "int  f( );\n"})
        self.clean(rule, {**files, "a.cpp": "int f();\n"})


if __name__ == "__main__":
    unittest.main()
