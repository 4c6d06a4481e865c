// The emulated ends of a job's connections with its real ranks: the endpoints of their queue pairs,
// both sides of NCCL's data phase, and the credits that wait until a connection stands. What to
// send and when is their owner's business.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "dataplane/collective/collective_job.h"
#include "dataplane/nccl/nccl_connection.h"

namespace understudy {

class EmulatedConnections {
 public:
  /// Hears what comes on a connection, by its position in CollectiveJob::links.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// A connection that an emulated rank sends on stands, and may have new credits.
    virtual void on_credit(Time now, uint32_t link) = 0;
    /// The next message of a real rank has come in whole.
    virtual void on_data(Time now, uint32_t link, uint32_t bytes) = 0;
    /// The message that was sent with `id` is wholly acknowledged.
    virtual void on_acknowledged(Time now, uint32_t link, uint64_t id) = 0;
    /// The last packet of the message that was sent with `id` left, for the first time or again.
    virtual void on_left(Time scheduled, Time actual, uint32_t link, uint64_t id) = 0;
    /// The credit for message `k` left.
    virtual void on_granted(Time /*now*/, uint32_t /*link*/, uint64_t /*k*/) {}
  };

  /// All of it outlives this object.
  EmulatedConnections(const CollectiveJob& job, CollectiveProgress& progress, Listener& listener);

  /// What stands above a link's queue pair.
  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }
  const NcclSender& sender(uint32_t link) const { return links_[link].sender; }
  const NcclReceiver& receiver(uint32_t link) const { return links_[link].receiver; }
  /// The connection stands.
  bool joined(uint32_t link) const { return links_[link].joined; }
  /// The sender knows of the credit for message `k`.
  bool has_credit(uint32_t link, uint64_t k) const {
    const bool knows = job_.links[link].notice == Duration() || k < links_[link].credits;
    return knows && links_[link].sender.has_credit(k);
  }

  // Cookies of the owner's on_wake(), which hands them to wake().
  /// The connection stands, which its sender or receiver has been told: before the job starts or
  /// after it.
  static constexpr uint64_t joins(uint32_t link) { return kJoin | link; }
  /// The connection is no more, for ever.
  static constexpr uint64_t leaves(uint32_t link) { return kLeave | link; }
  /// The next credit of a connection leaves, or, where that does not stand yet, as soon as it does.
  static constexpr uint64_t grants(uint32_t link) { return kGrant | link; }
  /// False if the cookie is none of these.
  bool wake(Time now, EndpointHost& host, uint64_t cookie);

 private:
  static constexpr uint64_t kKinds = uint64_t{3} << 62;
  static constexpr uint64_t kGrant = uint64_t{1} << 62, kJoin = uint64_t{2} << 62,
                            kLeave = uint64_t{3} << 62;

  class End final : public Endpoint {
   public:
    End(EmulatedConnections& all, uint32_t link);
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
    void on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) override;
    void on_wake(Time now, uint64_t kind) override;
    bool hears_late() const override { return true; }

   private:
    /// Of notices that are on their way: what they say.
    struct Late {
      static constexpr size_t kMost = 256;
      std::vector<uint64_t> what;
      uint64_t first = 0, end = 0;
    };
    enum Kind : uint64_t { kMessage, kAcknowledgement };
    Duration after(Kind kind) const {
      const CollectiveConnection& link = all_.job_.links[link_];
      return kind == kMessage ? link.notice : link.ack_notice;
    }
    void hear(Time now, Kind kind, uint64_t what);
    void heard(Time now, Kind kind, uint64_t what);

    std::array<Late, 2> late_;  ///< by kind
    EmulatedConnections& all_;
    const uint32_t link_;
  };
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    bool joined = false;
    uint32_t owed = 0;     ///< credits whose time came before the connection stood
    uint64_t credits = 0;  ///< that the sender knows of
  };

  void join(Time now, EndpointHost& host, uint32_t link);
  void grant(Time now, EndpointHost& host, uint32_t link);
  bool real_sends(uint32_t link) const { return job_.links[link].real_sends; }

  const CollectiveJob& job_;
  CollectiveProgress& progress_;
  Listener& listener_;
  std::vector<Link> links_;
  std::deque<End> ends_;
};

}  // namespace understudy
