// NCCL's all-gathers on the bootstrap ring (docs/nccl 1.4, 1.9), for all emulated ranks of a
// communicator at once. Streams exist only to and from real ranks; what emulated ranks would tell
// one another is known. Of each all-gather only the real ranks' slices are held.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/ring_shape.h"

namespace understudy {

/// All-gathers are numbered from 0 on the communicator.
class RingGatherUser {
 public:
  virtual ~RingGatherUser() = default;
  /// The first real rank has begun it. False: this size is not right (told elsewhere).
  virtual bool gather_begins(uint64_t gather, uint32_t rank, uint32_t size) = 0;
  /// Whether slices of emulated ranks copy a real one's.
  virtual bool copies(uint64_t gather) = 0;
  /// Whether they need all real ranks' slices that can come before them.
  virtual bool follows_all(uint64_t gather) = 0;
  /// Appends the slice of an emulated rank; `model` is the slice of shape.model_of(rank), or empty.
  virtual void append_slice(uint64_t gather, uint32_t rank, std::span<const uint8_t> model,
                            std::vector<uint8_t>& to) = 0;
  virtual void slice_came(uint64_t gather, uint32_t rank, std::span<const uint8_t> slice) = 0;
  /// All real ranks' slices have come.
  virtual void gather_came(uint64_t gather) = 0;
  /// Bytes for a ring socket: of `segment`, to its first rank or to its last.
  virtual void ring_send(size_t segment, bool to_first, std::span<const uint8_t> bytes) = 0;
  virtual void ring_failed(const std::string& why) = 0;
};

class RingGather {
 public:
  RingGather(const RingShape& shape, const std::vector<NcclMember>& members, RingGatherUser& user);

  /// The ring socket of that end stands: what the emulated rank has to say may go.
  void open(size_t segment, bool to_first);
  /// A size, and then its payload, from that end of the segment.
  void size_came(size_t segment, bool from_first, uint32_t size);
  void payload_came(size_t segment, bool from_first, std::span<const uint8_t> payload);

  /// All-gathers that have begun.
  uint64_t begun() const { return begun_; }
  /// The real ranks of the segment have sent and been sent all of what has begun.
  bool at_rest(size_t segment) const;
  bool all_open() const;
  bool is_open(size_t segment, bool to_first) const { return open_[2 * segment + !to_first]; }

  /// Of the all-gather that real ranks are in: how many real slices have come, and of which
  /// segments frames are awaited. Nothing if none is under way.
  struct Progress {
    uint64_t gather = 0;
    uint32_t size = 0, came = 0, real = 0;
    std::vector<uint32_t> awaited;  ///< real ranks of which the next frame is to come
  };
  bool under_way(Progress& progress) const;
  /// Both ways are to be sent, but up to now real ranks have sent one way only.
  bool only_forward() const;

 private:
  /// Frames of one direction on one socket.
  struct Flow {
    uint64_t gather = 0;
    uint32_t step = 0;
    bool size_done = false;  ///< of this step
  };
  struct Gather {
    uint32_t size = 0;
    uint32_t came = 0;
    std::vector<std::vector<uint8_t>> slices;  ///< of real ranks
    std::vector<bool> have;
  };

  static constexpr uint32_t kNotReal = ~0u;
  /// Two of each segment: of its first rank, of its last.
  static size_t end(size_t segment, bool first) { return 2 * segment + (first ? 0 : 1); }
  uint32_t steps_sent(bool to_first) const;
  uint32_t steps_received(bool from_first) const;
  uint32_t received_slice(size_t segment, bool from_first, uint32_t step) const;
  uint32_t sent_slice(size_t segment, bool to_first, uint32_t step) const;
  Gather& gather(uint64_t number) { return gathers_[number - dropped_]; }
  bool waits(size_t end, const Gather& gather, uint32_t real);
  bool waits_for_others(size_t end, const Gather& gather, uint32_t emulated);
  bool may_send(size_t segment, bool to_first, const Flow& flow) const;
  void pump(size_t segment, bool to_first);
  void pump_all();
  void drop_done();

  const RingShape& shape_;
  RingGatherUser& user_;
  std::vector<uint32_t> real_index_;  ///< by rank
  uint32_t real_ranks_ = 0;
  std::vector<Flow> sent_, received_;  ///< by end()
  std::vector<bool> open_;
  /// Ends whose next payload waits for the slice of a real rank, by that rank's index.
  std::vector<std::vector<size_t>> waiting_;
  std::deque<Gather> gathers_;
  uint64_t dropped_ = 0, begun_ = 0;
  std::vector<uint8_t> out_;
  bool wrapped_ = false;  ///< a flow has come to the end of an all-gather: one may be done
  bool failed_ = false;
};

}  // namespace understudy
