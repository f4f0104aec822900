"""A server as a process, and a proxy that breaks connections, for tests of icecore.remote.

    with Server(folder) as server: icecore.remote.connect(server.address)
    with Proxy(server.port) as proxy: proxy.swallow_replies() ...
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = os.environ.get("ICECORE_SERVER_PROGRAM") or shutil.which("icecore-server")
_REQUEST_BYTES_LEAST = 45
needs_server = pytest.mark.skipif(not PROGRAM, reason="ICECORE_SERVER_PROGRAM names no icecore-server")


class Server:
    """icecore-server on a free port of this machine, which it keeps over restarts."""

    def __init__(self, folder, *options):
        self._folder = folder
        self._options = options
        self.port = 0
        self.http_port = 0
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    @property
    def address(self):
        return f"icecore://localhost:{self.port}"

    def start(self):
        command = [PROGRAM, "--data", str(self._folder / "data"), "--listen-http", "127.0.0.1:0"]
        command += ["--listen-grpc", f"127.0.0.1:{self.port}", "--defaults-durability", "none"]
        command += ["--limits-free-disk-bytes", "0", *self._options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = []
        doors = {}
        for line in self._process.stderr:
            said.append(line)
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "server.listening":
                doors[event["door"]] = int(event["address"].rsplit(":", 1)[1])
            if doors.keys() >= {"grpc", "http"}:
                self.port, self.http_port = doors["grpc"], doors["http"]
                break
        else:
            raise RuntimeError(f"the server did not start: {''.join(said)}")
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def stop(self):
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(60)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)
        while " T " not in Path(f"/proc/{self._process.pid}/stat").read_text():
            time.sleep(0.01)


@contextmanager
def independent_servers(tmp_path_factory, count):
    """All servers of the independent group "g", in their order; clients close their versions."""
    options = ("--group-mode", "independent", "--group-name", "g", "--group-size", str(count), "--defaults-rule", "tag")
    running = []
    try:
        for number in range(count):
            running.append(Server(tmp_path_factory.mktemp("server"), *options, "--group-index", str(number)))
            running[-1].start()
        yield running
    finally:
        for server in running:
            server.stop()


class Proxy:
    """Hands bytes on between clients and a port, until it is told to break what there is."""

    def __init__(self, port):
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs = []
        self._swallow = None
        self._reply_bytes_left = None
        self.delay = 0  # of each piece of an answer, in seconds
        self.breaks = 0

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._listening.close()
        self.cut()

    @property
    def address(self):
        return f"icecore://127.0.0.1:{self.port}"

    def cut(self):
        """Breaks all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def swallow_replies(self):
        """The answer to the next request is lost, with its connection. The request arrives, and is done."""
        self._swallow = "request"

    def cut_after(self, reply_bytes):
        """Breaks the connection each time that the server has sent so many bytes; None: never again."""
        self._reply_bytes_left = reply_bytes
        self._cut_after = reply_bytes

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._hand_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._hand_on, args=(server, client, True), daemon=True).start()

    def _breaks(self, size):
        if self._swallow == "answer":
            time.sleep(0.2)  # until the server has done what it was asked for
            self._swallow = None
            return True
        if self._reply_bytes_left is None:
            return False
        self._reply_bytes_left -= size
        if self._reply_bytes_left > 0:
            return False
        self._reply_bytes_left = self._cut_after
        return True

    def _hand_on(self, source, to, is_reply):
        try:
            while data := source.recv(65536):
                if is_reply and self._breaks(len(data)):
                    self.breaks += 1
                    break
                # Shorter ones are pings and windows of HTTP/2.
                if not is_reply and self._swallow == "request" and len(data) > _REQUEST_BYTES_LEAST:
                    self._swallow = "answer"
                if is_reply:
                    time.sleep(self.delay)
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
