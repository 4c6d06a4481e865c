// Fuzzer of net_ib's exchange; tools/fuzz builds and runs it.
#include "tests/fuzz/net_ib_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_net_ib({data, size});
  return 0;
}
