"""The page of features is true as far as this project goes: each yes of icecore names a test that there is, and each column of
another store has a source."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "site" / "features.md"
YES = re.compile(r'^\[yes\]\((?P<path>\S+) "(?P<name>\w+)"\)$')
TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*\w+,\s*(\w+)|^\s*(?:async )?def (test_\w+)|^void (\w+)\(void\) \{", re.MULTILINE)
OTHERS = re.compile(r"^(—|no|yes(, [\w ,-]+)?)$")


def rows(text):
    """The cells of each feature."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 8 and cells[0] != "feature" and any(cells[1:]):
            yield cells


def tests_of(path):
    return {cpp or python or c for cpp, python, c in TEST.findall(path.read_text(encoding="utf-8"))}


def wrong(text):
    """What a page says that is not so."""
    for feature, icecore, *others in rows(text):
        found = YES.match(icecore)
        path = (PAGE.parent / found["path"]).resolve() if found else None
        if icecore != "no" and not found:
            yield f"{feature}: '{icecore}' is neither no nor a yes with its test"
        elif path and not (path.exists() and (ROOT / "tests") in path.parents):
            yield f"{feature}: there is no {found['path']}"
        elif path and found["name"] not in tests_of(path):
            yield f"{feature}: {found['path']} has no test {found['name']}"
        yield from (f"{feature}: '{cell}'" for cell in others if not OTHERS.match(cell))


class Features(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text(encoding="utf-8")

    def test_each_yes_names_a_test_that_there_is(self):
        self.assertEqual(list(wrong(self.text)), [])

    def test_there_are_forty_and_each_is_there_once(self):
        features = [row[0] for row in rows(self.text)]
        self.assertGreaterEqual(len(features), 40)
        self.assertEqual(len(features), len(set(features)))

    def test_each_other_store_has_a_source(self):
        head = re.search(r"^\| feature \| icecore \| (.*) \|$", self.text, re.MULTILINE)[1]
        sources = re.findall(r"^(\d)\. (\w+)", self.text, re.MULTILINE)
        self.assertEqual(head.split(" | "), [f"{name} [{number}]" for number, name in sources])

    def test_a_page_that_is_wrong_is_found_out(self):
        row = '| a | [yes](../../tests/site/test_features.py "test_a_page_that_is_wrong_is_found_out") |' + " no |" * 6
        self.assertEqual(list(wrong(row)), [])
        for what, instead in (("is_wrong", "is_right"), ("test_features.py", "test_nothing.py"), ("[yes]", "yes"), (" no |", " perhaps |")):
            self.assertEqual(len(list(wrong(row.replace(what, instead, 1)))), 1, instead)


if __name__ == "__main__":
    unittest.main(verbosity=2)
