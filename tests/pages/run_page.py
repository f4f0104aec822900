#!/usr/bin/env python3
"""Runs every command of a page of the documentation, as it stands, on a machine of its own.

    run_page.py PAGE --server icecore-server --tools FOLDER --python python3 --unit FILE --sources FOLDER

The machine is this one's kernel with a network, /etc and /var of its own, which end with the command (`unshare`, overlays):
so the page's ports, /etc/icecore and /var/lib/icecore are free, and nothing of it stays. Each block ```sh of the page is
run by `sh -eu`, one after the other in one folder, with the files that the environment variable of PREPARED makes.

What no test can have is stood in for by this script, called by the program's name:

  icecore-server    the real one; where it would serve, it does so in the background, in place of the one before
  systemctl         for icecore-server: starts what the unit's ExecStart says, with its credentials and state folders, stops
                    it, makes it reload; there is no systemd here
  journalctl        prints that server's log
  podman            `run` runs icecore-server with the arguments behind the image's name; `build` looks for the file
  cmake, apt, scripts/install-dependencies   look whether presets, targets, packages and groups of these names are known
  mpirun            one server with the same options, where the program for MPI is not built

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
    scripts = folder / "work" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "install-dependencies").symlink_to(Path(__file__).resolve())
    work = folder / "work"
    for name in ("packaging", "CMakePresets.json"):
        (work / name).symlink_to(chosen.sources / name)
    Path("/etc/icecore/credentials").mkdir(parents=True, exist_ok=True)
    shutil.copy(chosen.sources / "packaging/icecore.toml", "/etc/icecore/icecore.toml")
    shutil.copy(chosen.sources / "packaging/icecore.toml", work / "icecore.toml")
    (work / "credentials").mkdir()
    environment = {**os.environ, "PATH": f"{bin_folder}:{chosen.tools}:{chosen.python.parent}:{os.environ['PATH']}", "PAGE_FOLDER": str(folder),
                   "PAGE_SERVER": str(chosen.server), "PAGE_UNIT": str(chosen.unit), "PAGE_SOURCES": str(chosen.sources),
                   "HOME": str(work)}  # fmt: skip
    blocks = list(blocks_of(chosen.page))
    if not blocks:
        sys.exit(f"{chosen.page} has no commands")
    for line, commands in blocks:
        print(f"---- {chosen.page.name}:{line}", flush=True)
        done = subprocess.run(["sh", "-eux", "-c", commands], cwd=work, env=environment, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            show_log(folder)
            sys.exit(f"{chosen.page}:{line}: this block ends with {done.returncode}")
    stop(folder)


# ---- The server --------------------------------------------------------------------------------------------------------


def show_log(folder):
    log = folder / "log"
    print(log.read_text(encoding="utf-8", errors="replace")[-4000:] if log.exists() else "no server has written a log", flush=True)


def running(folder):
    """The process of the server that this page has started, if it is there still."""
    try:
        process = int((folder / "process").read_text(encoding="ascii"))
        os.kill(process, 0)
        return process
    except (OSError, ValueError):
        return None


def stop(folder):
    process = running(folder)
    if process is None:
        return
    os.kill(process, signal.SIGTERM)
    for _ in range(600):
        if running(folder) is None or Path(f"/proc/{process}/stat").read_text(encoding="ascii").split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        sys.exit("the server does not stop")
    (folder / "process").unlink()


def serve(folder, arguments, environment=None):
    """Starts a server and returns when it serves."""
    stop(folder)
    with open(folder / "log", "w", encoding="utf-8") as log:
        started = subprocess.Popen([os.environ["PAGE_SERVER"], *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **(environment or {})})
    (folder / "process").write_text(str(started.pid), encoding="ascii")
    doors = {"grpc", "ucx", "http"} - {option[9:] for option, value in zip(arguments, arguments[1:]) if option.startswith("--listen-") and not value}
    if not any(option.startswith(("--listen-ucx", "--ucx-")) for option in arguments):
        doors -= {"ucx"}
    for _ in range(600):
        said = (folder / "log").read_text(encoding="utf-8", errors="replace")
        if doors <= set(re.findall(r'"event":"server.listening","door":"(\w+)"', said)):
            return 0
        if started.poll() is not None:
            break
        time.sleep(0.05)
    sys.stderr.write(said)
    return started.poll() or 1


def icecore_server(folder, arguments):
    if ENDS_AT_ONCE & {word.split("=")[0] for word in arguments}:
        return subprocess.run([os.environ["PAGE_SERVER"], *arguments], check=False).returncode
    return serve(folder, arguments)


# ---- What is stood in for ----------------------------------------------------------------------------------------------


def unit_settings():
    """The unit's settings and those of its drop-ins, each a list."""
    settings = {}
    for file in [Path(os.environ["PAGE_UNIT"]), *sorted(Path("/etc/systemd/system/icecore-server.service.d").glob("*.conf"))]:
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
        prefix = re.search(r"--configuration (\S+)/icecore.toml", settings["ExecStart"][0])[1]  # of this build
        settings = {key: [value.replace(prefix, "/etc/icecore") for value in values] for key, values in settings.items()}
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
    image = words.index("icecore-server")
    served = words[image + 1 :]
    for at, word in enumerate(words[:image]):
        if word == "-v" and "/" in words[at + 1].split(":")[0]:
            here, there = words[at + 1].split(":")[:2]
            served = [argument.replace(there + "/", os.path.abspath(here) + "/") for argument in served]
    return serve(folder, served)


def cmake(arguments):
    sources = Path(os.environ["PAGE_SOURCES"])
    presets = {preset["name"] for preset in json.loads((sources / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]}
    if arguments[arguments.index("--preset") + 1] not in presets:
        sys.exit("cmake: no such preset")
    if "--target" in arguments:
        target = arguments[arguments.index("--target") + 1]
        if f"add_custom_target({target}" not in (sources / "packaging/CMakeLists.txt").read_text(encoding="utf-8"):
            sys.exit("cmake: no such target")
    return 0


def apt(arguments):
    known = re.findall(r"PACKAGE_NAME (\S+)\)", (Path(os.environ["PAGE_SOURCES"]) / "packaging/CMakeLists.txt").read_text(encoding="utf-8"))
    for file in arguments[1:]:
        if not file.startswith("./build/install/package/") or Path(file).name.split("_")[0] not in known:
            sys.exit(f"apt: {file} is no package that is built")
    return 0


def stand_in(name, arguments):
    folder = Path(os.environ["PAGE_FOLDER"])
    if name == "sudo":
        os.execvp(arguments[0], arguments)
    if name == "mpirun":  # mpirun -n RANKS PROGRAM ARGUMENT...
        return icecore_server(folder, arguments[3:])
    if name == "install-dependencies":
        return subprocess.run([Path(os.environ["PAGE_SOURCES"]) / "scripts/install-dependencies", "--list", *arguments], check=False).returncode
    if name == "journalctl":
        show_log(folder)
        return 0
    if name in ("cmake", "apt"):
        return {"cmake": cmake, "apt": apt}[name](arguments)
    return {"icecore-server": icecore_server, "icecore-server-mpi": icecore_server, "systemctl": systemctl, "podman": podman}[name](folder, arguments)


# ---- The machine -------------------------------------------------------------------------------------------------------


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter(folder):
    """A file system and a network of its own: nothing of what the page does stays."""
    mount("-t", "tmpfs", "tmpfs", folder)
    for name in ("etc", "var"):
        (folder / name).mkdir()
        (folder / f"{name}-work").mkdir()
        mount("-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={folder}/{name},workdir={folder}/{name}-work", f"/{name}")
    with socket.socket() as any_socket:  # the loopback interface is brought up
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--unit", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--inside", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)  # the second of the two processes
    chosen = parser.parse_args()
    if chosen.inside:
        folder = enter(chosen.inside)
        try:
            run_page(chosen, folder)
        finally:
            process = running(folder)
            if process:
                os.kill(process, signal.SIGKILL)
        return 0
    commands = " ".join(block for _, block in blocks_of(chosen.page))
    for program in REAL:
        if re.search(rf"\b{program}\b", commands) and not shutil.which(program):
            print(f"skipped: {program} is not installed; scripts/install-dependencies test installs it")
            return SKIPPED
    own = ["unshare", "--mount", "--net", *(["--map-root-user"] if os.getuid() else [])]
    with tempfile.TemporaryDirectory(prefix="icecore-page-") as folder:
        probe = f"mount -t tmpfs tmpfs {folder} && mkdir {folder}/a {folder}/b && mount -t overlay overlay -o lowerdir=/etc,upperdir={folder}/a,workdir={folder}/b /etc"
        if subprocess.run([*own, "sh", "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode:
            print("skipped: this kernel or container does not let this user make mounts and networks of its own")
            return SKIPPED
        return subprocess.run([*own, sys.executable, "-B", __file__, *sys.argv[1:], "--inside", folder], check=False).returncode


if __name__ == "__main__":
    called = Path(sys.argv[0]).name
    sys.exit(main() if called == "run_page.py" else stand_in(called, sys.argv[1:]))
