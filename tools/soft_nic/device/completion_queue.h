// A completion queue: a ring of work completions, and the notification that a program armed.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <vector>

#include "tools/soft_nic/device/event_queue.h"

namespace understudy::soft_nic {

class Nic;

/// A completion channel. `ibv` is what the program has.
struct Channel {
  ibv_comp_channel ibv{};
  EventQueue<ibv_cq*> events;
};

/// Under the device's lock, but for what is marked. `ibv` is what the program has.
struct CompletionQueue {
  CompletionQueue(Nic& device, uint32_t entries) : nic(device), ring(entries) {}

  ibv_cq ibv{};
  Nic& nic;
  std::vector<ibv_wc> ring;
  size_t first = 0;
  std::atomic<size_t> count{0};  ///< read without the lock, to see whether it is worth taking
  bool armed = false;
  bool solicited_only = false;
  uint64_t added = 0, last_solicited = 0;  ///< completions so far; the last one that waits for it
  uint64_t told = 0;                       ///< the last one when an event was raised
  std::atomic<bool> overrun{false};        ///< read without the lock, too
  uint32_t users = 0;                      ///< queue pairs, twice where they send and receive by it
  uint32_t events_raised = 0;              ///< handed to the channel

  /// Adds a completion; an armed queue tells its channel. False when there was no room for it,
  /// once: from then on the queue is in error and takes nothing (IBTA 11.6.3.2).
  bool push(const ibv_wc& wc, bool solicited);
  /// Takes up to `most`, oldest first.
  int pop(int most, ibv_wc* out);
  /// The next completion raises an event, or at once one that waits and that no event told of: as
  /// mlx5 does it, so that programs which poll, arm and sleep miss none.
  void arm(bool only_solicited);
  /// Forgets the completions of a queue pair.
  void forget(uint32_t qp_num);
  /// A larger or smaller ring; false when what waits would not fit.
  bool resize(uint32_t entries);

  /// An event for the channel.
  void tell();

  static CompletionQueue& of(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
};

}  // namespace understudy::soft_nic
