#!/usr/bin/env python3
"""Runs every command of a page of the documentation, as it stands, on a machine of its own with the Debian package.

    run_page.py PAGE --package FOLDER --python python3 --sources FOLDER

The machine is this one's kernel with a network, /etc, /usr, /var and processes of its own, which end with the command
(`unshare`, overlays): so the page's ports, /etc/icecore and /var/lib/icecore are free, and nothing of it stays. The
packages icecore and icecore-server of FOLDER are installed there by dpkg, and programs are looked for in the system's
folders alone.
Each block ```sh of the page is run by `sh -eu`, one after the other in one folder. A server that a block starts by hand
must come to serve, and is stopped, cleanly, at the block's end.

What no test can have is stood in for by this script, called by the program's name:

  systemctl         for icecore-server: starts what the unit's ExecStart says, with its credentials and state folders, stops
                    it, makes it reload; there is no systemd here
  journalctl        prints that server's log
  podman            `run` runs icecore-server with the arguments behind the image's name; `build` looks for the file
  apt               dpkg
  cmake, scripts/install-dependencies   look whether presets, targets and groups of these names are known; the target of
                    the packages gives the one that is there
  mpirun            one server with the same options
  icecore-server    the real one, of which the end is noted
  python3           the interpreter that has the Python package

Exits with 77 where the kernel lets this user make no such machine or the page calls a program that is not installed, and
with 1 if a command fails, or the page has none.
"""

import argparse
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
STOOD_IN = ("icecore-server", "icecore-server-mpi", "systemctl", "journalctl", "podman", "cmake", "apt", "sudo", "mpirun")
REAL = ("curl", "openssl", "promtool")  # programs of other packages that pages call as they are
ENDS_AT_ONCE = {"--check", "--print-configuration", "--restore", "--help", "--version"}
SERVER = "/usr/bin/icecore-server"
UNIT = "/usr/lib/systemd/system/icecore-server.service"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
OWN = ("etc", "usr", "var")  # the machine's own folders
PATIENCE_S = 60


# ---- The page ----------------------------------------------------------------------------------------------------------


def blocks_of(page):
    """The commands of the page, each block with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text[: found.start()].count("\n") + 2, found[1]


def run_page(chosen, folder):
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in STOOD_IN:
        (bin_folder / name).symlink_to(Path(__file__).resolve())
    (bin_folder / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(str(chosen.python))} "$@"\n', encoding="utf-8")
    (bin_folder / "python3").chmod(0o755)
    work = folder / "work"
    (work / "scripts").mkdir(parents=True)
    (work / "scripts" / "install-dependencies").symlink_to(Path(__file__).resolve())
    for name in ("packaging", "CMakePresets.json"):
        (work / name).symlink_to(chosen.sources / name)
    (folder / "by-hand").mkdir()
    environment = {**os.environ, "PATH": f"{bin_folder}:{SYSTEM}", "PAGE_FOLDER": str(folder), "HOME": str(work),
                   "PAGE_PACKAGES": str(chosen.package.resolve()), "PAGE_SOURCES": str(chosen.sources)}  # fmt: skip
    blocks = list(blocks_of(chosen.page))
    if not blocks:
        sys.exit(f"{chosen.page} has no commands")
    subprocess.run(["dpkg", "--install", package_in(chosen.package, "icecore"), package_in(chosen.package)], env=environment, check=True)
    shutil.copy("/etc/icecore/icecore.toml", work / "icecore.toml")
    for name in ("icecore", "icecore-server"):
        shutil.copy(package_in(chosen.package, name), work)
    for line, commands in blocks:
        print(f"---- {chosen.page.name}:{line}", flush=True)
        shell = subprocess.Popen(["sh", "-eux", "-c", commands], cwd=work, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
        if shell.wait():
            show_log(folder / "log")
            sys.exit(f"{chosen.page}:{line}: this block ends with {shell.returncode}")
        end_those_by_hand(folder, shell.pid, f"{chosen.page}:{line}")
    stop(folder)


def package_in(folder, name="icecore-server"):
    packages = list(folder.resolve().glob(f"{name}_*.deb"))
    return packages[0] if len(packages) == 1 else sys.exit(f"{folder} has {len(packages)} packages of {name}")


# ---- Servers -----------------------------------------------------------------------------------------------------------


def show_log(log):
    print(log.read_text(encoding="utf-8", errors="replace")[-4000:] if log.exists() else f"there is no {log.name}", flush=True)


def serves(log, arguments):
    """Whether a server that was started with these arguments has opened all its doors."""
    doors = {"grpc", "ucx", "http"} - {option[9:] for option, value in zip(arguments, arguments[1:]) if option.startswith("--listen-") and not value}
    if not any(option.startswith(("--listen-ucx", "--ucx-")) for option in arguments):
        doors -= {"ucx"}
    said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return doors <= set(re.findall(r'"event":"server.listening","door":"(\w+)"', said))


def in_time(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def server_by_hand(folder, arguments):
    """The real server, in the foreground as a user has it; a file of its own tells its process, its arguments and its end."""
    if ENDS_AT_ONCE & {word.split("=")[0] for word in arguments}:
        os.execv(SERVER, [SERVER, *arguments])
    notes = folder / "by-hand" / str(os.getpid())
    with open(notes.with_suffix(".log"), "w", encoding="utf-8") as log:
        started = subprocess.Popen([SERVER, *arguments], stdout=log, stderr=log)
    note(notes, {"process": started.pid, "arguments": arguments})
    code = started.wait()
    note(notes, {"process": started.pid, "arguments": arguments, "ended": code})
    return code


def note(file, what):
    whole = file.with_suffix(".new")
    whole.write_text(json.dumps(what), encoding="utf-8")
    whole.rename(file.with_suffix(".json"))


def of_session(session):
    """What is left of the processes that a shell has started, which leads this session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, leader = stat.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if int(leader) == session and state != "Z":
            yield int(stat.parent.name)


def end_those_by_hand(folder, session, place):
    """Each server that a block has started by hand has served, and is stopped cleanly now, if the block has not done so."""

    def noted():
        notes = list((folder / "by-hand").glob("*.json"))
        return {int(file.stem) for file in notes} | {json.loads(file.read_text(encoding="utf-8"))["process"] for file in notes}

    if not in_time(lambda: noted().issuperset(of_session(session))):
        sys.exit(f"{place}: this block leaves processes that are no servers: {set(of_session(session)) - noted()}")
    for file in (folder / "by-hand").glob("*.json"):

        def now():
            return json.loads(file.read_text(encoding="utf-8"))

        log = file.with_suffix(".log")
        if not in_time(lambda: serves(log, now()["arguments"]) or "ended" in now()) or now().get("ended"):
            show_log(log)
            sys.exit(f"{place}: a server that this block starts does not serve")
        if "ended" not in now():
            os.kill(now()["process"], signal.SIGTERM)
        if not in_time(lambda: "ended" in now()) or now()["ended"]:
            show_log(log)
            sys.exit(f"{place}: a server that this block starts does not stop cleanly")
        file.unlink()


def running(folder):
    """The process of the service, if it is there still."""
    try:
        process = int((folder / "process").read_text(encoding="ascii"))
        return process if Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")")[-1].split()[0] != "Z" else None
    except (OSError, ValueError):
        return None


def stop(folder):
    process = running(folder)
    if process is None:
        return
    os.kill(process, signal.SIGTERM)
    if not in_time(lambda: running(folder) is None):
        sys.exit("the server does not stop")
    (folder / "process").unlink()


def serve(folder, arguments, environment):
    """Starts the service and returns when it serves."""
    stop(folder)
    with open(folder / "log", "w", encoding="utf-8") as log:
        started = subprocess.Popen([SERVER, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **environment})
    (folder / "process").write_text(str(started.pid), encoding="ascii")
    if in_time(lambda: serves(folder / "log", arguments) or started.poll() is not None) and started.poll() is None:
        return 0
    show_log(folder / "log")
    return started.poll() or 1


# ---- What is stood in for ----------------------------------------------------------------------------------------------


def unit_settings():
    """The unit's settings and those of its drop-ins, each a list."""
    settings = {}
    for file in [Path(UNIT), *sorted(Path("/etc/systemd/system/icecore-server.service.d").glob("*.conf"))]:
        for key, value in re.findall(r"^(\w+)=(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE):
            settings.setdefault(key, []).append(value)
    return settings


def systemctl(folder, arguments):
    verb, *words = [word for word in arguments if word not in ("--now",)]
    if verb == "daemon-reload":
        return 0
    if words != ["icecore-server"]:
        sys.exit(f"systemctl: {words} is not the package's unit")
    if verb in ("enable", "start", "restart"):
        settings = unit_settings()
        for state in " ".join(settings["StateDirectory"]).split():
            own = Path("/var/lib/private", state)  # as systemd does it for DynamicUser=yes
            own.mkdir(parents=True, exist_ok=True)
            if not Path("/var/lib", state).is_symlink():
                Path("/var/lib", state).symlink_to(own)
        name, _, source = settings["LoadCredential"][0].partition(":")
        handed = folder / "credentials"
        shutil.rmtree(handed, ignore_errors=True)
        handed.mkdir()
        for secret in Path(source).iterdir():
            shutil.copy(secret, handed / f"{name}_{secret.name}")
        return serve(folder, shlex.split(settings["ExecStart"][0])[1:], {"CREDENTIALS_DIRECTORY": str(handed)})
    if verb == "stop":
        stop(folder)
    elif verb == "reload":
        os.kill(running(folder), signal.SIGHUP)
    elif verb == "status":
        print("active (running)" if running(folder) else "inactive (dead)")
        return 0 if running(folder) else 3
    else:
        sys.exit(f"systemctl {verb}: not known here")
    return 0


def podman(folder, arguments):
    verb, *words = arguments
    if verb == "build":
        return 0 if Path(words[words.index("-f") + 1]).is_file() else 1
    stop(folder)  # a container is tried where the service does not run
    image = words.index("icecore-server")
    served = words[image + 1 :]
    for at, word in enumerate(words[:image]):
        if word == "-v" and "/" in words[at + 1].split(":")[0]:
            here, there = words[at + 1].split(":")[:2]
            served = [argument.replace(there + "/", os.path.abspath(here) + "/") for argument in served]
    if "--detach" not in words[:image]:
        return server_by_hand(folder, served)
    before = set((folder / "by-hand").iterdir())
    subprocess.Popen([folder / "bin" / "icecore-server", *served], stdin=subprocess.DEVNULL, start_new_session=True)
    return 0 if in_time(lambda: any(file.suffix == ".json" for file in set((folder / "by-hand").iterdir()) - before)) else 1


def cmake(arguments):
    sources = Path(os.environ["PAGE_SOURCES"])
    presets = {preset["name"] for preset in json.loads((sources / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]}
    if arguments[arguments.index("--preset") + 1] not in presets:
        sys.exit("cmake: no such preset")
    if "--target" in arguments:
        target = arguments[arguments.index("--target") + 1]
        if f"add_custom_target({target}" not in (sources / "packaging/CMakeLists.txt").read_text(encoding="utf-8"):
            sys.exit("cmake: no such target")
        Path("build/install/package").mkdir(parents=True, exist_ok=True)
        for name in ("icecore", "icecore-server"):
            shutil.copy(package_in(Path(os.environ["PAGE_PACKAGES"]), name), "build/install/package")
    return 0


def stand_in(name, arguments):
    folder = Path(os.environ["PAGE_FOLDER"])
    if name == "sudo":
        os.execvp(arguments[0], arguments)
    if name == "mpirun":  # mpirun -n RANKS PROGRAM ARGUMENT...
        return server_by_hand(folder, arguments[3:])
    if name == "install-dependencies":
        return subprocess.run([Path(os.environ["PAGE_SOURCES"]) / "scripts/install-dependencies", "--list", *arguments], check=False).returncode
    if name == "journalctl":
        show_log(folder / "log")
        return 0
    if name == "apt":  # apt install ./FILE...
        return subprocess.run(["dpkg", f"--{arguments[0]}", *arguments[1:]], check=False).returncode
    if name == "cmake":
        return cmake(arguments)
    return {"systemctl": systemctl, "podman": podman}.get(name, server_by_hand)(folder, arguments)


# ---- The machine -------------------------------------------------------------------------------------------------------


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter(folder):
    """A file system and a network of its own: nothing of what the page does stays."""
    mount("-t", "tmpfs", "tmpfs", folder)
    for name in OWN:
        (folder / name).mkdir()
        (folder / f"{name}-work").mkdir()
        mount("-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={folder}/{name},workdir={folder}/{name}-work", f"/{name}")
    for place in ("/etc", "/usr/bin", "/var/lib/dpkg"):  # what dpkg writes to
        (Path(place) / ".icecore-page").touch()
    with socket.socket() as any_socket:  # the loopback interface is brought up
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--inside", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)  # the second of the two processes
    chosen = parser.parse_args()
    if chosen.inside:
        try:
            folder = enter(chosen.inside)
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"skipped: this kernel or container does not let this user make a machine of its own: {problem}")
            return SKIPPED
        run_page(chosen, folder)
        return 0
    commands = " ".join(block for _, block in blocks_of(chosen.page))
    for program in ("unshare", "dpkg", *(program for program in REAL if re.search(rf"\b{program}\b", commands))):
        if not shutil.which(program, path=SYSTEM):
            print(f"skipped: {program} is not installed; scripts/install-dependencies test installs it")
            return SKIPPED
    own = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *(["--map-root-user"] if os.getuid() else [])]
    with tempfile.TemporaryDirectory(prefix="icecore-page-") as folder:
        if subprocess.run([*own, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            print("skipped: this kernel or container does not let this user make a machine of its own")
            return SKIPPED
        return subprocess.run([*own, sys.executable, "-B", __file__, *sys.argv[1:], "--inside", folder], check=False).returncode


if __name__ == "__main__":
    called = Path(sys.argv[0]).name
    sys.exit(main() if called == "run_page.py" else stand_in(called, sys.argv[1:]))
