// How emulated ranks take part when a real rank makes connections for one-sided operations: of the
// RMA proxy of NCCL 2.29.7, 2.30.7 and later, which carries ncclPutSignal and zero-SM collectives
// between nodes, and of GIN's CPU proxy, of 2.28, too, which carries what kernels put, signal and get
// (docs/nccl 3.16). A handle of each rank goes over the bootstrap ring; then there is a ring of
// net_ib's connections, over which all else goes: handles of full meshes, their barriers, addresses
// and keys of memory. Up to 2.29.7 a mesh comes with its ring, at the same listeners.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
  /// A real rank is in the barrier that ends a window's registration.
  void at_barrier();
  void append_handle(uint32_t rank, std::vector<uint8_t>& to);
  /// A real rank's slice of one of these.
  void came(Gather gather, uint32_t rank, std::span<const uint8_t> slice);
  /// Fails if another all-gather is one of handles: of connections that are not played.
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
  /// NICs that NCCL uses at most (NCCL_RMA_MAX_CONNECTIONS, NCCL_GIN_MAX_CONNECTIONS).
  static constexpr uint32_t kMostNics = 4;
  /// An all-gather over the ring of a NIC.
  enum class Kind : uint8_t { kHandles, kBarrier, kAddresses, kKeys };
  struct Window {
    uint32_t number = 0;
    uint64_t bytes = 0;
  };
  /// Of one of the real rank's NICs, for the RMA proxy or for GIN.
  struct Ring {
    bool gin = false;
    bool at_once = false;  ///< its mesh is made with it, at the same listeners
    bool further = false;  ///< and further rings with a mesh each may be
    uint32_t channel = 0;
    std::map<uint32_t, SocketAddress> handles;  ///< of emulated ranks
    // The all-gather under way.
    Kind kind = Kind::kHandles;
    uint32_t over = 1;            ///< of rings at the same listeners, the one that it goes over
    uint32_t size = 0, came = 0;  ///< bytes of a rank; messages
    std::vector<uint8_t> slices;  ///< by rank
    bool held = false;            ///< a barrier, until connections before it stand here too
    /// Of the context that is being made: barriers that have begun; all are through at as many as
    /// there are ranks.
    uint32_t barriers = 0;
    uint32_t contexts = 0;
    uint32_t together = 0;            ///< of these, who came last and share listeners
    SocketAddress mesh;               ///< the real rank's listener
    std::optional<uint32_t> spare;    ///< a further context is expected there
    std::deque<Window> windows;       ///< those to be registered next
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
  size_t reals() const {
    return static_cast<size_t>(std::ranges::count_if(members_, &NcclMember::real));
  }
  uint32_t rings_of(bool gin) const {
    return static_cast<uint32_t>(std::ranges::count(rings_, gin, &Ring::gin));
  }
  Ring& add_ring(OneSidedForm form);
  NcclConnector on_ring(const Ring& ring, uint32_t number, uint32_t emulated,
                        bool real_sends) const;
  NcclConnector on_mesh(const Ring& ring, uint32_t context, uint32_t emulated,
                        bool real_sends) const;
  bool expect(const NcclConnector& connector, SocketAddress& at);
  void connect(const NcclConnector& connector, const SocketAddress& to);
  bool listen(Ring& ring, uint32_t rank, SocketAddress& at);
  void turn_to_gin();
  void take_further(const NcclConnector& connector);
  bool begins(Ring& ring, uint32_t over, std::span<const uint8_t> own);
  bool refuse(const Ring& ring);
  bool fill(Ring& ring);
  bool fill_handles(Ring& ring);
  bool begin_context(Ring& ring);
  bool expect_context(const Ring& ring, uint32_t context, uint32_t rank);
  bool expect_further(Ring& ring);
  bool expect_behind(const NcclConnector& connector, const NcclConnector& before);
  void give_spare_back(Ring& ring);
  bool stands(const Ring& ring) const;
  void enter_barrier(Ring& ring);
  uint32_t own_registrations(const Ring& ring) const;
  void keep_window(const Window& window);
  Window untold_window(Ring& ring);
  void what_is_registered_at_once(Ring& ring);
  bool what_is_registered(Ring& ring);
  bool fill_addresses(Ring& ring);
  void send(const Ring& ring);
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
  bool host_memory_ = false;    ///< a window has some
  bool gin_ = false;            ///< the rings that are being made are GIN's
  bool guessed_ = false;        ///< the only rings, taken for the RMA proxy's, may be GIN's
  bool rma_is_new_ = false;     ///< its first window's registration has not ended; rings at once
  std::deque<Window> windows_;  ///< the newest first
  uint32_t count_ = 0;          ///< of NICs
  uint32_t registrations_ = 0, last_window_ = 0;
  std::vector<Ring> rings_;
  std::set<NcclConnector> connecting_, connectors_;
};

}  // namespace understudy
