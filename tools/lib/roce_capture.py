"""RoCEv2 packets of our captures (pcapng), for tools that take times from them."""

import struct
from collections import namedtuple

# Time in ps since the capture's epoch; addresses as text; IPv4 only.
Packet = namedtuple("Packet", "interface time source destination opcode length")

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
IF_NAME, IF_TSRESOL = 2, 9
ROCE_PORT = 4791
WRITE_ONLY = 0x0A
LAST_OF_A_WRITE_WITH_IMMEDIATE = (0x09, 0x0B)  # RC: last, only


def options(data):
    """Code and value of each option of a block."""
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            return
        yield code, data[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


def interface_of(body):
    """Name and ps per tick."""
    name, tick = "", 1_000_000
    for code, value in options(body[8:]):
        if code == IF_NAME:
            name = value.decode()
        elif code == IF_TSRESOL:
            tick = 10 ** 12 // (2 ** (value[0] & 127) if value[0] & 128 else 10 ** value[0])
    return name, tick


def address(data):
    return ".".join(map(str, data))


def roce_packets(path):
    """All RC packets over IPv4 without VLAN tags in a little-endian capture, in the file's order."""
    interfaces = []
    with open(path, "rb") as file:
        while header := file.read(8):
            kind, length = struct.unpack("<II", header)
            body = file.read(length - 8)[:-4]
            if kind == SECTION:
                interfaces = []
            elif kind == INTERFACE:
                interfaces.append(interface_of(body))
            elif kind == PACKET:
                number, high, low, captured, original = struct.unpack_from("<IIIII", body)
                frame = body[20:20 + captured]
                if frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != ROCE_PORT.to_bytes(2, "big"):
                    continue
                name, tick = interfaces[number]
                yield Packet(name, (high << 32 | low) * tick, address(frame[26:30]), address(frame[30:34]), frame[42], original)


def operations_of(path, node, addresses, messages):
    """Start and end of each operation of a rank in a ring, in ps: its first credit leaves, its last message is there. `addresses`: its
    own, the next rank's and the one's before; `messages`: of each operation, that the rank before sends."""
    own, _, before = addresses
    credits, data = [], []
    for packet in roce_packets(path):
        if packet.interface != node:
            continue
        if packet.source == own and packet.destination == before and packet.opcode == WRITE_ONLY:
            credits.append(packet.time)
        elif packet.source == before and packet.opcode in LAST_OF_A_WRITE_WITH_IMMEDIATE:
            data.append(packet.time)
    if len(credits) != sum(messages) or len(data) != sum(messages):
        raise ValueError(f"{path}: {len(credits)} credits and {len(data)} messages at {node}, expected {sum(messages)}")
    spans, first = [], 0
    for count in messages:
        spans.append((credits[first], data[first + count - 1]))
        first += count
    return spans
