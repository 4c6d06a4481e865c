// A folder for the time of a run.
#pragma once

#include <sys/types.h>

#include <string>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

/// Goes with its owner, and all that is in it. An owner that is killed cannot do that itself: a
/// process of the folder's own waits for the end of the owner, and of all programs that the owner
/// started and that are still there, and removes it then.
class ScratchFolder {
 public:
  /// Where $TMPDIR says, or in /tmp. Error: names the folder, or what its process lacks.
  static Result<ScratchFolder> create();
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::string& name() const { return name_; }

 private:
  ScratchFolder() = default;

  std::string name_;
  UniqueFd alive_;  ///< closed: all who have it open have ended
  pid_t keeper_ = -1;
};

}  // namespace understudy
