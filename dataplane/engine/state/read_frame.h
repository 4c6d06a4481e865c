// A frame whose headers have been read: by its shard, or by a thread in front of it.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/wire/parse.h"

namespace understudy {

enum class IcrcState : uint8_t { kUnknown, kGood, kBad };

struct ReadFrame {
  FrameKind kind = FrameKind::kTruncated;
  IcrcState icrc = IcrcState::kUnknown;
  FrameView view;
  RoceView roce;

  void read(std::span<const uint8_t> frame) { kind = parse_frame(frame, view, roce); }
  /// Of a RoCE packet (rule A2); others have no ICRC.
  void verify(IcrcMemory& before) {
    if (kind != FrameKind::kRoce) return;
    icrc = icrc_ok(view, roce, before) ? IcrcState::kGood : IcrcState::kBad;
  }
  bool has_good_icrc(IcrcMemory& before) const {
    return icrc == IcrcState::kUnknown ? icrc_ok(view, roce, before) : icrc == IcrcState::kGood;
  }
};

}  // namespace understudy
