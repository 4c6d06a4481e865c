// Any bytes as a frame: the parser stays inside, and says nothing that the frame does not hold.
#pragma once

#include <vector>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/parse.h"
#include "tests/fuzz/input.h"

namespace understudy {

inline void drive_parse(std::span<const uint8_t> input) {
  const std::vector<uint8_t> frame(input.begin(), input.end());  // exact size: a sanitizer sees all
  FrameView view;
  RoceView roce;
  const FrameKind kind = parse_frame(frame, view, roce);
  if (kind == FrameKind::kIp || kind == FrameKind::kRoce) {
    must(view.l3 <= view.l4 && view.l4 <= view.ip_end && view.ip_end <= frame.size());
  }
  if (kind != FrameKind::kRoce) return;
  must(roce.info().name != nullptr);
  must(roce.payload == roce.bth + sizeof(Bth) + roce.info().header_bytes);
  must(roce.payload + roce.payload_bytes + roce.pad + kIcrcBytes == view.ip_end);
  icrc_ok(view, roce);
}

}  // namespace understudy
