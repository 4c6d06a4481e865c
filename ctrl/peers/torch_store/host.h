// What the machines of PyTorch's store want of sockets.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ctrl/peers/stream_id.h"

namespace understudy {

/// Nothing calls back from within these.
class StoreHost {
 public:
  virtual ~StoreHost() = default;
  virtual StreamId new_stream() = 0;
  /// Connects the emulated ranks to the store of the real rank 0, and tries again for as long as
  /// nobody listens there.
  virtual void dial(StreamId stream) = 0;
  virtual void send(StreamId stream, std::span<const uint8_t> bytes) = 0;
  /// Once what was sent has gone. No call about this stream comes any more.
  virtual void close(StreamId stream) = 0;
  virtual void say(const std::string& line) = 0;
};

}  // namespace understudy
