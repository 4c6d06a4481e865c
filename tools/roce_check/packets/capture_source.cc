#include "tools/roce_check/packets/capture_source.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
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
      if (file.data_ != nullptr) ::madvise(file.data_, file.size_, MADV_SEQUENTIAL);
    }
    ::close(fd);
    if (file.size_ == 0) return fail(path + ": the file is empty");
    if (file.data_ == nullptr) return fail(path + ": " + std::strerror(errno));
    return file;
  }
  MappedFile() = default;
  MappedFile(MappedFile&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)),
        size_(std::exchange(o.size_, 0)),
        released_(o.released_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), size_}; }
  /// What lies before `offset` is hardly needed any more: its pages need not stay in memory.
  void release(size_t offset) {
    constexpr size_t kStep = size_t{16} << 20;  // a multiple of all page sizes
    if (offset < released_ + 2 * kStep) return;
    ::madvise(static_cast<uint8_t*>(data_) + released_, kStep, MADV_DONTNEED);
    released_ += kStep;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  size_t released_ = 0;
};

/// Calendar times as Time: since the second of the first frame.
class TimeOrigin {
 public:
  Time at(int64_t seconds, int64_t ps, SourceSummary& summary) {
    if (!first_) first_ = summary.first_second = seconds;
    const int64_t since = std::clamp(seconds, *first_ - kFarthest, *first_ + kFarthest) - *first_;
    return Time::from_ps(since * kPsPerSecond + std::clamp<int64_t>(ps, 0, kPsPerSecond));
  }

 private:
  std::optional<int64_t> first_;
};

/// What the statistics blocks count at the end of a file of a single section, which has one of each
/// interface there. They can be read from behind: a block's length stands at its end, too. Nothing
/// where the file does not end with them.
std::optional<uint64_t> drops_at_end(std::span<const uint8_t> file) {
  const auto word = [&](size_t at) {
    uint32_t out;
    std::memcpy(&out, file.data() + at, sizeof out);
    return out;
  };
  constexpr size_t kLeast = 24, kOptions = 20;
  if (file.size() < kLeast || word(8) != kPcapngByteOrder) return std::nullopt;
  std::optional<uint64_t> drops;
  for (size_t end = file.size(); end >= kLeast;) {
    const size_t length = word(end - 4);
    if (length < kLeast || length > end || length % 4 != 0) break;
    const size_t begin = end - length;
    if (word(begin) != kPcapngStatistics || word(begin + 4) != length) break;
    bool counted = false;
    for (size_t at = begin + kOptions; at + 4 <= end - 4;) {
      const uint32_t option = word(at);
      const uint32_t code = option & 0xffff, bytes = option >> 16;
      if (code == kPcapngOptEnd || at + 4 + bytes > end - 4) break;
      if (bytes == 8 && (code == kPcapngOptIsbIfDrop || code == kPcapngOptIsbOsDrop)) {
        drops = drops.value_or(0) + word(at + 4) + (uint64_t{word(at + 8)} << 32);
        counted = true;
      }
      at += 4 + (bytes + 3) / 4 * 4;
    }
    if (!counted) break;
    end = begin;
  }
  return drops;
}

class PcapngSource final : public CaptureSource {
 public:
  PcapngSource(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)), reader_(file_.bytes()) {
    summary_.format = "pcapng";
    summary_.foretold_drops = drops_at_end(file_.bytes());
  }

  Result<std::optional<SourceFrame>> next() override {
    file_.release(reader_.offset());
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
      out.at = origin_.at(packet.at->seconds, packet.at->ps, summary_);
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

/// Endace's extensible record format: records without a header before them, in big-endian order but
/// for the stamp, which is a 32.32 fixed-point number of seconds in little-endian order.
namespace erf {

constexpr size_t kHeader = 16, kExtension = 8, kPadding = 2, kChecksum = 4;
constexpr uint8_t kMoreExtensions = 0x80, kTypeMask = 0x7f;

uint16_t big(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }
uint16_t record_bytes(const uint8_t* record) { return big(record + 10); }
/// Ethernet, and the same with a colour, or with a number instead of the count of losses.
bool is_ethernet(uint8_t type) {
  const int plain = type & kTypeMask;
  return plain == 2 || plain == 11 || plain == 16 || plain == 20;
}
bool counts_losses(uint8_t type) { return (type & kTypeMask) == 2; }

/// There is no magic number: the first records must follow each other, and have whole headers.
bool looks_like(std::span<const uint8_t> bytes) {
  constexpr int kLookedAt = 3;
  size_t at = 0;
  for (int i = 0; i < kLookedAt && at < bytes.size(); ++i) {
    if (bytes.size() - at < kHeader || !is_ethernet(bytes[at + 8])) return false;
    const uint16_t length = record_bytes(bytes.data() + at);
    if (length < kHeader + kPadding || big(bytes.data() + at + 14) == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace erf

class ErfSource final : public CaptureSource {
 public:
  ErfSource(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {
    summary_.format = "erf";
  }

  Result<std::optional<SourceFrame>> next() override {
    file_.release(at_);
    const std::span<const uint8_t> rest = file_.bytes().subspan(at_);
    if (rest.empty()) return std::nullopt;
    if (rest.size() < erf::kHeader || rest.size() < erf::record_bytes(rest.data())) {
      summary_.truncated = true;
      at_ = file_.bytes().size();
      return std::nullopt;
    }
    const auto record = rest.first(erf::record_bytes(rest.data()));
    const std::string where = path_ + ": record at byte " + std::to_string(at_);
    if (record.size() < erf::kHeader + erf::kPadding) return fail(where + " has no length");
    if (!erf::is_ethernet(record[8])) {
      return fail(where + " is of type " + std::to_string(record[8] & erf::kTypeMask) +
                  ", not Ethernet (2)");
    }
    at_ += record.size();
    size_t begin = erf::kHeader;
    for (uint8_t type = record[8]; (type & erf::kMoreExtensions) != 0; begin += erf::kExtension) {
      if (begin + erf::kExtension + erf::kPadding > record.size()) {
        return fail(where + " ends inside its extension headers");
      }
      type = record[begin];
    }
    begin += erf::kPadding;
    SourceFrame out;
    out.number = ++summary_.frames;
    out.at = stamp(record.data());
    const size_t on_wire = erf::big(record.data() + 14);  // with the checksum, as cards count
    out.bytes = record.subspan(begin, std::min(record.size() - begin, on_wire));
    const bool cut = out.bytes.size() + erf::kChecksum < on_wire;
    out.original_bytes = static_cast<uint32_t>(cut ? on_wire - erf::kChecksum : out.bytes.size());
    summary_.cut_frames += cut ? 1 : 0;
    if (erf::counts_losses(record[8])) summary_.drops += erf::big(record.data() + 12);
    return out;
  }

 private:
  Time stamp(const uint8_t* record) {
    uint64_t fixed = 0;
    for (size_t i = 8; i-- > 0;) fixed = fixed << 8 | record[i];
    const uint64_t part = fixed & 0xffffffff;
    // 2^-32 s are 232.8 ps; in two steps, so that nothing overflows.
    const uint64_t ps = (part * 1'000'000 >> 16) * 1'000'000 >> 16;
    return origin_.at(static_cast<int64_t>(fixed >> 32), static_cast<int64_t>(ps), summary_);
  }

  std::string path_;
  MappedFile file_;
  size_t at_ = 0;
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
    out.at =
        origin_.at(header->ts.tv_sec, static_cast<int64_t>(header->ts.tv_usec) * 1000, summary_);
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

/// `pcap`: null where libpcap could not open it and said `error`.
Result<std::unique_ptr<CaptureSource>> pcap_source(const std::string& path, pcap_t* pcap,
                                                   const std::string& error) {
  if (pcap == nullptr) return fail(path + ": " + error);
  if (pcap_datalink(pcap) != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(pcap_datalink(pcap));
    const std::string type = name != nullptr ? name : std::to_string(pcap_datalink(pcap));
    pcap_close(pcap);
    return fail(path + ": link type " + type + ", not Ethernet");
  }
  return std::make_unique<PcapSource>(path, pcap);
}

bool is_pipe(const std::string& path) {
  struct stat st {};
  const int got = path == "-" ? ::fstat(STDIN_FILENO, &st) : ::stat(path.c_str(), &st);
  return got == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/// It has no length and cannot be mapped. libpcap shows no drops and directions of pcapng, which
/// would be judged as if it had none.
Result<std::unique_ptr<CaptureSource>> open_pipe(const std::string& path) {
  std::FILE* file =
      path == "-" ? ::fdopen(::dup(STDIN_FILENO), "rb") : ::fopen(path.c_str(), "rbe");
  if (file == nullptr) return fail(path + ": " + std::strerror(errno));
  uint8_t magic[4] = {};
  const size_t got = std::fread(magic, 1, sizeof magic, file);
  const bool pcapng = got == sizeof magic && looks_like_pcapng(magic);
  for (size_t i = got; i-- > 0;) std::ungetc(magic[i], file);
  if (got == 0 || pcapng) {
    std::fclose(file);
    return fail(path + (pcapng ? ": a pipe must bring pcap, not pcapng: write that to a file"
                               : ": nothing came through the pipe"));
  }
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* pcap = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error);
  if (pcap == nullptr) std::fclose(file);
  return pcap_source(path, pcap, std::string("not pcap, as a pipe must bring it: ") + error);
}

}  // namespace

Result<std::unique_ptr<CaptureSource>> open_capture_source(const std::string& path) {
  if (is_pipe(path)) return open_pipe(path);
  auto file = TRY(MappedFile::open(path == "-" ? "/dev/stdin" : path));
  if (looks_like_pcapng(file.bytes())) {
    return std::make_unique<PcapngSource>(path, std::move(file));
  }
  if (erf::looks_like(file.bytes())) {
    return std::make_unique<ErfSource>(path, std::move(file));
  }
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* pcap =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  return pcap_source(path, pcap, std::string("neither pcap nor pcapng nor ERF: ") + error);
}

}  // namespace understudy
