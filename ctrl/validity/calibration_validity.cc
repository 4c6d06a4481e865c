#include <algorithm>
#include <set>

#include "ctrl/config/nccl_versions.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"

namespace understudy {
namespace {

/// All tables of a calibration together.
struct Measured {
  explicit Measured(const std::vector<CalibrationTable>& tables) {
    for (const CalibrationTable& t : tables) {
      smallest = std::min(smallest, t.smallest);
      largest = std::max(largest, t.largest);
      ranks.insert(t.ranks);
      nodes.insert(t.nodes);
      versions.insert(t.nccl);
      gpus.insert(t.gpu);
      collectives.insert(t.collective);
      names.insert(t.table);
    }
  }

  uint64_t smallest = UINT64_MAX, largest = 0;
  std::set<uint32_t> ranks, nodes;
  std::set<NcclVersion> versions;
  std::set<GpuGeneration> gpus;
  std::set<Collective> collectives;
  std::set<std::string> names;
};

/// "2, 4 and 8"
std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  }
  return text;
}

std::string numbers_text(const std::set<uint32_t>& numbers) {
  std::vector<std::string> items;
  items.reserve(numbers.size());
  for (const uint32_t number : numbers) items.push_back(std::to_string(number));
  return list_text(items);
}

template <typename T, size_t N>
std::string names_text(const std::set<T>& values, const Named<T> (&names)[N]) {
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const T& value : values) items.emplace_back(name_of(names, value));
  return list_text(items);
}

bool is_outside(const std::set<uint32_t>& measured, uint32_t value) {
  return value < *measured.begin() || value > *measured.rbegin();
}

/// How far the job goes beyond what was measured, each in words.
std::vector<std::string> beyond(const Measured& m, const PredictedJob& p) {
  std::vector<std::string> parts;
  const CommunicatorSize& size = p.communicator;
  if (is_outside(m.ranks, size.ranks)) {
    parts.push_back(count_text(size.ranks, "GPU") + " (measured at " + numbers_text(m.ranks) + ")");
  }
  if (is_outside(m.nodes, size.nodes)) {
    parts.push_back(count_text(size.nodes, "node") + " (measured at " + numbers_text(m.nodes) +
                    ")");
  }
  if (!p.job.sizes.empty()) {
    const auto [least, most] = std::ranges::minmax(p.job.sizes);
    if (most > m.largest) {
      parts.push_back(size_text(most) + " (measured up to " + size_text(m.largest) + ")");
    }
    if (least < m.smallest) {
      parts.push_back(size_text(least) + " (measured from " + size_text(m.smallest) + " on)");
    }
  }
  if (!m.collectives.contains(p.job.collective)) {
    parts.push_back(std::string(name_of(kCollectiveNames, p.job.collective)) +
                    " (measured: " + names_text(m.collectives, kCollectiveNames) + ")");
  }
  if (!m.versions.contains(p.job.nccl)) {
    parts.push_back("NCCL 2." + std::to_string(p.job.nccl.minor) +
                    " (measured: " + names_text(m.versions, kVersionNames) + ")");
  }
  if (!m.gpus.contains(p.gpu)) {
    parts.push_back(std::string(name_of(kGpuNames, p.gpu)) +
                    " (measured: " + names_text(m.gpus, kGpuNames) + ")");
  }
  if (p.in_switches) {
    parts.push_back(std::string(name_of(kAlgorithmNames, p.in_switches)) +
                    " (measured as ring, tree or pat)");
  }
  return parts;
}

}  // namespace

void add_calibration(ValidityLines& lines, const Config& config, const PredictedJob& predicted) {
  if (config.calibration_tables.empty()) {
    lines.add("unknown-origin",
              "[calibration] does not say what it was measured on: give it the key from, as "
              "understudy calibrate prints it");
    return;
  }
  const Measured measured(config.calibration_tables);
  lines.add("calibration", "costs of GPUs as measured on " + numbers_text(measured.ranks) +
                               " GPUs of " + numbers_text(measured.nodes) +
                               (*measured.nodes.rbegin() == 1 ? " node" : " nodes") + ", " +
                               size_text(measured.smallest) + " to " + size_text(measured.largest) +
                               " (" + list_text({measured.names.begin(), measured.names.end()}) +
                               ")");
  const std::vector<std::string> parts = beyond(measured, predicted);
  if (parts.empty()) return;
  std::string text = "beyond what [calibration] was measured on: ";
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  lines.add("extrapolation", text);
}

std::vector<ValidityLine> judgement_validity(
    const std::vector<std::string>& unjudged,
    const std::vector<std::pair<std::string, uint64_t>>& in_switches) {
  ValidityLines lines;
  for (const std::string& table : unjudged) {
    lines.add("not-judged", "nothing was judged of " + table +
                                ": all its rows were used (measure more than 8 sizes)");
  }
  for (const auto& [table, from] : in_switches) {
    lines.add("nvls", "NCCL may have taken NVLS in " + table + " from " + size_text(from) +
                          " on, which calibrate does not know: measure with NCCL_NVLS_ENABLE=0, "
                          "and give that to --env");
  }
  return lines.take(0);
}

}  // namespace understudy
