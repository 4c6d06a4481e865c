#include "dataplane/base/output_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr mode_t kMode = 0666;
constexpr std::chrono::milliseconds kBetweenTries{50};

std::string system_text() { return std::strerror(errno); }

std::string folder_of(std::string path) { return dirname(path.data()); }

/// Anybody may make files there, and remove only his own, as in /tmp.
bool is_shared(const struct stat& folder) {
  return (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & (S_IWOTH | S_IWGRP)) != 0;
}

/// Linux' rule for such folders (proc(5), protected_symlinks and protected_regular), which not every
/// system has switched on: what lies there is ours, or the folder's owner's.
Result<void> require_trusted(const std::string& path, const struct stat& what) {
  struct stat folder {};
  if (stat(folder_of(path).c_str(), &folder) != 0) return fail(path + ": " + system_text());
  if (!is_shared(folder) || what.st_uid == geteuid() || what.st_uid == folder.st_uid) return {};
  return fail(path + ": belongs to another user, in a folder that all users share; remove it or " +
              "take another name");
}

/// An open file of the program itself: whatever it leads to, it is written to as it is.
bool is_descriptor(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/");
}

/// Where the file is.
struct Place {
  std::string path;               ///< without a symbolic link at its end
  std::optional<struct stat> is;  ///< what is there
};

Result<Place> place_of(const std::string& path) {
  if (path.empty()) return fail("a file needs a name");
  Place place{path, {}};
  struct stat is {};
  if (lstat(path.c_str(), &is) != 0) {
    if (errno != ENOENT || is_descriptor(path)) return fail(path + ": " + system_text());
    return place;
  }
  TRY(require_trusted(path, is));
  if (S_ISLNK(is.st_mode) && (stat(path.c_str(), &is) != 0 || S_ISREG(is.st_mode)) &&
      !is_descriptor(path)) {
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                           std::free);
    if (real == nullptr || stat(real.get(), &is) != 0) {
      return fail(path + ": a symbolic link to what is not there: " + system_text());
    }
    place.path = real.get();
    TRY(require_trusted(place.path, is));
  }
  if (S_ISDIR(is.st_mode)) return fail(path + ": is a folder");
  if (S_ISSOCK(is.st_mode)) return fail(path + ": is a socket");
  place.is = is;
  return place;
}

bool is_file(const Place& place) {
  return !is_descriptor(place.path) && (!place.is || S_ISREG(place.is->st_mode));
}

/// To write and to read, or else only to write.
UniqueFd open_wide(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), O_RDWR | flags | O_CLOEXEC, kMode));
  if (!fd.valid()) fd = UniqueFd(open(path.c_str(), O_WRONLY | flags | O_CLOEXEC, kMode));
  return fd;
}

/// A device or a pipe.
Result<UniqueFd> open_in_place(const std::string& name, const Place& place,
                               std::chrono::milliseconds patience) {
  if (!S_ISFIFO(place.is->st_mode)) {
    UniqueFd fd = open_wide(place.path, O_NOCTTY);
    if (!fd.valid()) return fail(name + ": " + system_text());
    return fd;
  }
  for (std::chrono::milliseconds waited{};; waited += kBetweenTries) {
    UniqueFd fd(open(place.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd.valid()) {
      if (fcntl(fd.get(), F_SETFL, O_WRONLY) != 0) return fail(name + ": " + system_text());
      return fd;
    }
    if (errno != ENXIO) return fail(name + ": " + system_text());
    if (waited >= patience) break;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return fail(name + ": is a pipe, and nobody has opened it to read for " +
              std::to_string(patience / std::chrono::seconds(1)) + " s");
}

/// Only what is a file when it is open is emptied: between looking and opening somebody may have put
/// something else there.
Result<UniqueFd> open_file(const std::string& name, const Place& place) {
  UniqueFd fd = open_wide(place.path, O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  struct stat is {};
  if (!fd.valid() || fstat(fd.get(), &is) != 0) return fail(name + ": " + system_text());
  if (!S_ISREG(is.st_mode)) return fail(name + ": is no file any more");
  TRY(require_trusted(place.path, is));
  if (ftruncate(fd.get(), 0) != 0) return fail(name + ": " + system_text());
  return fd;
}

/// Error: why.
Result<void> copy_over(const std::string& from, const std::string& to) {
  const UniqueFd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd out(open(to.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC));
  if (!in.valid() || !out.valid()) return fail(system_text());
  std::array<uint8_t, 65536> piece;
  for (;;) {
    const ssize_t got = read(in.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(system_text());
    if (got == 0) break;
    TRY(write_all(out.get(), {piece.data(), static_cast<size_t>(got)}));
  }
  if (fsync(out.get()) != 0) return fail(system_text());
  return {};
}

mode_t mode_of(const Place& place) {
  if (place.is) return place.is->st_mode & 0777;
  const mode_t mask = umask(0);
  umask(mask);
  return kMode & ~mask;
}

}  // namespace

Result<UniqueFd> open_growing(const std::string& path, std::chrono::milliseconds patience) {
  const Place place = TRY(place_of(path));
  return is_file(place) ? open_file(path, place) : open_in_place(path, place, patience);
}

Result<void> write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return fail(system_text());
    }
  }
  return {};
}

Result<ReplacedFile> ReplacedFile::create(const std::string& path) {
  const Place place = TRY(place_of(path));
  ReplacedFile out;
  out.name_ = path;
  out.place_ = place.path;
  UniqueFd fd;
  if (is_file(place)) {
    // mkostemp makes what was not there (O_EXCL) and follows no link.
    std::string draft = place.path + ".XXXXXX";
    fd = UniqueFd(mkostemp(draft.data(), O_CLOEXEC));
    if (!fd.valid()) return fail(path + ": " + system_text());
    out.draft_ = draft;
    // A file system without permissions of its own refuses, and has its own.
    (void)fchmod(fd.get(), mode_of(place));
  } else {
    fd = TRY(open_in_place(path, place, kReaderPatience));
  }
  out.stream_.reset(fdopen(fd.get(), "wb"));
  if (out.stream_ == nullptr) return fail(path + ": " + system_text());
  (void)fd.release();
  return out;
}

ReplacedFile::~ReplacedFile() {
  if (!draft_.empty()) unlink(draft_.c_str());
}

void ReplacedFile::write(std::string_view text) {
  if (error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), stream_.get()) != text.size()) error_ = errno;
}

Result<void> ReplacedFile::commit() {
  const auto step = [&](const auto& call) {
    if (error_ == 0 && call() != 0) error_ = errno;
  };
  step([&] { return std::fflush(stream_.get()); });
  if (!draft_.empty()) step([&] { return fsync(fileno(stream_.get())); });
  const int closed = std::fclose(stream_.release());
  step([&] { return closed; });
  if (draft_.empty())
    return error_ == 0 ? Result<void>{} : fail(name_ + ": " + std::strerror(error_));
  step([&] { return std::rename(draft_.c_str(), place_.c_str()); });
  const std::string draft = std::exchange(draft_, {});
  if (error_ == 0) return {};
  // What is mounted on a file, as containers do it, takes no other file's place.
  const auto copied = error_ == EBUSY ? copy_over(draft, place_) : fail(std::strerror(error_));
  unlink(draft.c_str());
  return copied ? Result<void>{} : fail(name_ + ": " + copied.error().text);
}

Result<void> check_growing(const std::string& path) {
  const Place place = TRY(place_of(path));
  const std::string& written = place.is ? place.path : folder_of(place.path);
  if (access(written.c_str(), W_OK) != 0) return fail(path + ": " + system_text());
  return {};
}

Result<void> check_replaceable(const std::string& path) {
  const Place place = TRY(place_of(path));
  const std::string& written = is_file(place) ? folder_of(place.path) : place.path;
  if (access(written.c_str(), W_OK) != 0) return fail(path + ": " + system_text());
  return {};
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  ReplacedFile file = TRY(ReplacedFile::create(path));
  file.write(text);
  return file.commit();
}

int finish_output(const char* program, int status, int failed) {
  errno = 0;
  // The reason of an earlier call's error is gone; one more byte has the same.
  const bool lost = std::ferror(stdout) != 0;
  if (lost && ::write(STDOUT_FILENO, "\n", 1) == 1) errno = EIO;
  const int reason = errno;
  if (std::fclose(stdout) == 0 && !lost) return status;
  const int error = lost ? reason : errno;
  if (error != EPIPE) {  // whoever read has what he wanted
    std::fprintf(stderr, "%s: standard output: %s\n", program, std::strerror(error));
  }
  return status == 0 ? failed : status;
}

}  // namespace understudy
