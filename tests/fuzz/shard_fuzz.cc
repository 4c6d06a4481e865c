// libFuzzer target: any bytes are frames, commands and time for a shard.
#include "tests/fuzz/shard_drive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  understudy::ShardDrive({data, size}).run();
  return 0;
}
