// How queue pairs of emulated nodes send: keys that [[service]], [[client]] and [[job]] share.
#include <string>

#include "ctrl/config/sections.h"

namespace understudy {

void read_sender(TableReader& table, SenderConfig& sender) {
  const auto traffic_class = table.integer("traffic_class", 0, 255);
  if (!traffic_class) return;
  sender.traffic_class = static_cast<uint8_t>(traffic_class->value);
  if ((sender.traffic_class & 3) == 3) {
    table.error(
        traffic_class->line, "traffic_class", std::to_string(traffic_class->value),
        "DSCP * 4 + ECN, and ECN 3 is for switches to set: 0 is not ECN-capable, 1 and 2 are");
  }
}

}  // namespace understudy
