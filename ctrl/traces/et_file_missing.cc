// Of builds without protobuf.
#include "ctrl/traces/et_file.h"
#include "ctrl/traces/et_write.h"

namespace understudy {
namespace {

constexpr char kMissing[] =
    ".et files: protobuf was not there when it was made (Debian packages libprotobuf-dev, "
    "protobuf-compiler; -Dprotobuf=enabled)";

}  // namespace

bool reads_et() { return false; }

Result<TraceGraph> read_et(std::span<const uint8_t>, const std::string& name) {
  return fail(name + ": this build reads no " + kMissing);
}

Result<std::string> write_et(const TraceGraph&, uint64_t) {
  return fail(std::string("this build writes no ") + kMissing);
}

Result<std::string> rewrite_et(std::span<const uint8_t>, const std::function<void(TraceNode&)>&) {
  return fail(std::string("this build writes no ") + kMissing);
}

}  // namespace understudy
