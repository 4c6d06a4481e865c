"""What a real node floods the emulator with, made of frames of its own: a WRITE of a connection that it has, and a CM request."""

import random
import struct

from capture_edit import ICRC_BYTES, Packet, checksum

AHEAD = 0x1000  # of the expected PSN
ABOUT = 64  # queue pairs below and above the own one
WRITE_ONLY, ACK, CNP, UD_SEND_ONLY = 0x0A, 0x11, 0x81, 0x64
NAK_SEQUENCE, NAK_NOT_READY = 0x60, 0x21
BROADCAST = b"\xff" * 6
ETHERNET_BYTES = 14
QP1, QKEY1 = 1, 0x80010000
MAD_AT, MAD_BODY = 12 + 8, 12 + 8 + 24  # from the BTH on: behind it and the DETH


class Own:
    """`write`: the last WRITE of one packet that the flooder's program sent before it was stopped; `request`: a CM request of its own, or
    None; `victim`: IPv4 address of the other node."""

    def __init__(self, write, request, victim):
        self.write, self.request, self.victim = Packet.of(bytearray(write)), request, victim

    @property
    def node(self):
        return self.write.dst

    def change(self, edit, seal=True):
        p = Packet.of(bytearray(self.write.data))
        edit(p)
        if seal:
            p.seal()
        return bytes(p.data)

    def put(self, place, size, by):
        """The write with a field of the BTH or RETH raised."""
        return self.change(lambda p: p.put(p.bth + place, size, p.number(p.bth + place, size) + by))

    def packet(self, opcode, rest, qpn=None, psn=None, source=None):
        """Another packet to the same queue pair, or to `qpn`: `rest` is what stands behind the BTH."""
        def edit(p):
            p.data[p.bth] = opcode
            p.put(p.bth + 5, 3, p.qpn if qpn is None else qpn)
            p.put(p.bth + 9, 3, p.psn if psn is None else psn)
            p.data[p.bth + 1] &= 0xCF  # no padding
            p.data[p.extensions:] = rest + bytes(ICRC_BYTES)
            p.put(p.l3 + 2, 2, len(p.data) - p.l3)
            p.put(p.udp + 4, 2, len(p.data) - p.udp)
            if source:
                p.data[p.l3 + 12:p.l3 + 16] = source
        return self.change(edit)

    def answer(self, syndrome):
        return self.packet(ACK, bytes([syndrome, 0, 0, 1]))

    def others(self, opcode, rest, source=None):
        """The same to the queue pairs about the own one: the other node's are among them."""
        own = self.write.qpn
        return [self.packet(opcode, rest, qpn, source=source) for qpn in range(max(2, own - ABOUT), own + ABOUT) if qpn != own]

    @property
    def ethernet(self):
        return bytes(self.write.data[:12])

    def arp(self, source=None, mac=None):
        mac = mac or self.ethernet[6:12]
        return BROADCAST + mac + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + mac + (source or self.write.src) + bytes(6) + self.node

    def ip(self, protocol, body):
        head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 64, protocol, 0) + self.write.src + self.node)
        head[10:12] = checksum(head).to_bytes(2, "big")
        return self.ethernet + b"\x08\x00" + bytes(head) + body

    def echo(self, size):
        body = bytearray(struct.pack(">BBHHH", 8, 0, 0, 1, 1) + bytes(size))
        body[2:4] = checksum(body).to_bytes(2, "big")
        return self.ip(1, bytes(body))

    def connect(self, port):
        tcp = bytearray(struct.pack(">HHIIBBHHH", port, 18515, port, 0, 0x50, 2, 0xFFFF, 0, 0))
        pseudo = self.write.src + self.node + struct.pack(">HH", 6, len(tcp))
        tcp[16:18] = checksum(pseudo + tcp).to_bytes(2, "big")
        return self.ip(6, bytes(tcp))

    def requests(self, count):
        """New CM requests, each of another queue pair of the flooder's."""
        out = []
        for number in range(1, count + 1):
            p = Packet.of(bytearray(self.request))
            for place, size in ((MAD_AT + 12, 4), (MAD_BODY, 4), (MAD_BODY + 32, 3)):  # transaction, communication id, queue pair
                p.put(p.bth + place, size, p.number(p.bth + place, size) + number)
            p.seal()
            out.append(bytes(p.data))
        return out


def noise(own):
    draw = random.Random(1)
    out = []
    for size in range(20, 1500, 31):
        out.append(draw.randbytes(size))
        out += [own.ethernet + kind.to_bytes(2, "big") + draw.randbytes(size) for kind in (0x0800, 0x86DD, 0x8808, 0x88B5)]
    return out


def wrong_icrc(own):
    def edit(p):
        p.data[-1] ^= 1
    return [own.change(edit, seal=False)]


def pause(own):
    """Of all classes, for as long as a frame can say (IEEE 802.1Qbb)."""
    return [bytes.fromhex("0180c2000001") + own.ethernet[6:12] + struct.pack(">HHH", 0x8808, 0x0101, 0xFF) + b"\xff\xff" * 8 + bytes(26)]


# RETH: address, key, length.
RETH = struct.pack(">QII", 0, 0, 256) + bytes(256)
# Each by its name: the frames, which are sent again and again.
KINDS = {
    "noise: no protocol, cut short, random": noise,
    "RoCE with a wrong ICRC": wrong_icrc,
    "to queue pairs that do not exist": lambda own: [own.packet(WRITE_ONLY, RETH, qpn << 8) for qpn in range(0x4000, 0x4040)],
    "to queue pairs of others, from the own address": lambda own: own.others(WRITE_ONLY, RETH),
    "to queue pairs of others, in the other peer's name": lambda own: own.others(WRITE_ONLY, RETH, own.victim),
    "requests with wrong memory keys": lambda own: [own.change(lambda p: (p.put(p.bth + 9, 3, p.psn + 1), p.put(p.extensions + 8, 4, 0xBAD)))],
    "the same right request again and again": lambda own: [bytes(own.write.data)],
    "requests far ahead of the expected one": lambda own: [own.put(9, 3, AHEAD)],
    "acknowledgements of what was not sent": lambda own: [own.answer(0)],
    "NAKs: out of sequence": lambda own: [own.answer(NAK_SEQUENCE)],
    "NAKs: receiver not ready": lambda own: [own.answer(NAK_NOT_READY)],
    "CNPs to its own queue pair": lambda own: [own.packet(CNP, bytes(16))],
    "CNPs to queue pairs of others": lambda own: own.others(CNP, bytes(16)),
    "RDMA-CM in the other peer's name": lambda own: [own.packet(UD_SEND_ONLY, struct.pack(">II", QKEY1, QP1) + bytes(256), QP1, source=own.victim)],
    "ARP requests": lambda own: [own.arp()],
    "ARP requests in the other peer's name": lambda own: [own.arp(own.victim, b"\x02\0\0\0\0\x66")],
    "echo requests": lambda own: [own.echo(1000)],
    "TCP connects": lambda own: [own.connect(port) for port in range(20000, 60000, 10)],
    "PFC pauses of all classes": pause,
    "RDMA-CM: requests of new connections": lambda own: own.requests(4096),
}


def pcap(frames):
    """As a file of microseconds."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    out += [struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames]
    return b"".join(out)
