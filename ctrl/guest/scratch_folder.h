// A folder for the time of a run.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "dataplane/base/result.h"

namespace understudy {

/// Goes with its owner, and all that is in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::string name = (std::filesystem::temp_directory_path() / "understudy-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return fail(name + ": cannot be made");
    return ScratchFolder(std::move(name));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!name_.empty()) std::filesystem::remove_all(name_, error);
  }
  const std::string& name() const { return name_; }

 private:
  explicit ScratchFolder(std::string name) : name_(std::move(name)) {}
  std::string name_;
};

}  // namespace understudy
