"""What a rank of a ring all-reduce did, from the capture of its port: tools that compare runs take their times from there."""

from collections import namedtuple

import capture_file

IPV4, UDP, ROCE_PORT = b"\x08\x00", 17, (4791).to_bytes(2, "big")
CREDIT = 0x0A  # RC RDMA WRITE only
DATA_ENDS = (0x09, 0x0B)  # RC RDMA WRITE last and only, with immediate

Operation = namedtuple("Operation", "start end")  # ps: its first credit left, its last message was there


def address(data):
    return ".".join(map(str, data))


def operations_of(capture, port, before, messages):
    """The operations of the rank at a port, a number, over IPv4 without VLAN tags. `before`: address of the rank before it; `messages`: how many
    it gets in each operation."""
    credits, data = [], []
    for frame in capture_file.frames(capture):
        f = frame.data
        if frame.interface != port or f[12:14] != IPV4 or f[23] != UDP or f[36:38] != ROCE_PORT:
            continue
        opcode = f[42]
        if frame.direction == capture_file.OUT:
            if address(f[26:30]) == before and opcode in DATA_ENDS:
                data.append(frame.at)
            continue
        if address(f[30:34]) == before and opcode == CREDIT:
            credits.append(frame.at)
    if len(credits) != sum(messages) or len(data) != sum(messages):
        raise ValueError(f"{len(credits)} credits and {len(data)} messages of a rank, expected {sum(messages)}")
    operations, first = [], 0
    for count in messages:
        start, end = credits[first], data[first + count - 1]
        operations.append(Operation(start, end))
        first += count
    return operations
