#include "ctrl/peers/torch_store/pickle.h"

#include <array>
#include <cstdio>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kModule = "torch.distributed.elastic.rendezvous.dynamic_rendezvous";
constexpr std::array<PickleName, kPickleClasses> kNames = {
    PickleName{kModule, "_RendezvousState"}, PickleName{kModule, "_NodeDesc"},
    PickleName{"datetime", "datetime"}, PickleName{"datetime", "timedelta"},
    PickleName{"datetime", "timezone"}};

// Opcodes that are no printable character, and those that are.
constexpr uint8_t kProto = 0x80, kFrame = 0x95, kMemoize = 0x94, kShortText = 0x8c,
                  kStackGlobal = 0x93, kNewObject = 0x81, kTuple1 = 0x85, kTuple2 = 0x86,
                  kTuple3 = 0x87, kTrue = 0x88, kFalse = 0x89, kEmptySet = 0x8f, kAddItems = 0x90;
constexpr uint8_t kText = 'X', kShortBytes = 'C', kInt1 = 'K', kInt2 = 'M', kInt4 = 'J',
                  kNone = 'N', kEmptyDict = '}', kEmptyTuple = ')', kMark = '(', kSetItem = 's',
                  kSetItems = 'u', kBuild = 'b', kReduce = 'R', kGet1 = 'h', kGet4 = 'j',
                  kStop = '.';

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes), size_(bytes.size()) {}

  Result<Pickle> run() {
    const auto start = TRY(take(2));
    if (start[0] != kProto || start[1] < 4 || start[1] > 5) {
      return wrong("it does not begin as protocol 4 or 5 does (Python 3.8 and later)");
    }
    made_.protocol = start[1];
    for (;;) {
      at_ = size_ - rest_.size();
      const uint8_t opcode = TRY(take(1))[0];
      if (opcode == kStop) return end();
      TRY(step(opcode));
      if (made_.values.size() > kPickleMostValues) return wrong("it has too many values");
    }
  }

 private:
  tl::unexpected<Error> wrong(const std::string& why) const {
    return fail("pickle, byte " + std::to_string(at_) + ": " + why);
  }

  Result<std::span<const uint8_t>> take(size_t bytes) {
    if (rest_.size() < bytes) return wrong("it ends too early");
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }

  Result<uint64_t> number(size_t bytes) {
    const auto taken = TRY(take(bytes));
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | taken[i];
    return value;
  }

  Result<Pickle> end() {
    if (stack_.size() != 1 || !marks_.empty()) return wrong("it ends with several values");
    if (!rest_.empty()) return wrong("something follows its end");
    made_.root = stack_.front();
    return std::move(made_);
  }

  void push(PickleValue value) {
    stack_.push_back(static_cast<uint32_t>(made_.values.size()));
    made_.values.push_back(std::move(value));
  }

  /// Values above the last mark stay for whoever has set it.
  Result<uint32_t> pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return wrong("a value is missing");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  Result<std::vector<uint32_t>> pop_to_mark() {
    if (marks_.empty()) return wrong("a mark is missing");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }

  Result<void> step(uint8_t opcode) {
    switch (opcode) {
      case kFrame:
        if (TRY(number(8)) > rest_.size()) return wrong("a frame is longer than what follows");
        return {};
      case kMark:
        marks_.push_back(stack_.size());
        return {};
      case kMemoize:
        memos_.push_back(TRY(pop()));
        stack_.push_back(memos_.back());
        return {};
      case kGet1:
        return get(TRY(number(1)));
      case kGet4:
        return get(TRY(number(4)));
      case kNone:
        push({});
        return {};
      case kTrue:
      case kFalse:
        push({.kind = Kind::kBool, .number = opcode == kTrue});
        return {};
      case kInt1:
        return integer(TRY(number(1)));
      case kInt2:
        return integer(TRY(number(2)));
      case kInt4:
        return integer(static_cast<uint64_t>(static_cast<int32_t>(TRY(number(4)))));
      case kShortText:
        return text(Kind::kText, TRY(number(1)));
      case kText:
        return text(Kind::kText, TRY(number(4)));
      case kShortBytes:
        return text(Kind::kBytes, TRY(number(1)));
      default:
        return gather(opcode);
    }
  }

  /// What is made of values on the stack.
  Result<void> gather(uint8_t opcode) {
    switch (opcode) {
      case kEmptyDict:
        push({.kind = Kind::kDict});
        return {};
      case kEmptySet:
        push({.kind = Kind::kSet});
        return {};
      case kEmptyTuple:
        return tuple(0);
      case kTuple1:
        return tuple(1);
      case kTuple2:
        return tuple(2);
      case kTuple3:
        return tuple(3);
      case kSetItem: {
        const uint32_t value = TRY(pop()), key = TRY(pop());
        return add(Kind::kDict, {key, value});
      }
      case kSetItems:
        return add(Kind::kDict, TRY(pop_to_mark()));
      case kAddItems:
        return add(Kind::kSet, TRY(pop_to_mark()));
      case kStackGlobal:
        return global();
      case kNewObject:
      case kReduce:
        return object();
      case kBuild:
        return build();
      default:
        return unknown(opcode);
    }
  }

  tl::unexpected<Error> unknown(uint8_t opcode) const {
    char text[32];
    std::snprintf(text, sizeof text, "opcode 0x%02x", opcode);
    return wrong(std::string(text) + " is none of those that a rendezvous' state is written with");
  }

  Result<void> get(uint64_t memo) {
    if (memo >= memos_.size()) return wrong("there is no memo " + std::to_string(memo));
    stack_.push_back(memos_[memo]);
    // A memo that is taken again and again makes no value.
    if (stack_.size() > kPickleMostValues) return wrong("it has too many values");
    return {};
  }

  Result<void> integer(uint64_t value) {
    push({.kind = Kind::kInt, .number = static_cast<int64_t>(value)});
    return {};
  }

  Result<void> text(Kind kind, uint64_t size) {
    if (size > kPickleMostText) return wrong("a string of " + std::to_string(size) + " bytes");
    const auto bytes = TRY(take(size));
    push({.kind = kind, .text = std::string(bytes.begin(), bytes.end())});
    return {};
  }

  Result<void> tuple(size_t size) {
    PickleValue made{.kind = Kind::kTuple};
    made.items.resize(size);
    for (size_t i = size; i-- > 0;) made.items[i] = TRY(pop());
    push(std::move(made));
    return {};
  }

  Result<void> add(Kind kind, std::vector<uint32_t> items) {
    const uint32_t to = TRY(pop());
    stack_.push_back(to);
    PickleValue& value = made_.values[to];
    if (value.kind != kind) return wrong("items are added to something else than a dict or set");
    if (kind == Kind::kDict && items.size() % 2 != 0) return wrong("a key has no value");
    // Each item is a value or a memo on the stack once: their sum is bounded as the input is.
    value.items.insert(value.items.end(), items.begin(), items.end());
    return {};
  }

  Result<void> global() {
    const uint32_t name = TRY(pop()), module = TRY(pop());
    const PickleValue &n = made_.at(name), &m = made_.at(module);
    if (n.kind != Kind::kText || m.kind != Kind::kText) return wrong("a class without a name");
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (kNames[i].module != m.text || kNames[i].name != n.text) continue;
      push({.kind = Kind::kClass, .of = static_cast<PickleClass>(i)});
      return {};
    }
    return wrong("the class " + m.text.substr(0, 100) + " " + n.text.substr(0, 100) +
                 " is none of a rendezvous' state");
  }

  Result<void> object() {
    const uint32_t arguments = TRY(pop()), of = TRY(pop());
    if (made_.at(of).kind != Kind::kClass || made_.at(arguments).kind != Kind::kTuple) {
      return wrong("an object of something else than a class");
    }
    push({.kind = Kind::kObject, .of = made_.at(of).of, .items = made_.at(arguments).items});
    return {};
  }

  Result<void> build() {
    const uint32_t attributes = TRY(pop()), object = TRY(pop());
    stack_.push_back(object);
    PickleValue& value = made_.values[object];
    if (value.kind != Kind::kObject || !value.items.empty() ||
        made_.at(attributes).kind != Kind::kDict) {
      return wrong("attributes of something else than a new object");
    }
    value.items.push_back(attributes);
    return {};
  }

  std::span<const uint8_t> rest_;
  const size_t size_;
  size_t at_ = 0;
  Pickle made_;
  std::vector<uint32_t> stack_, memos_;
  std::vector<size_t> marks_;
};

}  // namespace

const PickleName& pickle_name(PickleClass which) { return kNames[static_cast<size_t>(which)]; }

Result<Pickle> read_pickle(std::span<const uint8_t> bytes) { return Reader(bytes).run(); }

PickleWriter::PickleWriter(uint8_t protocol) : out_{kProto, protocol} {}

std::vector<uint8_t> PickleWriter::finish() {
  out_.push_back(kStop);
  return std::move(out_);
}

void PickleWriter::integer(int64_t value) {
  const bool small = value >= 0 && value < 256;
  out_.push_back(small ? kInt1 : kInt4);
  for (int i = 0; i < (small ? 1 : 4); ++i) {
    out_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

void PickleWriter::text(std::string_view text) {
  const bool small = text.size() < 256;
  out_.push_back(small ? kShortText : kText);
  for (int i = 0; i < (small ? 1 : 4); ++i) {
    out_.push_back(static_cast<uint8_t>(text.size() >> (8 * i)));
  }
  out_.insert(out_.end(), text.begin(), text.end());
}

void PickleWriter::bytes(std::span<const uint8_t> bytes) {
  out_.push_back(kShortBytes);
  out_.push_back(static_cast<uint8_t>(bytes.size()));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void PickleWriter::of_class(PickleClass which) {
  auto& memo = classes_[static_cast<size_t>(which)];
  if (memo) return again(*memo);
  text(pickle_name(which).module);
  text(pickle_name(which).name);
  out_.push_back(kStackGlobal);
  memo = memoize();
}

uint32_t PickleWriter::memoize() {
  out_.push_back(kMemoize);
  return memos_++;
}

void PickleWriter::again(uint32_t memo) {
  const bool small = memo < 256;
  out_.push_back(small ? kGet1 : kGet4);
  for (int i = 0; i < (small ? 1 : 4); ++i) out_.push_back(static_cast<uint8_t>(memo >> (8 * i)));
}

}  // namespace understudy
