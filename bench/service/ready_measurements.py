"""How long a server that was killed under load takes until it is ready again."""

import contextlib
import socket
import subprocess
import time

from servers import lines_of, told

COUNTS = (10_000, 100_000, 1_000_000, 10_000_000)
LOAD_SECONDS = 0.5  # before it is killed


def says_ready(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as asked:
        asked.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        return b" 200 " in asked.recv(64)
    return False


def ready(servers, options):
    """Time until /readyz says yes after SIGKILL under load, persistent index, 10,000 to 10,000,000 records.

    8-byte keys and values; from the start of the process on, which includes loading the program. On a disk (--memory
    FOLDER) the server also waits for what the load has left to be written.
    """
    generator = options.build / "bench/service/icecore_ucx_load"
    taken = {}
    for count in COUNTS:
        server = servers.icecore()
        lines_of(generator, server.ucx, "--token-file", servers.token, "--database", "filled", "--do", "bulk", "--records", count,
                 "--keep")
        for repetition in range(options.repetitions):
            words = [generator, server.ucx, "--token-file", servers.token, "--database", f"load-{repetition}", "--records", 100_000_000]
            with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
                time.sleep(LOAD_SECONDS)
                server.kill()
                load.kill()
            begin = time.monotonic()
            server = servers.again(server)
            while not says_ready(server.http):
                time.sleep(0.0005)
            taken.setdefault(count, []).append(1000 * (time.monotonic() - begin))
        server.stop()
        print(f"{count:>10,} records: {told(taken[count], ',.1f')} ms", flush=True)
    return taken


ALL = {"ready": ready}
for each in ALL.values():
    each.in_memory = True
