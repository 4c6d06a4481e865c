// The out-of-band messages between ring_node (the client, a real rank) and an emulated neighbour
// (the peer), over TCP to the emulated node's own address; or, in a job that is no plain ring,
// between ring_node as a whole real node and any one node whose ranks are emulated. Each message is
// its length (u32, big-endian) and that many bytes of JSON with spaces behind it: an object whose
// "type" names the message and whose other keys are the fields below. Both sides use this file; it
// knows nothing of sockets, verbs or the dataplane.
//
//   client                              peer
//   hello                      ->
//                              <-       job; or node_job
//   connect (per channel and direction) ->
//                              <-       connected (in the order of the connects)
//   ready                      ->
//                              <-       ready (with several real ranks: when all of them are)
//   result (per size, to next) ->
//   done                       ->       both close
//
// A real rank's next one may be real too: it speaks as a peer does, tells of the job as its own
// next one told it, and passes results on.
//
// A whole node has one connection for all of its ranks and links, and each connect and connected
// says between which ranks the link is. Where the other end is another program's, the peer hands
// over what that one connects with.
//
// Either side may send `error` at any time and close. A connection goes to one emulated rank; with
// two ranks that one is both neighbours and the connection carries both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ctrl/peers/ring/node_job.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"

namespace understudy {

inline constexpr uint16_t kRingOobPort = 18600;
inline constexpr uint32_t kRingOobVersion = 2;
/// Longest JSON text; a longer length word is an error, not an allocation.
inline constexpr uint32_t kRingOobMaxMessage = 1 << 24;
/// NCCL_STEPS: steps of a connection's buffer (docs/nccl 3.7).
inline constexpr uint32_t kRingSteps = 8;
/// The sender's memory for credits: 256 slots of 8 entries of 64 bytes (docs/nccl 3.1).
inline constexpr uint32_t kRingFifoBytes = 256 * 512;

/// Client to peer, first on a connection.
struct RingHelloMessage {
  uint32_t version = kRingOobVersion;  ///< must be equal on both sides
  std::string job;                     ///< name of the job, or empty: the only one that fits
  IpAddress address;                   ///< of the client's rank: its GID in the data phase
  bool whole_node = false;             ///< the client plays all ranks of its node, not a neighbour
};

/// Peer to client: what is to be run. All neighbours of a rank must say the same, but for
/// peer_rank.
struct RingJobMessage {
  /// All-reduces of one size. Each of the warmup + iterations operations is one operation on the
  /// wire; the operations of a job run in the order of this list, one after the other.
  struct Operation {
    uint64_t bytes = 0;  ///< positive multiple of the element's size
    uint32_t warmup = 0;
    uint32_t iterations = 1;
    bool operator==(const Operation&) const = default;
  };
  /// NCCL's constants that decide how a collective becomes messages (docs/nccl 3.7, 3.9).
  struct Cutting {
    uint32_t step_bytes = 524288;  ///< buffer of a connection = 8 steps
    uint32_t chunk_steps = 4;      ///< a chunk of the ring is so many steps
    uint32_t slice_steps = 2;      ///< a message is so many steps
    uint32_t min_slice_bytes =
        32768;  ///< first slice of a chunk is no shorter, if the chunk is not
    bool operator==(const Cutting&) const = default;
  };

  std::string name;          ///< of the job
  uint32_t ranks = 0;        ///< ring size n, ranks 0..n-1 in ring order
  uint32_t client_rank = 0;  ///< the real rank that the client plays
  uint32_t peer_rank = 0;    ///< the emulated rank at this end of the connection
  /// All ranks that are not emulated, client_rank among them. Their values follow no Pattern of
  /// `seed`.
  std::vector<uint32_t> real_ranks;
  uint32_t channels = 1;
  std::vector<Operation> operations;
  Cutting cutting;
  uint32_t mtu =
      4096;  ///< largest path MTU in bytes; a link has the smaller of this and the port's
  /// Of the emulated ranks' values: rank r contributes Pattern(seed, r).at(element index). The
  /// client's own values come from a seed that no message carries.
  uint64_t seed = 0;
  bool exact = false;                 ///< results can be verified; false: contents are free
  uint8_t data_traffic_class = 0;     ///< of queue pairs that send data
  uint8_t control_traffic_class = 0;  ///< of queue pairs that send credits
  bool operator==(const RingJobMessage&) const = default;
};

/// Which of the two sends data on a link; the other one sends credits.
enum class RingDirection : uint8_t { kClientSends, kPeerSends };

/// One end of a link: one direction of one channel, one RC queue pair on each side.
struct RingLinkEnd {
  uint32_t channel = 0;
  RingDirection direction = RingDirection::kClientSends;
  Qpn qpn = 0;
  Psn psn;                    ///< first PSN that this end sends
  uint32_t mtu = 0;           ///< connect: the port's path MTU in bytes; connected: the link's
  IpAddress gid;              ///< of this end
  uint64_t fifo_address = 0;  ///< this end's memory for credits, if it is the end that sends data
  Rkey fifo_rkey = 0;         ///< 0 with fifo_address 0 at the other end
  /// Of a whole node's links; of a neighbour's they are the connection's.
  struct Ranks {
    uint32_t client_rank = 0, peer_rank = 0;
    uint8_t index = 0;  ///< as NodeJobMessage::Link
    bool operator==(const Ranks&) const = default;
  };
  std::optional<Ranks> of = {};
  /// A queue pair beside the first one, where an end of the link is a merged NIC.
  struct More {
    Qpn qpn = 0;
    IpAddress gid;
    Rkey fifo_rkey = 0;  ///< through this NIC
    bool operator==(const More&) const = default;
  };
  std::vector<More> more = {};
  bool operator==(const RingLinkEnd&) const = default;
};

struct RingConnectMessage : RingLinkEnd {};    ///< client to peer
struct RingConnectedMessage : RingLinkEnd {};  ///< peer to client: the peer's end, ready to receive

/// All queue pairs of the sender's side are ready to receive and to send. The peer sends no credit
/// on a connection before it has the client's (docs/nccl 2.4).
struct RingReadyMessage {};

/// Client to the rank after it, after the last operation of one size; real ranks pass on to their
/// next one what others told them, until an emulated one has it.
struct RingResultMessage {
  uint32_t operation = 0;  ///< index in RingJobMessage::operations
  uint64_t bytes = 0;      ///< its size
  std::vector<uint64_t>
      times_ns;  ///< of the timed iterations, CLOCK_MONOTONIC, start to completion
  std::optional<uint64_t> wrong = {};  ///< elements over all iterations; nothing if not verified
  std::optional<uint32_t> rank = {};   ///< whose result it is; nothing: the client's
};

struct RingDoneMessage {};  ///< client to peer: no more operations

/// Why the sender gives up, for the other side's user.
struct RingErrorMessage {
  std::string text;
};

using RingOobMessage = std::variant<RingHelloMessage, RingJobMessage, NodeJobMessage,
                                    RingConnectMessage, RingConnectedMessage, RingReadyMessage,
                                    RingResultMessage, RingDoneMessage, RingErrorMessage>;

/// The message's "type".
const char* ring_oob_name(const RingOobMessage& message);

/// Appends the framed message to `out`.
void append_ring_oob(const RingOobMessage& message, std::vector<uint8_t>& out);

/// Checks one JSON text; an error names the message and the field. Unknown fields are ignored.
Result<RingOobMessage> parse_ring_oob(std::span<const uint8_t> json);

/// Takes messages out of a byte stream, however it was cut.
class RingOobReader {
 public:
  void push(std::span<const uint8_t> bytes);
  /// The next complete message, nothing if more bytes are needed. After an error the stream is
  /// lost.
  Result<std::optional<RingOobMessage>> next();

 private:
  std::vector<uint8_t> bytes_;
  size_t start_ = 0;  ///< of what has not been taken yet
};

}  // namespace understudy
