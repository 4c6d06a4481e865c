// [job.ddp]: the all-reduces of a network that replicas train, as PyTorch's DistributedDataParallel
// makes them. It stands for sizes, order = "iteration" and [job.compute].
#include <charconv>
#include <cmath>

#include "collective_model/training/replicas.h"
#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr uint64_t kMostParameters = uint64_t{1} << 40;  ///< of a tensor
constexpr size_t kMostTensors = 100'000;
constexpr int64_t kMostScale = 1'000'000;
/// PyTorch's kDefaultFirstBucketBytes and bucket_cap_mb.
constexpr uint64_t kFirstBucket = uint64_t{1} << 20, kBucket = uint64_t{25} << 20;
constexpr uint64_t kMapEntryBytes = 4;  ///< int32

class DdpReader {
 public:
  DdpReader(const TomlNode& toml, ReadContext& context, JobConfig& job)
      : context_(context), table_(toml, "job.ddp", context.errors), job_(job) {}

  void run() {
    const size_t errors = context_.errors.size();
    read_tensors();
    uint64_t first = kFirstBucket, full = kBucket;
    if (const auto size = table_.size("first_bucket")) first = size->value;
    if (const auto size = table_.size("bucket")) full = size->value;
    bool has_map = false;
    if (const auto flag = table_.boolean("find_unused_parameters")) has_map = flag->value;
    if (const auto scale = table_.integer("scale", 1, kMostScale)) {
      scale_ = static_cast<uint64_t>(scale->value);
    }
    Duration forward, backward;
    read_time("forward", true, forward);
    read_time("backward", true, backward);
    read_time("optimizer", false, job_.iteration.after);
    table_.finish();
    if (context_.errors.size() != errors) return;
    const uint64_t element = element_bytes(job_.type);
    Duration over = -forward;
    for (const GradientBucket& bucket : replica_buckets(tensors_, element, first, full)) {
      const auto ready =
          Duration::ps(std::llround(static_cast<double>(backward.ps()) * bucket.ready));
      add(bucket.parameters * element, ready - over);
      over = ready;
    }
    // It follows the last bucket at once.
    if (has_map) add(tensors_.size() * kMapEntryBytes, Duration());
    job_.iteration.whole = job_.iteration.overlap = true;
  }

 private:
  void read_time(std::string_view key, bool required, Duration& out) {
    if (required) table_.require(key, "how long GPUs compute in it, as in \"80ms\"");
    if (const auto time = table_.duration(key)) out = time->value;
  }

  void add(uint64_t bytes, Duration compute) {
    const uint64_t element = element_bytes(job_.type), unit = element * scale_;
    job_.sizes.push_back((bytes + unit - 1) / unit * element);
    job_.iteration.compute.push_back(compute);
  }

  void read_tensors() {
    const auto model = table_.text("model"), file = table_.text("tensors");
    if (model && file) {
      table_.error(file->line, "tensors", quoted(file->value), "expected either model or tensors");
    } else if (file) {
      read_file(*file);
    } else if (!model) {
      table_.require("model",
                     "the name of a network, as \"bert-large\", or tensors = \"FILE.csv\"");
    } else if (auto known = find_network(model->value)) {
      tensors_ = *std::move(known);
    } else {
      table_.unknown_word(*model, "model", network_presets());
    }
  }

  /// A header, "parameters" or "parameters,work", and a line for each tensor.
  void read_file(const Located<std::string>& file) {
    const auto read = read_csv_file(table_, context_, file, "tensors");
    if (!read) return;
    unsigned line = 0;
    size_t width = 0;
    const auto wrong = [&](std::string found, std::string allowed) {
      context_.errors.add({read->path, line, "", std::move(found), std::move(allowed)});
    };
    for (const std::string_view raw : split(read->text, '\n')) {
      ++line;
      if (raw.empty() || raw.front() == '#') continue;
      const std::vector<std::string_view> cells = split(raw, ',');
      if (width == 0) {
        width = cells.size();
        const bool right = cells[0] == "parameters" && (width == 1 || cells[1] == "work");
        if (right && width <= 2) continue;
        return wrong(quoted(raw.substr(0, 40)),
                     "expected a header: parameters, or parameters,work");
      }
      NetworkTensor tensor;
      const bool right = cells.size() == width && number(cells[0], tensor.parameters) &&
                         tensor.parameters > 0 && tensor.parameters <= kMostParameters;
      tensor.work = static_cast<double>(tensor.parameters);
      const bool has_work = width == 1 || (right && number(cells[1], tensor.work));
      if (!right || !has_work || !(tensor.work >= 0) || !std::isfinite(tensor.work)) {
        return wrong(
            quoted(raw.substr(0, 40)),
            "expected the number of a tensor's parameters, at most 2^40, and with a column "
            "work how long its gradient takes beside others', 0 or more");
      }
      tensors_.push_back(tensor);
      if (tensors_.size() > kMostTensors) return wrong("one tensor more", "at most 100000");
    }
    if (tensors_.empty()) wrong("no tensors", "expected one a line");
  }

  template <typename T>
  static bool number(std::string_view text, T& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  }

  ReadContext& context_;
  TableReader table_;
  JobConfig& job_;
  std::vector<NetworkTensor> tensors_;
  uint64_t scale_ = 1;
};

}  // namespace

void read_ddp(const TomlNode& toml, TableReader& table, ReadContext& context, JobConfig& job) {
  if (job.collective != Collective::kAllReduce) {
    table.error(toml.line, "ddp", toml.describe(),
                "gradients of replicas are summed up: collective = \"all_reduce\"");
  }
  for (const char* key : {"sizes", "order", "group"}) {
    const TomlNode* const given = table.any(key);
    if (given == nullptr) continue;
    table.error(given->line, key, given->describe(),
                "ddp says what is reduced, and in which order: leave it out");
  }
  job.iteration.ddp = true;
  DdpReader(toml, context, job).run();
}

}  // namespace understudy
