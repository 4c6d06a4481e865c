#include "dataplane/engine/state/shard_config.h"

namespace understudy {

bool ShardConfig::is_control(const RoceView& packet) {
  const OpKind kind = packet.info().kind;
  if (kind == OpKind::kCnp) return true;
  const bool credit = kind == OpKind::kWrite && packet.info().start && packet.info().end &&
                      !packet.info().imm;  // NCCL's CTS entries (docs/nccl 3.1)
  // An ATOMIC's answer keeps its place among READ data, as ours do.
  const bool ack = kind == OpKind::kAck && !packet.info().atomic_ack;
  return ack || credit;
}

}  // namespace understudy
