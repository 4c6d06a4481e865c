// A shard with its control.
#pragma once

#include "ctrl/shards/shard_control.h"
#include "dataplane/engine/shard.h"

namespace understudy {

struct ShardSide {
  explicit ShardSide(const ShardConfig& config) : shard(config), control(shard) {}
  Shard shard;
  ShardControl control;
};

}  // namespace understudy
