#!/usr/bin/env python3
"""Runs a command on a machine that has nothing but a Debian system and what scripts/install-dependencies installs.

    tests/install/bare_machine.py ROOT GROUP [--writable FOLDER]... -- COMMAND...

The machine is this one's kernel with another root folder, ROOT, made of this machine's own files: those of the packages
that GROUP names, of all they depend on, and of the packages every Debian system has. Whatever else is installed here is
not there. The project's folder is there under its own name, for reading only; so is each FOLDER, for writing.

Exits as the command does, or with 77 where the kernel lets this user make no such root.
"""

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DPKG = Path("/var/lib/dpkg")
NOT_NEEDED = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
# What other packages and administrators put beside packages' files: links that choose between several.
ALTERNATIVES = "/etc/alternatives/"
SKIPPED = 77


def installed():
    """Packages by name, each as its fields; and who provides what."""
    packages, provided = {}, {}
    for paragraph in (DPKG / "status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            packages[fields["Package"]] = fields
            for name in names_of(fields.get("Provides", "")):
                provided.setdefault(name[0], []).append(fields["Package"])
    return packages, provided


def names_of(dependencies):
    """"a (>= 1) | b, c:any" is [[a, b], [c]]."""
    for alternatives in dependencies.split(","):
        if alternatives.strip():
            yield [re.match(r"[^\s:(]+", name.strip())[0] for name in alternatives.split("|")]


def with_dependencies(wanted):
    """All packages that are there where `wanted` and no others were asked for."""
    packages, provided = installed()
    missing = [name for name in wanted if name not in packages]
    if missing:
        sys.exit(f"bare_machine: not installed: {', '.join(missing)}; run scripts/install-dependencies")
    left = [*wanted, *(p for p, f in packages.items() if "yes" == f.get("Essential") or "required" == f.get("Priority"))]
    found = {}
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = packages[name]
        for field in ("Depends", "Pre-Depends"):
            for alternatives in names_of(packages[name].get(field, "")):
                chosen = [a for a in alternatives if a in packages] or [p for a in alternatives for p in provided.get(a, [])]
                left += chosen[:1]
    return found


def files_of(name, fields):
    for stem in (f"{name}:{fields['Architecture']}", name):
        listed = DPKG / "info" / f"{stem}.list"
        if listed.exists():
            return listed.read_text(encoding="utf-8").splitlines()
    return []


def put(path, root):
    """The file of this machine, at its place below `root`; without a copy where the file system can."""
    there = root + path
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # this machine leaves it out: a manual, a language
        return
    if stat.S_ISDIR(mode):
        os.makedirs(there, exist_ok=True)
    elif not os.path.lexists(there):
        os.makedirs(os.path.dirname(there), exist_ok=True)
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(path), there)
            return
        try:
            os.link(path, there)
        except OSError:  # another file system, or another user's file
            shutil.copy2(path, there)


def alternatives(root):
    """Links that packages' scripts have made, where what they lead to is there."""
    for folder in {os.path.dirname(link) for link in links_to_alternatives()}:
        os.makedirs(root + folder, exist_ok=True)
    os.makedirs(root + ALTERNATIVES, exist_ok=True)
    for link in links_to_alternatives():
        choice = os.readlink(link)
        target = os.readlink(choice) if os.path.islink(choice) else ""
        if os.path.lexists(root + target) and target and not os.path.lexists(root + link):
            os.symlink(choice, root + link)
            if not os.path.lexists(root + choice):
                os.symlink(target, root + choice)


def links_to_alternatives():
    for chosen in sorted((DPKG / "alternatives").iterdir()):
        lines = chosen.read_text(encoding="utf-8").splitlines()
        links = [lines[1], *lines[3 : lines.index("", 2) : 2]]
        yield from (link for link in links if os.path.islink(link) and os.readlink(link).startswith(ALTERNATIVES))


def make_root(root, group):
    listed = subprocess.run([PROJECT / "scripts" / "install-dependencies", "--list", group], check=True, capture_output=True, text=True)
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):  # links into /usr
        if os.path.islink(f"/{name}"):
            os.makedirs(root + os.path.join("/", os.readlink(f"/{name}")), exist_ok=True)
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
    packages = with_dependencies(listed.stdout.split())
    for name, fields in packages.items():
        for path in files_of(name, fields):
            if path != "/." and not path.startswith(NOT_NEEDED):
                put(path, root)
    for path in ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf"):
        put(path, root)
    alternatives(root)
    for name in ("proc", "sys", "dev", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)
    print(f"{len(packages)} packages are there")


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter(root, writable, command):
    """In a mount namespace of its own, which ends with the command and takes the mounts with it."""
    mount("--bind", root, root)
    for name in ("proc", "sys", "dev"):
        mount("--rbind", f"/{name}", f"{root}/{name}")
    mount("-t", "tmpfs", "tmpfs", f"{root}/tmp")
    for folder in [PROJECT, *writable]:
        os.makedirs(f"{root}{folder}", exist_ok=True)
        mount("--bind", folder, f"{root}{folder}")
        if folder == PROJECT:
            mount("-o", "remount,bind,ro", f"{root}{folder}")
    mount("-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir(PROJECT)
    kept = {name: value for name, value in os.environ.items() if name.startswith("OMPI_")}
    os.execvpe(command[0], command, {"PATH": "/usr/bin:/usr/sbin", "HOME": "/tmp", "LANG": "C.UTF-8", **kept})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("group")
    parser.add_argument("--writable", metavar="FOLDER", action="append", default=[])
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # the second of the two processes
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    root = os.path.abspath(arguments.root)
    writable = [os.path.abspath(folder) for folder in arguments.writable]
    if arguments.inside:
        enter(root, writable, arguments.command)
    own_mounts = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else [])]
    if subprocess.run([*own_mounts, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: this kernel or container does not let this user make mounts of its own")
        sys.exit(SKIPPED)
    make_root(root, arguments.group)
    for folder in writable:
        os.makedirs(folder, exist_ok=True)
    options = [option for folder in writable for option in ("--writable", folder)]
    done = subprocess.run([*own_mounts, sys.executable, "-B", __file__, "--inside", root, arguments.group, *options, "--", *arguments.command])
    shutil.rmtree(root, ignore_errors=True)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
