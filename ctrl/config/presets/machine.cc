#include "ctrl/config/presets/machine.h"

#include <vector>

namespace understudy {
namespace {

constexpr uint64_t kGigabit = 1'000'000'000;

Rate gigabits(uint64_t rate) { return Rate::bits_per_second(rate * kGigabit); }

/// Eight GPUs on NVSwitches. Published figures of NVLink count both directions.
Machine board(const char* name, GpuGeneration gpu, uint64_t nvlink_gigabytes, const char* source) {
  Machine machine;
  machine.name = name;
  machine.source = source;
  machine.gpus = 8;
  machine.gpu = gpu;
  machine.intra = IntraLink::kNvlink;
  machine.nvlink = gigabits(nvlink_gigabytes * 8 / 2);
  machine.nvls = nvls_efficiency(gpu) > 0;
  return machine;
}

/// The same with a NIC for each GPU.
Machine server(const char* name, GpuGeneration gpu, uint64_t nvlink_gigabytes,
               uint64_t nic_gigabits, std::optional<CpuVendor> cpu, const char* source) {
  Machine machine = board(name, gpu, nvlink_gigabytes, source);
  machine.nics = 8;
  machine.nic_rate = gigabits(nic_gigabits);
  machine.cpu = cpu;
  return machine;
}

/// NICs are those of the compute network. GB/s of NVLink: A100 600, H100 and H200 900, B200 1,800 a
/// GPU, as NVIDIA's pages on NVLink and on these GPUs say too.
std::vector<Machine> all_machines() {
  using enum GpuGeneration;
  constexpr auto kIntel = CpuVendor::kIntel;
  constexpr auto kAmd = CpuVendor::kAmd;
  return {
      server("dgx-a100", kAmpere, 600, 200, kAmd,
             "developer.nvidia.com/blog/defining-ai-innovation-with-dgx-a100"),
      server("dgx-h100", kHopper, 900, 400, kIntel,
             "docs.nvidia.com/dgx-basepod, core components; NVIDIA RA-11333-001"),
      server("dgx-h200", kHopper, 900, 400, kIntel, "docs.nvidia.com/dgx-basepod, core components"),
      server("dgx-b200", kBlackwell, 1800, 400, kIntel,
             "docs.nvidia.com/dgx/dgxb200-user-guide/introduction-to-dgxb200.html"),
      // Boards that others build into their servers: NICs are theirs.
      board("hgx-a100", kAmpere, 600, "as dgx-a100"),
      board("hgx-h100", kHopper, 900, "as dgx-h100"),
      board("hgx-h200", kHopper, 900, "as dgx-h200"),
      board("hgx-b200", kBlackwell, 1800, "as dgx-b200"),
      // Servers on RoCE.
      server("meta-grand-teton", kHopper, 900, 400, {},
             "The Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.1"),
      server("gcp-a3-ultra", kHopper, 900, 400, {},
             "cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"),
      server("gcp-a4", kBlackwell, 1800, 400, {},
             "cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"),
  };
}

}  // namespace

std::span<const Machine> known_machines() {
  static const std::vector<Machine> machines = all_machines();
  return machines;
}

}  // namespace understudy
