// Meshes of one-sided connections, and further rings at the same listeners.
#include "ctrl/peers/nccl/transport/one_sided.h"

namespace understudy {

/// GIN's contexts are made one after the other, at the same listeners; in 2.29.7 each with a ring of
/// its own. How many nobody tells: one more than there are is expected.
bool OneSided::expect_context(const Ring& ring, uint32_t context, uint32_t rank) {
  NcclConnector before = on_mesh(ring, context - 1, rank, true);
  if (ring.further && rank == after(real(), 1)) {
    const NcclConnector of_ring = on_ring(ring, context, rank, true);
    if (!expect_behind(of_ring, before)) return false;
    before = of_ring;
  }
  return expect_behind(on_mesh(ring, context, rank, true), before);
}

bool OneSided::expect_further(Ring& ring) {
  ring.spare = ring.contexts + 1;
  for (uint32_t r = 0; r < size(); ++r) {
    if (r != real() && !expect_context(ring, *ring.spare, r)) return false;
  }
  return true;
}

void OneSided::give_spare_back(Ring& ring) {
  const auto give_back = [&](const NcclConnector& connector) {
    connectors_.erase(connector);
    host_.disconnect(connector);
  };
  for (uint32_t r = 0; ring.spare && r < size(); ++r) {
    if (r == real()) continue;
    give_back(on_mesh(ring, *ring.spare, r, true));
    if (ring.further && r == after(real(), 1)) give_back(on_ring(ring, *ring.spare, r, true));
  }
  ring.spare.reset();
}

/// All contexts of GIN are made before its memory is registered; the RMA proxy has a single one
/// (rma_proxy.cc, ncclRmaProxyConnectOnce; gin_host.cc, ncclGinConnectOnce).
void OneSided::turn_to_gin() {
  guessed_ = rma_is_new_ = false;
  gin_ = true;
  for (Ring& ring : rings_) ring.gin = ring.further = true;
}

/// A connection stands: that of a further ring, with whose mesh the real rank goes on.
void OneSided::take_further(const NcclConnector& connector) {
  const uint32_t number = connector.channel & 0xff;
  if (connector.index != kOneSidedRing || !connector.real_sends || number >= rings_.size()) return;
  Ring& ring = rings_[number];
  if (!ring.further || ring.spare != connector.channel >> 8) return;
  if (ring.barriers < size()) {
    return fail("rank " + std::to_string(real()) +
                " makes a further ring of one-sided connections before the mesh of the one before "
                "it is there");
  }
  if (guessed_) turn_to_gin();
  if (!begin_context(ring)) return;
  connect(on_ring(ring, ring.contexts, before(real(), 1), false), ring.mesh);
}

bool OneSided::begin_context(Ring& ring) {
  ring.contexts = *ring.spare;
  ++ring.together;
  ring.barriers = 0;
  for (uint32_t r = 0; r < size(); ++r) {
    if (r != real()) connecting_.insert(on_mesh(ring, ring.contexts, r, true));
  }
  return expect_further(ring);
}

/// The connections stand that are made before the barrier that begins.
bool OneSided::stands(const Ring& ring) const {
  if (ring.barriers == 0) return true;
  const uint32_t ahead = after(real(), ring.barriers), behind = before(real(), ring.barriers);
  return !connecting_.contains(on_mesh(ring, ring.contexts, ahead, true)) &&
         !connecting_.contains(on_mesh(ring, ring.contexts, behind, false));
}

/// The real rank takes connections in the order of their distance behind it: the next one may call.
void OneSided::enter_barrier(Ring& ring) {
  ring.held = false;
  ++ring.barriers;
  if (ring.barriers < size()) {
    connect(on_mesh(ring, ring.contexts, before(real(), ring.barriers), false), ring.mesh);
  }
  send(ring);
}

}  // namespace understudy
