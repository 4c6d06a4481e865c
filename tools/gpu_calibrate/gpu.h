// One GPU by CUDA's driver API, which is loaded at run time: the program starts where there is
// none.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

/// kGpuKernels as a binary for GPUs of one compute capability (90: 9.0); needs no GPU.
Result<std::vector<char>> compile_kernels(int capability);

/// The kernels' argument, as kernels.h declares it.
struct KernelArguments {
  CUdeviceptr received = 0, user = 0, sent = 0, counters = 0;
  uint64_t window = 0, user_window = 0, bytes = 0;
  uint32_t repeat = 0, reduce = 0;
};

class Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open(int device);
  virtual ~Gpu() = default;

  /// Name, compute capability, number of multiprocessors.
  virtual std::string text() const = 0;
  virtual int multiprocessors() const = 0;
  /// All words of it are kGpuWord. Lives as long as this.
  virtual Result<CUdeviceptr> allocate(uint64_t bytes) = 0;
  /// Microseconds of `times` launches of a kernel of kernels.h, one behind the other.
  virtual Result<double> time(const char* kernel, uint32_t blocks, uint32_t threads,
                              const KernelArguments& arguments, uint32_t times) = 0;
};

}  // namespace understudy
