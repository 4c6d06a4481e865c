// An emulated rank's one-sided connections with a real one, a queue pair each way (docs/nccl 3.16), of
// the RMA proxy or of a context of GIN's: what the real rank puts comes by WRITE, its signals by
// FETCH_ADD. Each signal is answered by one,
// with as much data as came before it, so that a real rank that waits for its peers goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/spsc_chain.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

/// What went over one-sided connections; written by shards, read by control.
struct OneSidedTraffic {
  std::atomic<uint64_t> puts{0}, put_bytes{0}, signals{0};  ///< of real ranks
  std::atomic<uint64_t> answers{0}, answer_bytes{0};        ///< puts of ours; signals are as many
  /// Signals for which, or puts for whose data, there was no place at the real rank.
  std::atomic<uint64_t> unanswered{0};
  std::atomic<uint64_t> failed{0};  ///< connections whose queue pairs failed
  /// Puts that may be one of several chunks of a collective: where an answer's data belong is not
  /// known, and it is a signal only.
  std::atomic<uint64_t> chunks{0};
};

/// Memory that all ranks have registered together: an emulated rank's, and the real one's.
struct SymmetricRange {
  uint64_t va = 0, bytes = 0;
  const uint8_t* contents = nullptr;  ///< of the emulated rank's; null: zeros
  uint64_t real_va = 0;
  Rkey real_rkey = 0;
  uint32_t rank = 0, real = 0;  ///< by their numbers in the communicator
  enum class Signals : uint8_t {
    kNone,     ///< it is a window
    kOfRanks,  ///< of the RMA proxy: one of each rank
    kNamed,    ///< of GIN: kernels name them
  };
  Signals signals = Signals::kNone;
};

class OneSidedRank final : public Endpoint {
 public:
  /// From so many bytes on NCCL may cut an operation into several puts (ce_coll.cc: chunks of more
  /// than a half of 64 MiB).
  static constexpr uint64_t kMayBeChunk = uint64_t{32} << 20;
  static constexpr uint32_t kSendQueue = 64;

  /// `traffic` outlives this.
  explicit OneSidedRank(OneSidedTraffic& traffic);

  /// Ours to the real rank; before the first wake.
  void set_out(Qp& qp) { out_ = &qp; }

  /// Control's: of all its registrations, in their order. To be followed by a wake.
  void add(const SymmetricRange& range) {
    added_.make_room();
    added_.push(range);
  }

  static constexpr uint64_t kJoin = 0, kMore = 1;  ///< on_wake cookies: the way out stands; news
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_atomic(Time now, Qp& qp, uint64_t va, uint64_t operand) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  static constexpr size_t kRanges = 128;   ///< registrations that a rank may have
  static constexpr size_t kAnswers = 512;  ///< puts and signals that wait for room
  struct Put {
    uint64_t va = 0, bytes = 0;
  };
  const SymmetricRange* range_of(uint64_t va, uint64_t bytes) const;
  std::optional<WorkRequest> answer_to(const Put& put) const;
  static std::optional<uint64_t> signal_for(const SymmetricRange& range, uint64_t va, bool bare);
  void queue(const WorkRequest& request);
  void post(Time now);

  OneSidedTraffic& traffic_;
  Qp* out_ = nullptr;
  SpscChain<SymmetricRange> added_;
  std::vector<SymmetricRange> ranges_;
  std::vector<Put> puts_;             ///< since the last signal
  bool bare_ = false;                 ///< the last signal came without data: a collective begins
  bool chunked_ = false;              ///< the last put may have been one of its chunks
  std::vector<WorkRequest> answers_;  ///< a ring
  uint64_t first_ = 0, end_ = 0;
  bool joined_ = false, failed_ = false;
};

}  // namespace understudy
