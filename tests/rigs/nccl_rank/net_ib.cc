#include "tests/rigs/nccl_rank/net_ib.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "tests/rigs/nccl_rank/structures.h"
#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::FieldKind;
using nccl_decode::i32_at;
using nccl_decode::IbLayout;
using nccl_decode::kAbsent;
using nccl_decode::kIbMagic;
using nccl_decode::u32_at;
using nccl_decode::u64_at;

constexpr int kEthernet = 2, kPort = 1;

Bytes build_list(const IbLayout& layout, const IbSide& side) {
  Bytes out(static_cast<size_t>(layout.list_bytes));
  if (out.empty()) return out;
  const auto devices = static_cast<int>(side.gids.size());
  put32(out, 0, static_cast<uint32_t>(devices));
  for (int d = 0; d < devices; ++d) {
    put32(out, 4 + 4 * d, static_cast<uint32_t>(side.first_device + d));
  }
  return out;
}

/// What NCCL writes nothing to is zero. Up to 2.23, which have no list of devices, it is what its
/// stack had.
bool is_cleared(const IbLayout& layout) { return layout.list_bytes > 0; }

Bytes build_metadata(const IbLayout& layout, const IbSide& side) {
  Bytes out(static_cast<size_t>(layout.bytes), is_cleared(layout) ? 0 : 0xa7);
  const auto clear = [&](int at, int bytes) { std::fill_n(out.begin() + at, bytes, uint8_t{0}); };
  const auto put_gid = [&](const IpAddress& address, int at) {
    const auto gid = address.gid();
    std::copy(gid.begin(), gid.end(), out.begin() + at);
  };
  if (layout.devices == kAbsent) {
    clear(0, 4);  // LID
    out[4] = kPort;
    out[5] = kEthernet;
    for (size_t i = 0; i < side.qpns.size(); ++i) {
      put32(out, layout.queue_pairs + 4 * static_cast<int>(i), side.qpns[i]);
    }
    put_gid(side.gids[0], layout.address - 24);
    put32(out, layout.address - 8, static_cast<uint32_t>(side.mtu));
    put32(out, layout.address - 4, side.rkeys[0]);
  } else {
    for (size_t i = 0; i < side.qpns.size(); ++i) {
      clear(24 * static_cast<int>(i), 24);  // no ECE
      put32(out, 24 * static_cast<int>(i), side.qpns[i]);
      put32(out, 24 * static_cast<int>(i) + 20, static_cast<uint32_t>(i % side.gids.size()));
    }
    const auto put_further = [&](const std::vector<uint32_t>& qpns, int first) {
      for (size_t i = 0; i < qpns.size(); ++i) {
        const int at = layout.resiliency + 24 * (first + static_cast<int>(i));
        put32(out, at, qpns[i]);
        put32(out, at + 20, static_cast<uint32_t>(i % side.gids.size()));
      }
    };
    put_further(side.probing, 0);
    put_further(side.recovery, layout.device_count);
    std::string name;
    clear(layout.names, layout.name_bytes);
    for (size_t d = 0; d < side.gids.size(); ++d) {
      const int at = layout.devices + 56 * static_cast<int>(d);
      clear(at, 16);
      out[static_cast<size_t>(at + 4)] = kPort;
      put32(out, at + 8, static_cast<uint32_t>(side.mtu));
      out[static_cast<size_t>(at + 12)] = kEthernet;
      put_gid(side.gids[d], at + 16);
      put32(out, at + 32, side.rkeys[d]);
      name += (d == 0 ? "mlx5_" : "+mlx5_") + std::to_string(d);
    }
    std::copy(name.begin(), name.end(), out.begin() + layout.names);
    put32(out, layout.device_number, static_cast<uint32_t>(side.gids.size()));
    if (layout.traffic_class != kAbsent) {
      put32(out, layout.traffic_class, side.traffic_class);
    }
  }
  put64(out, layout.address, side.address);
  return out;
}

void judge_list(const Bytes& list, const World::Nic& nic) {
  const size_t devices = nic.gids.size();
  require(i32_at(list, 0) == static_cast<int>(devices),
          "net_ib: " + std::to_string(i32_at(list, 0)) + " devices");
  for (size_t d = 0; d < devices; ++d) {
    require(i32_at(list, 4 + 4 * d) == nic.first + static_cast<int>(d),
            "net_ib: another device in the list");
  }
  require_zero(list, 4 + 4 * devices, "net_ib's device list");
}

void judge_device(int port, int link_layer, int mtu, const IpAddress& gid, uint32_t rkey,
                  const IpAddress& expected) {
  require(port == kPort, "net_ib: port " + std::to_string(port) + ", which our adapter has not");
  require(link_layer == kEthernet, "net_ib: link layer " + std::to_string(link_layer));
  require(mtu >= 1 && mtu <= 5, "net_ib: MTU " + std::to_string(mtu));
  require(gid == expected, "net_ib: GID " + gid.text() + " instead of " + expected.text());
  require(rkey != 0, "net_ib: no key");
}

/// As many as there have to be, of the right devices, and no more.
std::vector<uint32_t> judge_further(const IbLayout& layout, const Bytes& bytes, int first,
                                    size_t wanted, size_t devices) {
  std::vector<uint32_t> out;
  for (int i = 0; layout.resiliency_bytes > 0 && i < layout.device_count; ++i) {
    const auto at = static_cast<size_t>(layout.resiliency + 24 * (first + i));
    if (at + 24 > static_cast<size_t>(layout.resiliency + layout.resiliency_bytes)) break;
    const uint32_t qpn = u32_at(bytes, at);
    if (out.size() == wanted) {
      require(qpn == 0, "net_ib: a queue pair more for port failover");
      continue;
    }
    require(qpn > 1 && qpn < 1 << 24, "net_ib: a queue pair for port failover is missing");
    require(u32_at(bytes, at + 20) == out.size() % devices,
            "net_ib: a queue pair for port failover of another device");
    out.push_back(qpn);
  }
  require(out.size() == wanted, "net_ib: this release has no port failover");
  return out;
}

IbSide judge_metadata(const World& world, const Bytes& bytes, const IbSide& own,
                      const std::vector<IpAddress>& peer, bool from_receiver) {
  const IbLayout& layout = world.layout().ib;
  IbSide out;
  const auto gid_at = [&](size_t at) { return IpAddress::v6_bytes(bytes.data() + at); };
  // Numbers of as many queue pairs as ours, and no ECE: we have none.
  const size_t wanted = own.qpns.size();
  if (layout.devices == kAbsent) {
    for (size_t i = 0; i < wanted; ++i) {
      out.qpns.push_back(u32_at(bytes, static_cast<size_t>(layout.queue_pairs) + 4 * i));
    }
    const auto end = static_cast<size_t>(layout.address);
    out.mtu = i32_at(bytes, end - 8);
    out.rkeys = {u32_at(bytes, end - 4)};
    out.gids = {gid_at(end - 24)};
    judge_device(bytes[4], bytes[5], out.mtu, out.gids[0], out.rkeys[0], peer[0]);
  } else {
    require(
        i32_at(bytes, static_cast<size_t>(layout.device_number)) == static_cast<int>(peer.size()),
        "net_ib: another number of devices");
    for (size_t i = 0; i < wanted; ++i) {
      out.qpns.push_back(u32_at(bytes, 24 * i));
      require(u32_at(bytes, 24 * i + 16) == 0, "net_ib: it claims ECE");
      require(u32_at(bytes, 24 * i + 20) == i % peer.size(),
              "net_ib: a queue pair of another device");
    }
    for (size_t d = 0; d < static_cast<size_t>(layout.device_count); ++d) {
      const auto at = static_cast<size_t>(layout.devices) + 56 * d;
      if (d >= peer.size()) {
        for (size_t i = 0; i < 56 && is_cleared(layout); ++i) {
          require(bytes[at + i] == 0, "net_ib: one device more");
        }
        continue;
      }
      out.mtu = i32_at(bytes, at + 8);
      out.gids.push_back(gid_at(at + 16));
      out.rkeys.push_back(u32_at(bytes, at + 32));
      judge_device(bytes[at + 4], bytes[at + 12], out.mtu, out.gids[d], out.rkeys[d], peer[d]);
    }
    if (layout.traffic_class != kAbsent) {
      out.traffic_class = u32_at(bytes, static_cast<size_t>(layout.traffic_class));
      require(!from_receiver || out.traffic_class == own.traffic_class,
              "net_ib: a receiver with another traffic class than its sender's");
    }
  }
  if (layout.devices != kAbsent) {
    out.probing = judge_further(layout, bytes, 0, own.probing.size(), peer.size());
    out.recovery =
        judge_further(layout, bytes, layout.device_count, own.recovery.size(), peer.size());
  }
  out.address = u64_at(bytes, static_cast<size_t>(layout.address));
  require(out.address != 0, "net_ib: no memory");
  // Of devices each has numbers of its own.
  std::set<std::pair<size_t, uint32_t>> different;
  for (size_t q = 0; q < out.qpns.size(); ++q) {
    const uint32_t qpn = out.qpns[q];
    require(qpn > 1 && qpn < 1 << 24, "net_ib: queue pair " + std::to_string(qpn));
    require(different.insert({q % peer.size(), qpn}).second, "net_ib: a queue pair twice");
  }
  if (!is_cleared(layout)) return out;
  for (const auto& field : nccl_decode::describe_ib(bytes, layout)) {
    require(field.kind != FieldKind::kUnknown, "net_ib: " + field.name + " is " + field.value);
    const bool more = field.name.starts_with("qp") && field.name.ends_with(".qpn") &&
                      std::stoul(field.name.substr(2)) >= wanted;
    require(!more, "net_ib: more queue pairs than ours");
  }
  return out;
}

}  // namespace

Task<IbSide> ib_send(Process& process, const World& world, SocketAddress listener, IbSide own,
                     World::Nic peer, IbReady connected) {
  const IbLayout& layout = world.layout().ib;
  Socket* socket = co_await process.dial(listener, kIbMagic, kIbSocket);
  if (layout.list_bytes > 0) {
    process.send(socket, build_list(layout, own));
    const Bytes list = co_await process.receive(socket, static_cast<size_t>(layout.list_bytes),
                                                "net_ib's device list");
    judge_list(list, peer);
  }
  process.send(socket, build_metadata(layout, own));
  const Bytes metadata =
      co_await process.receive(socket, static_cast<size_t>(layout.bytes), "net_ib's metadata");
  IbSide theirs = judge_metadata(world, metadata, own, peer.gids, true);
  connected(theirs);
  Bytes ready(4);
  put32(ready, 0, 1);
  process.send(socket, ready);
  co_return theirs;
}

Task<IbSide> ib_receive(Process& process, const World& world, ListeningSocket* listener, IbSide own,
                        World::Nic peer, IbReady connected, bool last) {
  const IbLayout& layout = world.layout().ib;
  Socket* socket = co_await process.accept(listener, kIbMagic, kIbSocket);
  if (layout.list_bytes > 0) {
    const Bytes list = co_await process.receive(socket, static_cast<size_t>(layout.list_bytes),
                                                "net_ib's device list");
    judge_list(list, peer);
    process.send(socket, build_list(layout, own));
  }
  const Bytes metadata =
      co_await process.receive(socket, static_cast<size_t>(layout.bytes), "net_ib's metadata");
  IbSide theirs = judge_metadata(world, metadata, own, peer.gids, false);
  own.traffic_class = theirs.traffic_class;
  connected(theirs);
  process.send(socket, build_metadata(layout, own));
  const Bytes ready = co_await process.receive(socket, 4, "net_ib's word that it is ready");
  require(i32_at(ready, 0) == 1, "net_ib: ready is not 1");
  if (last) process.stop(listener);
  co_return theirs;
}

}  // namespace understudy::nccl_rank
