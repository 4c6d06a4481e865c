#include "tools/allreduce_node/arguments.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace understudy {
namespace {

std::optional<uint64_t> parse_bytes(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  unsigned shift = 0;
  if (unit == "K" || unit == "KiB")
    shift = 10;
  else if (unit == "M" || unit == "MiB")
    shift = 20;
  else if (unit == "G" || unit == "GiB")
    shift = 30;
  else if (!unit.empty() && unit != "B")
    return std::nullopt;
  if (value > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

/// "0,3" as numbers.
std::optional<std::vector<uint32_t>> parse_list(std::string_view text) {
  std::vector<uint32_t> numbers;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return numbers;
}

std::vector<uint32_t> all_of(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  for (uint32_t r = 0; r < ranks; ++r) all[r] = r;
  return all;
}

/// What is wrong with a list of ranks, or nothing.
std::string fault_of(const char* option, std::vector<uint32_t> ranks, uint32_t of) {
  std::ranges::sort(ranks);
  if (std::ranges::adjacent_find(ranks) != ranks.end())
    return std::string(option) + ": a rank twice";
  if (!ranks.empty() && ranks.back() >= of) {
    return std::string(option) + ": rank " + std::to_string(ranks.back()) + " of only " +
           std::to_string(of);
  }
  return "";
}

std::string complete_ranks(Arguments& a) {
  NodeOptions& n = a.node;
  if (n.ranks == 0 || n.ranks > 65536) return "--ranks: expected 1 to 65536";
  if (n.local.empty()) n.local = all_of(n.ranks);
  if (auto fault = fault_of("--rank", n.local, n.ranks); !fault.empty()) return fault;
  if (n.first_device < 0) return "--device: expected 0 or more";
  if (n.root >= n.ranks)
    return "--root: rank " + std::to_string(n.root) + " of only " + std::to_string(n.ranks);
  if (!n.id_file.empty() && !n.make_id_file.empty())
    return "--id-file and --make-id-file exclude each other";
  if (a.real == "all") {
    n.real = all_of(n.ranks);
  } else if (a.real.empty()) {
    n.real = n.local;
  } else {
    const auto list = parse_list(a.real);
    if (!list) return "--real: \"" + a.real + "\" is no list of ranks";
    n.real = *list;
  }
  return fault_of("--real", n.real, n.ranks);
}

std::string complete_operation(Arguments& a) {
  NodeOptions& n = a.node;
  const auto kind = parse_collective(a.collective);
  if (!kind) return "--collective: \"" + a.collective + "\": expected one of " + collective_names();
  const auto type = parse_element_type(a.type);
  if (!type) return "--type: \"" + a.type + "\": expected one of " + element_type_names();
  const auto reduction = parse_reduction(a.reduction);
  if (!reduction) return "--op: \"" + a.reduction + "\": expected one of " + reduction_names();
  n.kind = *kind;
  n.type = *type;
  n.reduction = *reduction;
  if (a.place != "out" && a.place != "in" && a.place != "both") {
    return "--place: \"" + a.place + "\": expected out, in or both";
  }
  n.out_of_place = a.place != "in";
  n.in_place = a.place != "out" && runs_in_place(*kind);
  if (!n.out_of_place && !n.in_place) return a.collective + " does not run in place";
  if (n.iterations == 0) return "-n: expected 1 or more";
  return "";
}

std::string complete_sizes(Arguments& a) {
  NodeOptions& n = a.node;
  const auto from = parse_bytes(a.from), to = parse_bytes(a.to);
  if (!from) return "-b: \"" + a.from + "\" is no number of bytes";
  if (!to) return "-e: \"" + a.to + "\" is no number of bytes";
  if (*from == 0 || *from > *to) return "-b: expected 1 to " + a.to + " (-e)";
  if (a.factor < 2) return "-f: expected 2 or more";
  for (uint64_t bytes = *from; bytes <= *to; bytes *= a.factor) {
    if (!shape_of(n.kind, n.type, bytes, n.ranks)) {
      return "-b: " + std::to_string(bytes) + " bytes are less than an element of every rank";
    }
    n.sizes.push_back(bytes);
    if (bytes > *to / a.factor) break;
  }
  return "";
}

std::string complete_verify(Arguments& a) {
  const NodeOptions& n = a.node;
  if (!n.verify) return "";
  if (n.real.size() < n.ranks && !n.job_seed) {
    return "--verify: values of ranks that are not --real must be known: --job-seed, and "
           "payload = \"exact\" in the emulator's configuration";
  }
  if (n.real.size() < n.ranks && n.reduction == Reduction::kAvg) {
    return "--verify: emulated ranks do not divide: --op avg is of real ranks only";
  }
  return "";
}

}  // namespace

void describe(CLI::App& app, Arguments& a) {
  app.description(
      "Plays real ranks of an NCCL communicator whose other ranks may be emulated, and measures "
      "its\n"
      "collectives as nccl-tests do.\n"
      "Example: allreduce_node --ranks 4 --rank 0 --make-id-file /mnt/id -b 1MiB -e 64MiB");
  NodeOptions& n = a.node;
  app.add_option("--ranks", n.ranks, "ranks of the communicator, real and emulated")->required();
  app.add_option(
         "--rank", n.local,
         "ranks that this process plays, one GPU each: one, or a list as 0,1 (default: all)")
      ->delimiter(',');
  app.add_option("--device", n.first_device, "CUDA device of the first of them")
      ->capture_default_str();
  app.add_option("--id-file", n.id_file,
                 "file of the communicator's 128-byte unique id; waited for");
  app.add_option(
      "--make-id-file", n.make_id_file,
      "make a unique id here and write it to this file (default for both: NCCL_COMM_ID)");
  app.add_option("--collective", a.collective, collective_names())->capture_default_str();
  app.add_option("--type", a.type, element_type_names())->capture_default_str();
  app.add_option("--op", a.reduction, reduction_names())->capture_default_str();
  app.add_option("--root", n.root, "of broadcast and reduce")->capture_default_str();
  app.add_option("-b,--begin", a.from, "smallest size: bytes, or with KiB, MiB, GiB (K, M, G)")
      ->capture_default_str();
  app.add_option("-e,--end", a.to, "largest size")->capture_default_str();
  app.add_option("-f,--factor", a.factor, "from one size to the next")->capture_default_str();
  app.add_option("-n,--iterations", n.iterations, "timed operations of each size")
      ->capture_default_str();
  app.add_option("-w,--warmup", n.warmup, "operations before them")->capture_default_str();
  app.add_option("--place", a.place,
                 "out (of place), in (place), or both, as nccl-tests: operations of each size "
                 "twice. An emulator that is told its operations must be told the same number")
      ->capture_default_str();
  app.add_flag("--blocking", n.blocking, "begin an operation only when the one before has ended");
  app.add_flag("--verify", n.verify,
               "verify results. All ranks' values must be known: emulated ranks have such in "
               "payload = \"exact\" only (see --job-seed); in place it costs one operation more");
  app.add_option(
      "--real", a.real,
      "ranks with values of --input-seed: a list, or \"all\" (default: those of --rank)");
  app.add_option("--input-seed", n.input_seed,
                 "of the real ranks' values, the same for all of them")
      ->capture_default_str();
  app.add_option("--job-seed", n.job_seed,
                 "seed of the configuration: emulated ranks' values, type float");
  app.add_option("--timeout", n.timeout_s, "seconds without progress before it gives up")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--json", a.json, "write this file too; -: instead of the table");
}

std::string complete(Arguments& arguments) {
  for (const auto part : {complete_ranks, complete_operation, complete_sizes, complete_verify}) {
    if (std::string fault = part(arguments); !fault.empty()) return fault;
  }
  return "";
}

}  // namespace understudy
