// The protocol of PyTorch's TCPStore, where the ranks of a job meet (docs/nccl 6.1): requests of
// clients and the server's answers, for all three generations of it. Integers are little-endian; a
// key or value is its length (u64) and its bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/torch_release.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Their numbers on the wire depend on the generation. Not here: watchKey of torch up to 2.0, and
/// the queues, key lists and barriers of the newest releases, which no process group uses.
enum class StoreCommand : uint8_t {
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kKeyCount,
  kDelete,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
};
std::string_view store_command_name(StoreCommand command);

using StoreValue = std::vector<uint8_t>;
StoreValue store_value(std::string_view text);

struct StoreRequest {
  StoreCommand command = StoreCommand::kSet;
  std::vector<std::string> keys;
  std::vector<StoreValue> values;  ///< kCompareSet: expected, desired
  int64_t number = 0;              ///< kAdd: the addend; kPing: the nonce
  bool operator==(const StoreRequest&) const = default;
};

struct StoreAnswer {
  std::vector<StoreValue> values;
  int64_t number = 0;  ///< also kCheck: 0 ready, 1 not; kWait: 0 ready; kCancelWait: 1
  bool operator==(const StoreAnswer&) const = default;
};

// What PyTorch's libuv server accepts, and bounds of our own.
inline constexpr size_t kStoreMostKey = 8 << 10;
inline constexpr size_t kStoreMostValue = 8 << 20;
inline constexpr size_t kStoreMostKeys = 128 << 10;
inline constexpr size_t kStoreMostRequest = 16 << 20;  ///< keys and values of one request
inline constexpr size_t kStoreMostBytes = 256 << 20;   ///< of all keys and values of a server
inline constexpr size_t kStoreMostAnswers = 64 << 20;  ///< values for requests that come at once

/// What a client says first on a connection; empty but for kValidated.
std::vector<uint8_t> store_greeting(StoreGeneration generation);
/// Empty if the generation does not know the command.
std::vector<uint8_t> encode_store_request(StoreGeneration generation, const StoreRequest& request);
/// Of a server; empty for commands that have none.
std::vector<uint8_t> encode_store_answer(StoreCommand command, const StoreAnswer& answer);
/// A client need not wait for its answer.
bool store_command_is_answered(StoreCommand command);

/// Collects a piece whose length is known, from bytes that come as they like.
class StorePiece {
 public:
  void want(size_t bytes);
  /// Takes from the front of `bytes`. True once the piece is whole.
  bool take(std::span<const uint8_t>& bytes);
  std::span<const uint8_t> bytes() const { return bytes_; }
  uint64_t number() const;  ///< its bytes as a little-endian integer

 private:
  size_t wanted_ = 0;
  std::vector<uint8_t> bytes_;
};

/// A server's side of one connection. The generation is seen from what the client sends first.
class StoreRequestParser {
 public:
  StoreRequestParser() { piece_.want(1); }
  /// False if the client breaks the protocol; nothing more is taken then.
  bool on_bytes(std::span<const uint8_t> bytes,
                const std::function<void(StoreRequest&&)>& take_request);
  std::optional<StoreGeneration> generation() const { return generation_; }
  const std::string& error() const { return error_; }
  /// Bytes of keys and values of the request that is not whole yet, also those to come.
  size_t pending() const { return size_; }

 private:
  enum class At : uint8_t {
    kFirst,
    kFirstMagic,     ///< the rest of the number after its first byte
    kFirstValidate,  ///< VALIDATE's number, or the low half of a plain SET's key size
    kMagic,
    kCommand,
    kCount,
    kKeySize,
    kKeySizeHigh,
    kKey,
    kValueSize,
    kValue,
    kNumber,
  };
  using TakeRequest = std::function<void(StoreRequest&&)>;

  bool on_piece(const TakeRequest& take_request);
  bool on_first(const TakeRequest& take_request);
  bool on_command(uint8_t number, const TakeRequest& take_request);
  bool on_size(At next, uint64_t size, size_t most);
  void begin_request();
  void next_field(const TakeRequest& take_request);
  void want(At at, size_t bytes);
  bool wrong(std::string error);

  std::optional<StoreGeneration> generation_;
  std::string error_;
  At at_ = At::kFirst;
  StorePiece piece_;
  StoreRequest request_;
  std::string_view fields_;  ///< of one round, as in the table of commands
  size_t field_ = 0;         ///< the next one
  uint64_t rounds_ = 0;      ///< still to come after this one
  uint64_t low_ = 0;         ///< of a key size in two halves
  size_t size_ = 0;          ///< of the request's keys and values so far
};

/// A client's side: the answer to one request.
class StoreAnswerParser {
 public:
  /// `request` is one that has an answer.
  void expect(const StoreRequest& request);
  /// Takes from the front of `bytes`; the answer once it is whole.
  std::optional<Result<StoreAnswer>> take(std::span<const uint8_t>& bytes);

 private:
  char kind_ = 0;
  uint64_t values_ = 0;  ///< still to come
  bool size_known_ = false;
  StorePiece piece_;
  StoreAnswer answer_;
};

}  // namespace understudy
