// Of builds without protobuf.
#include "ctrl/traces/et_file.h"

namespace understudy {

bool reads_et() { return false; }

Result<TraceGraph> read_et(std::span<const uint8_t>, const std::string& name) {
  return fail(name +
              ": this build reads no .et files: protobuf was not there when it was made "
              "(Debian packages libprotobuf-dev, protobuf-compiler; -Dprotobuf=enabled)");
}

}  // namespace understudy
