"""The command kill_loop: it goes on where it stopped, stops in time, and tells what a spoiled history breaks.

    python3 kill_loop_test.py KILL_LOOP
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KILL_LOOP = str(Path(sys.argv.pop(1)).resolve())
SETTING = ("--setting", "none_on_tmpfs", "--quiet")


class KillLoop(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def kill_loop(self, *arguments):
        command = [KILL_LOOP, *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def numbers(self, state):
        return dict(line.rsplit(" ", 1) for line in state.read_text().splitlines()[1:])

    def test_goes_on_from_its_state_file(self):
        state = self.folder / "state"
        first = self.kill_loop(*SETTING, "--kills", 1, "--state", state)
        self.assertEqual(first.returncode, 0, first.stderr)
        after_first = self.numbers(state)
        second = self.kill_loop(*SETTING, "--kills", int(after_first["kills"]) + 1, "--state", state)
        self.assertEqual(second.returncode, 0, second.stderr)
        after_second = self.numbers(state)
        self.assertEqual(after_first["stores"], "1")
        self.assertEqual(after_second["stores"], "2")
        self.assertGreater(int(after_second["kills"]), int(after_first["kills"]))
        self.assertGreater(int(after_second["operations"]), int(after_first["operations"]))
        done = self.kill_loop(*SETTING, "--kills", 1, "--state", state)
        self.assertEqual(self.numbers(state), after_second, done.stdout)

    def test_refuses_the_state_of_another_run(self):
        state = self.folder / "state"
        self.assertEqual(self.kill_loop(*SETTING, "--kills", 1, "--state", state).returncode, 0)
        other = self.kill_loop(*SETTING, "--kills", 1, "--state", state, "--seed", 5)
        self.assertEqual(other.returncode, 2)
        self.assertIn("was written by a run of", other.stderr)

    def test_stops_when_its_time_is_over(self):
        stopped = self.kill_loop(*SETTING, "--kills", 10**9, "--seconds", 1)
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertIn("Stopped by the time limit", stopped.stdout)

    def test_checks_saved_histories_again(self):
        saved = self.folder / "saved"
        self.assertEqual(self.kill_loop(*SETTING, "--kills", 1, "--save", saved).returncode, 0)
        (history,) = saved.glob("*.history")
        sound = self.kill_loop("--check", history)
        self.assertEqual(sound.returncode, 0, sound.stdout)
        self.assertRegex(sound.stdout, r"[1-9]\d* operations, .*: sound")
        insert = re.compile(r"^(o \d+ insert \d+ )(\d+)( .* [1-9]\d*)$", re.MULTILINE)
        self.assertRegex(history.read_text(), insert)
        history.write_text(insert.sub(r"\g<1>123456789\g<3>", history.read_text(), count=1))
        spoiled = self.kill_loop("--check", history)
        self.assertEqual(spoiled.returncode, 1, spoiled.stdout)
        self.assertRegex(spoiled.stdout, r"rule \d+: ")

    def test_refuses_what_is_no_history_and_what_is_no_setting(self):
        (self.folder / "text").write_text("no history\n")
        refused = self.kill_loop("--check", "text")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("text:1: ", refused.stderr)
        self.assertNotEqual(self.kill_loop("--setting", "nonsense").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
