// What to be for a perftest client. Until protocol 6.27 the handshake tells little:
//
// * READ and ATOMIC have out_reads > 1 (unless the client was given -o 1); the others have 1.
// * SEND registers memory without remote access: its rkey is 0 on Linux' soft RoCE. Hardware may
//   give a key all the same, so only a zero tells something.
// * Not told at all: bandwidth or latency, message size, number of iterations, -b (bidirectional).
//
// So kind "auto" serves ib_{write,read,atomic}_bw and ib_{read,atomic}_lat (memory target) and,
// with a zero rkey, ib_send_bw (endless receive queue). ib_write_lat and ib_send_lat need their
// kind set. From 6.28 on the client says what it runs, and "auto" serves all of them.
#pragma once

#include "ctrl/peers/peer.h"
#include "ctrl/peers/perftest/perftest_wire.h"
#include "ctrl/peers/service.h"

namespace understudy {

/// The kind of a client that says what it runs; an error if that is not served, or not here.
Result<ServiceKind> perftest_kind(const Service& service, const PerftestTest& test);

/// What an emulated queue pair is to do for a client of this kind ("auto" as above); an error if
/// its key message contradicts the kind.
Result<Behaviour> perftest_behaviour(const Service& service, ServiceKind kind,
                                     const PerftestKey& key);

/// The programs that send so many key messages before their test on so many queue pairs.
std::string_view perftest_programs(unsigned key_messages, size_t queue_pairs);

}  // namespace understudy
