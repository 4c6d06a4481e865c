// Exact payload: the values of any message of a job, whatever its algorithm. A message's parts name
// what they are made of (collective_model/schedule/value_part.h); each received message in them is
// read where a real rank sent it, else made of what its sender made it of, and so on down to the
// ranks' contributions. Nothing is kept: a subtree without a real rank is a reduction of patterns.
//
// A message costs one pass over its bytes for each contribution and each real rank's message in it,
// and, once, a look at each rank that it passes as it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/collective/collective_job.h"
#include "dataplane/collective/element_values.h"

namespace understudy {

class ExactValues {
 public:
  /// A message that rank `rank` receives, and one byte of its data.
  struct Place {
    size_t operation = 0;
    uint32_t rank = 0;
    uint32_t connection = 0;
    uint64_t message = 0;  ///< of the operation
    uint32_t at = 0;
  };
  /// What real ranks sent.
  class Reader {
   public:
    virtual ~Reader() = default;
    /// The data from there on, as many bytes as `room` has, in `room` or elsewhere; null: it is not
    /// there to be read.
    virtual const uint8_t* read(const Place& place, std::span<uint8_t> room) const = 0;
  };

  /// `seeds`: of all ranks' contributions. `job` outlives this object.
  ExactValues(const CollectiveJob& job, std::vector<uint64_t> seeds);

  /// Fills in the data of message `sender.message` that `sender.rank` sends on its connection, from
  /// `sender.at` on. Without `reader` everything is made of contributions. Does not allocate.
  void sent(const Reader* reader, const Place& sender, std::span<uint8_t> out);
  /// The same of a message as `receiver` has it.
  void received(const Reader* reader, const Place& receiver, std::span<uint8_t> out);
  /// The bytes of a part of the rank's message or result; `at`: in the part.
  void part(const Reader* reader, size_t operation, uint32_t rank, const ValuePart& part,
            uint32_t at, std::span<uint8_t> out);

  const ElementRule& rule() const { return rule_; }

 private:
  static constexpr size_t kBlock = 4096;  ///< bytes that are made at a time
  static constexpr size_t kDeepest = 40;  ///< messages that wait for another one's value at once

  /// A rank on the way down, whose contribution or further messages come on top of what its first
  /// message brings.
  struct Level {
    uint32_t rank;
    ValuePart part;
    uint32_t at;  ///< in the part
  };
  struct Found {
    ValuePart part;
    uint32_t at;
  };

  /// Where a message comes from that ranks only pass on: of the last ones.
  struct PassedOn {
    bool known = false, read = false;
    size_t operation = 0;
    uint32_t rank = 0, connection = 0;
    uint64_t message = 0;
    // A part that is not passed on, or that a real rank sent, and of whom.
    uint32_t origin = 0;
    Found found;
  };
  static constexpr size_t kPassedOn = 64;

  const RankSchedule& schedule(size_t operation, uint32_t rank) const;
  const FarEnd& far(size_t operation, uint32_t rank, uint32_t connection) const;
  Found find(const RankSchedule& schedule, uint32_t connection, uint64_t message,
             uint32_t at) const;
  const PassedOn& pass_back(const Reader* reader, const Place& sender, const ValuePart& part);
  void make(const Reader* reader, size_t operation, uint32_t rank, const Found& found,
            std::span<uint8_t> out);
  void make_source(const Reader* reader, size_t operation, uint32_t rank, ValuePart::Source source,
                   uint32_t at, std::span<uint8_t> out);
  std::span<uint8_t> room(size_t size) { return {rooms_.data() + depth_ * 2 * kBlock, size}; }
  std::span<uint8_t> read_room(size_t size) {
    return {rooms_.data() + (depth_ * 2 + 1) * kBlock, size};
  }

  const CollectiveJob& job_;
  const ElementRule rule_;
  std::vector<Pattern> patterns_;  ///< by rank
  std::vector<Level> levels_;      ///< of all depths, as a stack
  std::vector<uint8_t> rooms_;     ///< two blocks for each depth
  std::vector<PassedOn> passed_on_;
  size_t depth_ = 0;
};

}  // namespace understudy
