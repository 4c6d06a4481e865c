// What an emulated node's side of connections by RDMA-CM has in common, whoever dials: a machine
// that hears of connections and says what they get. It owns no socket, clock or thread, as the
// peers of TCP (peer.h). cm_service.h answers, cm_caller.h dials.
//
// A connection: on_endpoint() tells its queue pair, and gives the private data of our REQ or REP;
// on_established() when it stands; on_done() when the queue pair's behaviour has nothing more to
// do; on_closed() at the end, whoever wished it. The queue pair is taken away later, after
// time-wait.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/peer.h"

namespace understudy {

class CmMachine {
 public:
  using Id = uint32_t;  ///< of a connection of this machine

  virtual ~CmMachine() = default;
  virtual std::vector<uint8_t> on_endpoint(Time, Id, const EndpointReady&) { return {}; }
  virtual void on_established(Time, Id) {}
  virtual void on_done(Time, Id) {}
  /// A message of the other side, with Behaviour::kMessages.
  virtual void on_message(Time, Id, std::span<const uint8_t>) {}
  /// Gives what went wrong, nothing if all went well.
  virtual std::string on_closed(Time, Id) { return ""; }

  /// Queue pairs whose other side now waits for our first message, or whose traffic is to begin,
  /// since the last call.
  std::vector<EndpointStart> take_starts() { return std::exchange(starts_, {}); }
  struct Message {
    Id id = 0;
    std::vector<uint8_t> bytes;
  };
  /// Messages to be sent with Behaviour::kMessages, since the last call.
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }
  /// Connections to be closed from our side, once the other side has what was sent to it.
  std::vector<Id> take_closes() { return std::exchange(closes_, {}); }

 protected:
  std::vector<EndpointStart> starts_;
  std::vector<Id> closes_;
  std::vector<Message> messages_;
};

}  // namespace understudy
