// Frames from the device: headers read, ICRCs verified, addressed queue pairs looked up ahead, then
// each handed to whom it is for.
#pragma once

#include <array>

#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/receive/datagrams.h"
#include "dataplane/engine/receive/host_frames.h"
#include "dataplane/engine/receive/train_assembler.h"
#include "dataplane/engine/send/fault_path.h"
#include "dataplane/engine/send/pause_frames.h"
#include "dataplane/engine/state/inbound_packets.h"
#include "dataplane/engine/state/io.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class ReceivePath {
 public:
  /// Where frames go on to.
  struct Sinks {
    InboundPackets& inbound;
    FaultPath& faults;
    NetworkSide& network;
    Datagrams& datagrams;
    HostFrames& host;
    PauseFrames& pauses;
  };
  ReceivePath(ShardState& state, const Sinks& sinks);

  void rx(const RxBurst& burst);

 private:
  static constexpr size_t kTogether = 32;  ///< frames whose headers are read before the rest

  void read_headers(std::span<const std::span<const uint8_t>> frames);
  const ReadFrame* read_one(std::span<const uint8_t> frame, size_t at);
  void rx_frames(std::span<const std::span<const uint8_t>> frames, const ReadFrame* const* read,
                 Time now);
  void prefetch_qp(uint32_t slot) const;
  bool continues_train(const ReadFrame& like, std::span<const uint8_t> frame, uint32_t at,
                       Time now);
  void rx_frame(const ReadFrame& read, uint32_t slot, std::span<const uint8_t> frame, uint32_t at,
                Time now);
  void rx_roce(const ReadFrame& read, uint32_t slot, uint32_t at, Time now);
  void rx_rc(const FrameView& view, const RoceView& roce, uint32_t slot, uint32_t at, Time now);
  void rx_through(const FrameView& view, const RoceView& roce, const NodeNic& to, Time now);
  bool verifies_next();

  ShardState& state_;
  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  const FaultInjector& injector_;
  Sinks to_;
  TrainAssembler trains_;
  std::array<ReadFrame, kTogether> own_reads_;          ///< where nobody else has read them
  std::array<const ReadFrame*, kTogether> own_read_{};  ///< the same one for all like it
  IcrcMemory icrc_memory_;
  uint64_t count_ = 0;  ///< for sampled ICRC verification
};

}  // namespace understudy
