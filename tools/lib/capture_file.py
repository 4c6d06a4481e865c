"""Captures of understudy (dataplane/wire/pcapng.h) read for tools and tests: exact times, directions, bytes."""

import struct
from dataclasses import dataclass

PACKET, FLAGS, CUSTOM = 6, 2, 2989
IN, OUT = 1, 2  # from the real node, to it
NO_SCHEDULE = 2**63 - 1


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
