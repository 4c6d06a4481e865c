// What benchmarks of packets share: ready-made frames of a peer's WRITEs, hot or cold, a device's
// ring for what is sent, and the loop that hands the frames over in bursts.
#pragma once

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/engine/state/io.h"
#include "dataplane/wire/build.h"

namespace understudy {

inline constexpr size_t kBurst = 32;

/// How many frames of so much payload: hot ones fit the second-level cache; cold ones are at least
/// 65,536, and more than a last level of 32 MiB can keep.
inline size_t feed_frames(uint32_t payload, bool cold) {
  constexpr size_t kMany = 1 << 16;
  const size_t each = payload + 128;
  const size_t frames = cold ? std::max(kMany, (size_t{64} << 20) / each)
                             : std::min(kMany, (size_t{512} << 10) / each);
  return frames / kBurst * kBurst;
}

/// A queue pair that frames go to, and the addresses on their way there.
struct FeedTarget {
  RoceAddressing way;
  Qpn qpn = 0;
  Rkey rkey = 0;
};

struct FeedShape {
  uint32_t payload = 64;         ///< of each frame
  uint32_t message_packets = 1;  ///< frames of one WRITE
  uint32_t ack_every = 1;        ///< the last frame of each so many-th WRITE asks for an ACK
  size_t frames = kBurst;
  /// Before every so many-th frame comes a copy of it with one bit of its payload flipped; 0: none.
  uint32_t damage_every = 0;
};

/// What payloads are, but for bytes next to headers and ICRC.
inline constexpr uint8_t kFeedFill = 0x5a;

/// Frames for queue pairs in random order, numbered on from pass to pass: each queue pair sees one
/// stream of whole messages with rising PSNs.
class Feed {
 public:
  Feed(std::vector<FeedTarget> targets, const FeedShape& shape)
      : shape_(shape), targets_(std::move(targets)), streams_(targets_.size()) {
    const RoceAddressing& way = targets_.front().way;
    stride_ = (roce_frame_bytes(way, Opcode::kWriteOnly, shape.payload) + 63) / 64 * 64;
    const size_t bytes = (shape.frames * stride_ + kHugePage - 1) / kHugePage * kHugePage;
    memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(kHugePage, bytes)));
    if (memory_ == nullptr) throw std::bad_alloc();
    madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // as a device's frames mostly are
    std::memset(memory_.get(), kFeedFill, bytes);
    frames_.resize(shape.frames);
  }

  size_t frames() const { return frames_.size(); }
  std::span<const std::span<const uint8_t>> burst(size_t first) const {
    return {frames_.data() + first, kBurst};
  }
  /// Makes `count` frames from `first` on the next ones of their queue pairs.
  void number(size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const size_t to = targets_.size() == 1 ? 0 : random_() % targets_.size();
      const FeedTarget& target = targets_[to];
      const Stream before = streams_[to];
      const RoceFields f = next_fields(target, streams_[to]);
      uint8_t* const at = memory_.get() + i * stride_;
      uint8_t* const payload = begin_roce(at, target.way, f, shape_.payload);
      finish_roce(at, target.way, f.opcode, shape_.payload);
      frames_[i] = {at, roce_frame_bytes(target.way, f.opcode, shape_.payload)};
      if (shape_.damage_every == 0 || ++numbered_ % shape_.damage_every != 0) continue;
      payload[random_() % shape_.payload] ^= static_cast<uint8_t>(1u << random_() % 8);
      streams_[to] = before;
    }
  }

 private:
  static constexpr size_t kHugePage = 2 << 20;
  struct Stream {
    Psn psn;
    uint32_t place = 0;     ///< of the next frame in its message
    uint32_t messages = 0;  ///< since the last one that asked for an ACK
  };

  RoceFields next_fields(const FeedTarget& target, Stream& s) {
    RoceFields f;
    const bool first = s.place == 0, last = s.place + 1 == shape_.message_packets;
    f.opcode = first && last ? Opcode::kWriteOnly
               : first       ? Opcode::kWriteFirst
               : last        ? Opcode::kWriteLast
                             : Opcode::kWriteMiddle;
    f.dest_qpn = target.qpn;
    f.psn = s.psn;
    f.rkey = target.rkey;
    f.dma_length = shape_.message_packets * shape_.payload;
    s.psn = s.psn.next();
    s.place = last ? 0 : s.place + 1;
    if (!last) return f;
    if (++s.messages < shape_.ack_every) return f;
    s.messages = 0;
    f.ack_request = true;
    return f;
  }

  FeedShape shape_;
  std::vector<FeedTarget> targets_;
  std::vector<Stream> streams_;
  size_t stride_;
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t[], Free> memory_;
  std::vector<std::span<const uint8_t>> frames_;
  std::mt19937_64 random_{1};
  uint64_t numbered_ = 0;
};

/// Takes frames as a device's ring does: the newest ones are there to be read.
class RingSink final : public TxSink {
 public:
  static constexpr size_t kFrames = 128;

  uint8_t* reserve(uint32_t bytes) override {
    if (sent == most) return nullptr;
    at_[sent % kFrames] = 0;
    zeros_[sent % kFrames].forget();
    bytes_[sent % kFrames] = bytes;
    return room_[sent % kFrames].data();
  }
  /// As the emulator's own port does.
  uint8_t* reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) override {
    if (sent == most) return nullptr;
    auto& room = room_[sent % kFrames];
    zeros_[sent % kFrames].want(room.data() + kZerosAt, zeros);
    at_[sent % kFrames] = kZerosAt - head;
    bytes_[sent % kFrames] = head + zeros + tail;
    return room.data() + kZerosAt - head;
  }
  void commit(uint32_t, Time) override { ++sent; }
  /// The frame that was sent behind `i` others.
  std::span<const uint8_t> frame(uint64_t i) const {
    return {room_[i % kFrames].data() + at_[i % kFrames], bytes_[i % kFrames]};
  }
  uint64_t sent = 0;
  uint64_t most = ~uint64_t{0};  ///< it takes no more than this

 private:
  /// Room for a path MTU of 4096; no power of two apart, where all headers share a cache's set.
  std::array<std::array<uint8_t, 69 * 64>, kFrames> room_;
  std::array<uint32_t, kFrames> bytes_{}, at_{};
  static constexpr uint32_t kZerosAt = 128;
  std::array<ZerosKept, kFrames> zeros_;
};

/// Does it, and says whether nobody took the core from it meanwhile.
template <typename Work>
bool undisturbed(Work work) {
  const auto switches = [] {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
  };
  const long before = switches();
  work();
  return switches() == before;
}

/// Seconds that `work` takes with what `prepare` gives, anew while others took the core from it.
template <typename Prepare, typename Work>
double undisturbed_seconds(Prepare prepare, Work work) {
  for (;;) {
    const auto prepared = prepare();
    std::chrono::duration<double> took;
    const bool alone = undisturbed([&] {
      const auto begin = std::chrono::steady_clock::now();
      work(prepared);
      took = std::chrono::steady_clock::now() - begin;
    });
    if (alone) return took.count();
  }
}

/// Runs `work` on bursts of the feed, whose frames are numbered outside the time: hot ones just
/// before their burst, cold ones all at once. The time is that of one frame. Gives how many there
/// were.
template <typename Work>
uint64_t run_feed(benchmark::State& state, Feed& feed, bool cold, Work work) {
  uint64_t packets = 0;
  const auto next = [&] {
    const size_t at = packets % feed.frames();
    packets += kBurst;
    if (cold && at == 0) feed.number(0, feed.frames());
    if (!cold) feed.number(at, kBurst);
    return feed.burst(at);
  };
  while (state.KeepRunningBatch(kBurst)) {
    state.SetIterationTime(undisturbed_seconds(next, work));
  }
  return packets;
}

}  // namespace understudy
