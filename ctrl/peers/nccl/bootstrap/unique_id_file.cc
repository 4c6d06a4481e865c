#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

constexpr Duration kHalfWritten = Duration::s(2);
constexpr size_t kDigits = 2 * kUniqueIdBytes;
constexpr size_t kMost = 1024;  // of a file that can be an id, with much white space

struct FileContent {
  std::string bytes;
  int error = 0;
};

FileContent read_file(const std::string& path) {
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return {{}, errno};
  std::array<char, kMost + 1> piece;
  const size_t size = std::fread(piece.data(), 1, piece.size(), file.get());
  if (std::ferror(file.get()) != 0) return {{}, errno};
  return {std::string(piece.data(), size), 0};
}

std::string_view without_white_space(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

Result<NcclUniqueId> parse_unique_id_file(std::string_view content) {
  if (content.size() == kUniqueIdBytes) {
    return parse_unique_id({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  }
  const std::string_view digits = without_white_space(content);
  UniqueIdBytes bytes{};
  bool hexadecimal = true;
  for (size_t i = 0; i + 1 < digits.size() && i < kDigits; i += 2) {
    const auto [end, error] =
        std::from_chars(digits.data() + i, digits.data() + i + 2, bytes[i / 2], 16);
    hexadecimal &= error == std::errc() && end == digits.data() + i + 2;
  }
  if (digits.size() != kDigits || !hexadecimal) {
    return fail("an NCCL unique id is 128 bytes or 256 hexadecimal digits; here are " +
                std::to_string(content.size()) + (content.size() > kMost ? " or more" : "") +
                " bytes" + (digits.size() == kDigits ? ", not all of them such digits" : ""));
  }
  return parse_unique_id(bytes);
}

std::optional<std::filesystem::file_time_type> UniqueIdFile::written() const {
  std::error_code absent;
  const auto when = std::filesystem::last_write_time(path_, absent);
  return absent ? std::nullopt : std::optional(when);
}

const std::optional<Result<NcclUniqueId>>& UniqueIdFile::poll(Time now) {
  if (result_) return result_;
  if (found_ && found_ != written()) found_.reset();
  const FileContent content = read_file(path_);
  if (content.error == ENOENT || (content.error == 0 && content.bytes.empty())) {
    size_ = 0;
    return result_;
  }
  if (content.error != 0) {
    result_ = fail(path_ + ": cannot read: " + std::strerror(content.error));
    return result_;
  }
  auto id = parse_unique_id_file(content.bytes);
  if (content.bytes.size() != size_) grown_ = now;
  size_ = content.bytes.size();
  if (!id && now - grown_ < kHalfWritten) return result_;
  if (!id) id = fail(path_ + ": " + id.error().text);
  if (id && former_ && *id == *former_) return result_;
  result_ = std::move(id);
  return result_;
}

void UniqueIdFile::look_for_next() {
  if (result_ && *result_) former_ = **result_;
  result_.reset();
}

Result<void> write_unique_id_file(const std::string& path, const NcclUniqueId& id) {
  const UniqueIdBytes bytes = unique_id_bytes(id);
  return replace_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace understudy
