"""Histories of databases of the server, judged; and histories of doubles with planted faults, which must be found.

    python3 judge_test.py --quick|--long SERVER_HISTORY CHECKER_SOURCES BUILD

Exits with 77, saying why, where there is no Go or porcupine cannot be had: then nothing was judged.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
OPERATIONS = {"--quick": 5_000, "--long": 100_000}
# What the checker must say of each fault.
FAULTS = {
    "early_reply": "not linearizable",
    "open_reads": "not linearizable",
    "missed_event": "not",
}


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run(command, **how):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], check=True, **how)


def judge(checker, history):
    """What the checker says, and whether it is content."""
    done = subprocess.run([str(checker), str(history)], capture_output=True, text=True, check=False)
    print(done.stdout.strip(), flush=True)
    if done.returncode not in (0, 1):
        sys.exit(f"judge_test: no judgement (exit code {done.returncode}): {done.stdout}{done.stderr}")
    return done.returncode == 0, done.stdout


def finds_faults(recorder, checker, folder, doors):
    """Each fault is found in one of twenty histories at least: it shows only if calls meet."""
    for fault, verdict in FAULTS.items():
        for seed in range(1, 21):
            history = folder / f"{fault}_{doors}_{seed}"
            run([recorder, "--fault", fault, "--doors", doors, "--readers", 4, "--operations", 4000, "--seed", seed, history])
            content, said = judge(checker, history)
            if not content:
                break
        else:
            sys.exit(f"judge_test: the fault {fault} was not found")
        if verdict not in said:
            sys.exit(f"judge_test: of the fault {fault} the checker says {said}")


def main():
    length, recorder, sources, build = sys.argv[1], *(Path(word).resolve() for word in sys.argv[2:5])
    go = shutil.which("go")
    if go is None:
        skip("there is no Go here; scripts/install-dependencies test installs it")
    environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=sources, env=environment, capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        skip(f"the module porcupine cannot be had: {fetched.stderr.strip()}")
    checker = build / "checker"
    run([go, "build", "-o", checker, "."], cwd=sources, env=environment)
    run([go, "test", "-count=1", "."], cwd=sources, env=environment)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for rule in ("write", "every", "tag"):
            for medium, doors in (([], "none"), (["--disk"], "none"), ([], "both"), (["--disk"], "both")):
                history = folder / "_".join([rule, *medium, doors])
                operations = OPERATIONS[length]
                how = ["--rule", rule, *medium, "--doors", doors]
                run([recorder, *how, "--operations", operations, "--seed", 1, history])
                if not judge(checker, history)[0]:
                    kept = shutil.copy(history, build / f"rejected_{history.name}")
                    sys.exit(f"judge_test: a history was rejected; it is kept as {kept}")
                history.unlink()
        for doors in ("none", "both"):
            honest = folder / f"honest_{doors}"
            run([recorder, "--fault", "honest", "--doors", doors, "--operations", 4000, honest])
            if not judge(checker, honest)[0]:
                sys.exit("judge_test: the honest double was rejected")
            finds_faults(recorder, checker, folder, doors)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"judge_test: {failure}")
