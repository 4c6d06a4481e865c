// The capture of a run in virtual time.
#include <deque>
#include <utility>

#include "dataplane/base/try.h"
#include "dataplane/port/capture.h"
#include "dataplane/port/capture_file.h"

namespace understudy {
namespace {

class DirectCapture final : public Capture {
 public:
  explicit DirectCapture(std::unique_ptr<CaptureFile> file) : file_(std::move(file)) {
    for (size_t i = 0; i < file_->interfaces(); ++i) taps_.emplace_back(*file_, i);
  }

  CaptureTap& tap(size_t index) override { return taps_[index]; }
  void link_change(const LinkChange& change) override { file_->link_change(change); }
  void device_drops(size_t index, uint64_t count) override {
    file_->counts(index).device_drops = count;
  }
  Result<void> close() override { return file_->close(); }
  uint64_t drops() const override {
    uint64_t sum = 0;
    for (size_t i = 0; i < file_->interfaces(); ++i) sum += file_->counts(i).drops;
    return sum;
  }

 private:
  class Tap final : public CaptureTap {
   public:
    Tap(CaptureFile& file, size_t index) : file_(file), index_(index) {}
    void frame(CaptureDirection direction, Time at, Time scheduled,
               std::span<const uint8_t> bytes) override {
      const auto original = static_cast<uint32_t>(bytes.size());
      const uint32_t snap = file_.snap_length();
      if (snap != 0 && original > snap) bytes = bytes.first(snap);
      ++file_.counts(index_).received;
      file_.packet(index_, {direction, at, scheduled, bytes, original});
    }

   private:
    CaptureFile& file_;
    size_t index_;
  };

  std::unique_ptr<CaptureFile> file_;
  std::deque<Tap> taps_;  // addresses must not move
};

}  // namespace

Result<std::unique_ptr<Capture>> open_direct_capture(const CaptureOptions& options) {
  auto file = TRY(CaptureFile::create(options));
  return std::make_unique<DirectCapture>(std::move(file));
}

}  // namespace understudy
