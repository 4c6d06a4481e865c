"""What a rank of a ring all-reduce did, from the capture of its port: tools that compare runs take their times from there."""

from collections import namedtuple

import capture_file

CREDIT = 0x0A  # RC RDMA WRITE only
DATA_ENDS = (0x09, 0x0B)  # RC RDMA WRITE last and only, with immediate

Operation = namedtuple("Operation", "start end")  # ps: its first credit left, its last message was there


def operations_of(capture, port, before, messages):
    """The operations of the rank at a port, a number, over IPv4 without VLAN tags. `before`: address of the rank before it; `messages`: how many
    it gets in each operation."""
    credits, data = [], []
    for packet in capture_file.roce_packets(capture, port):
        if packet.frame.direction == capture_file.OUT:
            if packet.source == before and packet.opcode in DATA_ENDS:
                data.append(packet.frame.at)
        elif packet.destination == before and packet.opcode == CREDIT:
            credits.append(packet.frame.at)
    if len(credits) != sum(messages) or len(data) != sum(messages):
        raise ValueError(f"{len(credits)} credits and {len(data)} messages of a rank, expected {sum(messages)}")
    operations, first = [], 0
    for count in messages:
        start, end = credits[first], data[first + count - 1]
        operations.append(Operation(start, end))
        first += count
    return operations
