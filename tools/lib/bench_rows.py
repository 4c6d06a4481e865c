"""What tools/experiments/bench measured: one row for each benchmark of Google's library, its name taken apart, and its ratios to the floors.

A name is family/argument:value/..., e.g. responder/bytes:4096/cold:1/manual_time. `bytes` is the payload of a packet, `cold` whether
the frames lie beyond the caches; any other argument is the row's own. See time_of() for which of a benchmark's times is a packet's.
"""

import statistics
from dataclasses import dataclass, field, replace

TO_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
MODES = {"manual_time", "real_time", "process_time"}  # Google's own words in a name
SETTINGS = {"iterations", "min_time", "min_warmup_time", "repeats", "threads", "repetitions"}

TESTPMD = "testpmd_macswap"
# What a row is compared with, in the table's order. The last is not measured but put together: what testpmd's forwarding costs, and
# what the CRC adds to the loop in memory.
FLOORS = {"macswap": "floor_macswap", "macswap+CRC": "floor_macswap_crc", "testpmd": TESTPMD, "testpmd+CRC": "floor_testpmd_crc"}

# A packet's stages that cannot be had alone: what something takes more than something else of the same payload, each a stage with its
# arguments. Of single packets only, which go one by one: the queue pair is looked up, the packet stored, taken through two links, handed
# over, and its ACK sent in `stage_lookup`.
STAGES = "stages"
DIFFERENCES = {
    "stage_icrc": (("stage_parse_icrc", ()), [("stage_parse", ())]),
    "stage_lookup": (("responder", ()), [("stage_parse_icrc", ()), ("stage_transport", ())]),
    "stage_fabric_two_links": (("between", (("between", 1),)), [("between", (("between", 0),))]),
    "stage_fabric_six_links": (("between", (("between", 2),)), [("between", (("between", 0),))]),
    "stage_pacing": (("controlled", (("between", 1), ("control", 1))), [("controlled", (("between", 1), ("control", 0)))]),
    "stage_pacing_each_packet": (("controlled", (("between", 1), ("control", 2))), [("controlled", (("between", 1), ("control", 0)))]),
}
SINGLES = 64  # bytes: of path_bench's packets with no more each is a WRITE of its own


@dataclass(frozen=True)
class Name:
    """Of a row."""
    program: str
    stage: str
    size: int | None = None  # bytes of payload
    cold: bool | None = None
    arguments: tuple = ()  # (name, value), names may be empty

    @property
    def state(self):
        return "-" if self.cold is None else "cold" if self.cold else "hot"

    @property
    def argument(self):
        return " ".join(f"{name}={value}" if name else str(value) for name, value in self.arguments)


def parse_name(program, text):
    """The Name of a benchmark."""
    stage, *parts = text.split("/")
    size = cold = None
    arguments = []
    for part in parts:
        name, colon, value = part.partition(":")
        if part in MODES or (colon and name in SETTINGS):
            continue
        if not colon:
            name, value = "", part
        number = int(value) if value.lstrip("-").isdecimal() else value
        if name == "bytes" and isinstance(number, int):
            size = number
        elif name == "cold" and number in (0, 1):
            cold = number == 1
        else:
            arguments.append((name, number))
    return Name(program, stage, size, cold, tuple(arguments))


@dataclass
class Row:
    """What was measured of one thing: a value for each turn."""
    name: Name
    values: list = field(default_factory=list)  # ns
    counters: dict = field(default_factory=dict)  # of the last turn

    @property
    def ns(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        """Of the turns, as a share of the median."""
        return (max(self.values) - min(self.values)) / abs(self.ns) if self.ns else 0


class BadResult(Exception):
    """What a benchmark printed is no result, in words for the user."""


# Members of a result that are no counters of the benchmark's own.
KNOWN = {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index", "threads",
         "iterations", "real_time", "cpu_time", "time_unit", "label", "items_per_second", "bytes_per_second", "error_occurred",
         "error_message", "ns"}


# Counters that are the rate of so many cores against one's.
CORES = {"two_threads": 2}


def time_of(result):
    """ns of one packet: the benchmark's own counter of that name, the time that it takes itself, else the CPU's for an item."""
    if "ns" in result:
        return result["ns"]
    if result["name"].rpartition("/")[2] in ("manual_time", "real_time"):
        return result["real_time"] * TO_NS[result["time_unit"]]
    per_second = result.get("items_per_second")  # as Google's library has it, of the CPU's time
    return 1e9 / per_second if per_second else result["cpu_time"] * TO_NS[result["time_unit"]]


class Rows:
    """All rows in the order in which they were first seen."""

    def __init__(self):
        self.all = {}

    def add(self, name, ns, counters=None):
        row = self.all.setdefault(name, Row(name))
        row.values.append(ns)
        row.counters = counters or {}

    def add_results(self, program, printed):
        """What a program of Google's library wrote as JSON (parsed)."""
        for result in printed["benchmarks"]:
            if result.get("run_type") == "aggregate":
                continue
            if result.get("error_occurred"):
                raise BadResult(f"{program}: {result['name']}: {result.get('error_message', 'it failed')}")
            ns = time_of(result)
            if not 0 < ns < float("inf"):
                raise BadResult(f"{program}: {result['name']}: a time of {ns} ns")
            counters = {key: value for key, value in result.items() if key not in KNOWN}
            name = parse_name(program, result["name"])
            size = counters.pop("bytes", None)  # of benchmarks whose names do not say it
            if name.size is None and size is not None:
                name = replace(name, size=int(size))
            many = {cores: counters.pop(key) for key, cores in CORES.items() if key in counters}
            if many:
                one, name = name, replace(name, arguments=(*name.arguments, ("cores", 1)))
                for cores, rate in many.items():
                    self.add(replace(one, arguments=(*one.arguments, ("cores", cores))), ns / rate)
            self.add(name, ns, counters)

    @staticmethod
    def names_of(program, listed):
        """Names of a program's benchmarks, as it lists them."""
        return [parse_name(program, text) for text in listed]

    def derive(self):
        """Adds what is put together, wherever its parts are complete: the floor with testpmd and the CRC, and stages."""
        for name, row in list(self.all.items()):
            if name.stage != TESTPMD or name.arguments:
                continue
            with_crc, without = self.find("floor_macswap_crc", name.size, name.cold), self.find("floor_macswap", name.size, name.cold)
            if with_crc is None or without is None:
                continue
            both = Name(name.program, FLOORS["testpmd+CRC"], name.size, name.cold)
            self.all[both] = Row(both, [forward + crc - macswap for forward, crc, macswap in
                                        zip(row.values, with_crc.values, without.values)])

        for stage, (whole, parts) in DIFFERENCES.items():
            for name, row in list(self.all.items()):
                if (name.stage, name.arguments) != whole or (stage == "stage_lookup" and name.size > SINGLES):
                    continue
                others = [self.find(part, name.size, name.cold, arguments) for part, arguments in parts]
                if all(others):
                    alone = Name(STAGES, stage, name.size, name.cold)
                    self.all[alone] = Row(alone, [all_of_it - sum(rest) for all_of_it, *rest in
                                                  zip(row.values, *(other.values for other in others))])

    def find(self, stage, size, cold, arguments=()):
        """The row of a stage."""
        return next((row for name, row in self.all.items()
                     if (name.stage, name.size, name.cold, name.arguments) == (stage, size, cold, arguments)), None)

    def ratio(self, row, floor):
        """Of a row to a floor of its size: the median of the turns' ratios. None where there is no such floor."""
        if row.name.size is None:
            return None
        beside = self.find(FLOORS[floor], row.name.size, bool(row.name.cold))
        if beside is None or len(beside.values) != len(row.values):
            return None
        return statistics.median(ours / other for ours, other in zip(row.values, beside.values))

    def ordered(self):
        """Floors first; then programs and stages as they came, sizes ascending, hot before cold."""
        stages = {}
        for name in self.all:
            stages.setdefault((name.program, name.stage), len(stages))

        def key(row):
            name = row.name
            return (name.stage not in FLOORS.values(), stages[name.program, name.stage], name.size or 0, bool(name.cold),
                    [(str(argument), isinstance(value, str), value) for argument, value in name.arguments])

        return sorted(self.all.values(), key=key)

    def to_json(self, hz):
        """`hz`: of the clock that cycles are of; None: unknown."""
        return [{"program": row.name.program, "stage": row.name.stage, "bytes": row.name.size, "cold": row.name.cold,
                 "arguments": [list(pair) for pair in row.name.arguments], "values_ns": row.values, "ns": row.ns,
                 "cycles": row.ns * hz / 1e9 if hz else None,
                 "ratios": {floor: ratio for floor in FLOORS if (ratio := self.ratio(row, floor)) is not None},
                 "counters": row.counters} for row in self.ordered()]

    @classmethod
    def from_json(cls, listed):
        rows = cls()
        for each in listed:
            name = Name(each["program"], each["stage"], each["bytes"], each["cold"], tuple(map(tuple, each["arguments"])))
            rows.all[name] = Row(name, each["values_ns"], each["counters"])
        return rows


def lines(rows, hz):
    """The table as text."""
    yield (f"{'':28} {'bytes':>5} {'':4} {'argument':18}{'ns':>9} {'spread':>7} {'cycles':>8} {'M/s':>8}"
           f"   times {'macswap':>9}" + "".join(f"{floor:>13}" for floor in list(FLOORS)[1:]) + "  counters")
    program = None
    for row in rows.ordered():
        name = row.name
        if name.program != program:
            program = name.program
            yield f"{program}:"
        ratios = "".join(f"{'-' if (ratio := rows.ratio(row, floor)) is None else f'{ratio:.2f}':>13}" for floor in FLOORS)
        rate = f"{1e3 / row.ns:.2f}" if name.program != STAGES else "-"
        counters = " ".join(f"{key}={value:.4g}" for key, value in row.counters.items() if isinstance(value, (int, float)))
        yield (f"  {name.stage:26} {'-' if name.size is None else name.size:>5} {name.state:4} {name.argument:18}{row.ns:>9.1f} "
               f"{row.spread * 100:>5.0f} % {f'{row.ns * hz / 1e9:.0f}' if hz else '-':>8} {rate:>8}   {ratios:>54}  "
               f"{counters}").rstrip()
