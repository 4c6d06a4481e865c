// Reads the part of Python's pickle format that the state of torchrun's c10d rendezvous is written
// in (protocols 4 and 5: Python's Lib/pickletools.py describes each opcode). Nothing is called and
// nothing is made but plain values: an opcode or a class beside those named here is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

enum class PickleClass : uint8_t {
  kState,      ///< torch.distributed.elastic.rendezvous.dynamic_rendezvous _RendezvousState
  kNode,       ///< the same module's _NodeDesc
  kDatetime,   ///< datetime datetime
  kTimedelta,  ///< datetime timedelta
  kTimezone,   ///< datetime timezone
};
inline constexpr size_t kPickleClasses = 5;
struct PickleName {
  std::string_view module, name;
};
const PickleName& pickle_name(PickleClass which);

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kText,
    kBytes,
    kTuple,
    kSet,
    kDict,
    kClass,
    kObject
  };
  Kind kind = Kind::kNone;
  PickleClass of = PickleClass::kState;  ///< kClass, kObject
  int64_t number = 0;                    ///< kBool, kInt
  std::string text = {};                 ///< kText, kBytes
  /// kTuple, kSet: their items. kDict: key, value, key, value. kObject: what it was made of, and its
  /// attributes' dict if it has some.
  std::vector<uint32_t> items = {};
};

/// All values of a pickle; items are numbers in `values`.
struct Pickle {
  uint8_t protocol = 4;
  std::vector<PickleValue> values;
  uint32_t root = 0;

  const PickleValue& at(uint32_t index) const { return values[index]; }
};

/// Most values: a rendezvous of 16,384 nodes has some 200,000.
inline constexpr size_t kPickleMostValues = 1 << 20;
/// Most bytes of a string, which many values may share by memo while a reader copies it for each.
inline constexpr size_t kPickleMostText = 1 << 10;

Result<Pickle> read_pickle(std::span<const uint8_t> bytes);

/// Writes protocol 4. What is used again is memoized; strings have at most kPickleMostText bytes.
class PickleWriter {
 public:
  explicit PickleWriter(uint8_t protocol);
  std::vector<uint8_t> finish();

  void none() { out_.push_back('N'); }
  void boolean(bool value) { out_.push_back(value ? 0x88 : 0x89); }
  void integer(int64_t value);  ///< of 32 bits
  void text(std::string_view text);
  void bytes(std::span<const uint8_t> bytes);  ///< 255 at most
  void opcode(uint8_t opcode) { out_.push_back(opcode); }
  void of_class(PickleClass which);
  /// Of what was written last: a number for again().
  uint32_t memoize();
  void again(uint32_t memo);

 private:
  std::vector<uint8_t> out_;
  uint32_t memos_ = 0;
  std::optional<uint32_t> classes_[kPickleClasses];
};

}  // namespace understudy
