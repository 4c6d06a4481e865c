// Reads a configuration file and checks all of it; the only way to get a Config.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "ctrl/config/config.h"

namespace understudy {

/// One thing wrong in a configuration. `line` is 0 where the file as a whole is at fault.
struct ConfigError {
  std::string file;
  unsigned line = 0;
  std::string key;      ///< as in "node.link.rate"; empty for a syntax error or an unreadable file
  std::string found;    ///< what stands there; may be empty
  std::string allowed;  ///< what is allowed, or why this is not

  /// "file:line: key: found ...: allowed"
  std::string text() const;
};

/// Either a Config that holds all rules of the schema, or every error found, in order of lines.
using ConfigResult = tl::expected<Config, std::vector<ConfigError>>;

/// Reads `path`. A missing or unreadable file and a TOML syntax error are reported alone.
ConfigResult load_config(const std::string& path);

/// Reads what `understudy calibrate` prints, [nccl] and [calibration] alone; or any configuration.
ConfigResult load_calibration(const std::string& path);

/// Gives the first `most` + 1 bytes of a file, or all of a shorter one.
using FileReader =
    std::function<tl::expected<std::string, ConfigError>(const std::string& path, size_t most)>;

/// The same for a text; `filename` is what errors call it, and files that it names are looked for
/// beside. Without `read_file` they are not read, which is an error.
ConfigResult load_config_text(const std::string& text, const std::string& filename,
                              const FileReader& read_file = {});

/// Adds the faults of a scenario file (`format = 1` and [[fault]] only) to a configuration.
ConfigResult load_scenario(Config config, const std::string& path);

/// The same for a text; `filename` is only what errors call it.
ConfigResult load_scenario_text(Config config, const std::string& text,
                                const std::string& filename);

/// All errors as lines of text, each ended by a newline.
std::string describe(const std::vector<ConfigError>& errors);

}  // namespace understudy
