// libFuzzer target: any bytes are a pcapng file. What is read lies inside it.
#include <variant>

#include "dataplane/wire/pcapng_reader.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace understudy;
  PcapngReader reader({data, size});
  // Every record takes at least a block's 12 bytes.
  for (size_t records = 0;; ++records) {
    must(records <= size / 12);
    const auto record = reader.next();
    if (!record || std::holds_alternative<std::monostate>(*record)) return 0;
    const auto* packet = std::get_if<PcapngPacketRecord>(&*record);
    if (packet == nullptr || packet->bytes.empty()) continue;
    must(packet->bytes.data() >= data &&
         packet->bytes.data() + packet->bytes.size() <= data + size);
  }
}
