"""Histories of killed stores, judged by porcupine; and corrupted ones, which it must reject.

    python3 porcupine_test.py KILL_LOOP SOURCES BUILD

KILL_LOOP is the program that records, SOURCES the folder of the Go program that judges, BUILD a folder to build in. At
least 32 histories of stores with the persistent index are judged, a part of them shared by eight processes, and some of
the other indexes. Exits with 77, saying why, where there is no Go or porcupine cannot be had: then nothing was judged.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
OF_PERSISTENT_MIN = 32
# Arguments of kill_loop, and how many histories come of them at least. A store is killed 4 to 15 times, a shared one
# more often than that.
RECORDED = (
    (["--kills", 36], 0),
    *((["--setting", f"{mode}_on_tmpfs_in_persistent", "--kills", 120], 8) for mode in ("none", "tag", "operation")),
    (["--setting", "operation_on_tmpfs_in_persistent_in_3_files", "--kills", 60], 4),
    *(
        (["--processes", 8, "--setting", f"{mode}_on_tmpfs_in_persistent", "--kills", 60], 1)
        for mode in ("none", "tag", "operation")
    ),
    (["--processes", 8, "--setting", "operation_on_tmpfs_in_persistent_in_3_files", "--kills", 60], 1),
)


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run(command, **how):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, **how)


def main():
    kill_loop, sources, build = (Path(argument).resolve() for argument in sys.argv[1:4])
    go = shutil.which("go")
    if go is None:
        skip("there is no Go here; scripts/install-dependencies test installs it")
    environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=sources, env=environment, capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        skip(f"the module porcupine cannot be had: {fetched.stderr.strip()}")

    judge = build / "porcupine"
    run([go, "build", "-o", judge, "."], cwd=sources, env=environment)
    with tempfile.TemporaryDirectory() as folder:
        of_persistent = 0
        for number, (arguments, at_least) in enumerate(RECORDED):
            into = Path(folder) / str(number)
            run([kill_loop, "--quiet", "--seed", 1 + 1000 * number, *arguments, "--save", into])
            count = len(list(into.glob("*.history")))
            of_persistent += count if at_least else 0
            if count < at_least:
                sys.exit(f"porcupine_test: {count} histories, not {at_least}, came of {arguments}")
        if of_persistent < OF_PERSISTENT_MIN:
            sys.exit(f"porcupine_test: {of_persistent} histories of the persistent index, not {OF_PERSISTENT_MIN}")
        histories = sorted(Path(folder).glob("*/*.history"))
        run([judge, *histories])
        run(
            [go, "test", "-count=1", "-v", "."],
            cwd=sources,
            env=environment | {"ICECORE_HISTORIES": str(Path(folder) / "0")},
        )


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"porcupine_test: {failure}")
