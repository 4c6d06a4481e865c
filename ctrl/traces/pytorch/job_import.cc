#include "ctrl/traces/pytorch/job_import.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint32_t kMostRanks = 1u << 20;

Result<std::ifstream> opened(const std::string& path) {
  if (std::filesystem::is_directory(path)) return fail(path + ": this is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(path + ": cannot be read");
  return file;
}

/// Of all its names and lists of ranks: a communicator is both.
using GroupKey = std::pair<std::string, std::vector<uint32_t>>;

class Import {
 public:
  explicit Import(const RecordedFiles& files) : files_(files) {}

  Result<ImportedJob> run() {
    if (!files_.devices.empty() && files_.devices.size() != files_.hosts.size()) {
      return fail(std::to_string(files_.hosts.size()) + " host traces are given, and " +
                  std::to_string(files_.devices.size()) +
                  " device traces: one for each is needed, in the same order");
    }
    for (size_t i = 0; i < files_.hosts.size(); ++i) TRY(read(i));
    TRY(order_ranks());
    name_groups();
    for (size_t i = 0; i < read_.size(); ++i) {
      auto made = graph_of_rank(read_[i].traces);
      if (!made) return fail(read_[i].imported.host + ": " + made.error().text);
      read_[i].imported.made = *std::move(made);
      read_[i].traces = {};
      job_.ranks.push_back(std::move(read_[i].imported));
    }
    return std::move(job_);
  }

 private:
  struct Read {
    ImportedRank imported;
    RankTraces traces;
    std::map<std::string, std::vector<uint32_t>> groups;  ///< their ranks; empty: all
    std::optional<uint32_t> rank, ranks;                  ///< as the traces say
  };

  Result<void> read(size_t i) {
    Read& made = read_.emplace_back();
    RankTraces& traces = made.traces;
    made.imported.host = files_.hosts[i];
    auto file = TRY(opened(files_.hosts[i]));
    traces.host = TRY(read_host_trace(file, files_.hosts[i]));
    traces.communications = communications_of(traces.host);
    if (!files_.devices.empty()) {
      const std::string& path = files_.devices[i];
      made.imported.device = path;
      auto device_file = TRY(opened(path));
      traces.device = TRY(read_device_trace(device_file, path));
      auto joined = join_traces(traces.host, *traces.device);
      if (!joined) {
        return fail(path + ": joined to " + files_.hosts[i] + ": " + joined.error().text);
      }
      traces.joined = *std::move(joined);
      made.imported.lost_kernels = traces.joined->lost_kernels;
      made.imported.by_number = traces.joined->by_number;
    }
    find_groups(made);
    find_size(made);
    find_rank(made);
    return {};
  }

  static void find_groups(Read& read) {
    for (const HostGroup& group : read.traces.host.groups) {
      read.groups[group.name] = group.ranks;
      if (group.ranks.empty() && group.size) read.ranks = group.size;
    }
    for (const HostCommunication& one : read.traces.communications) {
      if (!one.what.ranks || read.groups.contains(one.what.group)) continue;
      const auto [first, step, count] = *one.what.ranks;
      if (count > kMostRanks || step > kMostRanks || first > kMostRanks) continue;
      std::vector<uint32_t>& ranks = read.groups[one.what.group];
      for (uint32_t i = 0; i < count; ++i) ranks.push_back(first + i * step);
    }
    if (!read.traces.device) return;
    if (read.traces.device->ranks) read.ranks = read.traces.device->ranks;
    for (const DeviceCommunication& one : read.traces.device->communications) {
      if (!one.ranks.empty()) read.groups.try_emplace(one.group, one.ranks);
    }
  }

  /// The traces say how many ranks the job has, or a communicator has one so high.
  static void find_size(Read& read) {
    for (const auto& [name, ranks] : read.groups) {
      for (const uint32_t rank : ranks) {
        if (rank < kMostRanks) read.ranks = std::max(read.ranks.value_or(0), rank + 1);
      }
    }
  }

  static void find_rank(Read& read) {
    if (read.traces.device && read.traces.device->rank) {
      read.rank = read.traces.device->rank;
      return;
    }
    for (const HostCommunication& one : read.traces.communications) {
      if (!one.what.rank) continue;
      const auto group = read.groups.find(one.what.group);
      if (group == read.groups.end()) continue;
      const std::vector<uint32_t>& ranks = group->second;
      if (!ranks.empty() && *one.what.rank >= ranks.size()) continue;
      read.rank = ranks.empty() ? *one.what.rank : ranks[*one.what.rank];
      return;
    }
  }

  Result<void> order_ranks() {
    std::map<uint32_t, size_t> by_rank;
    for (size_t i = 0; i < read_.size(); ++i) {
      if (read_[i].ranks) job_.job_ranks = std::max(job_.job_ranks, *read_[i].ranks);
      if (!read_[i].rank) continue;
      const auto [other, is_new] = by_rank.emplace(*read_[i].rank, i);
      if (is_new) continue;
      return fail(read_[i].imported.host + ": it is of rank " + std::to_string(*read_[i].rank) +
                  ", as " + read_[other->second].imported.host + " is");
    }
    if (read_.size() == 1) return {};
    const size_t needed = std::max<size_t>(job_.job_ranks, read_.size());
    if (by_rank.size() == read_.size()) {
      uint32_t expected = 0;
      for (const auto& [rank, place] : by_rank) {
        if (rank != expected) return missing(expected, needed);
        ++expected;
      }
    }
    if (needed != read_.size()) return missing(static_cast<uint32_t>(read_.size()), needed);
    if (by_rank.size() == read_.size()) {
      std::sort(read_.begin(), read_.end(),
                [](const Read& a, const Read& b) { return *a.rank < *b.rank; });
      return {};
    }
    for (size_t i = 0; i < read_.size(); ++i) {
      if (!read_[i].rank || *read_[i].rank == i) continue;
      return fail(read_[i].imported.host + ": it is of rank " + std::to_string(*read_[i].rank) +
                  ", and stands in the place of rank " + std::to_string(i) +
                  "; not every trace says its rank, so they are needed in order");
    }
    return {};
  }

  tl::unexpected<Error> missing(uint32_t rank, size_t ranks) const {
    return fail(read_.front().imported.host + ": it is of a job of " + std::to_string(ranks) +
                " ranks, and " + std::to_string(read_.size()) +
                " host traces are given: that of rank " + std::to_string(rank) + " is missing");
  }

  size_t all_ranks() const { return std::max<size_t>(job_.job_ranks, read_.size()); }

  bool is_all(const std::vector<uint32_t>& ranks) const {
    if (ranks.empty()) return true;
    if (ranks.size() != all_ranks()) return false;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] != i) return false;
    }
    return true;
  }

  static std::optional<uint32_t> number_in(const std::string& name) {
    uint32_t number = 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, number);
    if (error != std::errc() || at != end || number == 0) return {};
    return number;
  }

  void name_groups() {
    std::set<GroupKey> keys;
    std::set<std::string> unknown;
    for (const Read& read : read_) {
      for (const auto& [name, ranks] : read.groups) {
        if (!is_all(ranks)) keys.emplace(name, ranks);
      }
      for (const HostCommunication& one : read.traces.communications) {
        const std::string& name = one.what.group;
        if (!name.empty() && name != "0" && !read.groups.contains(name)) unknown.insert(name);
      }
    }
    job_.unknown_groups.assign(unknown.begin(), unknown.end());
    bool keep = true;
    for (const auto& [name, ranks] : keys) {
      const auto number = number_in(name);
      keep = keep && number && job_.groups.emplace(*number, ranks).second;
    }
    std::map<GroupKey, uint32_t> numbers;
    if (!keep) job_.groups.clear();
    for (const GroupKey& key : keys) {
      const auto number =
          keep ? *number_in(key.first) : static_cast<uint32_t>(job_.groups.size() + 1);
      numbers[key] = number;
      job_.groups[number] = key.second;
    }
    for (Read& read : read_) {
      for (const auto& [name, ranks] : read.groups) {
        RankGroup& group = read.traces.groups[name];
        group.ranks = ranks;
        if (!is_all(ranks)) group.id = std::to_string(numbers.at({name, ranks}));
      }
    }
  }

  const RecordedFiles& files_;
  std::vector<Read> read_;
  ImportedJob job_;
};

}  // namespace

Result<ImportedJob> import_job(const RecordedFiles& files) { return Import(files).run(); }

std::string import_text(const ImportedJob& job) {
  std::string text;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const ImportedRank& one = job.ranks[rank];
    const RankGraph& made = one.made;
    text += "rank " + std::to_string(rank) + ": " + one.host + "\n";
    text +=
        format_text("  %zu nodes: %" PRIu64 " operations on the CPU, %" PRIu64 " kernels, %" PRIu64
                    " that communicate, %" PRIu64 " communications without a kernel\n",
                    made.graph.nodes().size(), made.operations, made.kernels,
                    made.kernels_that_communicate, made.communications_without_kernel);
    if (made.left_out > 0) {
      text += format_text("  left out: %" PRIu64 " nodes (roots, process groups, no dependency)\n",
                          made.left_out);
    }
    if (one.device.empty()) {
      text += "  durations: none; a host trace has no times\n";
    } else {
      text += "  durations: of " + std::to_string(made.timed) + " operations, from " + one.device +
              " by " + (one.by_number ? "their numbers" : "name and order in their threads") + "\n";
    }
    if (one.lost_kernels > 0) {
      text += format_text("  lost: %" PRIu64 " kernels, whose launch or operation is not there\n",
                          one.lost_kernels);
    }
    if (made.guessed > 0) {
      text += format_text("  taken as all-to-alls: %" PRIu64
                          " kernels SendRecv of which nothing says what they send\n",
                          made.guessed);
    }
  }
  if (job.ranks.size() < job.job_ranks) {
    text +=
        format_text("one rank of a job of %u: as one file, it is every rank's\n", job.job_ranks);
  }
  for (const std::string& name : job.unknown_groups) {
    text += "group '" + name + "': no trace says which ranks are in it\n";
  }
  return text;
}

}  // namespace understudy
