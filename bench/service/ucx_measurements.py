"""What is measured through the door for jobs: the figures of the SKV paper, all kinds of work, bulk, cursors, versions."""

import json
import re
import subprocess
import sys

from servers import lines_of, told

TRANSPORTS = ("shared_memory", "tcp")
# The paper's figures 2 and 4: seconds of one client and server of one node, with sockets and with verbs.
PAPER_SECONDS = {"tcp": 370, "shared_memory": 162}


def load(options, servers, addresses, work, transport, clients=1, grouping="dependent", records=None, **more):
    flags = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", value)]
    return lines_of(options.build / "bench/service/icecore_ucx_load", addresses, "--token-file", servers.token, "--do", work,
                    "--transport", transport, "--clients", clients, "--grouping", grouping, "--records", records or options.records,
                    *flags)


def counts(options):
    """1, 2, 4, … servers with as many clients."""
    count = 1
    while count <= options.clients:
        yield count
        count *= 2


def on_group(servers, options, grouping, count, transport, work):
    """A load on a group that is made for it, since its servers keep cores busy while they run."""
    if count == 1:
        group, addresses = [servers.icecore("--defaults-durability", "none", transport=transport)], None
    elif grouping == "independent":
        group, addresses = servers.independent(count, "--defaults-durability", "none", transport=transport)
    else:
        group = [servers.dependent(count, options.mpi_build, "--defaults-durability", "none", transport=transport)]
        addresses = None
    try:
        return load(options, servers, addresses or group[0].ucx, work, transport, count, grouping if count > 1 else "dependent")
    finally:
        for server in group:
            server.stop()


def groups(servers, options, work):
    """Seconds of each work by transport, number of servers and grouping; the groups run in turns."""
    taken = {}
    for _ in range(options.repetitions):
        for transport in options.transports:
            for count in counts(options):
                for grouping in options.groupings if count > 1 else ("dependent",):
                    for line in on_group(servers, options, grouping, count, transport, work):
                        taken.setdefault((line["work"], transport, count, grouping), []).append(line["seconds"])
    return taken


def paper(servers, options):
    """Figures 2, 4, 6 and 8: synchronous inserts of 8-byte keys and values by as many clients as servers.

    The paper has 10 million records: --records 10000000.
    """
    taken = groups(servers, options, "insert")
    for (_, transport, count, grouping), seconds in taken.items():
        alone = taken["insert", transport, 1, "dependent"]
        speed_up = [a / b for a, b in zip(alone, seconds, strict=True)]
        print(f"{transport}, {count} servers and clients, {grouping if count > 1 else 'one server'}: {told(seconds, '.1f')} s, "
              f"{told([options.records / s for s in seconds])} inserts/s, speed-up {told(speed_up, '.2f')}"
              f"{f', the paper: {PAPER_SECONDS[transport]} s for 10 million' if count == 1 else ''}", flush=True)
    for transport in options.transports:
        for count in counts(options):
            if count > 1 and len(options.groupings) > 1:
                dependent, independent = (taken["insert", transport, count, g] for g in ("dependent", "independent"))
                print(f"{transport}, {count} servers: dependent / independent, rates "
                      f"{told([b / a for a, b in zip(dependent, independent, strict=True)], '.2f')}")
    return [*taken.items()]


def operations(servers, options):
    """The paper's next step: asynchronous, bulk, retrieve and cursors, thousand records a second."""
    taken = groups(servers, options, "insert_asynchronous,retrieve,retrieve_asynchronous,cursor")
    for key, seconds in groups(servers, options, "bulk").items():
        taken[key] = seconds
    for (work, transport, count, grouping), seconds in sorted(taken.items()):
        print(f"{work}, {transport}, {count} servers{f', {grouping}' if count > 1 else ''}: "
              f"{told([options.records / s / 1000 for s in seconds], ',.0f')} thousand/s")
    return [*taken.items()]


def bulk(servers, options):
    """Bulk inserts through the server beside insert_many of a cluster in this process; one rank each."""
    server = servers.icecore("--defaults-durability", "none")
    rates = {"server": [], "cluster": []}
    report = servers.folder / "cluster.json"
    for _ in range(options.repetitions):
        rates["server"].append(load(options, servers, server.ucx, "bulk", "shared_memory")[0]["records_per_second"])
        subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "-n", "1", options.mpi_build / "bench/cluster/icecore_cluster_throughput",
                        "--folder", servers.folder, "--keys", str(options.records), "--ways", "direct", "--sizes", "small",
                        "--repetitions", "1", "--json", report], check=True, capture_output=True)
        rows = json.loads(report.read_text(encoding="utf-8"))["rows"]
        rates["cluster"].append(next(r["ops_per_second"] for r in rows if r["operation"] == "put, insert_many and barrier"))
    print(f"server {told(rates['server'])}/s, cluster's insert_many {told(rates['cluster'])}/s, "
          f"ratio {told([a / b for a, b in zip(*rates.values(), strict=True)], '.2f')}")
    return rates


# What the server's transports are to UCX (server/wire/transport/ucx.cpp): shared memory is without the kernel's copying
# from process to process, which UCX's own "sm" has.
UCX_TRANSPORTS = {"shared_memory": "posix,sysv,self", "shared memory with CMA": "sm,self", "tcp": "tcp,self"}


def perftest_bandwidth(transport):
    """Bytes a second of messages of one size from one process to another, by UCX's own program."""
    environment = {"UCX_TLS": UCX_TRANSPORTS[transport], "PATH": "/usr/bin:/bin"}
    command = ["ucx_perftest", "-t", "tag_bw", "-s", "131072", "-n", "20000", "-w", "500", "-p", "13399"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        subprocess.run(["sleep", "1"], check=True)
        said = subprocess.run([*command, "127.0.0.1"], env=environment, capture_output=True, text=True, check=True).stdout
    final = next((line for line in said.splitlines() if line.startswith("Final:")), None)
    if final is None:
        sys.exit(f"ucx_perftest said no result: {said[-500:]}")
    numbers = [float(word) for word in re.findall(r"[\d.]+", final)]
    return numbers[5] * 2**20  # iterations, latency (typical, average, overall), bandwidth (average, overall), messages


def cursor(servers, options):
    """A cursor over the whole database: 8-byte pairs, and values of 128 KiB beside UCX's own bandwidth."""
    pairs, parts, bandwidths = {t: [] for t in TRANSPORTS}, {t: [] for t in TRANSPORTS}, {t: [] for t in UCX_TRANSPORTS}
    large = {t: [] for t in TRANSPORTS}
    for _ in range(options.repetitions):
        for transport in TRANSPORTS:
            server = servers.icecore("--defaults-durability", "none", transport=transport)
            lines = load(options, servers, server.ucx, "bulk,cursor", transport)
            pairs[transport].append(lines[1]["records_per_second"])
            lines = load(options, servers, server.ucx, "bulk,cursor,cursor", transport, records=4000, value_bytes=131072,
                         block_rows=16)
            large[transport].append(lines[2]["records_per_second"] * 131072)
            server.stop()
            bandwidths[transport].append(perftest_bandwidth(transport))
            parts[transport].append(large[transport][-1] / bandwidths[transport][-1])
        bandwidths["shared memory with CMA"].append(perftest_bandwidth("shared memory with CMA"))
    for transport in TRANSPORTS:
        print(f"{transport}: 8-byte pairs {told([r / 1e6 for r in pairs[transport]], '.2f')} million/s; values of 128 KiB "
              f"{told([r / 1e9 for r in large[transport]], '.2f')} GB/s, ucx_perftest "
              f"{told([r / 1e9 for r in bandwidths[transport]], '.2f')} GB/s, ratio {told(parts[transport], '.2f')}")
    with_cma = bandwidths["shared memory with CMA"]
    print(f"shared memory with CMA, which the server leaves out: ucx_perftest {told([r / 1e9 for r in with_cma], '.2f')} GB/s")
    return {"pairs": pairs, "bytes": large, "ucx_perftest": bandwidths}


def versions(servers, options):
    """Bulk inserts where each write is a version (rule `write`) beside the rule `tag`."""
    server = servers.icecore("--defaults-durability", "none")
    rates = {"write": [], "tag": []}
    for _ in range(options.repetitions):
        for rule, some in rates.items():
            some.append(load(options, servers, server.ucx, "bulk", "shared_memory", rule=rule)[0]["records_per_second"])
    print(f"write {told(rates['write'])}/s, tag {told(rates['tag'])}/s, "
          f"ratio {told([a / b for a, b in zip(*rates.values(), strict=True)], '.2f')}")
    return rates


ALL = {"paper": paper, "operations": operations, "bulk": bulk, "cursor": cursor, "versions": versions}
for each in ALL.values():
    each.in_memory = True
