// Recordings with random damage: the peers keep their promises (tests/fuzz/peers_drive.h), whatever
// comes. The same seed gives the same damage.
#include <gtest/gtest.h>

#include "dataplane/base/pattern.h"
#include "tests/ctrl/peers/recording.h"
#include "tests/fuzz/peers_drive.h"

namespace understudy {
namespace {

constexpr int kRoundsPerRecording = 3000;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>((state_ = splitmix64(state_)) % n); }

 private:
  uint64_t state_;
};

/// The client's side of a recording as commands for drive_peer, wishes answered where they come.
std::vector<uint8_t> commands_of(const std::string& name, ServiceKind kind) {
  std::vector<uint8_t> commands = {static_cast<uint8_t>(kind)};
  for (const RecordedWrite& write : load_recording(name)) {
    if (!write.from_client) continue;
    commands.push_back(static_cast<uint8_t>(write.bytes.size()));
    commands.insert(commands.end(), write.bytes.begin(), write.bytes.end());
    commands.push_back(0);
    commands.push_back(2);
  }
  commands.push_back(0);
  commands.push_back(3);
  return commands;
}

void damage(std::vector<uint8_t>& commands, Random& random) {
  for (size_t hits = 1 + random.below(4); hits > 0; --hits) {
    const size_t at = random.below(commands.size());
    const auto place = commands.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(4)) {
      case 0:
        *place = static_cast<uint8_t>(random.below(256));
        break;
      case 1:
        *place = static_cast<uint8_t>(*place ^ (1u << random.below(8)));
        break;
      case 2:
        commands.insert(place, static_cast<uint8_t>(random.below(256)));
        break;
      default:
        if (commands.size() > 1) commands.erase(place);
    }
  }
}

TEST(MutatedRecordings, NeverBreakAPeer) {
  Random random(1);
  for (const char* name : {"pingpong", "write_bw", "write_lat", "send_bw", "send_lat", "read_bw",
                           "read_lat", "write_bw_q4", "send_bw_q3", "write_bw_gid6"}) {
    const auto whole = commands_of(name, ServiceKind::kAuto);
    drive_peer(whole);
    for (int round = 0; round < kRoundsPerRecording; ++round) {
      auto commands = whole;
      commands[0] = static_cast<uint8_t>(random.below(8));
      damage(commands, random);
      drive_peer(commands);
    }
  }
}

TEST(MutatedRecordings, EveryPrefixOfARecordingEndsWell) {
  const auto whole = commands_of("write_bw_q4", ServiceKind::kWriteBw);
  for (size_t size = 0; size <= whole.size(); ++size) drive_peer(std::span(whole).first(size));
}

}  // namespace
}  // namespace understudy
