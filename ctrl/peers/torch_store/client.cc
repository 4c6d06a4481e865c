#include "ctrl/peers/torch_store/client.h"

#include <utility>

namespace understudy {
namespace {

/// A server answers GETNUMKEYS at once, so far as the network lets it.
constexpr Duration kSilence = Duration::ms(500);
constexpr Duration kNoAnswer = Duration::s(10);
constexpr size_t kTrialAnswer = 8;

}  // namespace

void TcpStoreClient::on_connected(Time now) {
  connected_ = true;
  if (generation_) {
    found(now, *generation_);
    return;
  }
  trial_began_ = now;
  urged_ = false;
  trial_answer_.clear();
  StoreRequest count;
  count.command = StoreCommand::kKeyCount;
  output_ = encode_store_request(
      trial_ == Trial::kPrefixed ? StoreGeneration::kPrefixed : StoreGeneration::kPlain, count);
}

void TcpStoreClient::found(Time now, StoreGeneration generation) {
  generation_ = generation;
  trial_ = Trial::kNone;
  const auto greeting = store_greeting(generation);
  output_.insert(output_.end(), greeting.begin(), greeting.end());
  send_next(now);
}

/// On a new connection.
void TcpStoreClient::next_trial(Time now, Trial trial) {
  connected_ = false;
  dial_again_ = true;
  trial_ = trial;
  trial_began_ = now;
  output_.clear();
  if (trial == Trial::kNone) generation_ = StoreGeneration::kValidated;
}

void TcpStoreClient::poll(Time now) {
  if (!connected_ || generation_ || !failure_.empty()) return;
  const Duration silent = now - trial_began_;
  if (silent < kSilence) return;
  if (trial_ == Trial::kPlain) {
    next_trial(now, Trial::kNone);  // libuv's, which saw the first trial come in two pieces
  } else if (!urged_) {
    urged_ = true;
    output_.push_back(0xff);
  } else if (silent > kNoAnswer) {
    failure_ = "it does not answer as PyTorch's store does";
  }
}

void TcpStoreClient::on_bytes(Time now, std::span<const uint8_t> bytes) {
  if (!failure_.empty() || !connected_) return;
  if (!generation_) {
    trial_answer_.insert(trial_answer_.end(), bytes.begin(), bytes.end());
    if (trial_answer_.size() < kTrialAnswer) return;
    if (trial_answer_.size() > kTrialAnswer) {
      failure_ = "it says what nobody has asked for";
      return;
    }
    // After the urging byte the connection is no longer good.
    if (urged_) {
      generation_ = StoreGeneration::kPrefixed;
      next_trial(now, Trial::kPrefixed);
    } else {
      found(now, trial_ == Trial::kPrefixed ? StoreGeneration::kPrefixed : StoreGeneration::kPlain);
    }
    return;
  }
  while (!bytes.empty() && failure_.empty()) {
    if (requests_.empty() || !sent_) {
      failure_ = "it says what nobody has asked for";
      return;
    }
    auto answer = answer_.take(bytes);
    if (!answer) return;
    if (!*answer) {
      failure_ = answer->error().text;
      return;
    }
    const Pending done = std::move(requests_.front());
    requests_.pop_front();
    sent_ = false;
    done.answered(now, **answer);
    send_next(now);
  }
}

void TcpStoreClient::on_closed(Time now) {
  if (!connected_ || !failure_.empty()) return;
  if (generation_) {
    connected_ = false;
    closed_ = true;
  } else if (trial_ == Trial::kPrefixed && !urged_) {
    next_trial(now, Trial::kPlain);
  } else {
    next_trial(now, Trial::kNone);
  }
}

void TcpStoreClient::request(Time now, StoreRequest request, Answered answered) {
  requests_.push_back({std::move(request), std::move(answered)});
  send_next(now);
}

void TcpStoreClient::send_next(Time now) {
  if (!connected_ || !generation_) return;
  while (!sent_ && !requests_.empty() && failure_.empty()) {
    const StoreRequest& request = requests_.front().request;
    const auto bytes = encode_store_request(*generation_, request);
    if (bytes.empty()) {
      failure_ = std::string(store_command_name(request.command)) + " is not there in " +
                 std::string(store_generation_name(*generation_));
      return;
    }
    output_.insert(output_.end(), bytes.begin(), bytes.end());
    if (store_command_is_answered(request.command)) {
      answer_.expect(request);
      sent_ = true;
      return;
    }
    const Pending done = std::move(requests_.front());
    requests_.pop_front();
    done.answered(now, {});
  }
}

}  // namespace understudy
