"""The sources of the site are complete: every page is in its tables of contents, every link leads somewhere, every public
header has a place in the reference, every picture is one, and every block of code is run by a test or said to be untested."""

import re
import unittest
import xml.etree.ElementTree
from pathlib import Path

import run_blocks

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
TABLE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def entries(page):
    """What the tables of contents of a page name, as files of the repository."""
    for table in TABLE.findall(page.read_text(encoding="utf-8")):
        for line in table.splitlines():
            if not line or line.startswith(":"):
                continue
            if "*" in line:
                base = page.parent
                while line.startswith("../"):
                    base, line = base.parent, line[3:]
                yield from (file.resolve() for file in base.glob(line + ".md"))
            else:
                yield (page.parent / (line + ".md")).resolve()


def in_the_site():
    """Every page that the tables of contents lead to from the first one."""
    found, left = set(), [(SITE / "index.md").resolve()]
    while left:
        page = left.pop()
        if page not in found and page.exists():
            found.add(page)
            left += entries(page)
    return found


def pages_of_docs():
    return {page.resolve() for page in (ROOT / "docs").rglob("*.md")}


def anchors(page):
    """Those that headings get, as the site and the forge make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        yield re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


class Sources(unittest.TestCase):
    def test_every_page_is_in_a_table_of_contents(self):
        missing = pages_of_docs() - in_the_site()
        self.assertEqual(sorted(str(page.relative_to(ROOT)) for page in missing), [])

    def test_tables_of_contents_name_pages_that_are_there(self):
        for page in in_the_site():
            for entry in entries(page):
                self.assertTrue(entry.exists(), f"{page.relative_to(ROOT)} names {entry}")

    def test_links_lead_to_files_and_headings(self):
        for page in in_the_site():
            text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
            for target in LINK.findall(text):
                if target.startswith(("http://", "https://", "mailto:")):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                place = f"{page.relative_to(ROOT)}: {target}"
                self.assertTrue(file.exists(), place)
                if anchor and file.suffix == ".md":
                    self.assertIn(anchor, set(anchors(file)), place)

    def test_every_public_header_is_in_the_reference(self):
        reference = "".join((SITE / "reference" / name).read_text(encoding="utf-8") for name in ("cpp.md", "c.md"))
        named = set(re.findall(r"\{doxygenfile\} (\S+)", reference))
        there = {header.name for header in (ROOT / "include/icecore").iterdir()}
        # One that includes the others, Arrow's own structures, and the inside of two others.
        left_out = {"icecore.hpp", "arrow.h", "typed_parts.hpp", "range_iterator.hpp"}
        self.assertEqual(named & left_out, set())
        self.assertEqual(sorted(there - left_out - named), [])
        self.assertEqual(sorted(named - there), [])

    def test_pictures_are_drawings_with_titles(self):
        by_hand, by_script = (sorted((folder / "pictures").iterdir()) for folder in (SITE, SITE.parent))
        self.assertTrue(by_hand and by_script)
        pages = "".join(page.read_text(encoding="utf-8") for page in SITE.parent.rglob("*.md"))
        for picture in by_hand + by_script:
            self.assertIn(f"pictures/{picture.name})", pages)
            self.assertLess(picture.stat().st_size, 200_000, picture)
            if picture.suffix == ".png":
                continue
            self.assertNotIn("@font-face", picture.read_text(encoding="utf-8"), f"{picture}: fonts of another site")
            drawing = xml.etree.ElementTree.parse(picture).getroot()
            self.assertTrue(drawing.tag.endswith("}svg") and drawing.get("viewBox"), picture)
            self.assertIsNotNone(drawing.find("{http://www.w3.org/2000/svg}title"), picture)
        for page in SITE.parent.rglob("*.md"):
            self.assertNotIn("![](", page.read_text(encoding="utf-8"), f"{page}: a picture without words")

    def test_blocks_of_code_are_run_by_tests(self):
        tests = (Path(__file__).parent / "CMakeLists.txt").read_text(encoding="utf-8")
        for page in SITE.rglob("*.md"):
            name = page.relative_to(SITE).with_suffix("").as_posix()
            if name != "index" and list(run_blocks.blocks_of(page.read_text(encoding="utf-8"))):
                self.assertRegex(tests, rf"[ (]{name}[ )]", f"{name} has code that no test runs")


class Blocks(unittest.TestCase):
    def test_what_is_printed_is_compared_line_by_line(self):
        for printed, expected, equal in (
            ("a\nb\n", "a\nb\n", True), ("a\nb", "a\nb\n", True), ("a\n", "a\nb\n", False), ("a\nb\n", "a\n", False), ("", "", True),
            ("x 12 y\n", "x … y\n", True), ("x 12 z\n", "x … y\n", False), ("1\n2\n3\n", "...\n3\n", True), ("1\n2\n", "...\n3\n", False), ("a.b\n", "a…b\n", True),
            ("a+b\n", "a+b\n", True), ("aab\n", "a+b\n", False),
        ):  # fmt: skip
            self.assertEqual(run_blocks.matches(printed, expected), equal, (printed, expected))

    def test_a_block_of_text_belongs_to_the_block_right_before_it(self):
        page = "```sh\na\n```\n\n```text\nprinted\n```\n\n```sh\nb\n```\n\nwords\n\n```text\nother\n```\n"
        self.assertEqual(list(run_blocks.blocks_of(page)), [(2, "sh", "a\n", "printed\n"), (10, "sh", "b\n", None)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
