"""The example remote_training.py: a dashboard sees each checkpoint of a job that is killed, once and in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from remote_server import Server, needs_server

pytest.importorskip("sklearn")
EXAMPLE = Path(__file__).parents[2] / "examples/python/remote_training.py"
pytestmark = needs_server


def started(what, address, *more):
    return subprocess.Popen([sys.executable, str(EXAMPLE), what, address, *more], stdout=subprocess.PIPE, text=True)


def lines_until(process, pattern):
    """The lines of a process up to the first that matches."""
    found = []
    for line in process.stdout:
        found.append(line)
        if re.search(pattern, line):
            return found
    raise AssertionError(f"ended with {process.wait()} before '{pattern}': {''.join(found)}")


def test_a_dashboard_reads_the_checkpoints_of_a_job_that_is_killed(tmp_path):
    with Server(tmp_path) as server:
        first = started("dashboard", server.address)
        job = started("train", server.address)
        lines_until(job, "epoch 4 written")
        job.kill()
        job.wait()
        seen = lines_until(first, "epoch 3:")
        first.kill()  # another dashboard goes on behind it
        first.wait()
        last_version = int(seen[-1].rsplit(" ", 1)[1])

        again = started("train", server.address)
        begun = int(lines_until(again, "begins behind")[0].split()[-1])
        assert begun >= 4  # what was acknowledged is there
        second = started("dashboard", server.address, "--after", str(last_version))
        rest, _ = second.communicate(timeout=100)
        assert second.returncode == 0
        assert again.wait(100) == 0
        told = [int(number) for number in re.findall(r"^epoch (\d+):", "".join(seen) + rest, re.MULTILINE)]
        assert told == list(range(1, 13))

        # Whoever reads the history later is told the same.
        third = started("dashboard", server.address)
        whole, _ = third.communicate(timeout=100)
        assert whole == "".join(seen) + rest
