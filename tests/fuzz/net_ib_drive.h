// Anything on the socket of a net_ib connection, with the messages that get further made easy.
#pragma once

#include <algorithm>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_metadata.h"
#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// Hears one end of each connection, and only what makes sense after what it has heard.
struct NetIbFuzzObserver final : NetIbObserver {
  void on_connector_ready(Time, const NcclConnector&) override {
    must(!ready && !failed);
    ready = true;
  }
  void on_connector_failed(Time, const NcclConnector&, const std::string& why) override {
    must(!failed && !ready && !why.empty());
    failed = true;
  }
  void on_connector_closed(Time, const NcclConnector&) override {
    must(ready && !closed);
    closed = true;
  }
  bool ready = false, failed = false, closed = false;
};

/// What a real rank sends at this point of the exchange.
inline std::vector<uint8_t> net_ib_message(const NetIbLayout& layout, uint8_t which,
                                           size_t queue_pairs, uint8_t devices = 1) {
  if (which == 0) return {0x6c, 0x9d, 0x4b, 0xfc, 0xf2, 0xb9, 0x4a, 0x56, 4, 0, 0, 0};
  if (which == 1) {
    std::vector<uint8_t> list(layout.device_list_bytes);
    if (!list.empty()) list[0] = devices;
    return list;
  }
  if (which == 3) return {1, 0, 0, 0};
  NetIbEnd end;
  for (size_t q = 0; q < queue_pairs * devices; ++q) {
    end.qpns.push_back(static_cast<Qpn>(100 + q));
    end.device_of.push_back(static_cast<uint8_t>(q % devices));
  }
  for (uint8_t d = 0; d < devices; ++d) {
    end.devices.push_back(
        {.mtu = 5, .gid = IpAddress::v4(0x0a000001 + 0x100u * d), .rkey = 7u + d});
  }
  end.address = 0x7000;
  std::vector<uint8_t> bytes(layout.bytes);
  write_net_ib(layout, end, bytes);
  return bytes;
}

inline void drive_net_ib(std::span<const uint8_t> bytes) {
  FuzzInput input(bytes);
  NetIbSettings settings;
  settings.version = {18u + input.byte() % 13};
  const NetIbLayout& layout = net_ib_layout(settings.version);
  const uint8_t form = input.byte();
  const bool real_sends = form % 2 == 0;
  settings.queue_pairs = 1 + form / 2 % 4;
  const uint8_t devices = layout.most_devices > 1 && form / 16 % 2 == 1 ? 2 : 1;
  settings.local = {IpAddress::v4(0x0a000002)};
  if (form / 32 % 2 == 1) settings.local.push_back(IpAddress::v4(0x0a000102));
  for (uint8_t d = 0; d < devices; ++d) {
    settings.real_addresses.push_back(IpAddress::v4(0x0a000001 + 0x100u * d));
  }
  NetIbSeen seen;
  if (form / 8 % 2 == 1) seen = {&layout, net_ib_message(layout, 2, 1, devices)};
  NetIbFuzzObserver observer;
  NetIbPeer peer({.real_sends = real_sends}, settings, seen, observer);
  size_t told = 0, wished = 0, answered = 0, queue_pairs = 0;
  while (!input.done()) {
    const bool was_finished = peer.finished();
    switch (const uint8_t event = input.byte(); event % 8) {
      case 0:
        peer.on_bytes(Time(), input.take(input.byte()));
        break;
      case 1:
      case 2:
      case 3:
      case 4: {
        std::vector<uint8_t> message = net_ib_message(layout, static_cast<uint8_t>(event % 8 - 1),
                                                      settings.queue_pairs, devices);
        for (uint8_t damage = event / 64; damage > 0 && !message.empty(); --damage) {
          const uint32_t at = input.word() % 65536;
          message[at % message.size()] = input.byte();
        }
        peer.on_bytes(Time(), message);
        break;
      }
      case 5:
        if (answered == wished) break;
        ++answered;
        peer.on_endpoint(Time(), {.qpn = 1,
                                  .psn = Psn(0),
                                  .address = 0x1000,
                                  .rkey = 5,
                                  .qpns = std::vector<Qpn>(queue_pairs, 1)});
        break;
      case 6:
        if (event / 8 % 4 != 0) {
          if (!real_sends) peer.on_connected(Time());
        } else if (answered < wished) {
          ++answered;
          peer.on_refused(Time(), "no");
        }
        break;
      default:
        if (event / 8 % 4 == 0 && !was_finished) peer.on_closed(Time());
        break;
    }
    for (const EndpointRequest& request : peer.take_requests()) {
      must(!was_finished && ++wished <= (real_sends ? 1u : 2u) && request.nccl.has_value());
      queue_pairs = request.nccl->queue_pairs;
      if (request.reserve) continue;
      must(std::ranges::count(settings.real_addresses, request.remote) == 1);
      must(request.nccl->remote_device.size() == queue_pairs);
      must(request.nccl->devices.size() == settings.real_addresses.size());
      must(!request.nccl->local.empty());
      for (const uint8_t device : request.nccl->remote_device) {
        must(device < request.nccl->devices.size());
      }
      must(request.mtu >= 256 && request.mtu <= 4096 && (request.mtu & (request.mtu - 1)) == 0);
      must(request.nccl->queue_pairs >= 1 && request.nccl->queue_pairs <= kNetIbQueuePairs);
      must(request.nccl->remote_qpns.size() == request.nccl->queue_pairs);
    }
    const size_t output = peer.take_output().size();
    told += output;
    must(!was_finished || output == 0);
    must(told <= 12u + layout.device_list_bytes + layout.bytes + 4u);
    must(observer.closed <= observer.ready && (!observer.ready || peer.ready()));
    must(peer.failure().empty() || peer.finished());
    must(!observer.failed || peer.finished());
    must(peer.waiting().empty() == peer.ready());
  }
}

}  // namespace understudy
