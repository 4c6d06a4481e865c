// An NCCL unique id that the job's program writes to a file that both machines see.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ctrl/peers/nccl/bootstrap/unique_id.h"
#include "dataplane/base/units.h"

namespace understudy {

/// The id as a file holds it: its 128 bytes, or these as 256 hexadecimal digits with white space
/// after them.
Result<NcclUniqueId> parse_unique_id_file(std::string_view content);

/// Waits for such a file. Whoever writes it may do so in pieces.
class UniqueIdFile {
 public:
  explicit UniqueIdFile(std::string path) : path_(std::move(path)), found_(written()) {}

  /// Nothing while the file is absent or empty, or has grown within the last two seconds. A
  /// later call after an error or an id gives the same again. Errors name the file.
  const std::optional<Result<NcclUniqueId>>& poll(Time now);

  /// After an id or an error: goes on with the next id that is written there.
  void look_for_next();

  /// It was there when this was made, and has not been written since: perhaps by an earlier run.
  bool is_old() const { return found_.has_value(); }

 private:
  std::optional<std::filesystem::file_time_type> written() const;

  std::string path_;
  std::optional<std::filesystem::file_time_type> found_;  ///< when made; gone once it changes
  size_t size_ = 0;                                       ///< when last looked at
  Time grown_;
  std::optional<Result<NcclUniqueId>> result_;
  std::optional<NcclUniqueId> former_;  ///< that was read before
};

/// Writes its 128 bytes, as programs read them, for real ranks when the root is emulated: to a
/// temporary file that is then renamed, so that nobody sees a half of it.
Result<void> write_unique_id_file(const std::string& path, const NcclUniqueId& id);

}  // namespace understudy
