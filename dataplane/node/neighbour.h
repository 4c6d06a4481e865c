// What every emulated address answers without a queue pair: ARP, neighbour discovery, ICMP echo.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/node/node_table.h"
#include "dataplane/wire/neighbour.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// What such a frame asks for.
enum class NeighbourQuery : uint8_t { kNone, kArp, kSolicitation, kEcho };

/// Recognises a request for an emulated address and says which node it is for (null: not ours).
NeighbourQuery neighbour_query(const FrameView& view, const NodeTable& nodes, const NodeNic*& node);

/// Whom a frame is for: its destination or, where that is a group, the address that it asks for.
IpAddress frame_target(const FrameView& view);

/// Writes the answer to `out` (at least view.frame.size() + 32 bytes) and returns its length, 0
/// when the request is malformed. MAC and VLAN mirror the request.
uint32_t answer_neighbour(NeighbourQuery query, const FrameView& view, const NodeNic& node,
                          std::span<uint8_t> out);

/// Who sends this ARP packet, according to itself.
IpAddress arp_sender(const FrameView& view);

/// Room that ask_neighbour needs, in bytes.
inline constexpr uint32_t kNeighbourQuestionBytes = kNeighbourFrameBytes;

/// Writes to `out` an ARP request or a neighbour solicitation in which an emulated node asks for
/// the MAC of the real one at `target`, an address of the family of `own`. Returns its length.
uint32_t ask_neighbour(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                       uint8_t* out);

}  // namespace understudy
