"""A capture of a cable whose ends are written to by packet sockets: what leaves by those no other socket sees, so each end
records what comes in, and the two are put together.

    both_ends.py INTERFACE FILE     (inside a network namespace; until it is killed)
"""

import socket
import struct
import sys

RECORD = struct.Struct("<IIII")  # seconds, nanoseconds, bytes here, bytes on the wire
HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)  # pcap with nanoseconds, Ethernet
SO_TIMESTAMPNS, SO_RCVBUFFORCE, PACKET_OUTGOING, ETH_P_ALL = 35, 33, 4, 3
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 0x10
MACS = 12  # bytes, before a tag


def record(interface, path):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as heard, open(path, "wb", buffering=0) as out:
        heard.bind((interface, 0))
        heard.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        heard.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        heard.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        out.write(HEADER)  # now it hears
        while True:
            frame, about, _, sender = heard.recvmsg(1 << 16, 512)
            said = {(level, kind): data for level, kind, data in about}
            if sender[2] != PACKET_OUTGOING and (socket.SOL_SOCKET, SO_TIMESTAMPNS) in said:
                seconds, nanoseconds = struct.unpack_from("qq", said[socket.SOL_SOCKET, SO_TIMESTAMPNS])
                status, *_, tag, kind = struct.unpack_from("IIIHHHH", said[SOL_PACKET, PACKET_AUXDATA])
                if status & VLAN_VALID:  # the kernel takes it out
                    frame = frame[:MACS] + struct.pack("!HH", kind, tag) + frame[MACS:]
                out.write(RECORD.pack(seconds, nanoseconds, len(frame), len(frame)) + frame)


def joined(paths):
    """The bytes of one capture of several, by time."""
    records = []
    for path in paths:
        data = path.read_bytes()
        at = len(HEADER)
        while at + RECORD.size <= len(data):
            seconds, nanoseconds, size, _ = RECORD.unpack_from(data, at)
            records.append((seconds, nanoseconds, data[at:at + RECORD.size + size]))
            at += RECORD.size + size
    return HEADER + b"".join(data for *_, data in sorted(records))


if __name__ == "__main__":
    record(*sys.argv[1:])
