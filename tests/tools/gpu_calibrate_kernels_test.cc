// gpu_calibrate's kernels compile for every generation of GPUs; that takes NVRTC but no GPU.
#include <gtest/gtest.h>

#include "tools/gpu_calibrate/gpu.h"

namespace understudy {
namespace {

TEST(GpuCalibrateKernels, CompileForAllGenerations) {
  for (const int capability : {80, 90, 100}) {
    const auto binary = compile_kernels(capability);
    ASSERT_TRUE(binary) << binary.error().text;
    EXPECT_GT(binary->size(), 1000u);
  }
}

TEST(GpuCalibrateKernels, AGpuThatNeverWasIsNamed) {
  const auto binary = compile_kernels(13);
  ASSERT_FALSE(binary);
  EXPECT_NE(binary.error().text.find("compute capability 1.3"), std::string::npos);
}

}  // namespace
}  // namespace understudy
