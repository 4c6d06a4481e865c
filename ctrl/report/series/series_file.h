// Time series of a run as CSV: rows go to the file as they come, and can be read back for a plot.
// docs/guides/networks.md says what the columns mean.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

enum class SeriesKind : uint8_t { kLink, kFlow, kQueuePair };

/// What was there at `at`, or in the interval that ends then.
struct SeriesRow {
  Time at;
  SeriesKind kind = SeriesKind::kFlow;
  std::string_view name;
  std::optional<uint64_t> queue;       ///< bytes
  std::optional<uint64_t> throughput;  ///< bit/s
  std::optional<uint64_t> rate;        ///< bit/s
  std::optional<uint64_t> window;      ///< bytes
};

class SeriesFile {
 public:
  /// An empty path stands for a temporary file. Error: it cannot be written.
  static Result<SeriesFile> create(const std::string& path);

  void add(const SeriesRow& row);
  /// Error: not everything could be written.
  Result<void> finish();
  /// All rows from the first on. Error: the file cannot be read back, as a pipe cannot.
  Result<void> read(const std::function<void(const SeriesRow&)>& row) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace understudy
