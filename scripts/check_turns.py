"""What ./check does in turns: which part of the whole belongs to a commit. A commit's turn is told by its number."""

import dataclasses
import subprocess
from pathlib import Path

COMMIT = int(subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=Path(__file__).parent, capture_output=True,
                            text=True, check=False).stdout or 1)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The programs of a label are in so many parts, of which a commit builds one (tests/CMakeLists.txt)."""

    label: str
    count: int
    offset: int = 0  # two builds with other offsets build other parts

    @property
    def turn(self):
        """Counts how often all parts have had theirs: were it the commit, a part would meet the same settings each time."""
        return COMMIT // self.count

    @property
    def part(self):
        return (COMMIT + self.offset) % self.count

    @property
    def built(self):
        """The target."""
        return f"tests_{self.label}_{self.part}"

    @property
    def all(self):
        """The labels of all parts, as ctest takes them."""
        return f"^{self.label}_[0-9]$"

    @property
    def others(self):
        """The labels of the parts that are not built."""
        return f"^{self.label}_[{''.join(str(part) for part in range(self.count) if part != self.part)}]$"


OPTIMISED = Parts("quick", 3, offset=1)  # so that two in three programs run in one build or the other
ADDRESS = Parts("quick", 3)
THREAD = Parts("concurrency", 3)


def waiting(names, turn):
    """Two in three of them, others with each turn: never all."""
    return [name for at, name in enumerate(names) if (at - turn) % min(3, len(names)) != 0]


def fuzzed():
    """The fuzzers that a check builds and runs: every third one, others with each commit. Those of the server are not among
    them, as it is not built with sanitizers."""
    targets = ("pool_image", "filter_text", "wire_format", "operations", "filter_stored", "wire_requests", "dump",
               "packed_records", "manifest")
    return targets[COMMIT % 3 :: 3]
