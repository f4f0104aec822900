"""Git repositories made for tests, with what must be found in a store that loaded them."""

import os
import subprocess

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
}
FILE, EXECUTABLE, LINK, SUBMODULE = b"100644", b"100755", b"120000", b"160000"


def git(repository, *arguments, stdin=None):
    done = subprocess.run(
        ["git", "-C", repository, *arguments], input=stdin, capture_output=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def quoted(path):
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'


class Repository:
    """Writes commits by git fast-import and keeps a model of them."""

    def __init__(self, path, bare=True):
        self.path = str(path)
        subprocess.run(
            ["git", "init", "-q", *(["--bare"] if bare else []), "-b", "main", self.path], check=True, env=ENVIRONMENT
        )
        self.tree = {}  # path: (mode, content) of the newest commit
        self.commits = []  # of the first-parent chain: {"tree", "changes", "time", "subject"}
        self.stream = [b"feature done\n"]
        self.marks = 0

    def commit(self, changes, subject=b"a commit", time=None, merge=None):
        """`changes`: {path: (mode, content)}, or None for a path that goes. `merge`: the mark of another parent."""
        before = dict(self.tree)
        for path, entry in changes.items():
            self._set(path, entry)
        actual = {p: self.tree.get(p) for p in set(before) | set(self.tree) if before.get(p) != self.tree.get(p)}
        time = 1_700_000_000 + 60 * len(self.commits) if time is None else time
        self.commits.append({"tree": dict(self.tree), "changes": actual, "time": time, "subject": subject})
        self._write(b"refs/heads/main", actual, subject, time, merge)

    def side_commit(self, changes):
        """A commit beside the chain, from its newest; its mark."""
        parent = self.marks
        return self._write(b"refs/heads/side", changes, b"beside", 1_690_000_000, None, parent)

    def _set(self, path, entry):
        # A file takes the place of a folder and the other way round.
        for other in [p for p in self.tree if p.startswith(path + b"/") or path.startswith(p + b"/")]:
            del self.tree[other]
        self.tree.pop(path, None)
        if entry is not None:
            self.tree[path] = entry

    def _write(self, ref, changes, subject, time, merge, parent=None):
        self.marks += 1
        out = [
            b"commit %s\nmark :%d\ncommitter C <c@example.org> %d +0200\ndata %d\n%s\n"
            % (ref, self.marks, time, len(subject), subject)
        ]
        if parent:
            out.append(b"from :%d\n" % parent)
        if merge:
            out.append(b"merge :%d\n" % merge)
        for path, entry in changes.items():
            if entry is None:
                out.append(b"D %s\n" % quoted(path))
        for path, entry in changes.items():
            if entry is not None and entry[0] == SUBMODULE:
                out.append(b"M 160000 %s %s\n" % (entry[1], quoted(path)))
            elif entry is not None:
                out.append(b"M %s inline %s\ndata %d\n%s\n" % (entry[0], quoted(path), len(entry[1]), entry[1]))
        self.stream += out
        return self.marks

    def finish(self):
        """Writes all commits into the repository."""
        # The chain's commits name their first parent by ref, so a merge's mark is the second.
        git(self.path, "fast-import", "--quiet", "--date-format=raw", stdin=b"".join(self.stream) + b"done\n")
        hashes = git(self.path, "rev-list", "--first-parent", "--reverse", "main").decode().split()
        assert len(hashes) == len(self.commits)
        for commit, name in zip(self.commits, hashes):
            commit["hash"] = name
        return self


def random_repository(path, rng, commits, bare=True, size=400):
    """A history with everything git knows: renames, mode changes, links, submodules, files that become folders."""
    repository = Repository(path, bare)
    names = [b"a", b"b", b"a.b", b"a-b", b"dir", b"\xff\xfe", "ü".encode(), b" ", b"with\ttab", b"x" * 200]

    def random_path():
        return b"/".join(rng.choice(names) for _ in range(rng.choice([1, 1, 2, 2, 3])))

    def random_entry():
        mode = rng.choice([FILE] * 6 + [EXECUTABLE, LINK, SUBMODULE])
        if mode == SUBMODULE:
            return mode, b"%040x" % rng.getrandbits(160)
        content = rng.randbytes(rng.randrange(1, size))
        return mode, content.replace(b"\0", b"0") if mode == LINK else content

    always = {
        b"file": (FILE, b"f"),
        b"tool": (EXECUTABLE, b"t"),
        b"link": (LINK, b"file"),
        b"module": (SUBMODULE, b"0" * 39 + b"1"),
    }
    for number in range(commits):
        changes = {} if number else dict(always)
        for _ in range(rng.choice([0, 1, 1, 2, 5]) if number else 6):
            kind = rng.random()
            there = list(repository.tree)
            path = rng.choice(there) if there and kind < 0.7 else random_path()
            if any(p.startswith(path + b"/") or path.startswith(p + b"/") for p in changes):
                continue
            if kind < 0.2 and path in repository.tree:
                changes[path] = None
            elif kind < 0.3 and repository.tree.get(path, (None,))[0] in (FILE, EXECUTABLE):
                mode, content = repository.tree[path]
                changes[path] = (EXECUTABLE if mode == FILE else FILE, content)
            elif kind < 0.4 and path in repository.tree:
                new = random_path()
                if not (new.startswith(path + b"/") or path.startswith(new + b"/")) and not any(
                    p.startswith(new + b"/") or new.startswith(p + b"/") for p in changes
                ):
                    changes[new] = repository.tree[path]
                    changes[path] = None
            else:
                changes[path] = random_entry()
        merge = repository.side_commit({b"beside": (FILE, b"%d" % number)}) if number and rng.random() < 0.2 else None
        subject = rng.choice([b"subject", "ünïcode".encode(), b"two\nlines\n\nand a body", b"\xff not UTF-8"])
        repository.commit(changes, subject, merge=merge)
    return repository.finish()
