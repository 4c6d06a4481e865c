// libFuzzer target: any bytes are a datagram of the communication manager.
#include "tests/fuzz/mad_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_mad({data, size});
  return 0;
}
