// Files that are written for people and other programs: what is there already is replaced as a whole
// or not at all, what is not a file (a device, a pipe) is written to and stays what it is, and no
// symbolic link that somebody else could have planted is followed.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

/// How long a pipe may wait for the program that reads it.
constexpr std::chrono::milliseconds kReaderPatience{5'000};

/// Opens a file that grows under its own name, as a capture does: an old one is emptied, a new one
/// has the mode that the umask leaves of 0666. It can be read back where its kind and mode allow it.
/// A pipe is waited for until somebody reads it. Error: "PATH: why".
Result<UniqueFd> open_growing(const std::string& path,
                              std::chrono::milliseconds patience = kReaderPatience);

/// All of `bytes`, however many calls it takes. Error: the system's words, without a name.
Result<void> write_all(int fd, std::span<const uint8_t> bytes);

/// A file that appears under its name when it is complete, and until then is a draft of another
/// name in the same folder, which nobody else can have made. Devices and pipes have no draft.
class ReplacedFile {
 public:
  /// Error: "PATH: why".
  static Result<ReplacedFile> create(const std::string& path);
  ReplacedFile(ReplacedFile&& other) noexcept
      : name_(std::move(other.name_)),
        place_(std::move(other.place_)),
        draft_(std::exchange(other.draft_, {})),
        stream_(std::move(other.stream_)),
        error_(other.error_) {}
  ReplacedFile& operator=(ReplacedFile&&) = delete;
  /// Without commit() what was there stays.
  ~ReplacedFile();

  /// An error is commit()'s to say.
  void write(std::string_view text);
  /// On the disk, and then in its place. Once only. Error: "PATH: why"; what was there stays. Only
  /// what is mounted on a file is written over instead.
  Result<void> commit();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ReplacedFile() = default;

  std::string name_;   ///< as it was given
  std::string place_;  ///< without symbolic links
  std::string draft_;  ///< empty: written in place, or committed
  std::unique_ptr<std::FILE, Close> stream_;
  int error_ = 0;  ///< errno of the first call that failed
};

/// Before a long run: whether open_growing() or ReplacedFile::create() would begin there. Nothing is
/// opened or made. Error: "PATH: why".
Result<void> check_growing(const std::string& path);
Result<void> check_replaceable(const std::string& path);

/// The whole of a file at once, as ReplacedFile does it. Error: "PATH: why".
Result<void> replace_file(const std::string& path, std::string_view text);

/// The exit status of a program that is done: `status`, or `failed` if `status` is 0 and standard
/// output has not taken everything (a full disk), which it says on standard error. For the end of
/// main().
int finish_output(const char* program, int status, int failed = 1);

}  // namespace understudy
