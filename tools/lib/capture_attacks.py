"""Violations of RoCEv2's rules, one at a time, put into captures that break none: what tools/experiments/attack draws from.

Each function changes a capture in one way at a place that `random` draws, and says whether it found one. Beside it stands what a
checker must name: rules by the ids of docs/rocev2.md, or a check of roce-check for what has no rule."""

from collections import Counter, namedtuple

from capture_edit import (ACK, ATOMIC, ATOMIC_ACK, BTH_BYTES, QP1, READ, RESPONSE, SEND, WITH_AETH, WITH_RETH, WRITE)

# `rules`: one of them must be named. `counted`: those that need a capture that says that it lacks nothing; of others "complete" will do.
# `ending`: it shows only where the capture goes on to the end of the connection.
Attack = namedtuple("Attack", "name rules change counted config ending")
ATTACKS, HARMLESS = [], []
MAD = BTH_BYTES + 8  # from the BTH on, behind the DETH
MAD_BODY = MAD + 24
REQ, REJ, REP, RTU, DREQ, DREP = 0x10, 0x12, 0x13, 0x14, 0x15, 0x16
RNR_MICROSECONDS = (655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360,
                    20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520)


def attack(name, *rules, counted=False, config=False, ending=False):
    def register(change):
        ATTACKS.append(Attack(name, set(rules), change, counted, config, ending))
        return change
    return register


def harmless(name):
    def register(change):
        HARMLESS.append(Attack(name, set(), change, False, False, False))
        return change
    return register


# --- places ---

def chosen(capture, random, fits):
    """(index, packet) of a RoCEv2 packet that fits, or None."""
    places = [i for i, f in enumerate(capture.frames) if f.packet and fits(f.packet)]
    if not places:
        return None
    index = random.choice(places)
    return index, capture.frames[index].packet


def connected(p):
    return p.kind in (SEND, WRITE, READ, RESPONSE, ACK, ATOMIC, ATOMIC_ACK)


def reliable(p):
    return connected(p) and not p.unreliable


def flows(capture):
    """Packets of each connection's direction, with their indices."""
    out = {}
    for i, f in enumerate(capture.frames):
        p = f.packet
        if p and connected(p):
            out.setdefault(p.flow, []).append((i, p))
    return out


def broken(capture):
    """Whether a NAK ended a connection."""
    return any(f.packet and f.packet.kind == ACK and f.packet.syndrome() in (0x61, 0x62, 0x63) for f in capture.frames)


def one(fits, edit, seal=True):
    """A change of one packet."""
    def change(capture, random):
        place = chosen(capture, random, fits)
        if not place:
            return False
        packet = place[1]
        if edit(packet, random) is False:
            return False
        if seal:
            packet.seal()
        return True
    return change


def in_flow(fits, edit, least=4):
    """A change of one packet, neither the first nor the last, of a direction with some packets."""
    def change(capture, random):
        rows = [r for r in flows(capture).values() if len(r) >= least]
        places = [p for r in rows for _, p in r[1:-1] if fits(p)]
        if not places:
            return False
        packet = random.choice(places)
        edit(packet, random)
        packet.seal()
        return True
    return change


def whole_flow(fits, edit, least=1):
    """A change of all packets of one direction."""
    def change(capture, random):
        rows = [r for r in flows(capture).values() if len(r) >= least and all(fits(p) for _, p in r)]
        if not rows:
            return False
        value = random.getrandbits(32)
        for _, packet in random.choice(rows):
            edit(packet, value)
            packet.seal()
        return True
    return change


def once(fits):
    """A change of one packet that is not sent again: there the other transmission would tell."""
    def change(edit):
        def choose(capture, random):
            sent = Counter((*p.flow, p.psn) for p in (f.packet for f in capture.frames) if p and p.is_request)
            return one(lambda p: fits(p) and sent[(*p.flow, p.psn)] == 1, edit)(capture, random)
        return choose
    return change


def set_bits(place, bits):
    """Flips bits of a byte that stands so far behind the BTH's beginning."""
    def edit(p, _):
        p.data[p.bth + place] ^= bits
    return edit


def again(capture, random, fits):
    """(index of the first transmission, index of the second) of a request that was sent twice."""
    first, twice = {}, []
    for i, f in enumerate(capture.frames):
        p = f.packet
        if p and reliable(p) and fits(p):
            key = (*p.flow, p.psn)
            if key in first:
                twice.append((first[key], i))
            first[key] = i
    return random.choice(twice) if twice else None


# --- one packet's headers ---

def v4(p):
    return not p.v6


attack("DF not set", "A1.2")(one(v4, lambda p, _: p.put(p.l3 + 6, 2, 0)))
attack("a first fragment", "A1.2")(one(lambda p: v4(p) and connected(p), lambda p, _: p.put(p.l3 + 6, 2, 0x2000), seal=False))
attack("TTL or hop limit 0", "A1.2")(one(connected, lambda p, _: p.put(p.l3 + (7 if p.v6 else 8), 1, 0)))


@attack("wrong checksum of the IPv4 header", "A1.2")
def _(capture, random):
    place = chosen(capture, random, v4)
    if place:
        place[1].put(place[1].l3 + 10, 2, place[1].number(place[1].l3 + 10, 2) + random.randrange(1, 0xFFFE))
    return bool(place)


@attack("identification of one packet, constant otherwise", "A1.2")
def _(capture, random):
    rows = [r for r in flows(capture).values() if len(r) > 8 and not r[0][1].v6]
    rows = [r for r in rows if len({p.number(p.l3 + 4, 2) for _, p in r}) == 1]
    if not rows:
        return False
    packet = random.choice(random.choice(rows)[1:-1])[1]
    packet.put(packet.l3 + 4, 2, random.randrange(1, 0xFFFF))
    packet.seal()
    return True


def wrong_udp_checksum(p, random):
    p.seal()
    p.put(p.udp + 6, 2, p.udp_checksum() ^ random.randrange(1, 0x7FFF))


attack("wrong UDP checksum", "A1.3")(one(connected, wrong_udp_checksum, seal=False))
attack("UDP length that ends elsewhere", "A1.1", "A3.1")(
    one(connected, lambda p, random: p.put(p.udp + 4, 2, p.number(p.udp + 4, 2) - 4 * random.randrange(1, 4)), seal=False))
attack("source port of one packet", "A1.4")(in_flow(reliable, lambda p, random: p.put(p.udp, 2, random.randrange(0xC000, 0x10000))))
attack("reserved bit of the BTH", "A1.7")(one(connected, set_bits(8, 0x04)))
attack("reserved bit beside BECN", "A1.7")(one(connected, set_bits(4, 0x10)))
attack("FECN on data", "A1.7")(one(lambda p: p.kind in (SEND, WRITE, RESPONSE), set_bits(4, 0x80)))
attack("BECN on data", "A1.7")(one(lambda p: p.kind in (SEND, WRITE, RESPONSE), set_bits(4, 0x40)))
attack("transport version 1", "A1.8")(one(connected, set_bits(1, 0x01)))
attack("queue pair 0", "A1.8")(one(connected, lambda p, _: p.put(p.bth + 5, 3, 0)))
attack("MigReq of one packet", "A1.9")(in_flow(reliable, set_bits(1, 0x40)))
attack("P_Key of one packet", "A1.10")(in_flow(reliable, lambda p, random: p.put(p.bth + 2, 2, 0x8000 | random.randrange(1, 0x7000))))
attack("Q_Key to QP1", "A1.11")(one(lambda p: p.kind == "ud" and p.qpn == QP1, lambda p, _: p.put(p.extensions, 4, 1)))
attack("DSCP of one packet", "A1.12")(in_flow(reliable, lambda p, random: setattr(p, "tos", p.tos ^ random.randrange(1, 64) << 2)))
attack("VLAN priority of one packet", "A1.12")(
    lambda capture, random: one(lambda p: reliable(p) and p.l3 == 18, lambda p, _: p.put(14, 1, p.data[14] ^ 0x20))(capture, random))
attack("a bit of the payload", "A2.1", "A2.2")(
    one(lambda p: connected(p) and p.payload_bytes > 0,
        lambda p, random: set_bits(p.payload - p.bth + random.randrange(p.payload_bytes), 1 << random.randrange(8))(p, None), seal=False))
attack("a bit of the ICRC", "A2.1", "A2.2")(
    one(connected, lambda p, random: set_bits(p.end - 4 - p.bth + random.randrange(4), 1)(p, None), seal=False))
attack("reserved opcode", "A3.3")(one(reliable, lambda p, random: p.put(p.bth, 1, random.choice((0x15, 0x1E, 0x1F))), seal=False))
attack("opcode of an unreliable connection", "A3.3")(in_flow(lambda p: reliable(p) and p.kind in (SEND, WRITE), set_bits(0, 0x20)))


def with_more(p, _):
    p.resize(4)


attack("an ACK with a payload", "A3.1")(one(lambda p: p.kind == ACK, with_more))


# --- CNPs and marks ---

def cnp(p):
    return p.kind == "cnp"


attack("CNP with a PSN", "A6.3")(one(cnp, lambda p, random: p.put(p.bth + 9, 3, random.randrange(1, 1 << 24))))
attack("CNP without BECN", "A6.3")(one(cnp, set_bits(4, 0x40)))
attack("CNP that is ECN-capable", "A6.3")(one(cnp, lambda p, random: setattr(p, "tos", p.tos | random.choice((1, 2)))))
attack("CNP with bytes that are not zero", "A6.3")(one(cnp, lambda p, random: set_bits(BTH_BYTES + random.randrange(16), 1)(p, None)))
attack("CNP that asks for an ACK", "A6.3")(one(cnp, set_bits(8, 0x80)))
attack("CNP to a queue pair that sends nothing", "A6.3", "A6.5")(one(cnp, lambda p, _: p.put(p.bth + 5, 3, p.qpn ^ 0x4321)))


@attack("marks that no CNP answers", "A6.2")
def _(capture, random):
    notified = [f for f in capture.frames if f.packet and cnp(f.packet)]
    if not notified:
        return False
    src, dst = random.choice(notified).packet.src, notified[0].packet.dst
    capture.frames = [f for f in capture.frames if not (f.packet and cnp(f.packet) and (f.packet.src, f.packet.dst) == (src, dst))]
    return not any(f.packet and cnp(f.packet) and f.packet.src == src for f in capture.frames)


@attack("a mark on a packet that is not ECN-capable", "A6.1")
def _(capture, random):
    rows = [r for r in flows(capture).values() if len(r) > 2 and all(p.tos & 3 == 0 for _, p in r)]
    if not rows:
        return False
    packet = random.choice(random.choice(rows))[1]
    packet.tos |= 3
    packet.seal()
    return True


# --- MSNs ---

def counted_rows(capture):
    """Directions of answers in which the MSN grows, and nothing is repeated."""
    for row in flows(capture).values():
        answers = [(i, p) for i, p in row if p.opcode in WITH_AETH and not p.unreliable]
        if len({p.msn for _, p in answers}) > 3:
            yield answers


def asked_later(capture, answers, reference):
    """Whether a request that was first sent after an answer is answered, too: until then the responder may have counted all there was."""
    wanted = {p.psn for _, p in answers}
    src, dst, _ = answers[0][1].flow
    rows = [[(i, p) for i, p in r if p.is_request] for (s, d, _), r in flows(capture).items() if (s, d) == (dst, src)]
    asking = max(rows, key=lambda r: sum(p.psn in wanted for _, p in r), default=[])
    before = {p.psn for i, p in asking if i < answers[reference][0]}
    return any(i > answers[reference][0] and p.psn not in before and p.psn in wanted and i < answers[-1][0] for i, p in asking)


def change_msn(capture, random, edit, reference=None):
    """`reference`: the answer that all others are held against is the first one (0), or the one before the change (-1)."""
    rows = list(counted_rows(capture))
    if not rows:
        return False
    answers = random.choice(rows)
    start = random.randrange(1, max(2, len(answers) // 2))
    if reference is not None and not asked_later(capture, answers, 0 if reference == 0 else start - 1):
        return False
    before = answers[start - 1][1].msn
    touched = False
    for number, (_, p) in enumerate(answers):
        value = edit(p.msn, number - start, before)
        if value is not None and value != p.msn:
            p.put(p.extensions + 1, 3, value)
            p.seal()
            touched = True
    return touched


attack("MSN that jumps once", "A4.8")(
    lambda c, random: change_msn(c, random, lambda msn, n, _, k=random.randrange(2000, 9000): msn + k if n == 0 else None))
attack("MSN that jumps for good", "A4.8")(
    lambda c, random: change_msn(c, random, lambda msn, n, _, k=random.randrange(2000, 9000): msn + k if n >= 0 else None))
attack("MSN that stands still", "A4.8")(lambda c, random: change_msn(c, random, lambda msn, n, before: before if n >= 0 else None, -1))
attack("MSN that is always 0", "A4.8")(lambda c, random: change_msn(c, random, lambda *_: 0, 0))
attack("MSN that is 0 once", "A4.8")(lambda c, random: change_msn(c, random, lambda msn, n, _: 0 if n == 1 else None))


# --- the requester ---

@attack("other payload when sent again", "A5.6")
def _(capture, random):
    pair = again(capture, random, lambda p: p.kind in (SEND, WRITE) and p.payload_bytes > 0)
    if not pair:
        return False
    packet = capture.frames[pair[1]].packet
    packet.data[packet.payload + random.randrange(packet.payload_bytes)] ^= 1 << random.randrange(8)
    packet.seal()
    return True


@attack("another address when sent again", "A5.6", "A4.18")
def _(capture, random):
    pair = again(capture, random, lambda p: p.opcode in WITH_RETH or p.kind == ATOMIC)
    if not pair:
        return False
    packet = capture.frames[pair[1]].packet
    packet.put(packet.extensions, 8, packet.number(packet.extensions, 8) + 8 * random.randrange(1, 1000))
    packet.seal()
    return True


attack("RETH with another length", "A4.5")(
    once(lambda p: p.kind == WRITE and p.opcode in WITH_RETH and not p.unreliable)(
        lambda p, random: p.put(p.extensions + 12, 4, p.number(p.extensions + 12, 4) + 4 * random.randrange(1, 9))))
attack("SEND inside a WRITE", "A4.4")(once(lambda p: p.opcode == 7)(lambda p, _: p.put(p.bth, 1, 1)))


def shorter(p, random):
    p.resize(-4 * random.randrange(1, 5))


attack("a MIDDLE that is not full", "A4.5")(once(lambda p: p.opcode in (1, 7))(shorter))


@attack("a request that its receiver took, but nobody sent", "A4.2", counted=True)
def _(capture, random):
    if again(capture, random, lambda p: p.is_request):
        return False
    place = chosen(capture, random, lambda p: p.opcode in (1, 7))
    if place:
        del capture.frames[place[0]]
    return bool(place)


@attack("requests taken out of order", "A4.2")
def _(capture, random):
    if again(capture, random, lambda p: p.is_request):
        return False
    rows = [r for r in flows(capture).values() if len(r) > 2]
    pairs = [(a, b) for r in rows for (a, p), (b, q) in zip(r, r[1:])
             if p.opcode == q.opcode == 7 and (p.psn + 1) % (1 << 24) == q.psn]
    if not pairs:
        return False
    a, b = random.choice(pairs)
    capture.frames[a].data, capture.frames[b].data = capture.frames[b].data, capture.frames[a].data
    return True


@attack("AckReq never set", "A5.1", ending=True)
def _(capture, random):
    if broken(capture):
        return False
    rows = [[p for _, p in r if p.kind in (SEND, WRITE)] for r in flows(capture).values()
            if any(p.kind in (SEND, WRITE) for _, p in r) and not any(p.kind in (READ, ATOMIC) or p.unreliable for _, p in r)]
    if not rows:
        return False
    for packet in random.choice(rows):
        packet.data[packet.bth + 8] &= 0x7F
        packet.seal()
    return True


def shift_after(capture, index, by):
    for frame in capture.frames[index:]:
        frame.at += by


@attack("a request after a fatal NAK", "A5.9")
def _(capture, random):
    naks = [(i, f.packet) for i, f in enumerate(capture.frames)
            if f.packet and f.packet.kind == ACK and f.packet.syndrome() in (0x61, 0x62, 0x63)]
    if not naks or capture.form == "understudy":
        return False
    index, nak = random.choice(naks)
    before = [f for f in capture.frames[:index] if f.packet and f.packet.is_request and f.packet.src == nak.dst]
    if not before:
        return False
    frame = max(before, key=lambda f: f.packet.psn).copy()
    packet = frame.packet
    packet.put(packet.bth + 9, 3, packet.psn + random.randrange(2))
    packet.seal()
    frame.at = capture.frames[-1].at + 5 * 10**6
    capture.frames.append(frame)
    return True


@attack("an ACK after a fatal NAK", "A4.21")
def _(capture, random):
    naks = [i for i, f in enumerate(capture.frames)
            if f.packet and f.packet.kind == ACK and f.packet.syndrome() in (0x61, 0x62, 0x63)]
    if not naks or capture.form == "understudy":
        return False
    frame = capture.frames[random.choice(naks)].copy()
    packet = frame.packet
    packet.data[packet.extensions] = 0x1F
    packet.put(packet.extensions + 1, 3, packet.msn + 1)
    packet.seal()
    frame.at = capture.frames[-1].at + 10**6
    capture.frames.append(frame)
    return True


@attack("sent again before the RNR timer", "A5.7")
def _(capture, random):
    waits = []
    for i, f in enumerate(capture.frames):
        p = f.packet
        if not p or p.kind != ACK or p.syndrome() & 0xE0 != 0x20:
            continue
        for j in range(i + 1, min(i + 20, len(capture.frames))):
            q = capture.frames[j].packet
            if q and q.is_request and q.psn == p.psn and q.src == p.dst:
                waits.append((i, j))
                break
    if not waits or capture.form == "understudy":
        return False
    i, j = random.choice(waits)
    timer = RNR_MICROSECONDS[capture.frames[i].packet.syndrome() & 0x1F] * 1000
    at = capture.frames[i].at + timer * random.randrange(10, 80) // 100
    if timer < 100_000 or capture.frames[j].at < at:
        return False
    for frame in capture.frames[i + 1:j]:
        frame.at = min(frame.at, at)
    shift_after(capture, j, at - capture.frames[j].at)
    return True


# --- the responder ---

def copy_answer(capture, random, fits, edit):
    """A copy of an answer, changed, right behind it; other answers follow."""
    places = [(i, p) for row in flows(capture).values() for i, p in [r for r in row if fits(r[1])][:-1]]
    if not places:
        return False
    index, _ = random.choice(places)
    frame = capture.frames[index].copy()
    edit(frame.packet)
    frame.packet.seal()
    frame.at += 1
    capture.frames.insert(index + 1, frame)
    return True


def ack_again(capture, random, edit):
    return copy_answer(capture, random, lambda p: p.kind == ACK and p.syndrome() == 0x1F, edit)


def put_psn(by):
    return lambda p: p.put(p.bth + 9, 3, p.psn + by)


def put_syndrome(value):
    return lambda p: p.put(p.extensions, 1, value)


attack("a reserved AETH syndrome", "A4.9")(lambda c, random: ack_again(c, random, put_syndrome(random.choice((0x44, 0x84, 0xA1)))))
attack("NAK code of reliable datagrams", "A4.9")(lambda c, random: ack_again(c, random, put_syndrome(0x64)))
attack("a NAK for a gap that is none", "A4.2")(lambda c, random: ack_again(c, random, put_syndrome(0x60)))
attack("an ACK of what was not sent yet", "A5.3")(lambda c, random: ack_again(c, random, put_psn(random.randrange(3000, 7000))))


@attack("an ACK behind the newest", "A4.10", "A4.17")
def _(capture, random):
    if again(capture, random, lambda p: p.is_request):
        return False
    rows = [[p for _, p in r if p.kind == ACK] for r in flows(capture).values()]
    rows = [r for r in rows if len({p.psn for p in r}) > 2]
    if not rows:
        return False
    row = random.choice(rows)
    at = random.randrange(2, len(row))
    old, packet = row[0], row[at]
    if old.psn == packet.psn or row[at - 1].psn == old.psn:
        return False
    packet.put(packet.bth + 9, 3, old.psn)
    packet.seal()
    return True


@attack("the last request unanswered", "A4.10", ending=True)
def _(capture, random):
    if broken(capture) or again(capture, random, lambda p: p.is_request):
        return False
    rows = [r for r in flows(capture).values() if r[-1][1].kind == ACK and sum(p.kind == ACK for _, p in r) > 1]
    if not rows:
        return False
    row = random.choice(rows)
    last = row[-1][1].psn
    for i, p in reversed(row):
        if p.kind == ACK and p.psn == last:
            del capture.frames[i]
    return True


attack("a READ response that is too short", "A4.13", "A4.18")(one(lambda p: p.kind == RESPONSE and p.payload_bytes > 16, shorter))
attack("a READ's LAST that says MIDDLE", "A4.13", "A4.18")(
    one(lambda p: p.opcode == 15, lambda p, _: (p.data.__delitem__(slice(p.extensions, p.extensions + 4)), p.put(p.bth, 1, 14), fix(p, -4))))


def fix(p, by):
    """The lengths after bytes were taken away."""
    if p.v6:
        p.put(p.l3 + 4, 2, p.number(p.l3 + 4, 2) + by)
    else:
        p.put(p.l3 + 2, 2, p.number(p.l3 + 2, 2) + by)
    p.put(p.udp + 4, 2, p.number(p.udp + 4, 2) + by)


attack("READ data that nobody asked for", "A5.11")(
    lambda c, random: not broken(c) and copy_answer(c, random, lambda p: p.kind == RESPONSE, put_psn(random.randrange(3000, 7000))))


@attack("a misaligned ATOMIC executed", "A4.16")
def _(capture, random):
    place = chosen(capture, random, lambda p: p.kind == ATOMIC)
    if not place or broken(capture):
        return False
    flow, psn, va = place[1].flow, place[1].psn, place[1].number(place[1].extensions, 8) + 4
    for f in capture.frames:
        p = f.packet
        if p and p.kind == ATOMIC and (p.flow, p.psn) == (flow, psn):
            p.put(p.extensions, 8, va)
            p.seal()
    return True


@attack("another value for a duplicate ATOMIC", "A4.19")
def _(capture, random):
    pair = again(capture, random, lambda p: p.kind == ATOMIC_ACK)
    if not pair:
        return False
    packet = capture.frames[pair[1]].packet
    packet.put(packet.extensions + 4, 8, packet.number(packet.extensions + 4, 8) + 1)
    packet.seal()
    return True


# --- RDMA-CM ---

def mad(attribute):
    """A datagram of the connection manager."""
    return lambda p: p.kind == "ud" and p.qpn == QP1 and p.number(p.bth + MAD + 16, 2) == attribute


def mad_byte(place, bits):
    return set_bits(MAD_BODY + place, bits)


def only_one(capture, attribute):
    return sum(bool(f.packet) and mad(attribute)(f.packet) for f in capture.frames) == 1


def remove(attribute):
    def change(capture, random):
        place = chosen(capture, random, mad(attribute))
        if not place or not only_one(capture, attribute):
            return False
        del capture.frames[place[0]]
        return True
    return change


attack("CM: a status", "A9.1")(one(mad(RTU), set_bits(MAD + 5, 1)))
attack("CM: RTU of another transaction", "A9.1")(one(mad(RTU), set_bits(MAD + 15, 0x55)))
attack("CM: a reserved field", "A9.2")(one(mad(REQ), mad_byte(4, 1)))
attack("CM: a GID that is not the sender's", "A9.2")(one(mad(REQ), mad_byte(71, 0x77)))
attack("CM: REQ with another queue pair than the one used", "A9.2")(one(mad(REQ), mad_byte(34, 0x40)))
attack("CM: REP with another queue pair than the one used", "A9.2")(one(mad(REP), mad_byte(14, 0x40)))
attack("CM: first PSN that is not kept", "A9.2")(one(mad(REP), mad_byte(20, 0x20)))
attack("CM: header of another address", "A9.3")(one(mad(REQ), mad_byte(140 + 35, 0x31)))
attack("CM: REP without a REQ", "A9.4")(remove(REQ))
attack("CM: REP without an RTU", "A9.5")(
    lambda c, random: not any(f.packet and mad(DREQ)(f.packet) for f in c.frames) and remove(RTU)(c, random))
attack("CM: DREQ for another queue pair", "A9.10")(one(mad(DREQ), mad_byte(10, 0x40)))
attack("CM: DREQ without a DREP", "A9.10")(remove(DREP))


@attack("CM: a REQ again at once, with other contents", "A9.6")
def _(capture, random):
    place = chosen(capture, random, mad(REQ))
    if not place:
        return False
    frame = capture.frames[place[0]].copy()
    mad_byte(200, 1)(frame.packet, random)
    frame.packet.seal()
    frame.at += 1000
    capture.frames.insert(place[0] + 1, frame)
    return True


# --- against the configuration ---

def emulated(p):
    """In the captures of this tool the real node has host number 1."""
    return p.src[-1] != 1 and reliable(p)


attack("DSCP other than the configuration's", "A1.12", config=True)(
    whole_flow(emulated, lambda p, value: setattr(p, "tos", p.tos ^ (value % 63 + 1) << 2)))
attack("VLAN other than the configuration's", "A1.12", config=True)(
    whole_flow(lambda p: emulated(p) and p.l3 == 18, lambda p, value: p.put(14, 2, p.number(14, 2) ^ (value % 4000 + 1))))
attack("priority other than the configuration's", "A1.12", config=True)(
    whole_flow(lambda p: emulated(p) and p.l3 == 18, lambda p, _: set_bits(14 - p.bth, 0x40)(p, None)))
attack("MigReq other than the configuration's", "A1.9", config=True)(whole_flow(emulated, set_bits(1, 0x40)))


@attack("a message that the job does not have", "collective", config=True)
def _(capture, random):
    place = chosen(capture, random, lambda p: emulated(p) and p.opcode in (9, 11) and p.payload_bytes > 64)
    if not place or again(capture, random, lambda p: p.is_request):
        return False
    index, last = place
    flow = last.flow
    first = next(p for p in (f.packet for f in reversed(capture.frames[:index + 1])) if p and p.flow == flow and p.opcode in WITH_RETH)
    first.put(first.extensions + 12, 4, first.number(first.extensions + 12, 4) - 16)
    last.resize(-16)
    last.seal()
    first.seal()
    return True


# --- what breaks no rule ---

harmless("TTL that a switch has taken down")(one(v4, lambda p, _: p.put(p.l3 + 8, 1, 7)))
harmless("right UDP checksum")(one(connected, lambda p, _: (p.seal(), p.put(p.udp + 6, 2, p.udp_checksum())), seal=False))
harmless("source port below 49152, all along")(whole_flow(connected, lambda p, value: p.put(p.udp, 2, 1024 + value % 40000)))
harmless("another DSCP, all along")(whole_flow(connected, lambda p, value: setattr(p, "tos", p.tos ^ (value % 63 + 1) << 2)))
harmless("ECN-capable, all along")(whole_flow(lambda p: reliable(p) and p.tos & 3 == 0, lambda p, _: setattr(p, "tos", p.tos | 2)))
harmless("another identification, all along")(whole_flow(v4, lambda p, value: p.put(p.l3 + 4, 2, value)))
harmless("MigReq the other way, all along")(whole_flow(reliable, set_bits(1, 0x40)))
harmless("an AckReq more")(one(lambda p: p.kind in (SEND, WRITE) and not p.unreliable, lambda p, _: p.put(p.bth + 8, 1, 0x80)))
harmless("other MAC addresses")(one(connected, lambda p, random: p.put(0, 6, random.getrandbits(47) & ~(1 << 40)), seal=False))


@harmless("padding behind the packet")
def _(capture, random):
    place = chosen(capture, random, connected)
    if place:
        place[1].data.extend(bytes(random.randrange(1, 40)))
    return bool(place)


@harmless("another P_Key both ways")
def _(capture, random):
    key = 0x8000 | random.randrange(1, 0x7FFF)
    for f in capture.frames:
        if f.packet and connected(f.packet):
            f.packet.put(f.packet.bth + 2, 2, key)
            f.packet.seal()
    return True


@harmless("all frames in a VLAN")
def _(capture, random):
    tag = (0x8100 << 16 | 3 << 13 | random.randrange(1, 4000)).to_bytes(4, "big")
    if any(f.packet and f.packet.l3 != 14 for f in capture.frames):
        return False
    for f in capture.frames:
        f.data[12:12] = tag
    return True


@harmless("frames of other protocols in between")
def _(capture, random):
    arp = bytearray(bytes.fromhex("ffffffffffff0200000000010806000108000604000102000000000a0900010000000000000a090002") + bytes(18))
    for _ in range(5):
        i = random.randrange(len(capture.frames))
        frame = capture.frames[i].copy()
        frame.data = bytearray(arp)
        capture.frames.insert(i, frame)
    return True
