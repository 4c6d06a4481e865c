#include "ctrl/simai/simai_file.h"

#include <algorithm>
#include <array>
#include <span>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Words = std::vector<std::string_view>;

constexpr double kMostInHeader = 2147483647;       ///< SimAI reads them as 32 bits with a sign
constexpr double kMostInLayer = 9007199254740992;  ///< 2^53: exact in a double
constexpr std::string_view kPolicy = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";
constexpr const char* kFields[] = {"name",      "dependency", "fwd_time", "fwd_coll",
                                   "fwd_bytes", "ig_time",    "ig_coll",  "ig_bytes",
                                   "wg_time",   "wg_coll",    "wg_bytes", "update_time"};

struct NamedCollective {
  std::string_view name;
  SimaiCollective collective;
};
constexpr NamedCollective kCollectives[] = {{"ALLREDUCE", SimaiCollective::kAllReduce},
                                            {"ALLGATHER", SimaiCollective::kAllGather},
                                            {"REDUCESCATTER", SimaiCollective::kReduceScatter},
                                            {"ALLTOALL", SimaiCollective::kAllToAll}};

/// False for a name that does not exist.
bool read_collective(std::string_view word, SimaiPass& pass) {
  if (word == "NONE") return true;
  if (word == "BROADCAST") {
    pass.collective = SimaiCollective::kBroadcast;
    return true;
  }
  for (const NamedCollective& known : kCollectives) {
    if (!word.starts_with(known.name)) continue;
    const std::string_view suffix = word.substr(known.name.size());
    pass.collective = known.collective;
    if (suffix == "_EP") pass.group = SimaiGroup::kExpert;
    if (suffix == "_DP_EP") pass.group = SimaiGroup::kExpertData;
    return suffix.empty() || suffix == "_EP" || suffix == "_DP_EP";
  }
  return false;
}

class Reader {
 public:
  Reader(const std::string& path, std::optional<uint32_t> gpus) : path_(path), gpus_(gpus) {}

  tl::expected<SimaiFile, ConfigError> run(std::string_view text) {
    const std::vector<std::string_view> lines = lines_of(text);
    TRY(read_header(lines));
    const size_t layers = TRY(read_count(lines));
    for (line_ = 3; line_ <= lines.size() && file_.workload.layers.size() < layers; ++line_) {
      const Words words = words_of(lines[line_ - 1]);
      if (!words.empty()) TRY(read_layer(words));
    }
    const size_t found = file_.workload.layers.size();
    if (found < layers) {
      line_ = 2;
      return wrong("layers", std::to_string(layers),
                   "the file has " + std::to_string(found) + " of them");
    }
    const auto rest = std::ranges::count_if(std::span(lines).subspan(line_ - 1),
                                            [](auto line) { return !words_of(line).empty(); });
    if (rest > 0) {
      file_.notes.push_back(std::to_string(rest) + " line(s) behind the " + std::to_string(layers) +
                            " layers are left out, as SimAI does");
    }
    return std::move(file_);
  }

 private:
  using Done = tl::expected<void, ConfigError>;

  tl::unexpected<ConfigError> wrong(std::string key, std::string found, std::string allowed) const {
    return tl::unexpected(ConfigError{path_, static_cast<unsigned>(line_), std::move(key),
                                      std::move(found), std::move(allowed)});
  }

  Done read_header(const std::vector<std::string_view>& lines) {
    line_ = 1;
    const Words words = lines.empty() ? Words() : words_of(lines[0]);
    if (words.empty() || words[0] != kPolicy) {
      return wrong("", words.empty() ? "nothing" : '"' + std::string(words[0].substr(0, 60)) + '"',
                   "expected " + std::string(kPolicy) +
                       " and sizes of groups, without which SimAI's analytical mode has no result");
    }
    SimaiParallel& parallel = file_.workload.parallel;
    std::array<Size, 7> sizes{{{"model_parallel_NPU_group", &parallel.tp},
                               {"ep", &parallel.ep},
                               {"pp", &parallel.pp},
                               {"vpp", &parallel.vpp},
                               {"ga", &parallel.ga},
                               {"all_gpus", &parallel.gpus},
                               {"pp_comm", &parallel.pp_bytes, 0}}};
    for (size_t i = 1; i < words.size(); i += 2) {
      TRY(read_pair(words[i], i + 1 < words.size() ? words[i + 1] : "", sizes));
    }
    return check_header(sizes);
  }

  struct Size {
    std::string_view name;
    uint32_t* value;
    uint32_t least = 1;
    bool found = false;
  };

  Done read_pair(std::string_view word, std::string_view value, std::span<Size> sizes) {
    const std::string_view name = word.substr(0, word.find(':'));
    const auto number = number_of(value, kMostInHeader);
    if (!number) {
      return wrong(std::string(name), '"' + std::string(value) + '"',
                   "expected a number of 0 to 2147483647 behind it");
    }
    const auto whole = static_cast<uint32_t>(*number);
    if (name == "checkpoints" || name == "checkpoint_initiates") {
      if (whole == 0) return {};
      return wrong(std::string(name), std::string(value),
                   "layers that are computed again are not supported, and AICB writes none");
    }
    const auto size = std::ranges::find(sizes, name, &Size::name);
    if (size == sizes.end()) {
      file_.notes.push_back("the header's " + std::string(name) +
                            " is not known and is left out, as SimAI does");
      return {};
    }
    if (whole < size->least)
      return wrong(std::string(name), std::string(value), "expected 1 or more");
    *size->value = whole;
    size->found = true;
    return {};
  }

  Done check_header(std::span<const Size> sizes) {
    SimaiParallel& parallel = file_.workload.parallel;
    if (!sizes[0].found) {
      return wrong(std::string(sizes[0].name), "", "it has to be there: the tensor-parallel ranks");
    }
    std::string lacking;
    for (const Size& size : sizes.subspan(1, 5)) {
      if (!size.found) lacking += (lacking.empty() ? "" : ", ") + std::string(size.name);
    }
    if (gpus_) parallel.gpus = *gpus_;
    if (!gpus_ && !sizes[5].found) {
      return wrong("all_gpus", "",
                   "the header lacks " + lacking +
                       ", as old ones of AICB do, and SimAI's result of it is empty: say how many "
                       "GPUs there are, and the others count as 1");
    }
    if (!lacking.empty()) {
      file_.notes.push_back(
          "the header lacks " + lacking +
          ": all but the GPUs count as 1; SimAI's result of such a file is empty");
    }
    const uint64_t replica = uint64_t{parallel.tp} * parallel.pp;
    if (parallel.gpus < replica) {
      return wrong("all_gpus", std::to_string(parallel.gpus),
                   "a model on TP x PP = " + std::to_string(replica) + " GPUs needs as many");
    }
    if (parallel.gpus % replica != 0) {
      file_.notes.push_back("TP x PP = " + std::to_string(replica) + " does not divide " +
                            std::to_string(parallel.gpus) +
                            " GPUs: data-parallel ranks are rounded down, as SimAI does");
    }
    return {};
  }

  tl::expected<size_t, ConfigError> read_count(const std::vector<std::string_view>& lines) {
    line_ = 2;
    const Words words = lines.size() < 2 ? Words() : words_of(lines[1]);
    const auto count = words.empty() ? std::nullopt : number_of(words[0], kMostInHeader);
    if (!count || *count < 1) {
      return wrong("layers", words.empty() ? "nothing" : '"' + std::string(words[0]) + '"',
                   "expected the number of layers, 1 or more");
    }
    return static_cast<size_t>(*count);
  }

  Done read_layer(const Words& words) {
    if (words.size() != std::size(kFields)) {
      return wrong("", std::to_string(words.size()) + " field(s)",
                   "expected 12: a name, a dependency, time, collective and bytes of three passes, "
                   "and a time");
    }
    SimaiLayer layer;
    layer.name = words[0];
    const std::string_view dependency = words[1];
    if (!number_of(dependency.starts_with('-') ? dependency.substr(1) : dependency,
                   kMostInHeader)) {
      return wrong(kFields[1], '"' + std::string(dependency) + '"', "expected a number");
    }
    TRY(read_pass(words, 2, layer.forward));
    TRY(read_pass(words, 5, layer.input_gradient));
    TRY(read_pass(words, 8, layer.weight_gradient));
    TRY(read_number(words, 11));  // the analytical mode does not use it
    file_.workload.layers.push_back(std::move(layer));
    return {};
  }

  Done read_pass(const Words& words, size_t at, SimaiPass& pass) {
    pass.compute_ns = TRY(read_number(words, at));
    if (!read_collective(words[at + 1], pass)) {
      return wrong(kFields[at + 1], '"' + std::string(words[at + 1]) + '"',
                   "expected NONE, BROADCAST, or ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL, "
                   "with _EP or _DP_EP or neither");
    }
    pass.bytes = TRY(read_number(words, at + 2));
    return {};
  }

  tl::expected<uint64_t, ConfigError> read_number(const Words& words, size_t at) const {
    const auto number = number_of(words[at], kMostInLayer);
    if (number) return static_cast<uint64_t>(*number);
    return wrong(kFields[at], '"' + std::string(words[at]) + '"', "expected a number of 0 to 2^53");
  }

  std::string path_;
  std::optional<uint32_t> gpus_;
  SimaiFile file_;
  size_t line_ = 0;
};

}  // namespace

tl::expected<SimaiFile, ConfigError> parse_simai(std::string_view text, const std::string& path,
                                                 std::optional<uint32_t> gpus) {
  return Reader(path, gpus).run(text);
}

tl::expected<SimaiFile, ConfigError> read_simai(const std::string& path,
                                                std::optional<uint32_t> gpus) {
  const std::string text = TRY(read_whole(path));
  return parse_simai(text, path, gpus);
}

}  // namespace understudy
