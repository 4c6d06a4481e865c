// Anything on the sockets of NCCL's emulated ranks, with the forms that get further made easy.
#pragma once

#include <array>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/bootstrap/check_in.h"
#include "ctrl/peers/nccl/bootstrap/frames.h"
#include "ctrl/peers/nccl/communicator.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// Takes only what makes sense: known numbers, no number twice, nothing on what is closed.
class NcclFuzzHost : public NcclHost {
 public:
  Result<SocketAddress> listen(uint32_t rank, ListenerId listener) override {
    must(listeners.insert({listener, rank}).second);
    return SocketAddress{IpAddress::v4(0x0a000000 + rank), static_cast<uint16_t>(1 + ++port)};
  }
  void stop_listening(ListenerId listener) override { must(listeners.erase(listener) == 1); }
  ListenerId new_listener() override { return ++last; }
  void dial(uint32_t, const SocketAddress&, StreamId stream) override {
    must(dialed.insert(stream).second);
  }
  StreamId new_stream() override { return ++last; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    must(open.contains(stream));
    sent += bytes.size();
  }
  void close(StreamId stream) override { must(open.erase(stream) + dialed.erase(stream) == 1); }
  Result<SocketAddress> expect(const NcclConnector& connector) override {
    must(connector.real_sends && connectors.insert(connector).second);
    return SocketAddress{IpAddress::v4(0x0a000000 + connector.emulated), 1};
  }
  void connect(const NcclConnector& connector, const SocketAddress&, uint64_t) override {
    must(!connector.real_sends && connectors.insert(connector).second);
  }
  void disconnect(const NcclConnector& connector) override {
    must(connectors.erase(connector) == 1);
  }
  void say(const std::string& line) override { must(!line.empty()); }

  std::map<ListenerId, uint32_t> listeners;
  std::set<StreamId> dialed, open;
  std::set<NcclConnector> connectors;
  uint64_t last = 0, sent = 0;
  uint16_t port = 0;
};

inline void drive_nccl_bootstrap(std::span<const uint8_t> bytes) {
  FuzzInput input(bytes);
  NcclCommunicatorSettings settings;
  const auto layouts = bootstrap_layouts();
  const BootstrapLayout& layout = layouts[input.byte() % layouts.size()];
  settings.version = {layout.minor};
  settings.id.magic = 0x0102030405060708;
  settings.id.root = {IpAddress::v4(0x0a0000fe), 77};
  const uint32_t pattern = input.word();
  for (uint32_t rank = 0; rank < 2 + pattern % 7; ++rank) {
    settings.ranks.push_back({(pattern >> (8 + rank) & 1) != 0, rank >> (pattern >> 4 & 1)});
  }
  NcclFuzzHost host;
  settings.emulated_root = (pattern >> 5 & 1) != 0;
  if (settings.emulated_root) {
    settings.root_listener = host.new_listener();
    static_cast<void>(host.listen(0, settings.root_listener));
  }
  const auto ranks = static_cast<uint32_t>(settings.ranks.size());
  {
    NcclCommunicator machine(settings, host);
    const Time now = Time::zero();
    machine.start(now);
    const auto pick = [&](const auto& set) {
      return *std::next(set.begin(), static_cast<ptrdiff_t>(input.byte() % set.size()));
    };
    const auto give = [&](StreamId stream, const std::vector<uint8_t>& what) {
      // In two pieces, cut anywhere.
      const size_t cut = what.empty() ? 0 : input.byte() * what.size() / 256;
      const std::span<const uint8_t> all(what);
      if (host.open.contains(stream)) machine.on_bytes(now, stream, all.first(cut));
      if (host.open.contains(stream)) machine.on_bytes(now, stream, all.subspan(cut));
    };
    const auto accept = [&] {
      const ListenerId listener = pick(host.listeners).first;
      const StreamId stream = host.new_stream();
      host.open.insert(stream);
      machine.on_accepted(now, listener, stream, {IpAddress::v4(0x0a0000fd), 5});
      return stream;
    };
    const auto payload = [&](size_t size) {
      std::vector<uint8_t> data(size);
      const auto some = input.take(std::min<size_t>(input.byte(), size));
      std::copy(some.begin(), some.end(), data.begin());
      if (const uint8_t form = input.byte(); size >= 2 * kNcclAddressBytes && form < 128) {
        put_nccl_address(data, (form & 1) * 28, {IpAddress::v4(0x0a000000 + form), 9});
        if (form & 2) put_nccl_u64(data, 32, 0x564ab9f2fc4b9d6c);
        if (form & 4) put_nccl_u32(data, 0, form % ranks);
        if ((form & 8) && layout.version_at > 0 && size == layout.peer_info) {
          put_nccl_u32(data, layout.version_at, 20000 + layout.minor * 100);
        }
      }
      return data;
    };
    while (!input.done()) {
      const uint8_t op = input.byte();
      std::vector<uint8_t> what;
      switch (op % 10) {
        case 0:
          if (!host.listeners.empty()) accept();
          break;
        case 1:
          if (!host.dialed.empty()) {
            const StreamId stream = pick(host.dialed);
            host.dialed.erase(stream);
            host.open.insert(stream);
            machine.on_connected(now, stream);
          }
          break;
        case 2: {
          auto& from = (op & 16) != 0 ? host.dialed : host.open;
          if (from.empty()) break;
          const StreamId stream = pick(from);
          from.erase(stream);
          machine.on_closed(now, stream, "why");
          break;
        }
        case 3:
          if (host.open.empty()) break;
          {
            const auto raw = input.take(input.byte());
            give(pick(host.open), {raw.begin(), raw.end()});
          }
          break;
        case 4:
          if (host.open.empty()) break;
          append_handshake(what, settings.id.magic + (input.byte() == 1));
          give(pick(host.open), what);
          break;
        case 5: {  // a frame of a size that somebody knows
          if (host.open.empty()) break;
          const StreamId stream = pick(host.open);
          const std::array<uint32_t, 10> sizes = {layout.first[0],
                                                  layout.first[1],
                                                  layout.first[2],
                                                  layout.peer_info,
                                                  layout.all_gather_info,
                                                  layout.root_answer,
                                                  layout.check_in,
                                                  2,
                                                  8,
                                                  input.byte()};
          append_frame(what, payload(sizes[input.byte() % sizes.size()]));
          give(stream, what);
          break;
        }
        case 6: {  // a whole message
          if (host.listeners.empty()) break;
          const StreamId stream = accept();
          append_handshake(what, settings.id.magic);
          const uint32_t from = input.byte() % (ranks + 1), form = input.byte();
          const uint32_t tag = form < 200   ? (1 + form % ranks) << 8 | (input.byte() & 0x83)
                               : form < 220 ? (layout.one_header ? 1u << 29 : ~0u - 1)
                                            : input.word();
          append_frame_size(what, layout.one_header ? 8 : 4);
          append_frame_size(what, from);
          if (!layout.one_header) append_frame_size(what, 4);
          append_frame_size(what, tag);
          const size_t sizes[] = {0, 4, 256, 512, 768, layout.root_answer, input.byte()};
          append_frame(what, payload(sizes[input.byte() % std::size(sizes)]));
          give(stream, what);
          break;
        }
        case 7: {  // check-in, or the root's answer
          if (host.listeners.empty()) break;
          const StreamId stream = accept();
          append_handshake(what, settings.id.magic);
          const SocketAddress at{IpAddress::v4(0x0a0000fc), 6};
          append_frame(what, settings.emulated_root
                                 ? check_in_bytes(layout, {input.byte() % ranks, ranks, at, at})
                                 : ring_info_bytes(layout, at));
          give(stream, what);
          break;
        }
        case 8:
          if (host.connectors.empty()) break;
          if (op & 128) {
            machine.on_connector_failed(now, pick(host.connectors), "why");
          } else {
            machine.on_connector_ready(now, pick(host.connectors));
          }
          break;
        default:
          must(!machine.waiting().empty());
      }
      if (!machine.failure().empty() || machine.finished()) {
        must(host.open.empty() && host.dialed.empty() && host.listeners.empty() &&
             host.connectors.empty());
      }
    }
  }
  must(host.connectors.empty());
}

}  // namespace understudy
