// RoCE packets of a capture as compact records, sorted into flows. packet_reader.h fills it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/opcodes.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/packets/capture_source.h"
#include "tools/roce_check/packets/cm_follower.h"

namespace understudy {

/// What all packets of a queue pair have in common on their way (rules A1.2, A1.4, A1.9, A1.10,
/// A1.12).
struct PacketClass {
  uint16_t vlan_tci = 0;  ///< VLAN id and priority
  bool tagged = false;
  bool migration = false;  ///< MigReq
  uint8_t dscp = 0;
  uint16_t pkey = 0xffff;
  uint16_t udp_src = 0;
  uint16_t identification = 0;  ///< IPv4's
};

/// A request that came with a wrong ICRC: nobody may have taken it.
struct DamagedPacket {
  uint32_t flow = 0;
  Psn psn;
};

/// A congestion notification: from the receiver of marked packets to queue pair `dest_qpn` of their
/// sender.
struct CnpRecord {
  Stamp stamp;
  IpAddress src, dst;
  Qpn dest_qpn = 0;
  PacketClass traffic = {};
};

struct PacketRecord {
  uint64_t frame = 0;
  Time at;
  Time scheduled = Time::never();
  uint32_t flow = 0;
  Psn psn;
  uint32_t payload_bytes = 0;
  uint32_t wire_bytes = 0;  ///< with preamble, FCS and gap
  uint32_t dma_length = 0;
  uint32_t msn = 0;
  uint32_t imm = 0;
  uint32_t payload_crc = 0;  ///< of a request's payload, where it was captured whole
  Rkey rkey = 0;
  uint64_t va = 0;     ///< of a request; in an ATOMIC response the original value
  uint8_t opcode = 0;  ///< as an RC opcode
  uint8_t syndrome = 0;
  uint8_t ecn = 0;
  CaptureDirection direction = CaptureDirection::kUnknown;
  bool ack_request = false;
  bool whole = true;  ///< false: a snap length has cut its payload
  bool becn = false;
  PacketClass traffic;

  const OpcodeInfo& info() const { return opcode_info(opcode); }
  Stamp stamp() const { return {frame, at}; }
};

/// One direction of one connection: what goes from `src` to queue pair `dest_qpn` at `dst`, as one
/// interface saw it. Queue pair numbers are used again; a flow ends where its UDP source port is
/// replaced by another one for good.
struct Flow {
  IpAddress src, dst;
  Qpn dest_qpn = 0;
  /// Indices into PacketTable::packets, in capture order: of those that the table holds.
  std::vector<uint32_t> packets;
  PacketRecord first;      ///< its first packet
  uint64_t total = 0;      ///< its packets, with those that the table no longer holds
  PacketClass traffic;     ///< of its first packet; all others are held to it
  uint32_t interface = 0;  ///< SourceFrame::interface
  /// Packets with another IPv4 identification than the one before them.
  uint64_t identification_changes = 0;
  std::string name() const;
};

struct PacketCounts {
  uint64_t roce = 0;
  uint64_t other = 0;  ///< frames that are no RoCEv2
  uint64_t rc = 0, uc = 0, ud = 0, cnp = 0;
  uint64_t other_services = 0;     ///< RD and XRC, which are not judged
  uint64_t congestion_marked = 0;  ///< ECN field says CE
  uint64_t cut = 0;                ///< RoCEv2 packets of which the headers are there
  uint64_t tagged = 0;             ///< with a VLAN tag
};

/// Of a capture that is judged part by part it holds the packets of the newest part, and those
/// that nobody can judge yet.
struct PacketTable {
  std::vector<PacketRecord> packets;   ///< RC only, in capture order
  std::vector<Flow> flows;             ///< RC only
  std::vector<DamagedPacket> damaged;  ///< of the newest part
  std::vector<CnpRecord> cnps;         ///< of the newest part
  size_t newest = 0;                   ///< where the newest part begins in `packets`
  std::vector<CmPair> cm_pairs;
  std::vector<LinkChange> changes;  ///< as the capture records them
  PacketCounts counts;
  Time first, last;  ///< of all frames
};

}  // namespace understudy
