// A client of a real rank 0's TCPStore: requests go out one after the other. Which generation of
// the protocol the server speaks is known from the configuration, or is found out first.
//
// How it is found out, so that no server is disturbed (PyTorch's older one has a single thread,
// which stops for all clients while a request is incomplete): each trial is a whole request that
// changes nothing, GETNUMKEYS, on a connection of its own.
// clang-format off
//   1. With the magic number before it. torch 2.1 answers. Up to 2.0 the connection is closed at
//      once: there is no command 0xce. 2.2 and later want VALIDATE: the older server closes too,
//      the one of libuv does so with the next byte.
//   2. If it was closed at once: the plain request, a single byte. Up to 2.0 it is answered. 2.2
//      and later close.
// clang-format on
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/torch_store/wire.h"
#include "dataplane/base/units.h"

namespace understudy {

class TcpStoreClient {
 public:
  using Answered = std::function<void(Time, const StoreAnswer&)>;

  explicit TcpStoreClient(std::optional<StoreGeneration> generation) : generation_(generation) {}

  /// Also of the second and third connection: see dial_again().
  void on_connected(Time now);
  void on_bytes(Time now, std::span<const uint8_t> bytes);
  void on_closed(Time now);
  /// For what goes by time. Any number of calls.
  void poll(Time now);

  /// `answered` is called at once when the request is sent if its command has no answer. A request
  /// that the server's generation does not know ends the client.
  void request(Time now, StoreRequest request, Answered answered);
  bool idle() const { return requests_.empty(); }

  std::vector<uint8_t> take_output() { return std::exchange(output_, {}); }
  /// Close the connection and dial the same server anew, once. True once per such wish.
  bool dial_again() { return std::exchange(dial_again_, false); }
  /// Found out or configured.
  std::optional<StoreGeneration> generation() const { return generation_; }
  const std::string& failure() const { return failure_; }  ///< the connection may go
  /// The server has closed a connection that had worked.
  bool closed() const { return closed_; }

 private:
  enum class Trial : uint8_t { kPrefixed, kPlain, kNone };
  struct Pending {
    StoreRequest request;
    Answered answered;
  };

  void found(Time now, StoreGeneration generation);
  void next_trial(Time now, Trial trial);
  void send_next(Time now);

  std::optional<StoreGeneration> generation_;
  Trial trial_ = Trial::kPrefixed;
  Time trial_began_;
  bool urged_ = false;  ///< the byte after which libuv's server closes has been sent
  std::vector<uint8_t> trial_answer_;
  bool connected_ = false;
  bool dial_again_ = false;
  bool closed_ = false;
  std::deque<Pending> requests_;
  bool sent_ = false;  ///< the first of them
  StoreAnswerParser answer_;
  std::vector<uint8_t> output_;
  std::string failure_;
};

}  // namespace understudy
