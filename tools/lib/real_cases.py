"""The cases in which all nodes real are set beside one real node: what makes ranks late, and over which network they speak."""

CASES = ("plain", "skew", "delay", "2:1")
# Whole ticks of 256 ns, the step of a kernel's clock.
SKEW, DELAY = 20_480, 51_200  # ns
SIZES = {"64KiB": 64 << 10, "1MiB": 1 << 20, "4MiB": 4 << 20, "16MiB": 16 << 20, "64MiB": 64 << 20}
LATENCY = "500ns"
# Per cent.
LIMITS = {"2:1": 1.0}
PLAIN_LIMIT = 0.1

DESCRIPTION = """\
  plain    a switch between all nodes, nothing else
  skew     one rank enters each operation 20.48 us later
  delay    all ranks but rank 0 enter each operation 51.2 us later
  2:1      a leaf-spine with half the capacity upwards, over which every message of a ring goes"""


def limit_of(case):
    """How far times may be apart, in per cent."""
    return LIMITS.get(case, PLAIN_LIMIT)


def node_order(case, ranks):
    """Nodes in the order of their ranks: with 2:1 neighbours are never on the same leaf."""
    half = ranks // 2
    return [i // 2 + (i % 2) * half for i in range(ranks)] if case == "2:1" else list(range(ranks))


def delay_of(case, rank, ranks):
    """How much later a rank enters, ns."""
    if case == "skew":
        return SKEW if rank == ranks // 2 else 0
    return DELAY if case == "delay" and rank != 0 else 0


def network(case, ranks, rate):
    """Lines of TOML of the network behind links of so many Gbit/s."""
    if case != "2:1":
        return []
    # One spine: which way a connection takes is no matter of chance.
    return ["[topology]", 'kind = "leaf_spine"', f"hosts_per_leaf = {ranks // 2}", "spines = 1",
            f'uplink = {{ rate = "{rate * ranks // 4}Gbit/s", latency = "{LATENCY}" }}',
            "[queues]", 'buffer = "32MB"', "[[queues.class]]", 'pfc = { headroom = "auto" }']


def skew_line(delays):
    """The key `skew` of a job, of rank -> ns; nothing if nobody is late."""
    late = [f'{{ rank = {rank}, delay = "{delay}ns" }}' for rank, delay in delays.items() if delay]
    return [f"skew = [{', '.join(late)}]"] if late else []
