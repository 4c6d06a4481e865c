"""Captures that are read, changed packet by packet, and written again: pcap, and pcapng as understudy writes it."""

import struct
import zlib
from dataclasses import dataclass, field

from capture_file import CUSTOM, PACKET  # noqa: F401  (CUSTOM: the options that hold exact times)

SECTION, INTERFACE, STATISTICS = 0x0A0D0D0A, 1, 5
PCAP_MICRO, PCAP_NANO = 0xA1B2C3D4, 0xA1B23C4D
ETHERNET, SNAP_LENGTH = 1, 262144
IPV4, IPV6, TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
UDP, ROCE_PORT = 17, 4791
BTH_BYTES, ICRC_BYTES = 12, 4
QP1 = 1

SEND, WRITE, READ, RESPONSE, ACK, ATOMIC, ATOMIC_ACK = "send", "write", "read", "response", "ack", "atomic", "atomic ack"
KINDS = {**{o: SEND for o in (0, 1, 2, 3, 4, 5, 0x16, 0x17)}, **{o: WRITE for o in range(6, 12)}, 12: READ,
         **{o: RESPONSE for o in range(13, 17)}, 17: ACK, 18: ATOMIC_ACK, 19: ATOMIC, 20: ATOMIC, 0x64: "ud", 0x65: "ud", 0x81: "cnp"}
STARTS = {0, 4, 5, 6, 10, 11, 0x17}
ENDS = {2, 3, 4, 5, 8, 9, 10, 11, 0x16, 0x17}
WITH_RETH = {6, 10, 11, 12}
WITH_AETH = {13, 15, 16, 17, 18}
EXTENSION_BYTES = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 0x16: 4,
                   0x17: 4, 0x64: 8, 0x65: 12}


def checksum(data):
    """Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data = bytes(data) + b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass
class Frame:
    at: int  # ns; of a pcapng its 64-bit stamp
    data: bytearray
    original: int = 0  # bytes on the wire; 0: as many as there are
    options: bytes = b""  # of a pcapng packet block
    interface: int = 0

    def copy(self):
        return Frame(self.at, bytearray(self.data), self.original, self.options, self.interface)

    @property
    def packet(self):
        """The RoCEv2 packet in it, or None."""
        return Packet.of(self.data)


class Packet:
    """A view of a frame's bytes, at fixed places: what is set there is in the frame."""

    def __init__(self, data, l3, v6):
        self.data, self.l3, self.v6 = data, l3, v6
        self.udp = l3 + (40 if v6 else 20)
        self.bth = self.udp + 8

    @classmethod
    def of(cls, data):
        at, kind = 14, int.from_bytes(data[12:14], "big")
        while kind in TAGS:
            at, kind = at + 4, int.from_bytes(data[at + 2:at + 4], "big")
        if kind not in (IPV4, IPV6):
            return None
        packet = cls(data, at, kind == IPV6)
        protocol = data[at + 6] if packet.v6 else data[at + 9]
        whole = len(data) >= packet.bth + BTH_BYTES and protocol == UDP
        return packet if whole and packet.number(packet.udp + 2, 2) == ROCE_PORT else None

    def number(self, at, size):
        return int.from_bytes(self.data[at:at + size], "big")

    def put(self, at, size, value):
        self.data[at:at + size] = (value % (1 << 8 * size)).to_bytes(size, "big")

    @property
    def opcode(self):
        return self.data[self.bth]

    @property
    def kind(self):
        return KINDS.get(self.opcode & 0xDF if 0x20 <= self.opcode < 0x40 else self.opcode, "other")

    @property
    def unreliable(self):
        return 0x20 <= self.opcode < 0x40

    @property
    def is_request(self):
        return self.kind in (SEND, WRITE, READ, ATOMIC)

    @property
    def qpn(self):
        return self.number(self.bth + 5, 3)

    @property
    def psn(self):
        return self.number(self.bth + 9, 3)

    @property
    def src(self):
        return bytes(self.data[self.l3 + 8:self.l3 + 24] if self.v6 else self.data[self.l3 + 12:self.l3 + 16])

    @property
    def dst(self):
        return bytes(self.data[self.l3 + 24:self.l3 + 40] if self.v6 else self.data[self.l3 + 16:self.l3 + 20])

    @property
    def flow(self):
        return self.src, self.dst, self.qpn

    @property
    def extensions(self):
        """Where the extension headers begin."""
        return self.bth + BTH_BYTES

    @property
    def payload(self):
        return self.extensions + EXTENSION_BYTES.get(self.opcode & 0xDF if self.unreliable else self.opcode, 0)

    @property
    def end(self):
        """Just past the IP packet."""
        return self.l3 + (40 + self.number(self.l3 + 4, 2) if self.v6 else self.number(self.l3 + 2, 2))

    @property
    def payload_bytes(self):
        return self.end - ICRC_BYTES - self.payload - (self.data[self.bth + 1] >> 4 & 3)

    @property
    def tos(self):
        return (self.number(self.l3, 2) >> 4 & 0xFF) if self.v6 else self.data[self.l3 + 1]

    @tos.setter
    def tos(self, value):
        if self.v6:
            self.put(self.l3, 2, (self.number(self.l3, 2) & 0xF00F) | value << 4)
        else:
            self.data[self.l3 + 1] = value

    @property
    def ack_request(self):
        return bool(self.data[self.bth + 8] & 0x80)

    def syndrome(self):
        return self.data[self.extensions]

    @property
    def msn(self):
        return self.number(self.extensions + 1, 3)

    def sum_ip(self):
        """The right checksum under a changed IPv4 header."""
        if not self.v6:
            self.put(self.l3 + 10, 2, 0)
            self.put(self.l3 + 10, 2, checksum(self.data[self.l3:self.l3 + 20]))

    def udp_checksum(self):
        self.put(self.udp + 6, 2, 0)
        pseudo = self.src + self.dst + struct.pack(">II", self.end - self.udp, UDP)
        return checksum(pseudo + self.data[self.udp:self.end]) or 0xFFFF

    def seal(self):
        """The right ICRC, and the right checksum of the IPv4 header."""
        self.sum_ip()
        end = self.end - ICRC_BYTES
        ip = bytearray(self.data[self.l3:end])
        bth = self.bth - self.l3
        if self.v6:
            ip[0] |= 0x0F
            ip[1:4] = b"\xff" * 3
            ip[7] = 0xFF
        else:
            ip[1] = ip[8] = 0xFF
            ip[10:12] = b"\xff\xff"
        ip[bth - 2:bth] = b"\xff\xff"
        ip[bth + 4] = 0xFF
        self.data[end:end + ICRC_BYTES] = struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip)))

    def resize(self, by):
        """Makes the payload longer or shorter by bytes at its end, with all lengths; the ICRC is for seal()."""
        end = self.end
        place = end - ICRC_BYTES
        if by > 0:
            self.data[place:place] = bytes(by)
        else:
            del self.data[place + by:place]
        if self.v6:
            self.put(self.l3 + 4, 2, self.number(self.l3 + 4, 2) + by)
        else:
            self.put(self.l3 + 2, 2, self.number(self.l3 + 2, 2) + by)
        self.put(self.udp + 4, 2, self.number(self.udp + 4, 2) + by)


@dataclass
class Capture:
    """`form`: "pcap"; "pcapng", as others write it; "understudy", a pcapng with exact times and directions."""
    form: str
    frames: list = field(default_factory=list)
    head: bytes = b""  # blocks before the packets
    tail: bytes = b""  # blocks behind them

    def copy(self):
        return Capture(self.form, [f.copy() for f in self.frames], self.head, self.tail)

    def as_form(self, form):
        """The same frames as another kind of file. "counted": a pcapng that says that it lacks nothing."""
        out = Capture(form, [f.copy() for f in self.frames])
        for frame in out.frames:
            frame.options = b""
        return out

    def bytes(self):
        if self.form == "pcap":
            out = [struct.pack("<IHHiIII", PCAP_NANO, 2, 4, 0, 0, SNAP_LENGTH, ETHERNET)]
            for f in self.frames:
                out.append(struct.pack("<IIII", f.at // 10**9, f.at % 10**9, len(f.data), f.original or len(f.data)) + f.data)
            return b"".join(out)
        if self.form == "understudy":
            return self.head + b"".join(_packet_block(f) for f in self.frames) + self.tail
        nanoseconds = struct.pack("<HHB3x", 9, 1, 9) + bytes(4)
        out = [_block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
               _block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, SNAP_LENGTH) + nanoseconds)]
        out += [_packet_block(f) for f in self.frames]
        if self.form == "counted":
            last = self.frames[-1].at if self.frames else 0
            out.append(_block(STATISTICS, struct.pack("<III", 0, last >> 32, last & 0xFFFFFFFF) + struct.pack("<HHQ", 5, 8, 0) + bytes(4)))
        return b"".join(out)


def _block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def _packet_block(f):
    body = struct.pack("<IIIII", f.interface, f.at >> 32, f.at & 0xFFFFFFFF, len(f.data), f.original or len(f.data))
    return _block(PACKET, body + bytes(f.data) + bytes(-len(f.data) % 4) + f.options)


def load(path):
    """A capture in little-endian order, as this machine's programs write it."""
    data = path.read_bytes()
    magic, = struct.unpack_from("<I", data)
    return _load_pcapng(data) if magic == SECTION else _load_pcap(data, magic)


def _load_pcap(data, magic):
    unit = {PCAP_MICRO: 1000, PCAP_NANO: 1}[magic]
    out, at = Capture("pcap"), 24
    while at < len(data):
        seconds, part, stored, original = struct.unpack_from("<IIII", data, at)
        out.frames.append(Frame(seconds * 10**9 + part * unit, bytearray(data[at + 16:at + 16 + stored]), original))
        at += 16 + stored
    for frame in out.frames:
        frame.original = 0 if frame.original == len(frame.data) else frame.original
    return out


def _load_pcapng(data):
    out, at = Capture("understudy"), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + length - 4]
        if kind == PACKET:
            interface, high, low, stored, original = struct.unpack_from("<IIIII", body)
            options = body[20 + stored + -stored % 4:]
            out.frames.append(Frame(high << 32 | low, bytearray(body[20:20 + stored]), 0 if original == stored else original, options,
                                    interface))
        elif out.frames:
            out.tail += data[at:at + length]
        else:
            out.head += data[at:at + length]
        at += length
    return out
