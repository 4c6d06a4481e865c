"""Captures of understudy (dataplane/wire/pcapng.h) read for tools and tests: exact times, directions, bytes."""

import struct
from dataclasses import dataclass

PACKET, FLAGS, CUSTOM = 6, 2, 2989
IN, OUT = 1, 2  # from the real node, to it
NO_SCHEDULE = 2**63 - 1
IPV4, UDP, ROCE_PORT = b"\x08\x00", 17, (4791).to_bytes(2, "big")
WIRE_BYTES = 24  # checksum, preamble and gap, which a capture lacks


@dataclass
class Frame:
    at: int  # ps
    scheduled: int  # ps, or NO_SCHEDULE
    direction: int
    interface: int
    data: bytes


def frames(capture):
    """All frames of the file that have their exact time, in order."""
    with open(capture, "rb") as file:  # it may be a pipe
        while header := file.read(8):
            kind, length = struct.unpack("<II", header)
            data = file.read(length - 8)
            if kind != PACKET:
                continue
            interface, = struct.unpack_from("<I", data)
            stored, = struct.unpack_from("<I", data, 12)
            options = dict(_options(data, 20 + (stored + 3) // 4 * 4, len(data) - 4))
            if b"time" in options:
                at, scheduled = options[b"time"]
                yield Frame(at, scheduled, options.get("flags", 0), interface, data[20:20 + stored])


@dataclass
class RocePacket:
    frame: Frame
    source: str
    destination: str
    opcode: int
    psn: int
    after_bth: bytes


def roce_packets(capture, interface):
    """RoCEv2 packets at one port, over IPv4 without VLAN tags."""
    for frame in frames(capture):
        data = frame.data
        if frame.interface != interface or data[12:14] != IPV4 or data[23] != UDP or data[36:38] != ROCE_PORT:
            continue
        yield RocePacket(frame, _address(data[26:30]), _address(data[30:34]), data[42], int.from_bytes(data[51:54], "big"), data[54:])


def _address(data):
    return ".".join(map(str, data))


def _options(data, offset, end):
    """Our options of a packet block as (tag, two numbers), and its direction as ("flags", number)."""
    while offset + 4 <= end:
        code, length = struct.unpack_from("<HH", data, offset)
        value = data[offset + 4:offset + 4 + length]
        if code == FLAGS:
            yield "flags", struct.unpack("<I", value)[0] & 3
        if code == CUSTOM and value[4:8] == b"time":
            yield value[4:8], struct.unpack_from("<qq", value, 8)
        offset += 4 + (length + 3) // 4 * 4
