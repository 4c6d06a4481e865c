"""A small model of the NIC of a server from which clients read.

The NIC fetches `burst` packets for one client, then for the next that waits, as long as fewer than `ahead` packets wait for
the wire. They leave in the order in which they were fetched. Times are us.
"""

import collections
import dataclasses
import heapq

FETCH_US = 0.05  # of one packet: far less than it takes on the wire


@dataclasses.dataclass
class Nic:
    burst: int
    ahead: int
    by_client: bool  # who waits is served in the order of the clients' numbers, in circles; else who waits longest is next
    packet_us: float  # a whole packet on the wire
    last_us: float  # the last packet of a READ on it
    path_us: float  # from post to end, all but the wire


@dataclasses.dataclass
class Read:
    client: int
    number: int
    posted: float
    packets: int  # not yet fetched


class Waiting:
    """READs of which packets are still to be fetched, and posts to come."""

    def __init__(self, nic, posts):
        self.nic = nic
        self.posts = list(posts)
        heapq.heapify(self.posts)
        self.reads = collections.deque()
        self.last_client = -1

    def until(self, now):
        while self.posts and self.posts[0][0] <= now:
            posted, client, number, packets = heapq.heappop(self.posts)
            self.reads.append(Read(client, number, posted, packets))

    def take(self):
        read = self.reads[0]
        if self.nic.by_client:
            read = min(self.reads, key=lambda one: (one.client <= self.last_client, one.client))
        self.reads.remove(read)
        self.last_client = read.client
        return read


def serve(nic, posts, following):
    """By (client, number): us from post to end. `posts` are of (when, client, number, packets).

    following(client, number, end): the posts that the end of a READ brings about.
    """
    waiting, times = Waiting(nic, posts), {}
    now = wire_free = 0.0
    while waiting.posts or waiting.reads:
        if not waiting.reads:
            now = max(now, waiting.posts[0][0])
        waiting.until(now)
        read = waiting.take()
        for _ in range(min(nic.burst, read.packets)):
            now = max(now, wire_free - nic.ahead * nic.packet_us) + FETCH_US
            read.packets -= 1
            wire_free = max(wire_free, now) + (nic.packet_us if read.packets else nic.last_us)
        if read.packets:
            waiting.until(now)
            waiting.reads.append(read)
            continue
        end = wire_free + nic.path_us
        times[read.client, read.number] = end - read.posted
        for post in following(read.client, read.number, end):
            heapq.heappush(waiting.posts, post)
    return times
