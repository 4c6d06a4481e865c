// Walks all ranks' schedules of one operation: an independent check of what they say of one
// another.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy {

/// All ranks of one operation that is alone.
class Walk {
 public:
  Walk(const Communicator& communicator, const Operation& operation)
      : communicator_(communicator), operation_(operation) {
    const auto checked = check_operation(communicator, operation);
    EXPECT_TRUE(checked) << (checked ? "" : checked.error().text);
    OperationCut cut;
    if (!is_p2p(operation.collective)) cut = (*cut_group(communicator, {&operation, 1}))[0];
    for (uint32_t r = 0; r < communicator.ranks(); ++r) {
      ranks_.push_back(rank_schedule(communicator, operation, cut, r));
    }
  }

  const RankSchedule& rank(uint32_t r) const { return *ranks_[r]; }

  /// What `from` sends to `to` on a channel, in order: bytes on the wire.
  std::vector<uint64_t> wire(uint32_t from, uint32_t to, uint32_t channel) const {
    std::vector<uint64_t> sizes;
    const RankSchedule& sender = *ranks_[from];
    for (uint32_t c = 0; c < sender.connections().size(); ++c) {
      const Connection& connection = sender.connections()[c];
      if (connection.direction != Direction::kSend || connection.to != to ||
          connection.channel != channel) {
        continue;
      }
      for (uint64_t k = 0; k < connection.messages; ++k) {
        sizes.push_back(sender.message(c, k).wire);
      }
    }
    return sizes;
  }

  /// Bytes of the buffer that all messages into (or out of) a rank carry.
  uint64_t data(uint32_t r, Direction direction) const {
    uint64_t sum = 0;
    for (uint32_t c = 0; c < ranks_[r]->connections().size(); ++c) {
      const Connection& connection = ranks_[r]->connections()[c];
      if (connection.direction != direction) continue;
      for (uint64_t k = 0; k < connection.messages; ++k) sum += ranks_[r]->message(c, k).data;
    }
    return sum;
  }

  /// Every receive has the send that it is of, message by message.
  void expect_matching() const {
    using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;  // channel, from, to, index
    std::map<Key, std::pair<uint32_t, uint32_t>> sends;
    size_t receives = 0;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const auto& connections = ranks_[r]->connections();
      for (uint32_t c = 0; c < connections.size(); ++c) {
        const Connection& k = connections[c];
        ASSERT_EQ(k.direction == Direction::kSend ? k.from : k.to, r);
        ASSERT_EQ(k.network, !communicator_.local(k.from, k.to));
        if (k.direction == Direction::kReceive) {
          ++receives;
        } else {
          ASSERT_TRUE(sends.try_emplace(Key{k.channel, k.from, k.to, k.index}, r, c).second);
        }
      }
    }
    ASSERT_EQ(receives, sends.size());
    for (const auto& rank : ranks_) {
      const auto& connections = rank->connections();
      for (uint32_t c = 0; c < connections.size(); ++c) {
        const Connection& k = connections[c];
        if (k.direction == Direction::kSend) continue;
        const auto send = sends.find(Key{k.channel, k.from, k.to, k.index});
        ASSERT_NE(send, sends.end());
        const RankSchedule& sender = *ranks_[send->second.first];
        const Connection& other = sender.connections()[send->second.second];
        ASSERT_EQ(other.messages, k.messages);
        ASSERT_EQ(other.capacity, k.capacity);
        ASSERT_EQ(other.window, k.window);
        for (uint64_t m = 0; m < k.messages; ++m) {
          const Message sent = sender.message(send->second.second, m);
          const Message got = rank->message(c, m);
          ASSERT_EQ(sent.data, got.data);
          ASSERT_EQ(sent.wire, got.wire);
          ASSERT_LE(sent.wire, k.capacity);
        }
      }
    }
  }

  /// Runs everything: no rank ever waits for something that cannot happen. Messages in flight are
  /// bounded by the connections' windows; a window opens when the receiver is done.
  void expect_completes() const {
    using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;
    struct State {
      uint64_t filled = 0;
      uint64_t used = 0;
    };
    std::map<Key, State> states;
    const auto key = [](const Connection& c) { return Key{c.channel, c.from, c.to, c.index}; };
    uint64_t left = 0;
    std::vector<std::vector<State*>> of(ranks_.size());
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (const Connection& c : ranks_[r]->connections()) {
        of[r].push_back(&states[key(c)]);
        left += c.messages;
      }
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        const auto& connections = ranks_[r]->connections();
        for (uint32_t c = 0; c < connections.size(); ++c) {
          State& s = *of[r][c];
          const bool sends = connections[c].direction == Direction::kSend;
          while (true) {
            uint64_t& next = sends ? s.filled : s.used;
            if (next == connections[c].messages) break;
            if (sends ? next >= s.used + connections[c].window : next >= s.filled) break;
            bool ready = true;
            for (const Wait& wait : ranks_[r]->waits(c, next)) {
              const Connection& other = connections[wait.connection];
              ASSERT_LT(wait.message, other.messages);
              const State& o = *of[r][wait.connection];
              const bool sent = other.direction == Direction::kSend;
              ASSERT_FALSE(sent && wait.moment == Wait::Moment::kArrival);
              const uint64_t done =
                  sent || wait.moment == Wait::Moment::kArrival ? o.filled : o.used;
              if (wait.message >= done) ready = false;
            }
            if (!ready) break;
            ++next;
            --left;
            moved = true;
          }
        }
      }
    }
    EXPECT_EQ(left, 0u) << "messages that nobody can send";
  }

 private:
  Communicator communicator_;
  Operation operation_;
  std::vector<std::unique_ptr<RankSchedule>> ranks_;
};

/// `count` times `size`.
inline std::vector<uint64_t> times(uint64_t count, uint64_t size) {
  return std::vector<uint64_t>(count, size);
}

inline Communicator nodes_of(uint32_t nodes, uint32_t channels = 1, uint32_t gpus = 1,
                             uint32_t version = 28) {
  Communicator c;
  c.nodes = nodes;
  c.gpus = gpus;
  c.channels = channels;
  c.version = {version};
  return c;
}

inline Operation operation_of(Collective collective, uint64_t bytes,
                              Algorithm algorithm = Algorithm::kRing,
                              Protocol protocol = Protocol::kSimple,
                              DataType type = DataType::kFloat32) {
  Operation o;
  o.collective = collective;
  o.algorithm = algorithm;
  o.protocol = protocol;
  o.type = type;
  o.count = bytes / element_bytes(type);
  return o;
}

}  // namespace understudy
