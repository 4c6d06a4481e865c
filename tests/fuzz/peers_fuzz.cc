// Fuzzer of the peers of pingpong and perftest. Build with clang:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/peers_fuzz.cc \
//     ctrl/peers/{service,service_peer,pingpong,perftest,perftest_wire}.cc
//     dataplane/base/address.cc
#include "tests/fuzz/peers_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_peer({data, size});
  return 0;
}
