"""Histories of killed stores, judged by porcupine; and corrupted ones, which it must reject.

    python3 porcupine_test.py KILL_LOOP SOURCES BUILD [KILLS]

KILL_LOOP is the program that records, SOURCES the folder of the Go program that judges, BUILD a folder to build in.
Exits with 77, saying why, where there is no Go or porcupine cannot be had: then nothing was judged.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run(command, **how):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, **how)


def main():
    kill_loop, sources, build = (Path(argument).resolve() for argument in sys.argv[1:4])
    kills = sys.argv[4] if len(sys.argv) > 4 else "36"
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
        run([kill_loop, "--quiet", "--kills", kills, "--save", folder])
        histories = sorted(Path(folder).glob("*.history"))
        run([judge, *histories])
        run(
            [go, "test", "-count=1", "-v", "."],
            cwd=sources,
            env=environment | {"ICECORE_HISTORIES": folder},
        )


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"porcupine_test: {failure}")
