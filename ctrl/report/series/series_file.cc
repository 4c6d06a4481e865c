#include "ctrl/report/series/series_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "dataplane/base/output_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr char kHeader[] =
    "time_us,kind,name,queue_bytes,throughput_bit_per_s,rate_bit_per_s,window_bytes\n";
constexpr std::array<const char*, 3> kKinds = {"link", "flow", "queue_pair"};  // by SeriesKind
constexpr int64_t kPsPerUs = 1'000'000;

/// A cell of CSV (RFC 4180).
std::string cell(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// One record, without its end of line; false at the end of the file.
bool read_record(std::FILE* file, std::vector<std::string>& cells) {
  cells.assign(1, {});
  bool quoted = false, ended = false;  // `ended`: a quote that may be the first half of a pair
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    if (c == '"') {
      if (ended) cells.back() += '"';
      ended = quoted;
      quoted = !quoted;
      continue;
    }
    ended = false;
    if (!quoted && c == ',') {
      cells.emplace_back();
    } else if (!quoted && c == '\n') {
      return true;
    } else {
      cells.back() += static_cast<char>(c);
    }
  }
  return false;
}

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

Result<SeriesFile> SeriesFile::create(const std::string& path) {
  SeriesFile out;
  out.path_ = path.empty() ? "a temporary file" : path;
  if (path.empty()) {
    out.file_.reset(std::tmpfile());
  } else {
    UniqueFd fd = TRY(open_growing(path));
    // What can be written only, as a pipe, need not be read back.
    const bool readable = (fcntl(fd.get(), F_GETFL) & O_ACCMODE) == O_RDWR;
    out.file_.reset(fdopen(fd.get(), readable ? "w+b" : "wb"));
    if (out.file_ != nullptr) (void)fd.release();
  }
  if (out.file_ == nullptr) return fail(out.path_ + ": " + std::strerror(errno));
  std::fputs(kHeader, out.file_.get());
  return out;
}

void SeriesFile::add(const SeriesRow& row) {
  std::FILE* file = file_.get();
  std::fprintf(file, "%" PRId64 ".%06" PRId64 ",%s,%s", row.at.ps() / kPsPerUs,
               row.at.ps() % kPsPerUs, kKinds[static_cast<size_t>(row.kind)],
               cell(row.name).c_str());
  for (const auto& value : {row.queue, row.throughput, row.rate, row.window}) {
    if (value) {
      std::fprintf(file, ",%" PRIu64, *value);
    } else {
      std::fputc(',', file);
    }
  }
  std::fputc('\n', file);
}

Result<void> SeriesFile::finish() {
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get()) != 0) {
    return fail(path_ + ": " + std::strerror(errno));
  }
  return {};
}

Result<void> SeriesFile::read(const std::function<void(const SeriesRow&)>& row) const {
  std::FILE* file = file_.get();
  if (std::fseek(file, 0, SEEK_SET) != 0) return fail(path_ + ": " + std::strerror(errno));
  std::vector<std::string> cells;
  bool readable = read_record(file, cells);
  while (read_record(file, cells)) {
    constexpr size_t kColumns = 7;
    const size_t point = cells[0].find('.');
    const auto kind = std::ranges::find(kKinds, cells.size() > 1 ? cells[1] : "");
    if (cells.size() != kColumns || point == std::string::npos || kind == kKinds.end()) {
      readable = false;
      break;
    }
    std::string ps = cells[0];
    ps.erase(point, 1);
    SeriesRow r;
    r.at = Time::from_ps(static_cast<int64_t>(number(ps).value_or(0)));
    r.kind = static_cast<SeriesKind>(kind - kKinds.begin());
    r.name = cells[2];
    r.queue = number(cells[3]);
    r.throughput = number(cells[4]);
    r.rate = number(cells[5]);
    r.window = number(cells[6]);
    row(r);
  }
  if (!readable || std::ferror(file) != 0) return fail(path_ + ": cannot be read back");
  return {};
}

}  // namespace understudy
