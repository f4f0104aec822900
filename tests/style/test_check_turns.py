"""Whatever ./check does in turns has its turn within a few commits; its steps can be listed."""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_turns


class Turns(unittest.TestCase):
    def of_commits(self, told, count):
        """What it tells with each of so many commits, wherever these begin."""
        for begin in (1, 877):
            answers = []
            for commit in range(begin, begin + count):
                with mock.patch.object(check_turns, "COMMIT", commit):
                    answers.append(told())
            yield answers

    def test_each_part_is_built(self):
        for parts in (check_turns.OPTIMISED, check_turns.ADDRESS, check_turns.THREAD):
            for built in self.of_commits(lambda parts=parts: parts.built, parts.count):
                self.assertEqual(len(set(built)), parts.count)

    def test_the_parts_that_are_not_built_are_left_out(self):
        for parts in (check_turns.OPTIMISED, check_turns.ADDRESS, check_turns.THREAD):
            for part in range(parts.count):
                label = f"{parts.label}_{part}"
                self.assertEqual(bool(re.search(parts.others, label)), part != parts.part)
                self.assertRegex(label, parts.all)

    def test_two_builds_have_other_parts(self):
        for parts in self.of_commits(lambda: (check_turns.OPTIMISED.part, check_turns.ADDRESS.part), 3):
            self.assertTrue(all(one != other for one, other in parts), parts)

    def test_each_waits_for_two_turns(self):
        for count in (1, 2, 3, 7):
            names = [str(at) for at in range(count)]
            for turn in range(6):
                ran = [set(names) - set(check_turns.waiting(names, turn + more)) for more in range(3)]
                self.assertEqual(set.union(*ran), set(names))

    def test_each_fuzzer_has_its_turn(self):
        """All that are there without the server, which is not built with sanitizers."""
        text = (ROOT / "tests/fuzz/CMakeLists.txt").read_text(encoding="utf-8")
        text = re.sub(r"if\(ICECORE_HAS_SERVER\).*?endif\(\)", "", text, flags=re.DOTALL)
        targets = set(re.findall(r"^icecore_fuzz_target\((\w+)", text, re.MULTILINE))
        for fuzzed in self.of_commits(check_turns.fuzzed, 3):
            self.assertEqual(sorted(target for targets in fuzzed for target in targets), sorted(targets))


class Listing(unittest.TestCase):
    def listed(self, output):
        return subprocess.run([sys.executable, "-B", ROOT / "scripts/check-steps", "--list"], stdout=output, stderr=subprocess.PIPE, text=True, check=False)

    def test_the_steps_are_listed(self):
        listed = self.listed(subprocess.PIPE)
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))
        self.assertIn("after nothing", listed.stdout)

    def test_a_reader_may_have_seen_enough(self):
        reading, writing = os.pipe()
        os.close(reading)
        listed = self.listed(writing)
        os.close(writing)
        self.assertEqual((listed.returncode, listed.stderr), (-signal.SIGPIPE, ""))


if __name__ == "__main__":
    unittest.main()
