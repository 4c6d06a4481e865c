// Fuzzer of the emulated nodes' TCP in virtual time.
#include "tests/fuzz/virtual_host_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::VirtualHostDrive({data, size}).run();
  return 0;
}
