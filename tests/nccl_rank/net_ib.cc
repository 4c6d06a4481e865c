#include "tests/nccl_rank/net_ib.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/nccl_rank/structures.h"
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

Bytes build_list(const IbLayout& layout) {
  Bytes out(static_cast<size_t>(layout.list_bytes));
  if (!out.empty()) put32(out, 0, 1);  // device 0
  return out;
}

Bytes build_metadata(const IbLayout& layout, const IbSide& side) {
  Bytes out(static_cast<size_t>(layout.bytes));
  const auto gid = side.gid.gid();
  if (layout.devices == kAbsent) {
    out[4] = kPort;
    out[5] = kEthernet;
    for (size_t i = 0; i < side.qpns.size(); ++i) {
      put32(out, layout.queue_pairs + 4 * static_cast<int>(i), side.qpns[i]);
    }
    std::copy(gid.begin(), gid.end(), out.begin() + layout.address - 24);
    put32(out, layout.address - 8, static_cast<uint32_t>(side.mtu));
    put32(out, layout.address - 4, side.rkey);
  } else {
    for (size_t i = 0; i < side.qpns.size(); ++i) {
      put32(out, 24 * static_cast<int>(i), side.qpns[i]);
    }
    const int at = layout.devices;
    out[static_cast<size_t>(at + 4)] = kPort;
    put32(out, at + 8, static_cast<uint32_t>(side.mtu));
    out[static_cast<size_t>(at + 12)] = kEthernet;
    std::copy(gid.begin(), gid.end(), out.begin() + at + 16);
    put32(out, at + 32, side.rkey);
    const std::string name = "mlx5_0";
    std::copy(name.begin(), name.end(), out.begin() + layout.names);
    put32(out, layout.device_number, 1);
    if (layout.traffic_class != kAbsent) {
      put32(out, layout.traffic_class, side.traffic_class);
    }
  }
  put64(out, layout.address, side.address);
  return out;
}

void judge_list(const Bytes& list) {
  require(i32_at(list, 0) == 1, "net_ib: " + std::to_string(i32_at(list, 0)) + " devices");
  require_zero(list, 4, "net_ib's device list");
}

IbSide judge_metadata(const World& world, const Bytes& bytes, const IbSide& own,
                      const IpAddress& peer_gid, bool from_receiver) {
  const IbLayout& layout = world.layout().ib;
  IbSide out;
  int port = 0, link_layer = 0, gid_at = 0;
  // One device; numbers of as many queue pairs as ours, and no ECE: we have none.
  const size_t wanted = own.qpns.size();
  if (layout.devices == kAbsent) {
    port = bytes[4];
    link_layer = bytes[5];
    for (size_t i = 0; i < wanted; ++i) {
      out.qpns.push_back(u32_at(bytes, static_cast<size_t>(layout.queue_pairs) + 4 * i));
    }
    gid_at = layout.address - 24;
    out.mtu = i32_at(bytes, static_cast<size_t>(layout.address - 8));
    out.rkey = u32_at(bytes, static_cast<size_t>(layout.address - 4));
  } else {
    require(i32_at(bytes, static_cast<size_t>(layout.device_number)) == 1,
            "net_ib: not one device");
    for (size_t i = 0; i < wanted; ++i) {
      out.qpns.push_back(u32_at(bytes, 24 * i));
      require(u32_at(bytes, 24 * i + 16) == 0, "net_ib: it claims ECE");
      require(u32_at(bytes, 24 * i + 20) == 0, "net_ib: a queue pair of another device");
    }
    const auto at = static_cast<size_t>(layout.devices);
    port = bytes[at + 4];
    out.mtu = i32_at(bytes, at + 8);
    link_layer = bytes[at + 12];
    gid_at = layout.devices + 16;
    out.rkey = u32_at(bytes, at + 32);
    if (layout.traffic_class != kAbsent) {
      out.traffic_class = u32_at(bytes, static_cast<size_t>(layout.traffic_class));
      require(!from_receiver || out.traffic_class == own.traffic_class,
              "net_ib: a receiver with another traffic class than its sender's");
    }
  }
  out.gid = IpAddress::v6_bytes(bytes.data() + gid_at);
  out.address = u64_at(bytes, static_cast<size_t>(layout.address));
  require(port == kPort, "net_ib: port " + std::to_string(port) + ", which our adapter has not");
  require(link_layer == kEthernet, "net_ib: link layer " + std::to_string(link_layer));
  require(out.mtu >= 1 && out.mtu <= 5, "net_ib: MTU " + std::to_string(out.mtu));
  require(out.gid == peer_gid, "net_ib: GID " + out.gid.text() + " instead of " + peer_gid.text());
  require(out.rkey != 0 && out.address != 0, "net_ib: no memory");
  std::set<uint32_t> different;
  for (uint32_t qpn : out.qpns) {
    require(qpn > 1 && qpn < 1 << 24, "net_ib: queue pair " + std::to_string(qpn));
    require(different.insert(qpn).second, "net_ib: a queue pair twice");
  }
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
                     IpAddress peer_gid, IbReady connected) {
  const IbLayout& layout = world.layout().ib;
  Socket* socket = co_await process.dial(listener, kIbMagic, kIbSocket);
  if (layout.list_bytes > 0) {
    process.send(socket, build_list(layout));
    const Bytes list = co_await process.receive(socket, static_cast<size_t>(layout.list_bytes),
                                                "net_ib's device list");
    judge_list(list);
  }
  process.send(socket, build_metadata(layout, own));
  const Bytes metadata =
      co_await process.receive(socket, static_cast<size_t>(layout.bytes), "net_ib's metadata");
  IbSide theirs = judge_metadata(world, metadata, own, peer_gid, true);
  connected(theirs);
  Bytes ready(4);
  put32(ready, 0, 1);
  process.send(socket, ready);
  co_return theirs;
}

Task<IbSide> ib_receive(Process& process, const World& world, ListeningSocket* listener, IbSide own,
                        IpAddress peer_gid, IbReady connected) {
  const IbLayout& layout = world.layout().ib;
  Socket* socket = co_await process.accept(listener, kIbMagic, kIbSocket);
  if (layout.list_bytes > 0) {
    const Bytes list = co_await process.receive(socket, static_cast<size_t>(layout.list_bytes),
                                                "net_ib's device list");
    judge_list(list);
    process.send(socket, build_list(layout));
  }
  const Bytes metadata =
      co_await process.receive(socket, static_cast<size_t>(layout.bytes), "net_ib's metadata");
  IbSide theirs = judge_metadata(world, metadata, own, peer_gid, false);
  own.traffic_class = theirs.traffic_class;
  connected(theirs);
  process.send(socket, build_metadata(layout, own));
  const Bytes ready = co_await process.receive(socket, 4, "net_ib's word that it is ready");
  require(i32_at(ready, 0) == 1, "net_ib: ready is not 1");
  process.stop(listener);
  co_return theirs;
}

}  // namespace understudy::nccl_rank
