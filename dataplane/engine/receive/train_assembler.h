// Packets that have come together join to a train (packet_train.h) where nothing tells them apart.
#pragma once

#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/state/packet_train.h"
#include "dataplane/engine/state/read_frame.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class TrainAssembler {
 public:
  TrainAssembler(ShardState& state, NetworkSide& network)
      : config_(state.config),
        pool_(state.pool),
        qps_(state.qps),
        ports_(state.ports),
        network_(network) {}

  /// Whether packets like this one may be in the middle of a train.
  static bool may_hold(const ReadFrame& read);
  /// Whether the packet for `slot` is the next one of the open train's message.
  bool accepts(const FrameView& view, const RoceView& roce, uint32_t slot) const;
  /// It joins; `at` is its place among the frames that are read together.
  void add(const FrameView& view, const RoceView& roce, uint32_t at, Time now);
  /// Whether a frame of the place `at`, whose headers differ from those of the frame before it by
  /// the PSN only, is the next one.
  bool accepts_next(std::span<const uint8_t> frame, uint32_t at) const;
  /// It joins.
  void add_next(uint32_t at, Time now);
  /// Whether the packet for `slot` may be the first of a train. Only behind a packet that comes
  /// alone: what is wrong with a message is answered at that one's time.
  bool may_open(const FrameView& view, const RoceView& roce, uint32_t slot);
  /// A packet of the pool begins a train.
  void open(uint32_t packet, const RoceView& roce);
  /// The packet before the next one was for the queue pair in `slot`, with this PSN and place.
  void note_last(uint32_t slot, Psn psn, uint32_t at);
  /// It was no packet of a queue pair.
  void forget_last() { slot_ = kNoSlot; }
  /// The open train, if there is one, goes on before anything else that came with it.
  void close(Time now);

 private:
  void extend(Psn psn, Time now);

  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  NetworkSide& network_;
  uint32_t open_ = kNoPacket;  ///< the train that the next packet may join
  uint32_t slot_ = kNoSlot;    ///< queue pair of the last packet ...
  Psn psn_;                    ///< ... its PSN ...
  uint32_t at_ = 0;            ///< ... and its place among those that are read together
};

}  // namespace understudy
