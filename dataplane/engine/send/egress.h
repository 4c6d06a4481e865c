// Departures: what has come out of the fabric waits here for its time, and is built when that has
// come, straight into the device's memory.
#pragma once

#include <algorithm>
#include <vector>

#include "dataplane/engine/send/fault_path.h"
#include "dataplane/engine/send/pause_frames.h"
#include "dataplane/engine/state/io.h"
#include "dataplane/engine/state/shard_state.h"
#include "dataplane/wire/head_template.h"

namespace understudy {

class Egress {
 public:
  Egress(ShardState& state, FaultPath& faults, PauseFrames& pauses);

  /// A packet to a real node is at that one's wire, as its head and tail say. Through the faults.
  void depart(uint32_t packet, uint32_t cls) {
    Packet& p = pool_[packet];
    // The wire takes its own time; where it is as fast as the model both end together.
    p.due = std::max(p.head, p.tail - ports_.of(p.real).out.time_for(p.wire_bytes));
    if (injector_.active()) return faults_.depart(packet);
    ports_.of(p.real).departures[cls].push(packet);
  }
  /// The event kDepart: a packet has met the faults.
  void on_depart(uint32_t packet, Time now);
  /// An answer that bypasses the fabric, to the real node behind this port.
  void send_now(RealPort& port, uint32_t packet, Time now) {
    pool_[packet].due = now;
    port.send_now.push(packet);
  }

  /// Writes what is due by `now` to the port's sink, as far as that takes it.
  void send_due(RealPort& port, Time now, TxSink& sink);
  /// When send_due() has something to do for this port again.
  Time next(const RealPort& port) const;

 private:
  /// Of the queue pair that had this slot then.
  struct OwnHead {
    uint32_t slot = kNoSlot, generation = 0;
    HeadTemplate head;
  };
  static constexpr size_t kHeadTemplates = 512;

  Time next_departure(const RealPort& port, uint32_t& cls) const;
  bool send(uint32_t packet, Time now, TxSink& sink);
  void copy_finished(uint32_t packet, uint8_t* out);
  void build(Packet& packet, uint32_t slot, bool zeros, TxSink& sink, uint8_t* out);
  const HeadTemplate& head_template(const Packet& packet, uint32_t slot);

  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  const RegionTable& regions_;
  const FaultInjector& injector_;
  FaultPath& faults_;
  PauseFrames& pauses_;
  std::vector<OwnHead> heads_;  ///< by slot and opcode: see head_template()
};

}  // namespace understudy
