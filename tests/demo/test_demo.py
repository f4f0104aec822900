"""The acts of ./demo hold, and each one fails where what it shows is not true.

ICECORE_CLI and ICECORE_LIBRARY name the command and libicecore.so.

    python3 test_demo.py [Git|Training|Plug|Pack|Whole]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ACTS = ROOT / "tools" / "demonstration"
sys.path.insert(0, str(ACTS))
sys.dont_write_bytecode = True

import pack  # noqa: E402
import pull_the_plug  # noqa: E402

ICECORE = os.environ.get("ICECORE_CLI", "icecore")
LIBRARY = os.environ.get("ICECORE_LIBRARY", "libicecore.so")


def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy, matplotlib"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="icecore-demo-"))
        self.addCleanup(shutil.rmtree, self.folder)


class Git(InFolder):
    def setUp(self):
        super().setUp()
        self.repository = self.folder / "repository"
        self.git("init", "--quiet", self.repository, at=self.folder)
        for number in range(6):
            (self.repository / "same").write_text("same\n", encoding="ascii")
            (self.repository / f"file {number % 3}").write_text(f"{number}\n", encoding="ascii")
            if number == 4:
                self.git("rm", "--quiet", "file 0")
            self.commit(f"change {number}")
        self.store = self.folder / "past.ice"
        self.load()

    def git(self, *words, at=None):
        subprocess.run(["git", "-C", at or self.repository, "-c", "user.name=n", "-c", "user.email=e", *words], check=True)

    def commit(self, subject):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def load(self):
        self.assertEqual(run(ICECORE, "load", self.store, "--git", self.repository)[0], 0)

    def compare(self):
        return run(sys.executable, "-B", ACTS / "git_past.py", self.store, self.repository, "--icecore", ICECORE, "--library", LIBRARY, "--seed", 1)

    def test_answers_about_every_commit_are_those_of_git(self):
        code, said = self.compare()
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("equal"), 3, said)
        self.assertIn("median of 6 commits", said)

    def test_a_store_of_other_commits_is_refused(self):
        self.git("commit", "--quiet", "--allow-empty", "--message", "later")
        code, said = self.compare()
        self.assertEqual(code, 2, said)
        self.assertIn("load it again", said)

    def test_an_answer_that_is_not_that_of_git_fails(self):
        wrapper = self.folder / "icecore"
        wrapper.write_text(f'#!/bin/sh\n"{ICECORE}" "$@" || exit\n[ "$1" != get ] || echo more\n', encoding="ascii")
        wrapper.chmod(0o755)
        code, said = run(sys.executable, "-B", ACTS / "git_past.py", self.store, self.repository, "--icecore", wrapper, "--library", LIBRARY)
        self.assertEqual(code, 1, said)
        self.assertIn("differs from git", said)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with_numpy()
        if cls.python is None:
            raise unittest.SkipTest("needs NumPy and matplotlib: scripts/install-dependencies demo")
        cls.folder = Path(tempfile.mkdtemp(prefix="icecore-demo-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.code, cls.said = run(cls.python, "-B", ACTS / "training.py", cls.folder, "--library", LIBRARY, "--epochs", 6)

    def test_every_epoch_comes_back_bit_for_bit_and_is_drawn(self):
        self.assertEqual(self.code, 0, self.said)
        self.assertIn("all 6 epochs have the bits", self.said)
        self.assertEqual((self.folder / "training.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertIn("epoch-6", run(ICECORE, "log", self.folder / "training.ice")[1])

    def test_an_epoch_with_other_bits_is_found(self):
        # A seventh version in which one weight of the last epoch has one other bit.
        script = (f"import sys; sys.path.insert(0, {str(ACTS)!r})\n"
                  "import c_interface, training\n"
                  f"c_interface.use_library({LIBRARY!r})\n"
                  f"store = c_interface.Store({str(self.folder / 'training.ice')!r})\n"
                  "net = training.restored(store, 6)\n"
                  "bits = bytearray(net[training.LAYER].tobytes()); bits[9] ^= 1\n"
                  "store.apply({training.LAYER: bytes(bits)}); store.tag('epoch-7')\n"
                  f"noted = open({str(self.folder / 'digests.txt')!r}).read().split()\n"
                  "print(training.judge(store, noted), training.judge(store, noted + noted[-1:]))\n")
        self.assertEqual(run(self.python, "-B", "-c", script), (0, "[] [7]\n"))


class Plug(InFolder):
    def test_what_was_acknowledged_is_there_after_each_kill(self):
        code, said = run(sys.executable, "-B", ACTS / "pull_the_plug.py", self.folder, "--icecore", ICECORE, "--library", LIBRARY, "--rounds", 2)
        self.assertEqual(code, 0, said)
        self.assertIn("no damage", said)
        self.assertRegex(said, r"\d writes acknowledged before 2 kills: all are there")

    def test_a_writer_that_acknowledges_too_early_is_found_out(self):
        # It holds back every seventh write, if that is a single one, and acknowledges it.
        early = (ACTS / "pull_the_plug.py").read_text(encoding="utf-8")
        changed = early.replace("            store.insert(*next(iter(write.items())))", "            number % 7 and store.insert(*next(iter(write.items())))")
        self.assertNotEqual(early, changed)
        (self.folder / "early.py").write_text(changed, encoding="utf-8")
        code, said = run(sys.executable, "-B", self.folder / "early.py", self.folder, "--icecore", ICECORE, "--library", LIBRARY, PYTHONPATH=str(ACTS))
        self.assertEqual(code, 1, said)
        self.assertIn("acknowledged values are not there", said)

    def test_the_judge_takes_a_batch_whole_or_not_at_all(self):
        content = pull_the_plug.Content()
        content.add({"a": "1", "b": "2"})
        batch = {"b": "3", "c": "4"}
        self.assertEqual(pull_the_plug.judge({"a": "1", "b": "2"}, content, batch), (None, False))
        self.assertEqual(pull_the_plug.judge({"a": "1", "b": "3", "c": "4"}, content, batch), (None, True))
        for found in ({"a": "1", "b": "3"}, {"b": "2"}, {"a": "1", "b": "2", "c": "4"}, {"a": "1", "b": "2", "d": "5"}, {}):
            self.assertIsNotNone(pull_the_plug.judge(found, content, batch)[0], found)


class Pack(InFolder):
    def setUp(self):
        super().setUp()
        self.repository, self.store = self.folder / "repository", self.folder / "packed.ice"
        subprocess.run(["git", "init", "--quiet", "--bare", self.repository], check=True)
        subprocess.run(["git", "-C", self.repository, "fast-import", "--quiet"], input="".join(self.history(300)).encode(), check=True)
        subprocess.run(["git", "-C", self.repository, "symbolic-ref", "HEAD", "refs/heads/told"], check=True)

    def history(self, commits):
        """Each commit changes one of nine files, which have what all commits before it had in the same place, and a line more."""
        for number in range(commits):
            text = "".join(f"line {line} of {number % 9}\n" for line in range(number))
            yield f"commit refs/heads/told\ncommitter n <e> {1700000000 + number} +0000\ndata 1\nc\nM 644 inline file-{number % 9}\ndata {len(text)}\n{text}\n"

    def pack(self, icecore=ICECORE):
        return run(sys.executable, "-B", ACTS / "pack.py", self.store, self.repository, "--icecore", icecore, "--seed", 1)

    def wrapper(self, condition, then):
        """A command that answers like icecore until condition holds for what it is asked."""
        wrapper = self.folder / "icecore"
        wrapper.write_text(f'#!/bin/sh\n"{ICECORE}" "$@" || exit\n[ "$1" != compact ] || touch "{self.folder}/compacted"\nif {condition}; then {then}; fi\n', encoding="ascii")
        wrapper.chmod(0o755)
        return wrapper

    def test_snapshots_of_a_packed_store_are_those_of_git(self):
        code, said = self.pack()
        self.assertEqual(code, 0, said)
        self.assertIn("225 commits loaded", said)
        self.assertIn("of 300 commits: all paths and bytes are git's", said)
        self.assertRegex(said, r"no damage.*\n.*3 snapshots are git's before packing, after it,")
        loaded, packed = (float(re.search(rf"{step} +([\d.]+) MB", said)[1]) for step in ("commits loaded", "compact --compress"))
        self.assertLess(packed, loaded / 2, said)

    def test_a_snapshot_that_packing_changes_fails(self):
        more = '{"key":"more","value":""}'
        code, said = self.pack(self.wrapper(f'[ "$1" = scan ] && [ -e "{self.folder}/compacted" ]', f"echo '{more}'"))
        self.assertEqual(code, 1, said)
        self.assertIn("snapshots as loaded", said)
        self.assertIn("'more' is in the store, but not in git's tree", said)

    def test_a_loader_that_fails_is_no_success(self):
        code, said = self.pack(self.wrapper(f'[ "$1" = load ] && [ -e "{self.folder}/compacted" ]', "exit 9"))
        self.assertEqual(code, 2, said)
        self.assertIn("ended with exit code 9", said)

    def test_only_what_was_compared_beside_the_loader_counts(self):
        packing = pack.Packing.__new__(pack.Packing)
        packing.compare = lambda when: 7
        for answers, seen in (([None, None, None, 0, 0], 1), ([None, 0, 0], 0), ([None] * 9, pack.COMPARED_BESIDE)):  # asked before and after each
            asked = iter(answers)
            self.assertEqual(packing.compare_beside(type("Loader", (), {"poll": lambda _, asked=asked: next(asked)})()), [7] * seen)

    def test_a_history_is_divided_so_that_something_is_left_to_load(self):
        for commits, newer in ((1, 0), (2, 1), (4, 1), (5, 2), (1000, 250), (100_000, 300)):
            older, rest = pack.divided(list(range(commits)))
            self.assertEqual(len(rest), newer)
            self.assertEqual(older + rest, list(range(len(older) + len(rest))))


class Whole(InFolder):
    def test_a_fresh_clone_passes_twice_and_builds_once(self):
        clone, environment = self.folder / "clone", {"XDG_CACHE_HOME": str(self.folder / "cache")}
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        code, said = run(clone / "demo", **environment)
        self.assertEqual(code, 0, said)
        self.assertIn("\nPASS\n", said)
        built = (clone / "build/demo/src/libicecore.so").stat().st_mtime_ns
        code, said = run(clone / "demo", **environment)
        self.assertEqual(code, 0, said)
        self.assertEqual((clone / "build/demo/src/libicecore.so").stat().st_mtime_ns, built)
        self.assertIn("no work to do", (clone / "build/demo/build.log").read_text(encoding="utf-8"))
        self.assertEqual(run(clone / "demo", "--clean", **environment)[0], 0)
        self.assertFalse((clone / "build/demo").exists() or (self.folder / "cache/icecore/demo").exists())

    def test_what_it_cannot_do_it_says(self):
        for words, text in ((["--act", "four"], "there is no act four"), (["--snapshots", "x"], "x is not a number"), (["--what"], "there is no option --what")):
            code, said = run(ROOT / "demo", *words)
            self.assertEqual(code, 2)
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
