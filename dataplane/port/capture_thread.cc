// The capture of a run in real time: one ring per interface, one thread that empties them all.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "dataplane/base/byte_ring.h"
#include "dataplane/base/try.h"
#include "dataplane/port/capture.h"
#include "dataplane/port/capture_file.h"

namespace understudy {
namespace {

constexpr auto kNap = std::chrono::milliseconds(1);     // well below what a ring can hold
constexpr auto kFlush = std::chrono::milliseconds(50);  // how much of the end a SIGKILL may cost

/// Precedes a frame in the ring.
struct RingHeader {
  int64_t at_ps;
  int64_t scheduled_ps;
  uint32_t original_bytes;
  CaptureDirection direction;
};

class RingTap final : public CaptureTap {
 public:
  RingTap(size_t ring_bytes, uint32_t snap_length) : ring_(ring_bytes), snap_length_(snap_length) {}

  void frame(CaptureDirection direction, Time at, Time scheduled,
             std::span<const uint8_t> bytes) override {
    const RingHeader header{at.ps(), scheduled.ps(), static_cast<uint32_t>(bytes.size()),
                            direction};
    if (snap_length_ != 0 && bytes.size() > snap_length_) bytes = bytes.first(snap_length_);
    const auto total = static_cast<uint32_t>(sizeof header + bytes.size());
    // Counts have one writer, so a plain store is enough and no bus lock is paid.
    received_.store(received_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    uint8_t* out = ring_.reserve(total);
    if (out == nullptr) {
      drops_.store(drops_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    std::memcpy(out, &header, sizeof header);
    std::memcpy(out + sizeof header, bytes.data(), bytes.size());
    ring_.commit(total);
  }

  ByteRing& ring() { return ring_; }
  uint64_t received() const { return received_.load(std::memory_order_relaxed); }
  uint64_t drops() const { return drops_.load(std::memory_order_relaxed); }

 private:
  ByteRing ring_;
  const uint32_t snap_length_;
  std::atomic<uint64_t> received_{0};
  std::atomic<uint64_t> drops_{0};
};

class ThreadedCapture final : public Capture {
 public:
  ThreadedCapture(std::unique_ptr<CaptureFile> file, size_t ring_bytes) : file_(std::move(file)) {
    for (size_t i = 0; i < file_->interfaces(); ++i) {
      taps_.emplace_back(ring_bytes, file_->snap_length());
    }
    thread_ = std::thread([this] { run(); });
  }
  ~ThreadedCapture() override { (void)close(); }

  CaptureTap& tap(size_t index) override { return taps_[index]; }
  void link_change(const LinkChange& change) override {
    const std::lock_guard lock(mutex_);
    file_->link_change(change);
  }
  void device_drops(size_t index, uint64_t count) override {
    const std::lock_guard lock(mutex_);
    file_->counts(index).device_drops = count;
  }

  Result<void> close() override {
    if (!thread_.joinable()) return {};
    stop_.store(true, std::memory_order_release);
    thread_.join();
    for (size_t i = 0; i < taps_.size(); ++i) {
      file_->counts(i).received = taps_[i].received();
      file_->counts(i).drops += taps_[i].drops();
    }
    return file_->close();
  }

  uint64_t drops() const override {
    uint64_t sum = 0;
    for (const auto& tap : taps_) sum += tap.drops();
    return sum;
  }

 private:
  void run() {
    auto flushed = std::chrono::steady_clock::now();
    for (;;) {
      const bool stopping = stop_.load(std::memory_order_acquire);
      bool idle = true;
      {
        const std::lock_guard lock(mutex_);
        for (size_t i = 0; i < taps_.size(); ++i) idle = !drain(i) && idle;
        if (const auto now = std::chrono::steady_clock::now(); now - flushed >= kFlush) {
          file_->flush();
          flushed = now;
        }
      }
      if (idle && stopping) return;
      if (idle) std::this_thread::sleep_for(kNap);
    }
  }

  /// Moves what waits in one ring to the file, a bounded number so that no interface starves.
  bool drain(size_t index) {
    constexpr int kBatch = 256;
    ByteRing& ring = taps_[index].ring();
    int n = 0;
    for (; n < kBatch; ++n) {
      const auto record = ring.front();
      if (record.data() == nullptr) break;
      RingHeader header;
      std::memcpy(&header, record.data(), sizeof header);
      file_->packet(
          index, {header.direction, Time::from_ps(header.at_ps), Time::from_ps(header.scheduled_ps),
                  record.subspan(sizeof header), header.original_bytes});
      ring.pop();
    }
    return n > 0;
  }

  std::unique_ptr<CaptureFile> file_;
  std::deque<RingTap> taps_;  // addresses must not move
  std::mutex mutex_;          // guards file_ while the thread runs
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Capture>> open_threaded_capture(const CaptureOptions& options,
                                                       size_t ring_bytes) {
  auto file = TRY(CaptureFile::create(options));
  return std::make_unique<ThreadedCapture>(std::move(file), ring_bytes);
}

}  // namespace understudy
