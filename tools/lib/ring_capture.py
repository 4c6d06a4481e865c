"""What a rank of a ring all-reduce did, from the capture of its port: tools that compare runs take their times from there."""

from collections import namedtuple

import capture_file

IPV4, UDP, ROCE_PORT = b"\x08\x00", 17, (4791).to_bytes(2, "big")
WIRE_BYTES = 24  # checksum, preamble and gap, which a capture lacks
CREDIT = 0x0A  # RC RDMA WRITE only
DATA_BEGINS, DATA_ENDS = (0x06, 0x0B), (0x09, 0x0B)  # RC RDMA WRITE first; last and only, with immediate
GOES_ON = (0x07, 0x08, 0x09)  # middle, last

# ps: its first credit left, its last message was there; how long the rank had begun a message and its wire was free.
Operation = namedtuple("Operation", "start end held")


def address(data):
    return ".".join(map(str, data))


def operations_of(capture, port, neighbours, messages, ps_per_byte):
    """The operations of the rank at a port, a number, over IPv4 without VLAN tags. `neighbours`: addresses of the next rank and the one before;
    `messages`: how many it gets in each operation; `ps_per_byte`: of its wire."""
    _, before = neighbours
    credits, data, waits = [], [], []
    free = 0
    for frame in capture_file.frames(capture):
        f = frame.data
        if frame.interface != port or f[12:14] != IPV4 or f[23] != UDP or f[36:38] != ROCE_PORT:
            continue
        opcode = f[42]
        if frame.direction == capture_file.OUT:
            if address(f[26:30]) == before and opcode in DATA_ENDS:
                data.append(frame.at)
            continue
        if opcode in GOES_ON and frame.at > free:
            waits.append((frame.at, frame.at - free))
        free = frame.at + (len(f) + WIRE_BYTES) * ps_per_byte
        if address(f[30:34]) == before and opcode == CREDIT:
            credits.append(frame.at)
    if len(credits) != sum(messages) or len(data) != sum(messages):
        raise ValueError(f"{len(credits)} credits and {len(data)} messages of a rank, expected {sum(messages)}")
    operations, first = [], 0
    for count in messages:
        start, end = credits[first], data[first + count - 1]
        operations.append(Operation(start, end, sum(wait for at, wait in waits if start < at <= end)))
        first += count
    return operations
