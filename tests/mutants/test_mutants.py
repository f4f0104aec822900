"""The mutants fit the sources, and what reads them finds the faults that an entry can have."""

import re
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compiles
import entries
import generate
import schemata

ENTRY = """
[[mutant]]
name = "a"
takes_away = "flush"
file = "src/base/locks/fence.hpp"
old = "fence_after_rmw"
new = "fence_before_rmw"
caught_by = ["ranks=3 ICECORE_GROUP_SIZE=1 test_cluster_tag --gtest_filter=Tag.*"]
"""


class Entries(unittest.TestCase):
    def faults(self, text):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "area.toml").write_text(text)
            return entries.read_all(Path(folder))

    def test_every_entry_fits_the_sources(self):
        mutants, faults = entries.read_all()
        self.assertEqual(faults, [])
        self.assertGreater(len(mutants), 98)

    def test_sound_entry_is_understood(self):
        (mutant,), faults = self.faults(ENTRY)
        self.assertEqual(faults, [])
        self.assertIn("void fence_before_rmw()", mutant.text())
        run = mutant.runs[0]
        self.assertEqual((run.preset, run.ranks, run.environment), ("openmpi", 3, (("ICECORE_GROUP_SIZE", "1"),)))
        self.assertEqual((run.target, run.arguments), ("test_cluster_tag", ("--gtest_filter=Tag.*",)))

    def test_each_fault_is_reported(self):
        for there, instead, reported in (('name = "a"\n', "", "lacks"), ("flush", "flesh", "takes_away"),
                                     ('old = "fence_after_rmw"', 'old = "gone"', "0 times"),
                                     ('old = "fence_after_rmw"', 'old = "std"', "times in"),
                                     ('new = "fence_before_rmw"', 'new = "fence_after_rmw"', "changes nothing"),
                                     ("caught_by = [", 'cought_by = []\ncaught_by = [', "nobody knows"),
                                     ("ranks=3 ICECORE_GROUP_SIZE=1 test_cluster_tag --gtest_filter=Tag.*", "ranks=3",
                                      "names no target"), ("[[mutant]]", "[[mutant", "area.toml")):
            mutants, faults = self.faults(ENTRY.replace(there, instead))
            self.assertEqual((len(mutants), len(faults)), (0, 1), reported)
            self.assertIn(reported, faults[0])
        _, faults = self.faults(ENTRY + ENTRY)
        self.assertIn("another one has its name", faults[0])


class Compiled(unittest.TestCase):
    FLAGS = types.SimpleNamespace(
        folder="/", near=lambda file: f"c++ -std=c++20 -I{entries.PROJECT}/src -I{entries.PROJECT}/include")

    def mutant(self, name, old, new, file="src/base/locks/fence.hpp"):
        return entries.mutant_of({"name": name, "takes_away": "fence", "file": file, "old": old, "new": new,
                                  "caught_by": ["x"]})

    def test_the_one_that_does_not_compile_is_told(self):
        sound = self.mutant("sound", "fence_after_rmw", "fence_before_rmw")
        broken = self.mutant("broken", "#pragma once", "#pragma once\nthis->")
        self.assertEqual(compiles.faults([sound], self.FLAGS), [])
        ((told, why),) = compiles.faults([broken, sound], self.FLAGS)
        self.assertIs(told, broken)
        self.assertIn("error: ", why)

    def test_mutants_of_one_file_are_read_together_where_they_do_not_overlap(self):
        first = self.mutant("first", "#pragma once", "")
        within = self.mutant("within", "pragma once", "")
        last = self.mutant("last", "fence_after_rmw", "x")
        other = self.mutant("other", "#pragma once", "", "src/base/locks/looks.hpp")
        self.assertEqual(compiles.together([last, within, other, first]), [[first, last], [within], [other]])


class Places(unittest.TestCase):
    def test_each_verdict_is_of_a_place_that_is_there(self):
        self.assertEqual(generate.stale(), [])

    def test_each_call_that_is_taken_out_is_called_somewhere(self):
        sources = "".join(path.read_text(encoding="utf-8") for path in Path(entries.PROJECT, "src").rglob("*.[ch]pp"))
        self.assertEqual([name for name in generate.KIND_OF if not re.search(rf"\b{name}\(", sources)], [])

    def places(self, text):
        return generate.places_of("src/a.cpp", text)

    def test_calls_that_stand_alone_are_taken_out(self):
        text = "void f() {\n  // s.flush(x);\n  if (a) p.persist().flush(g(x), 1);\n  s->sync();\n  fence();\n}\n"
        places = self.places(text)
        self.assertEqual([p.takes_away for p in places], ["flush", "sync", "fence"])
        self.assertEqual([p.number for p in places], [3, 4, 5])
        first = places[0]
        self.assertEqual(text[first.start:first.end], "p.persist().flush(g(x), 1)")
        self.assertEqual((places[1].above, places[1].line), ("if (a) p.persist().flush(g(x), 1);", "s->sync();"))

    def test_definitions_and_uses_of_results_are_left(self):
        self.assertEqual(self.places("void x::flush(int a) { }\nvoid fence() const;\nauto s = p.sync();\n"), [])

    def test_orders_are_weakened_but_not_those_of_fences(self):
        text = "a.store(1, std::memory_order_release);\nstd::atomic_thread_fence(std::memory_order_seq_cst);\n" \
               "b.load(std::memory_order_relaxed);\n"
        self.assertEqual([p.takes_away for p in self.places(text)], ["ordering", "fence"])

    def test_equal_places_are_distinguished(self):
        places = self.places("{\n  a();\n  fence();\n  b();\n  fence();\n  a();\n  fence();\n}\n")
        self.assertEqual([(p.above, p.nth) for p in places], [("a();", 1), ("b();", 1), ("a();", 2)])

    def test_each_place_asks_whether_it_is_taken_out(self):
        text = "if (a) s->sync();\nx.store(1, std::memory_order_release);\n"
        numbered = list(enumerate(self.places(text), 1))
        self.assertEqual(
            schemata.rewritten(text, numbered),
            "if (a) (::icecore_mutants::out(1) ? static_cast<void>(0) : static_cast<void>(s->sync()));\n"
            "x.store(1, ::icecore_mutants::order(2, std::memory_order_release));\n")


if __name__ == "__main__":
    unittest.main()
