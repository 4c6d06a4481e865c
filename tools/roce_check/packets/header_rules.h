// What one packet's headers must be whatever its connection does: rules A1 and A3, and the form of
// a CNP.
#pragma once

#include "dataplane/wire/parse.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// The rule that a frame to RoCE's port breaks when it does not parse.
Rule parse_rule(FrameKind kind, const RoceView& roce);

/// Rules A1.2, A1.4, A1.7, A1.8, A1.11, A3.1 and A6.3 of a packet with a right ICRC.
void check_headers(Stamp stamp, const FrameView& view, const RoceView& roce, Findings& findings);

PacketClass class_of(const FrameView& view, const RoceView& roce);
/// Rules A1.10 and A1.12: the packet's class is that of its flow's first one.
void check_class(Stamp stamp, const Flow& flow, const PacketClass& traffic, Findings& findings);

}  // namespace understudy
