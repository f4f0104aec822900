"""Writes the simulated machine: a dragonfly of Aries routers, as SimGrid's XML, and the list of its nodes.

    bench/simulated/platform_of_aries.py FOLDER      writes FOLDER/platform.xml and FOLDER/hosts

The numbers and where they are from; docs/scaling.md says what they leave out.

- Four nodes a router, 16 routers a chassis, 6 chassis a group, all routers of a chassis linked to each other, and each
  to its like in the other chassis by three links: Alverson, Froese, Kaplan and Roweth, "Cray XC Series Network", Cray
  white paper WP-Aries01-1112 (2012); Faanes et al., "Cray Cascade: a scalable HPC system based on a Dragonfly network",
  SC12. Two groups here: 768 nodes.
- 10 GB/s into and out of a node. This is an assumption: its PCI Express has 16 GB/s (the white paper), of which headers
  and MPI take a part. A link
  between routers has 5.25 GB/s (4.7 GB/s between groups) and direction, but each message is routed adaptively over
  several of them, which a simulated route is not: so a link here stands for the paths of a message and has 10 GB/s.
- 100 ns a hop, also the white paper's. 1.3 us from node to node at one router for MPI, and 1.5 us within a group:
  Austin, "Characterization of the Cray Aries Network", NERSC (2014). What the hops leave of it is MPI's own, half with
  the sender and half with the receiver.
- Between two groups ten links: 7.2 TB/s of bisection of the 12 groups of Theta (IPDPS 2022, section V-A) are 36 pairs
  of groups, each 100 GB/s and direction.
- Messages of more than 8 KiB wait for their receiver (the default of Cray MPI's MPICH_GNI_MAX_EAGER_MSG_SIZE).
"""

import sys
from pathlib import Path

GROUPS = 2
LINKS_BETWEEN_GROUPS = 10
CHASSIS = 6
LINKS_BETWEEN_CHASSIS = 3
ROUTERS = 16
LINKS_BETWEEN_ROUTERS = 1
NODES = 4

NODE_BANDWIDTH_GB = 10
HOP_NS = 100
MPI_ONE_WAY_NS = 1300  # between two nodes of one router: two hops, and what MPI adds
NODE_SPEED = "1Gf"  # a unit: what this machine computes in a second, see OPTIONS
EAGER_BYTES_MAX = 8192

TOTAL_NODES = GROUPS * CHASSIS * ROUTERS * NODES


def platform():
    topology = (
        f"{GROUPS},{LINKS_BETWEEN_GROUPS};{CHASSIS},{LINKS_BETWEEN_CHASSIS};{ROUTERS},{LINKS_BETWEEN_ROUTERS};{NODES}"
    )
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="aries" prefix="node-" suffix="" radical="0-{TOTAL_NODES - 1}" speed="{NODE_SPEED}"
           bw="{NODE_BANDWIDTH_GB}GBps" lat="{HOP_NS}ns" sharing_policy="SPLITDUPLEX"
           loopback_bw="{NODE_BANDWIDTH_GB}GBps" loopback_lat="{HOP_NS}ns"
           topology="DRAGONFLY" topo_parameters="{topology}"/>
</platform>
"""


def options():
    """What smpirun must be told with this machine: MPI's share of a message, and that computing takes here what it
    takes on the machine that simulates."""
    overhead_ns = (MPI_ONE_WAY_NS - 2 * HOP_NS) / 2
    overhead = f"0:{overhead_ns * 1e-9:.3e}:0"
    return {
        "smpi/host-speed": NODE_SPEED,
        "smpi/cpu-threshold": "1e-7",
        "smpi/os": overhead,
        "smpi/ois": overhead,
        "smpi/or": overhead,
        "smpi/async-small-thresh": EAGER_BYTES_MAX,
        "smpi/send-is-detached-thresh": EAGER_BYTES_MAX,
        # SimGrid's own factors were measured on Gigabit Ethernet with TCP.
        "smpi/bw-factor": "0:1",
        "smpi/lat-factor": "0:1",
        "smpi/coll-selector": "mpich",  # whose algorithms Cray MPI has
        "smpi/display-timing": "no",
    }


def hosts():
    return "".join(f"node-{i}\n" for i in range(TOTAL_NODES))


def write(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "platform.xml").write_text(platform())
    (folder / "hosts").write_text(hosts())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
