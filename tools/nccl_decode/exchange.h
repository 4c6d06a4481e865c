// What NCCL's processes said to each other out of band, from the connections of a capture: who
// spoke to whom, what about, and what is still open.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/nccl_decode/fields.h"
#include "tools/nccl_decode/layout.h"
#include "tools/nccl_decode/tcp_stream.h"

namespace understudy::nccl_decode {

enum class StreamKind : uint8_t {
  kOther,  ///< not NCCL's, or its beginning is missing
  kCheckIn,
  kRootAnswer,
  kRing,
  kMessage,    ///< from one rank to another
  kBootstrap,  ///< one of these, of which nothing has come that tells which
  kProxy,
  kNetSocket,
  kNetIb,
  kRas,
};
const char* stream_kind_name(StreamKind kind);

/// What a ring all-gather carries.
enum class GatherKind : uint8_t {
  kListener,
  kProxy,
  kUds,
  kAddresses,
  kPeerInfo,
  kGraphInfo,
  kRingInfo,  ///< proxies and direct access of the ring's transport
  kSplit,
  kOther,
};

struct Message {
  bool from_opener = true;
  uint64_t begin = 0, end = 0;  ///< in its side's bytes, with its length in front
  uint64_t packet = 0;          ///< that completed it
  Time at;
  std::string what;
  Fields fields;
  bool whole = true;
  std::optional<GatherKind> gather;  ///< on a ring
  int gather_number = 0;             ///< from 0 on
  std::optional<int> owner;          ///< whose part of the all-gather it is
};

struct Stream {
  TcpConnection connection;
  StreamKind kind = StreamKind::kOther;
  std::optional<uint64_t> magic;
  int type = 0;  ///< NCCL's number of the kind of socket
  /// Ranks of its communicator, where they are known: who opened it, who took it.
  std::optional<int> opener_rank, taker_rank;
  std::optional<int> tag;         ///< of a message
  std::string about;              ///< a few words
  std::vector<Message> messages;  ///< in the order in which they were complete
};

struct Communicator {
  uint64_t magic = 0;
  int ranks = 0;                ///< 0: not known
  std::vector<int> checked_in;  ///< ranks, in their order of coming
};

struct Exchange {
  std::optional<Release> release;
  std::string release_from;  ///< what told it
  std::vector<Communicator> communicators;
  std::vector<Stream> streams;
  std::vector<std::string> open_ends;  ///< what was begun and is not complete
};

struct DecodeOptions {
  std::optional<Release> release;  ///< else what the capture tells
};

Exchange decode(std::vector<TcpConnection> connections, const DecodeOptions& options = {});

}  // namespace understudy::nccl_decode
