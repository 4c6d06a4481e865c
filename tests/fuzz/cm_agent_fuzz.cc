// libFuzzer target: datagrams, wishes and time for a communication manager.
#include "tests/fuzz/cm_agent_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::CmAgentDrive().run({data, size});
  return 0;
}
