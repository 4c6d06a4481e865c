// Fuzzer of the bootstrap of NCCL's emulated ranks.
#include "tests/fuzz/nccl_bootstrap_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_nccl_bootstrap({data, size});
  return 0;
}
