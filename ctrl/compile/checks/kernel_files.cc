#include "ctrl/compile/checks/kernel_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

/// The file that a shell begins with, if the script says so plainly; else empty: a script may make
/// what it runs.
std::string first_file(const std::string& program) {
  const std::string word = program.substr(0, program.find(' '));
  const bool plain = std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '/' || c == '_' || c == '-';
  });
  return plain && word.starts_with("./") ? word : "";
}

std::string missing_of(const Config& config, const KernelConfig& kernel) {
  if (kernel.share_said.empty()) return "";
  std::error_code error;
  const auto refused = [&](unsigned line, const char* key, const std::string& found,
                           const std::string& why) {
    return ConfigError{config.path, line, key, "\"" + found + "\"", why}.text();
  };
  if (!std::filesystem::is_directory(kernel.share, error)) {
    const bool there = std::filesystem::exists(kernel.share, error);
    return refused(
        kernel.share_line, "node.real.share", kernel.share_said,
        std::string(there ? "this is no folder" : "there is no such folder") +
            (kernel.share_said.starts_with('/') ? ""
                                                : " (it counts from the configuration's folder)"));
  }
  const std::string file = first_file(kernel.program);
  if (file.empty() || std::filesystem::exists(kernel.share + "/" + file, error)) return "";
  return refused(
      kernel.program_line, "node.real.program", file,
      "there is no such file in its share, \"" + kernel.share_said + "\", where it starts");
}

}  // namespace

std::string missing_kernel_file(const Config& config) {
  for (const NodeConfig& node : config.nodes) {
    if (!node.kernel) continue;
    if (std::string why = missing_of(config, *node.kernel); !why.empty()) return why;
  }
  return "";
}

}  // namespace understudy
