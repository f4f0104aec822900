"""Servers as processes of a benchmark: icecore-server, groups of it, and etcd, each on free ports of this machine.

    with Servers(build, folder) as servers: server = servers.icecore("--listen-ucx", ...)

Every server is stopped at the end. A server that does not start ends the benchmark with what it said.
"""

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30


def free_ports(count=1):
    """Ports that are free, one behind the other: rank r of a group listens on the first one plus r."""
    for _ in range(1000):
        with contextlib.ExitStack() as opened:
            first = opened.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                for more in range(1, count):
                    opened.enter_context(socket.socket()).bind(("127.0.0.1", port + more))
            except OSError:
                continue
            return port
    sys.exit(f"no {count} ports behind each other are free")


class Server:
    """A running server or group: its processes' leader, and the addresses of its doors."""

    def __init__(self, process, command, grpc="", ucx=""):
        self.process = process
        self.command = command
        self.grpc = grpc  # HOST:PORT, of rank 0
        self.ucx = ucx  # HOST:PORT, or several with commas
        self.http = None  # a port, of again() alone

    def memory_bytes(self):
        """What is resident and belongs to the process alone: neither files nor shared memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon in /proc/PID/status")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Servers:
    """Makes servers with data in folders of their own below one folder."""

    def __init__(self, build, folder):
        self._build = Path(build)
        self.folder = Path(folder)
        self._running = []
        self._made = 0
        self.token = self.folder / "token"
        self.token.write_text("a token of this benchmark, 32 letters\n", encoding="ascii")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for server in self._running:
            server.stop()

    def _new_folder(self):
        self._made += 1
        made = self.folder / str(self._made)
        made.mkdir()
        return made

    def _start(self, command, log, ports, grpc="", ucx=""):
        with open(log, "wb") as said:
            process = subprocess.Popen([str(word) for word in command], stdout=said, stderr=said)
        server = Server(process, command, grpc, ucx)
        self._running.append(server)
        until = time.monotonic() + START_SECONDS
        for port in ports:
            with contextlib.closing(socket.socket()) as probe:
                probe.settimeout(1)
                while probe.connect_ex(("127.0.0.1", port)) != 0:
                    if process.poll() is not None or time.monotonic() > until:
                        sys.exit(f"{command[0]} does not listen on port {port}: {log.read_text(errors='replace')[-2000:]}")
                    time.sleep(0.05)
        return server

    def icecore(self, *options, transport="auto", data=None):
        """One server with doors for gRPC and UCX."""
        folder = self._new_folder()
        grpc, ucx = free_ports(), free_ports()
        command = [self._build / "server/run/icecore-server", "--data", data or folder / "data", "--listen-http", "",
                   "--listen-grpc", f"127.0.0.1:{grpc}", "--listen-ucx", f"127.0.0.1:{ucx}", "--ucx-token-file", self.token,
                   "--ucx-transport", transport, "--limits-free-disk-bytes", 0, *options]
        return self._start(command, folder / "log", (grpc, ucx), f"127.0.0.1:{grpc}", f"127.0.0.1:{ucx}")

    def again(self, server):
        """The same server once more, with a door for HTTP; does not wait until it listens."""
        http = free_ports()
        command = list(server.command)
        command[command.index("--listen-http") + 1] = f"127.0.0.1:{http}"
        started = self._start(command, self._new_folder() / "log", (), server.grpc, server.ucx)
        started.http = http
        return started

    def independent(self, count, *options, transport="auto"):
        """Servers that know nothing of each other, as one: stop() stops the first, the end of the benchmark all."""
        all_of = [self.icecore("--group-mode", "independent", "--group-name", "bench", "--group-index", i, "--group-size", count,
                               *options, transport=transport) for i in range(count)]
        return all_of, ",".join(server.ucx for server in all_of)

    def dependent(self, count, mpi_build, *options, transport="auto"):
        """The ranks of one MPI job, from a build with MPI."""
        folder = self._new_folder()
        first = free_ports(count)
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        os.environ.update(environment)
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", 1, "-n", count,
                   mpi_build / "server/run/icecore-server-mpi", "--data", folder / "data", "--listen-http", "", "--listen-grpc", "",
                   "--listen-ucx", f"127.0.0.1:{first}", "--ucx-token-file", self.token, "--ucx-transport", transport,
                   "--limits-free-disk-bytes", 0, *options]
        addresses = ",".join(f"127.0.0.1:{first + rank}" for rank in range(count))
        return self._start(command, folder / "log", range(first, first + count), ucx=addresses)

    def etcd(self):
        folder = self._new_folder()
        client, peer = free_ports(), free_ports()
        command = ["etcd", "--data-dir", folder / "data", "--listen-client-urls", f"http://127.0.0.1:{client}",
                   "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                   "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster",
                   f"default=http://127.0.0.1:{peer}"]
        return self._start(command, folder / "log", (client,), f"127.0.0.1:{client}")


def lines_of(*command):
    """What a generator printed: a JSON object a line."""
    told = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed: {told.stdout[-2000:]}{told.stderr[-2000:]}")
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def told(values, form=",.0f"):
    """The median with the least and the greatest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
