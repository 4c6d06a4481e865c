// Fuzzer of PyTorch's store: the server that emulated ranks host, and their client.
#include "tests/fuzz/store_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_store({data, size});
  return 0;
}
