// gpu_calibrate: measures on one GPU what a step of a collective costs it, and prints the
// [calibration] section of a configuration. Exit status: 0, 2 bad command line, 1 anything else.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "dataplane/base/output_file.h"
#include "dataplane/base/try.h"
#include "tools/gpu_calibrate/cost.h"
#include "tools/gpu_calibrate/gpu.h"

namespace understudy {
namespace {

struct Arguments {
  int device = 0;
  uint32_t channels = 8, threads = 512;
  std::string out;
};

constexpr uint64_t kWindow = 4 << 20;       ///< NCCL's buffer of a connection
constexpr uint64_t kUserWindow = 64 << 20;  ///< of a channel: beyond what caches hold, all together
constexpr uint64_t kMessage = 1 << 20;      ///< of a ring all-reduce by Simple
constexpr uint32_t kSamples = 5;

class Bench {
 public:
  Bench(Gpu& gpu, const Arguments& arguments) : gpu_(gpu), arguments_(arguments) {}

  Result<void> start() {
    const uint64_t n = arguments_.channels;
    struct Wanted {
      CUdeviceptr& where;
      uint64_t bytes;
    };
    for (const Wanted& w :
         {Wanted{buffers_.received, n * kWindow}, Wanted{buffers_.sent, n * kWindow},
          Wanted{buffers_.user, n * kUserWindow}, Wanted{buffers_.counters, n * 128}}) {
      w.where = TRY(gpu_.allocate(w.bytes));
    }
    buffers_.window = kWindow;
    buffers_.user_window = kUserWindow;
    return {};
  }

  /// us of a launch when launches follow one another.
  Result<double> launch() {
    constexpr uint32_t kLaunches = 1000;
    TRY(time("idle", {}, kLaunches));
    auto all = time("idle", {}, kLaunches);
    return all ? Result<double>(*all / kLaunches) : all;
  }

  Result<std::vector<SliceTime>> slices(const char* kernel, const std::vector<uint64_t>& sizes) {
    std::vector<SliceTime> times;
    for (const uint64_t bytes : sizes) {
      const auto t = TRY(slice(kernel, bytes));
      times.push_back({bytes, t});
    }
    return times;
  }

  Result<double> slice(const char* kernel, uint64_t bytes) {
    double sum = 0;
    for (const uint32_t reduce : {0u, 1u}) {
      sum += TRY(slice(kernel, bytes, reduce));
    }
    return sum / 2;
  }

 private:
  Result<double> time(const char* kernel, const KernelArguments& arguments, uint32_t times) {
    return gpu_.time(kernel, arguments_.channels, arguments_.threads, arguments, times);
  }

  /// Two launches of different length tell what a slice takes without the launch; the median of
  /// several.
  Result<double> slice(const char* kernel, uint64_t bytes, uint32_t reduce) {
    constexpr uint32_t kShort = 32;
    const uint32_t more =
        static_cast<uint32_t>(std::clamp<uint64_t>((64 << 20) / bytes, 256, 16384));
    KernelArguments arguments = buffers_;
    arguments.bytes = bytes;
    arguments.reduce = reduce;
    std::array<double, kSamples> samples{};
    for (double& sample : samples) {
      arguments.repeat = kShort;
      const auto brief = TRY(time(kernel, arguments, 1));
      arguments.repeat = kShort + more;
      const auto all = TRY(time(kernel, arguments, 1));
      sample = (all - brief) / more;
    }
    std::ranges::sort(samples);
    if (samples[kSamples / 2] > 0) return samples[kSamples / 2];
    return fail(std::string(kernel) + ": slices take no time: the clock is too coarse");
  }

  Gpu& gpu_;
  const Arguments& arguments_;
  KernelArguments buffers_;
};

Result<GpuCosts> measure(Gpu& gpu, const Arguments& arguments) {
  Bench bench(gpu, arguments);
  TRY(bench.start());
  GpuCosts costs;
  costs.gpu = gpu.text() + "; " + std::to_string(arguments.channels) + " channels of " +
              std::to_string(arguments.threads) + " threads";
  const auto launch = bench.launch();
  if (!launch) return tl::unexpected(launch.error());
  costs.launch = *launch;
  const uint64_t pass = simple_pass(arguments.threads);
  std::vector<uint64_t> sizes = {pass / 8, pass / 2, pass};
  for (uint64_t passes = 2; passes * pass <= kMessage; passes *= 2) sizes.push_back(passes * pass);
  const auto simple = bench.slices("simple", sizes);
  if (!simple) return tl::unexpected(simple.error());
  costs.simple = fit_simple(*simple, arguments.threads);
  const auto message = bench.slice("simple", kMessage);
  if (!message) return tl::unexpected(message.error());
  costs.message = {kMessage, *message};
  // One pass, and a whole step of NCCL's buffers.
  const auto ll = bench.slices("ll", {uint64_t{arguments.threads} * 8, 32768});
  if (!ll) return tl::unexpected(ll.error());
  costs.ll = fit_lines(*ll);
  const auto ll128 =
      bench.slices("ll128", {uint64_t{arguments.threads} / 32 * 1920, uint64_t{300} * 1920});
  if (!ll128) return tl::unexpected(ll128.error());
  costs.ll128 = fit_lines(*ll128);
  return costs;
}

int give_up(const std::string& why) {
  std::fprintf(stderr, "gpu_calibrate: %s\n", why.c_str());
  return 1;
}

int run(const Arguments& arguments) {
  const auto gpu = Gpu::open(arguments.device);
  if (!gpu) return give_up(gpu.error().text);
  if (arguments.channels > static_cast<uint32_t>((*gpu)->multiprocessors())) {
    return give_up("--channels: the GPU has only " + std::to_string((*gpu)->multiprocessors()) +
                   " multiprocessors");
  }
  const auto costs = measure(**gpu, arguments);
  if (!costs) return give_up(costs.error().text);
  const std::string toml = calibration_toml(*costs);
  if (arguments.out.empty()) {
    std::fputs(toml.c_str(), stdout);
    return 0;
  }
  const auto written = replace_file(arguments.out, toml);
  return written ? 0 : give_up(written.error().text);
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  using namespace understudy;
  Arguments arguments;
  CLI::App app;
  app.description(
      "Measures on one GPU what a step of a collective costs it (reduction and copy by Simple, LL "
      "and\n"
      "LL128), and prints the [calibration] section of a configuration.\n"
      "Example: gpu_calibrate --channels 8 --out calibration.toml");
  app.add_option("--device", arguments.device, "CUDA device")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--channels", arguments.channels, "that work at the same time, each in a block")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--threads", arguments.threads, "of a channel that move data: a multiple of 32")
      ->capture_default_str()
      ->check(CLI::Range(64, 640));
  app.add_option("--out", arguments.out, "file to write (default: standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.threads % 32 != 0) {
    std::fprintf(stderr, "gpu_calibrate: --threads: expected a multiple of 32\n");
    return 2;
  }
  return finish_output("gpu_calibrate", run(arguments));
}
