"""What is measured through icecore.v1: beside etcd, streams, idle connections, snapshots at work."""

import shutil
import socket
import statistics
import sys
import threading
import time

from servers import lines_of, told

CALLS = [("put", 1), ("put", 100), ("put", 1000), ("get", 100)]


def load(options, server, address, operation, clients, rate=0.0, seconds=None, database="bench"):
    return lines_of(options.build / "bench/service/icecore_grpc_load", "--server", server, "--address", address, "--operation",
                    operation, "--clients", clients, "--seconds", seconds or options.seconds, "--rate", rate, "--database", database)[0]


def ratios(some, others):
    return [a / b for a, b in zip(some, others, strict=True)]


def beside_etcd(servers, options):
    """Calls a second and latencies beside etcd, each write durable before it is answered.

    The latencies are those at half of icecore's highest rate, open loop.
    """
    if shutil.which("etcd") is None:
        sys.exit("etcd is not installed: apt-get install etcd-server")
    addresses = {"icecore": servers.icecore().grpc, "etcd": servers.etcd().grpc}
    results = []
    for _ in range(options.repetitions):
        for operation, clients in CALLS:
            results.extend(load(options, name, address, operation, clients) for name, address in addresses.items())
    highest = {}
    print("calls a second:")
    for operation, clients in CALLS:
        rates = {name: [r["calls_per_second"] for r in results
                        if (r["server"], r["operation"], r["clients"]) == (name, operation, clients)] for name in addresses}
        highest[operation] = max(highest.get(operation, 0), statistics.median(rates["icecore"]))
        print(f"{operation}, {clients:>4} clients: icecore {told(rates['icecore'])}, etcd {told(rates['etcd'])}, "
              f"ratio {told(ratios(rates['icecore'], rates['etcd']), '.2f')}", flush=True)
    print("\nlatencies in us at half of icecore's highest rate:")
    for operation, rate in ((operation, round(most / 2)) for operation, most in highest.items()):
        taken = {name: [] for name in addresses}
        for _ in range(options.repetitions):
            for name, address in addresses.items():
                taken[name].append(load(options, name, address, operation, 100, rate))
        results.extend(sum(taken.values(), []))
        for name, some in taken.items():
            print(f"{operation} at {rate:,}/s: {name:<8} p50 {told([r['p50_us'] for r in some])}, "
                  f"p99.9 {told([r['p99_9_us'] for r in some])}", flush=True)
        print(f"{operation}: p99.9 over etcd's {told(ratios(*([r['p99_9_us'] for r in some] for some in taken.values())), '.2f')}")
    return results


def connected(address):
    """icecore's client for Python, of an environment that has the package with what it needs."""
    try:
        from icecore import remote
    except ImportError as missing:
        sys.exit(f"this measurement needs the Python package: scripts/python-environment makes an environment ({missing})")
    return remote.connect(f"icecore://{address}")


def filled(servers, options, server, records, value_bytes, name="filled", rule="write"):
    lines_of(options.build / "bench/service/icecore_ucx_load", server.ucx, "--token-file", servers.token, "--database", name,
             "--rule", rule, "--do", "bulk", "--records", records, "--value-bytes", value_bytes, "--keep")


class Beside:
    """Runs something again and again in a thread of its own, until the block ends."""

    def __init__(self, again):
        self._again = again
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.times = 0
        self.failure = None

    def _run(self):
        try:
            while not self._stop.is_set():
                self._again()
                self.times += 1
        except Exception as failure:  # noqa: BLE001 (shown where the block ends)
            self.failure = failure

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure


def stream(servers, options):
    """How much the server's memory grows while all keys are streamed in their order and others write."""
    server = servers.icecore()
    filled(servers, options, server, options.records, 8)
    growths = []
    with connected(server.grpc) as client, connected(server.grpc) as other:
        store, written = client.open("filled"), other.open("filled")
        load(options, "icecore", server.grpc, "put", 50, database="filled")  # what a server at work holds anyway
        number = [0]

        def write():
            number[0] += 1
            written.put(b"%08d" % (number[0] % 1000), b"during")

        for _ in range(options.repetitions):
            before = most = server.memory_bytes()
            with Beside(write) as writes:
                seen = 0
                for _ in store.latest().items():
                    seen += 1
                    if seen % 10_000 == 0:
                        most = max(most, server.memory_bytes())
            if seen < options.records:
                sys.exit(f"the stream ended after {seen} of {options.records} records")
            growths.append((most - before) / 2**20)
            print(f"{seen:,} records, {writes.times:,} writes meanwhile: memory {before / 2**20:.1f} MiB, "
                  f"grew by {growths[-1]:.2f} MiB", flush=True)
    print(f"growth in MiB: {told(growths, '.2f')}")
    return growths


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty SETTINGS
SETTINGS_READ = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])


def idle_connection(host, port):
    """A connection whose HTTP/2 handshake is done, and no call."""
    made = socket.create_connection((host, port), timeout=30)
    made.sendall(PREFACE)
    got = made.recv(4096)
    if len(got) < 9 or got[3] != 4:
        sys.exit("the server does not answer as HTTP/2 asks")
    made.sendall(SETTINGS_READ)
    return made


def idle(servers, options):
    """What ten thousand idle connections take, and what they leave to fifty others."""
    count = 10_000
    server = servers.icecore("--limits-connections", count + 1000)
    host, _, port = server.grpc.partition(":")
    rates = {"alone": [], "beside": []}
    memory = []
    for _ in range(options.repetitions):
        rates["alone"].append(load(options, "icecore", server.grpc, "get", 50)["calls_per_second"])
        before = server.memory_bytes()
        opened = []
        try:
            opened.extend(idle_connection(host, int(port)) for _ in range(count))
            memory.append((server.memory_bytes() - before) / count / 1024)
            rates["beside"].append(load(options, "icecore", server.grpc, "get", 50)["calls_per_second"])
        finally:
            for each in opened:
                each.close()
        time.sleep(2)
        print(f"{memory[-1]:.1f} KiB each; {rates['beside'][-1] / rates['alone'][-1]:.2f} of the rate of 50 others", flush=True)
    print(f"KiB of each idle connection {told(memory, '.1f')}; rate of 50 others {told(ratios(rates['beside'], rates['alone']), '.2f')}"
          f"\nlater repetitions find the memory that earlier ones have left: the first tells most")
    return {"kib": memory, **rates}


def checkpoint(servers, options):
    """What a snapshot of the service takes from those who work: rate, and p99.9 at half of the highest rate."""
    server = servers.icecore()
    filled(servers, options, server, options.records, 256)
    rates, tails, times = {False: [], True: []}, {False: [], True: []}, []
    made = [0]
    with connected(server.grpc) as client:

        def snapshot():
            made[0] += 1
            to = servers.folder / f"snapshot-{made[0]}"
            began = time.monotonic()
            client.snapshot(str(to))
            times.append(time.monotonic() - began)
            shutil.rmtree(to)

        def measured(at_work, rate, into, field):
            if at_work:
                with Beside(snapshot) as made_now:
                    into[True].append(load(options, "icecore", server.grpc, "put", 100, rate)[field])
                if made_now.times == 0:
                    print("no snapshot was done within the load: the next ends it")
            else:
                into[False].append(load(options, "icecore", server.grpc, "put", 100, rate)[field])

        for _ in range(options.repetitions):
            for at_work in (False, True):
                measured(at_work, 0, rates, "calls_per_second")
        half = statistics.median(rates[False]) / 2
        for _ in range(options.repetitions):
            for at_work in (False, True):
                measured(at_work, half, tails, "p99_9_us")
    print(f"puts a second of 100 clients: {told(rates[False])} alone, {told(rates[True])} beside snapshots, "
          f"ratio {told(ratios(rates[True], rates[False]), '.2f')}")
    print(f"p99.9 in us at {half:,.0f} puts a second: {told(tails[False])} alone, {told(tails[True])} beside snapshots, "
          f"ratio {told(ratios(tails[True], tails[False]), '.2f')}")
    print(f"a snapshot of {options.records:,} records of 256 bytes under this load takes {told(times, '.1f')} s")
    return {"rates": [*rates.items()], "tails": [*tails.items()], "seconds": times}


ALL = {"etcd": beside_etcd, "stream": stream, "idle": idle, "checkpoint": checkpoint}
for each in ALL.values():
    each.in_memory = False
