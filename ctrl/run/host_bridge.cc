#include "ctrl/run/host_bridge.h"

#include <cstring>

#include "dataplane/wire/parse.h"

namespace understudy {
namespace {

/// Frames of a turn in each direction: who floods leaves time for what else control has to do.
constexpr size_t kMostFrames = 256;

}  // namespace

HostBridge::HostBridge(const HostNamespace& host, std::vector<Shard*> shards)
    : host_(host), shards_(std::move(shards)), buffer_(kPacketBufferBytes) {
  for (Shard* shard : shards_) {
    for (const NodeNic& nic : shard->nodes()) {
      if (!nic.real) continue;
      if (nic.v4) by_real_address_[*nic.v4] = shard;
      if (nic.v6) by_real_address_[*nic.v6] = shard;
    }
  }
}

void HostBridge::poll() {
  for (Shard* shard : shards_) {
    for (size_t written = 0; written < kMostFrames; ++written) {
      const auto frame = shard->to_host().front();
      if (frame.data() == nullptr) break;
      host_.write_frame(frame);  // a full TAP queue drops, as a NIC would; TCP repeats
      shard->to_host().pop();
    }
  }
  for (size_t read = 0; read < kMostFrames; ++read) {
    const size_t size = host_.read_frame(buffer_);
    if (size == 0) break;
    FrameView view;
    RoceView roce;
    if (parse_frame({buffer_.data(), size}, view, roce) != FrameKind::kIp) continue;
    const auto shard = by_real_address_.find(view.dst);
    if (shard == by_real_address_.end()) continue;
    uint8_t* out = shard->second->from_host().reserve(static_cast<uint32_t>(size));
    if (out == nullptr) continue;
    std::memcpy(out, buffer_.data(), size);
    shard->second->from_host().commit(static_cast<uint32_t>(size));
  }
}

}  // namespace understudy
