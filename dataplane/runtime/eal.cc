#include "dataplane/runtime/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "dataplane/base/try.h"
#include "dataplane/port/dpdk_device.h"
#include "dataplane/port/dpdk_log.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/runtime/huge_pages.h"

namespace understudy {
namespace {

constexpr uint64_t kBaseMegabytes = 64;  // DPDK's own tables, rings of drivers

/// The CPUs this process may run on, as EAL writes sets: "0,1,2". Empty when DPDK knows none.
std::string own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::string text;
  for (unsigned cpu = 0; cpu < RTE_MAX_LCORE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    if (!text.empty()) text += ",";
    text += std::to_string(cpu);
  }
  return text;
}

/// rte_eal_init() insists on a directory that one user of the machine may take from all others. We
/// keep nothing in files, so it gets one of its own that does not outlive it.
class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    std::error_code error;
    path_ = std::filesystem::temp_directory_path(error) / "understudy-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
    if (!path_.empty()) setenv(kVariable, path_.c_str(), 1);
  }
  ~RuntimeDirectory() {
    if (path_.empty()) return;
    unsetenv(kVariable);
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

 private:
  static constexpr const char* kVariable = "RUNTIME_DIRECTORY";
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<Eal>> Eal::start(const EalOptions& options) {
  std::vector<std::string> cards;
  std::string card;
  for (const EalPort& port : options.ports) {
    auto device = TRY(parse_dpdk_device(port.name, port.device));
    TRY(check_dpdk_device(port.name, device));
    if (!device.pci) continue;
    cards.push_back(device.with_args());
    card = "port \"" + port.name + "\": device " + device.name;
  }
  const uint64_t megabytes = kBaseMegabytes + options.ports.size() * kDpdkPortMegabytes;
  const auto huge = TRY(choose_huge_pages(look_for_huge_pages(), megabytes << 20, card));
  if (!huge) TRY(check_ordinary_memory(memory_left(), megabytes << 20));

  unsigned lcores = kWorkerLcore + 1;
  for (const EalPort& port : options.ports) lcores += port.cores - 1;
  const std::string cpus = own_cpus();
  if (cpus.empty()) {
    return fail("this process may run on no CPU below " + std::to_string(RTE_MAX_LCORE) +
                ", which is where those of DPDK end; start it with `taskset`");
  }
  std::string anywhere;  // each of them on all CPUs that we may use
  for (unsigned lcore = 0; lcore < lcores; ++lcore) {
    if (lcore != 0) anywhere += ',';
    anywhere += std::to_string(lcore);
    anywhere += "@(" + cpus + ")";
  }
  if (!options.verbose) quiet_dpdk_log();
  std::vector<std::string> arguments = {"understudy",
                                        "--lcores",
                                        anywhere,
                                        "-m",
                                        std::to_string(megabytes),
                                        "--no-telemetry",
                                        options.verbose ? "--log-level=info" : "--log-level=error"};
  // No files, so several runs do not meet. (--in-memory refuses to go with --no-huge.)
  if (huge) {
    arguments.push_back("--in-memory");
  } else {
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf"});
  }
  if (cards.empty()) arguments.push_back("--no-pci");
  for (const std::string& address : cards) arguments.push_back("--allow=" + address);

  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const RuntimeDirectory runtime;
  if (rte_eal_init(static_cast<int>(arguments.size()), argv.data()) < 0) {
    std::string line;
    for (const std::string& argument : arguments) line += " " + argument;
    return fail(std::string("DPDK does not start: ") + rte_strerror(rte_errno) +
                take_dpdk_complaint() + "; its arguments were:" + line);
  }
  return std::unique_ptr<Eal>(new Eal(huge));
}

unsigned Eal::cpus() {
  const std::string set = own_cpus();
  return set.empty() ? 0 : static_cast<unsigned>(std::ranges::count(set, ',')) + 1;
}

Eal::~Eal() { (void)rte_eal_cleanup(); }

}  // namespace understudy
