#include "tools/roce_check/packets/capture_source.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/base/try.h"
#include "dataplane/wire/pcapng_reader.h"

namespace understudy {
namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;
/// Seconds: 46 days. What a file says beyond that is no time of one capture, and differences of
/// times must stay below 2^63 ps.
constexpr int64_t kFarthest = 4'000'000;

/// A whole file, read-only.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(path + ": " + std::strerror(errno));
    struct stat st {};
    if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
      ::close(fd);
      return fail(path + ": not a file");
    }
    MappedFile file;
    file.size_ = static_cast<size_t>(st.st_size);
    if (file.size_ != 0) {
      file.data_ = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (file.data_ == MAP_FAILED) file.data_ = nullptr;
    }
    ::close(fd);
    if (file.size_ == 0) return fail(path + ": the file is empty");
    if (file.data_ == nullptr) return fail(path + ": " + std::strerror(errno));
    return file;
  }
  MappedFile() = default;
  MappedFile(MappedFile&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// Calendar times as Time: since the second of the first frame.
class TimeOrigin {
 public:
  Time at(int64_t seconds, int64_t ps) {
    if (!first_) first_ = seconds;
    const int64_t since = std::clamp(seconds, *first_ - kFarthest, *first_ + kFarthest) - *first_;
    return Time::from_ps(since * kPsPerSecond + std::clamp<int64_t>(ps, 0, kPsPerSecond));
  }

 private:
  std::optional<int64_t> first_;
};

class PcapngSource final : public CaptureSource {
 public:
  PcapngSource(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)), reader_(file_.bytes()) {
    summary_.format = "pcapng";
  }

  Result<std::optional<SourceFrame>> next() override {
    for (;;) {
      auto record = reader_.next();
      if (!record) return fail(path_ + ": " + record.error().text);
      if (const auto* packet = std::get_if<PcapngPacketRecord>(&*record)) return frame(*packet);
      if (const auto* interface = std::get_if<PcapngInterfaceRecord>(&*record)) {
        if (interface->linktype != kLinktypeEthernet) {
          return fail(path_ + ": interface " + interface->name + " has link type " +
                      std::to_string(interface->linktype) + ", not Ethernet (1)");
        }
        summary_.interfaces.push_back(interface->name);
      } else if (const auto* counts = std::get_if<PcapngStatisticsRecord>(&*record)) {
        summary_.has_drop_counts |= counts->drops.has_value() || counts->device_drops.has_value();
        summary_.drops += counts->drops.value_or(0) + counts->device_drops.value_or(0);
      } else {
        summary_.truncated = reader_.truncated();
        return std::nullopt;
      }
    }
  }

 private:
  std::optional<SourceFrame> frame(const PcapngPacketRecord& packet) {
    SourceFrame out;
    out.number = ++summary_.frames;
    if (packet.run_at) {
      summary_.has_run_times = true;
      const Time farthest = Time::zero() + Duration::s(kFarthest);
      out.at = std::clamp(*packet.run_at, Time::zero() - Duration::s(kFarthest), farthest);
      out.scheduled = packet.scheduled.value_or(Time::never());
      out.interface = packet.interface;
    } else if (packet.at) {
      out.at = origin_.at(packet.at->seconds, packet.at->ps);
    }
    out.direction = packet.direction;
    out.bytes = packet.bytes;
    out.original_bytes = packet.original_bytes;
    out.changes = packet.changes;
    summary_.cut_frames += packet.bytes.size() < packet.original_bytes ? 1 : 0;
    return out;
  }

  std::string path_;
  MappedFile file_;
  PcapngReader reader_;
  TimeOrigin origin_;
};

class PcapSource final : public CaptureSource {
 public:
  PcapSource(std::string path, pcap_t* pcap) : path_(std::move(path)), pcap_(pcap) {
    summary_.format = "pcap";
  }
  ~PcapSource() override { pcap_close(pcap_); }

  Result<std::optional<SourceFrame>> next() override {
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    const int got = pcap_next_ex(pcap_, &header, &data);
    if (got == PCAP_ERROR) {
      const std::string error = pcap_geterr(pcap_);
      if (error.find("truncated dump file") == std::string::npos) {
        return fail(path_ + ": " + error);
      }
      summary_.truncated = true;
      return std::nullopt;
    }
    if (got != 1) return std::nullopt;
    SourceFrame out;
    out.number = ++summary_.frames;
    // Nanoseconds: that is the precision the file was opened with.
    out.at = origin_.at(header->ts.tv_sec, static_cast<int64_t>(header->ts.tv_usec) * 1000);
    out.bytes = {data, header->caplen};
    out.original_bytes = header->len;
    summary_.cut_frames += header->caplen < header->len ? 1 : 0;
    return out;
  }

 private:
  std::string path_;
  pcap_t* pcap_;
  TimeOrigin origin_;
};

}  // namespace

Result<std::unique_ptr<CaptureSource>> open_capture_source(const std::string& path) {
  auto file = TRY(MappedFile::open(path));
  if (looks_like_pcapng(file.bytes())) {
    return std::make_unique<PcapngSource>(path, std::move(file));
  }
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* pcap =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  if (pcap == nullptr) return fail(path + ": neither pcap nor pcapng: " + error);
  if (pcap_datalink(pcap) != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(pcap_datalink(pcap));
    const std::string type = name != nullptr ? name : std::to_string(pcap_datalink(pcap));
    pcap_close(pcap);
    return fail(path + ": link type " + type + ", not Ethernet");
  }
  return std::make_unique<PcapSource>(path, pcap);
}

}  // namespace understudy
