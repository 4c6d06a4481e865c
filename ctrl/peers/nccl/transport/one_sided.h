// How emulated ranks take part when a real rank makes connections for one-sided operations: the
// RMA proxy of NCCL 2.30 and later, which carries ncclPutSignal and zero-SM collectives between nodes
// (docs/nccl 3.16). A handle of each rank goes over the bootstrap ring; then there is a ring of
// net_ib's connections, over which all else goes: handles of a full mesh, its barriers, addresses
// and keys of memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/nccl/bootstrap/ring_shape.h"

namespace understudy {

class OneSidedUser {
 public:
  virtual ~OneSidedUser() = default;
  virtual void one_sided_failed(const std::string& why) = 0;
};

class OneSided {
 public:
  /// `members` and those below outlive this.
  OneSided(uint32_t communicator, const std::vector<NcclMember>& members, NcclHost& host,
           OneSidedUser& user)
      : communicator_(communicator), members_(members), host_(host), user_(user) {}
  ~OneSided() { disconnect(); }
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  /// All-gathers of the bootstrap's ring that are about this.
  enum class Gather : uint8_t {
    kNone,
    kSegments,  ///< how large the memory is that becomes a window
    kCount,     ///< of NICs
    kHandles,   ///< net_ib's, of each NIC one after the other
  };
  /// What the next one is, after allGatherInfo; `size`: bytes of a rank.
  Gather next(const BootstrapLayout& layout, uint32_t size);
  void append_handle(uint32_t rank, std::vector<uint8_t>& to);
  /// A real rank's slice of one of these.
  void came(Gather gather, uint32_t rank, std::span<const uint8_t> slice);
  /// Fails if another all-gather is one of handles: of GIN, or of a release whose set-up is not
  /// played.
  void look_at_other(const BootstrapLayout& layout, uint32_t rank, std::span<const uint8_t> slice);

  /// A connection stands. False: it is none of these.
  bool ready(const NcclConnector& connector);
  bool connecting(const NcclConnector& connector) const { return connecting_.contains(connector); }
  /// A message of a real rank on one of the rings.
  void relayed(const NcclConnector& connector, std::span<const uint8_t> bytes);
  /// A set-up has begun and is not through.
  bool under_way() const;
  /// Lines about what is waited for.
  void waiting(std::vector<std::string>& lines) const;
  /// Gives all connectors back.
  void disconnect();

 private:
  /// An all-gather over the ring of a NIC.
  enum class Kind : uint8_t { kHandles, kBarrier, kAddresses, kKeys };
  /// Of one of the real rank's NICs.
  struct Ring {
    uint32_t channel = 0;
    std::map<uint32_t, SocketAddress> handles;  ///< of emulated ranks
    // The all-gather under way.
    Kind kind = Kind::kHandles;
    uint32_t size = 0, came = 0;  ///< bytes of a rank; messages
    std::vector<uint8_t> slices;  ///< by rank
    /// Of the context that is being made: barriers that have begun; all are through at as many as
    /// there are ranks.
    uint32_t barriers = 0;
    uint32_t contexts = 0;
    SocketAddress mesh;               ///< the real rank's listener
    uint32_t registrations = 0;       ///< since the newest context was made
    bool keys_next = false;           ///< addresses have been told, their keys have not
    uint64_t real_address = 0;        ///< the same
    NcclHost::OneSidedMemory memory;  ///< the same
    std::vector<Rkey> keys;           ///< the same; of emulated ranks, by rank
    bool made() const { return contexts > 0; }
  };

  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t real() const;  ///< the only one, by its number here
  uint32_t after(uint32_t rank, uint32_t by) const { return (rank + by) % size(); }
  uint32_t before(uint32_t rank, uint32_t by) const { return (rank + size() - by) % size(); }
  NcclConnector connector(const Ring& ring, uint32_t emulated, uint8_t index,
                          bool real_sends) const;
  bool expect(const NcclConnector& connector, SocketAddress& at);
  void connect(const NcclConnector& connector, const SocketAddress& to);
  bool begins(Ring& ring, std::span<const uint8_t> own);
  bool fill(Ring& ring);
  bool fill_handles(Ring& ring);
  bool fill_addresses(Ring& ring);
  void send(const Ring& ring);
  void connect_next(Ring& ring);
  void ended(Ring& ring);
  std::span<uint8_t> slice(Ring& ring, uint32_t rank) const {
    return std::span(ring.slices).subspan(size_t{rank} * ring.size, ring.size);
  }
  void fail(const std::string& why) { user_.one_sided_failed(why); }

  const uint32_t communicator_;
  const std::vector<NcclMember>& members_;
  NcclHost& host_;
  OneSidedUser& user_;
  Gather last_ = Gather::kNone;
  uint64_t window_bytes_ = 0;  ///< of the memory that is being registered
  uint32_t count_ = 0;         ///< of NICs
  uint32_t registrations_ = 0;
  std::vector<Ring> rings_;
  std::set<NcclConnector> connecting_, connectors_;
};

}  // namespace understudy
