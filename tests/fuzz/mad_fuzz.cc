// libFuzzer target: any bytes are a datagram of the communication manager, and then datagrams, time
// and a consumer's wishes for an agent.
#include "tests/fuzz/mad_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::drive_mad({data, size});
  understudy::CmDrive({data, size}).run();
  return 0;
}
