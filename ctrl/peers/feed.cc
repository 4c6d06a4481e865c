#include "ctrl/peers/feed.h"

#include <algorithm>
#include <cstring>

namespace understudy {
namespace {

constexpr Named<Collective> kFunctionWords[] = {
    {"AllReduce", Collective::kAllReduce},
    {"AllGather", Collective::kAllGather},
    {"ReduceScatter", Collective::kReduceScatter},
    {"Broadcast", Collective::kBroadcast},
    {"Reduce", Collective::kReduce},
};
constexpr Named<DataType> kTypeWords[] = {
    {"ncclInt8", DataType::kInt8},
    {"ncclUint8", DataType::kUint8},
    {"ncclInt32", DataType::kInt32},
    {"ncclUint32", DataType::kUint32},
    {"ncclInt64", DataType::kInt64},
    {"ncclUint64", DataType::kUint64},
    {"ncclFloat16", DataType::kFloat16},
    {"ncclFloat32", DataType::kFloat32},
    {"ncclFloat64", DataType::kFloat64},
    {"ncclBfloat16", DataType::kBfloat16},
    {"ncclFloat8e4m3", DataType::kFloat8E4m3},
    {"ncclFloat8e5m2", DataType::kFloat8E5m2},
    // NCCL has no word for ncclUint8.
    {"Unknown", DataType::kUint8},
};
constexpr Named<Algorithm> kAlgorithmWords[] = {
    {"RING", Algorithm::kRing}, {"TREE", Algorithm::kTree}, {"PAT", Algorithm::kPat}};
constexpr Named<Protocol> kProtocolWords[] = {
    {"SIMPLE", Protocol::kSimple}, {"LL", Protocol::kLL}, {"LL128", Protocol::kLL128}};

/// A text of a record, printable characters only; nothing if it does not end.
std::optional<std::string> text_of(const char (&field)[FeedRecord::kText]) {
  const void* end = std::memchr(field, 0, sizeof field);
  if (end == nullptr) return std::nullopt;
  std::string text(field);
  if (!std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; })) return std::nullopt;
  return text;
}

template <typename T, size_t N>
std::optional<T> value_of(const Named<T> (&names)[N], const std::string& name) {
  for (const auto& [known, value] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<FedOperation> FeedDecoder::operation_of(const FeedRecord& record) {
  const auto bad = [&](const std::string& what) {
    error_ = "feed: record " + std::to_string(records_) + ": " + what;
    return std::nullopt;
  };
  if (record.kind != FeedKind::kCollective && record.kind != FeedKind::kPointToPoint) {
    return bad("kind: " + std::to_string(static_cast<int>(record.kind)) + ": 1 or 2");
  }
  if (record.version < FeedRecord::kOldest || record.version > FeedRecord::kNewest) {
    return bad("version: " + std::to_string(record.version) + ": 1 to 5");
  }
  const auto function = text_of(record.function), type = text_of(record.type);
  const auto algorithm = text_of(record.algorithm), protocol = text_of(record.protocol);
  if (!function) return bad("function: not a text");
  if (!type) return bad("type: not a text");
  if (!algorithm) return bad("algorithm: not a text");
  if (!protocol) return bad("protocol: not a text");
  FedOperation fed;
  fed.rank = record.rank;
  fed.communicator = record.communicator;
  fed.sequence = record.sequence;
  Operation& o = fed.operation;
  const auto element = value_of(kTypeWords, *type);
  if (!element) return bad("type: \"" + *type + "\" is not known");
  o.type = *element;
  o.count = record.count;
  if (o.count > kMostOperationBytes / element_bytes(o.type)) {
    return bad("count: " + std::to_string(o.count) + ": more than 16 TiB");
  }
  if (record.channels > 64) {
    return bad("channels: " + std::to_string(record.channels) + ": at most 64");
  }
  o.channels = record.channels;
  o.threads = uint32_t{record.warps} * 32;
  if (record.last > 1) return bad("last: " + std::to_string(record.last) + ": 0 or 1");
  fed.group = record.group;
  fed.last = record.group == 0 || record.last == 1;
  if (record.other < 0) return bad("root or peer: " + std::to_string(record.other));
  if (record.kind == FeedKind::kPointToPoint) {
    if (*function != "Send" && *function != "Recv") {
      return bad("function: \"" + *function + "\": Send or Recv");
    }
    o.collective = Collective::kSendRecv;
    fed.sends = *function == "Send";
    fed.peer = static_cast<uint32_t>(record.other);
    return fed;
  }
  const auto collective = value_of(kFunctionWords, *function);
  if (!collective) return bad("function: \"" + *function + "\" is not known");
  o.collective = *collective;
  o.root = static_cast<uint32_t>(record.other);
  const auto a = value_of(kAlgorithmWords, *algorithm);
  if (!a) return bad("algorithm: \"" + *algorithm + "\" is not known");
  o.algorithm = *a;
  const auto p = value_of(kProtocolWords, *protocol);
  if (!p) return bad("protocol: \"" + *protocol + "\" is not known");
  o.protocol = *p;
  return fed;
}

bool FeedDecoder::take(std::span<const uint8_t> bytes, std::vector<FedOperation>& operations) {
  while (error_.empty() && !bytes.empty()) {
    const size_t more = std::min(FeedRecord::kBytes - pending_.size(), bytes.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(more));
    bytes = bytes.subspan(more);
    const size_t magic = std::min(pending_.size(), sizeof FeedRecord::kMagic);
    if (std::memcmp(pending_.data(), FeedRecord::kMagic, magic) != 0) {
      error_ = "feed: record " + std::to_string(records_) + ": it does not begin as one";
      break;
    }
    if (pending_.size() < FeedRecord::kBytes) break;
    const auto record = FeedRecord::decode(std::span<const uint8_t, FeedRecord::kBytes>(pending_));
    if (record.dropped < dropped_) {
      error_ = "feed: record " + std::to_string(records_) +
               ": dropped: " + std::to_string(record.dropped) + ", were " +
               std::to_string(dropped_);
      break;
    }
    dropped_ = record.dropped;
    auto operation = operation_of(record);
    if (!operation) break;
    operations.push_back(std::move(*operation));
    ++records_;
    pending_.clear();
  }
  return error_.empty();
}

std::vector<uint8_t> record_of(const FedOperation& fed, uint32_t dropped) {
  const Operation& o = fed.operation;
  const bool pair = o.collective == Collective::kSendRecv;
  FeedRecord r;
  r.kind = pair ? FeedKind::kPointToPoint : FeedKind::kCollective;
  r.channels = static_cast<uint8_t>(o.channels);
  r.warps = static_cast<uint8_t>(o.threads / 32);
  r.rank = fed.rank;
  r.communicator = fed.communicator;
  r.sequence = fed.sequence;
  r.count = o.count;
  r.other = static_cast<int32_t>(pair ? fed.peer : o.root);
  r.dropped = dropped;
  r.group = fed.group;
  r.last = fed.group != 0 && fed.last ? 1 : 0;
  const std::string_view function =
      pair ? fed.sends ? "Send" : "Recv" : name_of(kFunctionWords, o.collective);
  FeedRecord::set(r.function, std::string(function).c_str());
  FeedRecord::set(r.type, std::string(name_of(kTypeWords, o.type)).c_str());
  if (!pair) {
    FeedRecord::set(r.algorithm, std::string(name_of(kAlgorithmWords, o.algorithm)).c_str());
    FeedRecord::set(r.protocol, std::string(name_of(kProtocolWords, o.protocol)).c_str());
  }
  std::vector<uint8_t> bytes(FeedRecord::kBytes);
  r.encode(std::span<uint8_t, FeedRecord::kBytes>(bytes));
  return bytes;
}

void FeedPeer::on_bytes(Time now, std::span<const uint8_t> bytes) {
  operations_.clear();
  const bool good = decoder_.take(bytes, operations_);
  if (decoder_.dropped() > told_lost_) {
    lost_(now, decoder_.dropped() - told_lost_);
    told_lost_ = decoder_.dropped();
  }
  for (const FedOperation& operation : operations_) take_(now, operation);
  if (good) return;
  failure_ = decoder_.error();
  finished_ = true;
  ended_(now, failure_);
}

void FeedPeer::on_closed(Time now) {
  if (finished_) return;
  finished_ = true;
  if (decoder_.in_record()) failure_ = "feed: it ended inside a record";
  ended_(now, failure_);
}

}  // namespace understudy
