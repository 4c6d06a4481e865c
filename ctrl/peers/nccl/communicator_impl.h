// Streams, listeners and communicators of NcclCommunicator.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/check_in.h"
#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/nccl/group.h"

namespace understudy {

/// With their places on nodes filled in.
std::vector<NcclMember> with_places(std::vector<NcclMember> members);

class NcclCommunicator::Impl : public NcclGroupUser {
 public:
  Impl(NcclCommunicatorSettings settings, NcclHost& host);

  void start();
  /// After every call from outside: nothing is destroyed while something of it runs.
  void clean_up();
  void on_accepted(ListenerId listener, StreamId stream, const SocketAddress& from);
  void on_connected(StreamId stream);
  void on_bytes(StreamId stream, std::span<const uint8_t> bytes);
  void on_closed(StreamId stream, const std::string& why);
  void on_connector_ready(const NcclConnector& connector);
  void on_connector_failed(const NcclConnector& connector, const std::string& why);
  void on_relayed(const NcclConnector& connector, std::span<const uint8_t> bytes);
  const std::string& failure() const { return failure_; }
  bool finished() const { return finished_; }
  bool begun() const {
    return !root_ || root_->missing().size() + emulated_ < settings_.ranks.size();
  }
  std::vector<uint32_t> left() const;
  bool all_checked_in() const { return root_ && root_->missing().empty(); }
  std::vector<std::string> waiting() const;
  std::vector<Child> children() const;
  uint32_t search_channels() const { return rings_.front()->group.search_channels(); }

 private:
  static constexpr uint32_t kNobody = ~0u;

  /// A communicator, with the sockets of its ring.
  struct Ring {
    Ring(NcclGroupSettings settings, std::vector<NcclMember> members, NcclHost& host,
         NcclGroupUser& user)
        : group(settings, std::move(members), host, user), ends(2 * group.segments().size()) {}
    NcclGroup group;
    struct End {
      StreamId stream = 0;
      bool asked = false;   ///< dialed, or identified
      bool closed = false;  ///< in good order
    };
    std::vector<End> ends;  ///< two of each segment: to its first rank, from its last
    std::vector<std::optional<SocketAddress>> first_rings;  ///< by segment: where to dial
    NcclGroup* parent = nullptr;                            ///< of a child
    bool begun = true;            ///< of a child: a real rank has told where its ring is
    std::string made_by, reason;  ///< of a child
    bool done = false;
    std::vector<uint32_t> rank_of;              ///< by number in the first communicator; kNobody
    std::vector<SocketAddress> own_addresses;   ///< by rank; empty: those of the first communicator
    size_t segment_after(uint32_t rank) const;  ///< of which this rank is `after`; or segments
  };
  struct Listener {
    uint32_t rank = 0;
    Ring* only = nullptr;      ///< of this communicator alone, whatever the magic
    bool root_answer = false;  ///< for nothing else
  };
  enum class Role : uint8_t {
    kUnknown,     ///< accepted, and has not said what it is
    kAtRoot,      ///< accepted by our root
    kRootAnswer,  ///< accepted: the root tells the next rank's ring address
    kMessage,     ///< accepted: from a real rank
    kRing,
    kSendOnce,  ///< dialed: sends what is pending and closes
  };
  struct Stream {
    explicit Stream(Role r, bool accepted) : role(r), reader(accepted) {}
    Role role;
    uint32_t rank = 0;  ///< whose it is, in the first communicator
    SocketAddress from;
    Ring* ring = nullptr;
    size_t segment = 0;
    bool first = false;
    FrameReader reader;
    std::vector<uint8_t> pending;
    std::string what;
    bool check_in = false;
    bool identified = false;  ///< its magic is ours
    std::optional<Listener> listener;
    std::vector<uint32_t> header;  ///< of a message: rank, tag
  };

  // NcclGroupUser
  SocketAddress address(const NcclGroup& group, uint32_t rank) override;
  void send_once(uint32_t rank, const SocketAddress& to, std::vector<uint8_t> bytes,
                 std::string what) override;
  void ring_send(NcclGroup& group, size_t segment, bool to_first,
                 std::span<const uint8_t> bytes) override;
  void say(const std::string& line) override { host_.say(line); }
  void failed(const std::string& why) override;
  std::optional<RankPartition> configured_child() override;
  bool expects_children() const override { return settings_.groups_expected; }
  void child(NcclGroup& parent, std::vector<NcclMember> members, std::string made_by,
             std::string reason) override;
  bool child_ring(NcclGroup& parent, uint32_t real, uint32_t emulated,
                  const SocketAddress& ring) override;

  bool listen(uint32_t rank, Ring* only, bool root_answer, SocketAddress& address);
  void check_in_more();
  void answer_at_root();
  void dial_ring(Ring& ring, size_t segment);
  void begin_child(Ring& ring);
  Ring& ring_of(const NcclGroup& group);
  /// The communicator whose magic this is at that listener; also one that has no magic yet.
  Ring* by_magic(const Listener& listener, uint64_t magic);
  void close_if_done(Ring& ring);

  // Streams, in communicator_streams.cc. False: the stream is gone.
  bool handle(StreamId id, Stream& stream, const FrameReader::Event& event);
  bool identify(StreamId id, Stream& stream, const FrameReader::Event& event);
  bool take_role(StreamId id, Stream& stream, int32_t size);
  bool become_ring(StreamId id, Stream& stream, int32_t size);
  bool message_event(StreamId id, Stream& stream, const FrameReader::Event& event);
  bool root_event(StreamId id, Stream& stream, const FrameReader::Event& event);
  bool root_answer_event(StreamId id, Stream& stream, const FrameReader::Event& event);
  void drop(StreamId id);  ///< closes it

  NcclCommunicatorSettings settings_;
  NcclHost& host_;
  const BootstrapLayout& layout_;
  std::vector<std::unique_ptr<Ring>> rings_;  ///< the first communicator, then its children
  uint32_t children_ = 0;
  size_t begun_children_ = 0;  ///< of which the configuration was asked
  std::unordered_map<StreamId, Stream> streams_;
  std::map<ListenerId, Listener> listeners_;
  std::vector<SocketAddress> addresses_;                ///< by rank; of emulated ones
  std::map<uint32_t, SocketAddress> answer_addresses_;  ///< where not the same
  std::optional<NcclRoot> root_;                        ///< if it is ours
  uint32_t next_check_in_ = 0, checking_in_ = 0, checked_in_ = 0, answered_ = 0;
  std::vector<bool> was_answered_;
  uint32_t emulated_ = 0;
  std::string failure_;
  bool finished_ = false, cleaned_ = false;
};

}  // namespace understudy
