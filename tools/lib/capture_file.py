"""Captures of understudy (dataplane/wire/pcapng.h) read for tools and tests: exact times, directions, bytes."""

import struct
from dataclasses import dataclass
from pathlib import Path

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
    data = Path(capture).read_bytes()
    offset = 0
    while offset < len(data):
        kind, length = struct.unpack_from("<II", data, offset)
        if kind == PACKET:
            interface, = struct.unpack_from("<I", data, offset + 8)
            stored, = struct.unpack_from("<I", data, offset + 20)
            options = dict(_options(data, offset + 28 + (stored + 3) // 4 * 4, offset + length - 4))
            if b"time" in options:
                at, scheduled = options[b"time"]
                yield Frame(at, scheduled, options.get("flags", 0), interface, data[offset + 28:offset + 28 + stored])
        offset += length


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
