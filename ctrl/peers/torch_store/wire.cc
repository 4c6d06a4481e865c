#include "ctrl/peers/torch_store/wire.h"

#include <algorithm>
#include <array>

namespace understudy {
namespace {

constexpr uint32_t kMagic = 0x3C85F7CE;
constexpr uint8_t kValidate = 0;

/// `fields`: k key, v value, n i64, p u32; * before: as many rounds as a count (u64) says.
/// `answer`: b bytes, l as many as keys, n i64, c u8, p u32, - none.
struct CommandRow {
  StoreCommand command;
  std::string_view name;
  int plain, prefixed, validated;  ///< numbers; -1: not there
  std::string_view fields;
  char answer;
};
constexpr std::array kCommands = {
    CommandRow{StoreCommand::kSet, "SET", 0, 0, 1, "kv", '-'},
    CommandRow{StoreCommand::kCompareSet, "COMPARE_SET", 1, 1, 2, "kvv", 'b'},
    CommandRow{StoreCommand::kGet, "GET", 2, 2, 3, "k", 'b'},
    CommandRow{StoreCommand::kAdd, "ADD", 3, 3, 4, "kn", 'n'},
    CommandRow{StoreCommand::kCheck, "CHECK", 4, 4, 5, "*k", 'c'},
    CommandRow{StoreCommand::kWait, "WAIT", 5, 5, 6, "*k", 'c'},
    CommandRow{StoreCommand::kKeyCount, "GETNUMKEYS", 6, 6, 7, "", 'n'},
    CommandRow{StoreCommand::kDelete, "DELETE_KEY", 8, 7, 8, "k", 'n'},
    CommandRow{StoreCommand::kAppend, "APPEND", -1, 8, 9, "kv", '-'},
    CommandRow{StoreCommand::kMultiGet, "MULTI_GET", -1, 9, 10, "*k", 'l'},
    CommandRow{StoreCommand::kMultiSet, "MULTI_SET", -1, 10, 11, "*kv", '-'},
    CommandRow{StoreCommand::kCancelWait, "CANCEL_WAIT", -1, 11, 12, "", 'c'},
    CommandRow{StoreCommand::kPing, "PING", -1, -1, 13, "p", 'p'},
};

const CommandRow& row_of(StoreCommand command) { return kCommands[static_cast<size_t>(command)]; }

int number_of(const CommandRow& row, StoreGeneration generation) {
  switch (generation) {
    case StoreGeneration::kPlain:
      return row.plain;
    case StoreGeneration::kPrefixed:
      return row.prefixed;
    case StoreGeneration::kValidated:
      return row.validated;
  }
  return -1;
}

void put(std::vector<uint8_t>& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

template <typename Bytes>
void put_sized(std::vector<uint8_t>& out, const Bytes& bytes) {
  put(out, bytes.size(), 8);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_fields(std::vector<uint8_t>& out, std::string_view fields, const StoreRequest& request) {
  const bool counted = fields.starts_with('*');
  if (counted) {
    put(out, request.keys.size(), 8);
    fields.remove_prefix(1);
  }
  size_t value = 0;
  for (size_t round = 0; round < (counted ? request.keys.size() : 1); ++round) {
    for (const char field : fields) {
      if (field == 'k') put_sized(out, request.keys[round]);
      if (field == 'v') put_sized(out, request.values[value++]);
      if (field == 'n') put(out, static_cast<uint64_t>(request.number), 8);
      if (field == 'p') put(out, static_cast<uint64_t>(request.number), 4);
    }
  }
}

}  // namespace

std::string_view store_command_name(StoreCommand command) { return row_of(command).name; }

StoreValue store_value(std::string_view text) { return {text.begin(), text.end()}; }

bool store_command_is_answered(StoreCommand command) { return row_of(command).answer != '-'; }

std::vector<uint8_t> store_greeting(StoreGeneration generation) {
  std::vector<uint8_t> bytes;
  if (generation == StoreGeneration::kValidated) {
    bytes.push_back(kValidate);
    put(bytes, kMagic, 4);
  }
  return bytes;
}

std::vector<uint8_t> encode_store_request(StoreGeneration generation, const StoreRequest& request) {
  std::vector<uint8_t> bytes;
  const CommandRow& row = row_of(request.command);
  const int number = number_of(row, generation);
  if (number < 0) return bytes;
  if (generation == StoreGeneration::kPrefixed) put(bytes, kMagic, 4);
  bytes.push_back(static_cast<uint8_t>(number));
  put_fields(bytes, row.fields, request);
  return bytes;
}

std::vector<uint8_t> encode_store_answer(StoreCommand command, const StoreAnswer& answer) {
  std::vector<uint8_t> bytes;
  switch (row_of(command).answer) {
    case 'b':
    case 'l':
      for (const StoreValue& value : answer.values) put_sized(bytes, value);
      break;
    case 'n':
      put(bytes, static_cast<uint64_t>(answer.number), 8);
      break;
    case 'c':
      put(bytes, static_cast<uint64_t>(answer.number), 1);
      break;
    case 'p':
      put(bytes, static_cast<uint64_t>(answer.number), 4);
      break;
    default:
      break;
  }
  return bytes;
}

void StorePiece::want(size_t bytes) {
  wanted_ = bytes;
  bytes_.clear();
}

bool StorePiece::take(std::span<const uint8_t>& bytes) {
  const size_t size = std::min(wanted_ - bytes_.size(), bytes.size());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  bytes = bytes.subspan(size);
  return bytes_.size() == wanted_;
}

uint64_t StorePiece::number() const {
  uint64_t value = 0;
  for (size_t i = bytes_.size(); i-- > 0;) value = value << 8 | bytes_[i];
  return value;
}

bool StoreRequestParser::on_bytes(std::span<const uint8_t> bytes, const TakeRequest& take_request) {
  while (error_.empty() && piece_.take(bytes)) {
    if (!on_piece(take_request)) return false;
  }
  return error_.empty();
}

bool StoreRequestParser::wrong(std::string error) {
  error_ = std::move(error);
  return false;
}

void StoreRequestParser::want(At at, size_t bytes) {
  at_ = at;
  piece_.want(bytes);
}

void StoreRequestParser::begin_request() {
  request_ = StoreRequest();
  size_ = 0;
  const bool prefixed = generation_ == StoreGeneration::kPrefixed;
  want(prefixed ? At::kMagic : At::kCommand, prefixed ? 4 : 1);
}

/// A plain SET begins with 0 as VALIDATE does; were the number its key's size, the key would have a
/// gigabyte.
bool StoreRequestParser::on_first(const TakeRequest& take_request) {
  if (at_ == At::kFirst) {
    const uint8_t first = piece_.bytes()[0];
    if (first == (kMagic & 0xff)) {
      want(At::kFirstMagic, 3);
    } else if (first == kValidate) {
      want(At::kFirstValidate, 4);
    } else {
      generation_ = StoreGeneration::kPlain;
      return on_command(first, take_request);
    }
    return true;
  }
  const uint64_t number = piece_.number();
  if (at_ == At::kFirstMagic) {
    if (number != kMagic >> 8) return wrong("it does not speak the protocol of PyTorch's store");
    generation_ = StoreGeneration::kPrefixed;
    want(At::kCommand, 1);
  } else if (number == kMagic) {
    generation_ = StoreGeneration::kValidated;
    begin_request();
  } else {
    generation_ = StoreGeneration::kPlain;
    low_ = number;
    if (!on_command(kValidate, take_request)) return false;
    want(At::kKeySizeHigh, 4);
  }
  return true;
}

bool StoreRequestParser::on_command(uint8_t number, const TakeRequest& take_request) {
  for (const CommandRow& row : kCommands) {
    if (number_of(row, *generation_) != number) continue;
    request_.command = row.command;
    fields_ = row.fields;
    field_ = 0;
    rounds_ = 0;
    if (fields_.starts_with('*')) {
      fields_.remove_prefix(1);
      want(At::kCount, 8);
    } else {
      next_field(take_request);
    }
    return true;
  }
  return wrong("command " + std::to_string(number) + " of the store of " +
               std::string(store_generation_name(*generation_)) + " is not known here");
}

/// Says what piece comes next, or ends the request.
void StoreRequestParser::next_field(const TakeRequest& take_request) {
  if (field_ == fields_.size() && rounds_ > 0) {
    --rounds_;
    field_ = 0;
  }
  if (field_ == fields_.size()) {
    StoreRequest request = std::move(request_);
    begin_request();
    take_request(std::move(request));
    return;
  }
  const char field = fields_[field_++];
  want(field == 'k'   ? At::kKeySize
       : field == 'v' ? At::kValueSize
                      : At::kNumber,
       field == 'p' ? 4 : 8);
}

bool StoreRequestParser::on_size(At next, uint64_t size, size_t most) {
  if (size > most || size_ + size > kStoreMostRequest) {
    return wrong(std::string(store_command_name(request_.command)) + " with " +
                 std::to_string(size) + (next == At::kKey ? " bytes of key" : " bytes of value") +
                 (size > most ? ", the most are " + std::to_string(most)
                              : ", more than fit into one request"));
  }
  size_ += size;
  want(next, size);
  return true;
}

bool StoreRequestParser::on_piece(const TakeRequest& take_request) {
  const auto bytes = piece_.bytes();
  switch (at_) {
    case At::kFirst:
    case At::kFirstMagic:
    case At::kFirstValidate:
      return on_first(take_request);
    case At::kMagic:
      if (piece_.number() != kMagic) return wrong("a request without the magic number");
      want(At::kCommand, 1);
      return true;
    case At::kCommand:
      return on_command(bytes[0], take_request);
    case At::kCount:
      rounds_ = piece_.number();
      if (rounds_ > kStoreMostKeys) {
        return wrong(std::string(store_command_name(request_.command)) + " of " +
                     std::to_string(rounds_) + " keys, the most are " +
                     std::to_string(kStoreMostKeys));
      }
      field_ = fields_.size();  // of the round before the first
      break;
    case At::kKeySize:
      return on_size(At::kKey, piece_.number(), kStoreMostKey);
    case At::kKeySizeHigh:
      return on_size(At::kKey, piece_.number() << 32 | low_, kStoreMostKey);
    case At::kValueSize:
      return on_size(At::kValue, piece_.number(), kStoreMostValue);
    case At::kKey:
      request_.keys.emplace_back(bytes.begin(), bytes.end());
      break;
    case At::kValue:
      request_.values.emplace_back(bytes.begin(), bytes.end());
      break;
    case At::kNumber:
      request_.number = static_cast<int64_t>(piece_.number());
      break;
  }
  next_field(take_request);
  return true;
}

void StoreAnswerParser::expect(const StoreRequest& request) {
  kind_ = row_of(request.command).answer;
  answer_ = StoreAnswer();
  values_ = kind_ == 'b' ? 1 : kind_ == 'l' ? request.keys.size() : 0;
  size_known_ = false;
  piece_.want(kind_ == 'c' ? 1 : kind_ == 'p' ? 4 : kind_ == 'l' && values_ == 0 ? 0 : 8);
}

std::optional<Result<StoreAnswer>> StoreAnswerParser::take(std::span<const uint8_t>& bytes) {
  while (piece_.take(bytes)) {
    if (kind_ != 'b' && kind_ != 'l') {
      answer_.number = static_cast<int64_t>(piece_.number());
      return answer_;
    }
    if (values_ == 0) return std::move(answer_);
    if (!size_known_) {
      if (piece_.number() > kStoreMostValue) {
        return fail("it answers with a value of " + std::to_string(piece_.number()) + " bytes");
      }
      size_known_ = true;
      piece_.want(piece_.number());
      continue;
    }
    answer_.values.emplace_back(piece_.bytes().begin(), piece_.bytes().end());
    if (--values_ == 0) return std::move(answer_);
    size_known_ = false;
    piece_.want(8);
  }
  return std::nullopt;
}

}  // namespace understudy
