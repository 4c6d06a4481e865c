#include "dataplane/virtual_time/simulation.h"

#include <algorithm>
#include <deque>

#include "dataplane/base/try.h"
#include "dataplane/port/capture.h"
#include "dataplane/virtual_time/virtual_link.h"
#include "dataplane/virtual_time/virtual_loop.h"

namespace understudy {
namespace {

constexpr uint32_t kMtu = 9000;  // of the virtual cable: more than any path MTU needs

class SimulationImpl final : public Simulation {
 public:
  Result<void> open(const std::vector<SimulationPair>& pairs, const std::string& capture_path,
                    const std::vector<SimulationGuest>& guests, const GuestLimits& limits) {
    CaptureOptions options;
    options.path = capture_path;
    options.application = "understudy simulate";
    for (const SimulationPair& pair : pairs) options.interfaces.push_back(pair.name);
    if (!capture_path.empty()) {
      capture_ = TRY(open_direct_capture(options));
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      links_.push_back(
          std::make_unique<VirtualLink>(pairs[i].name, pairs[i].name + " (reference node)", kMtu));
      VirtualLink& link = *links_.back();
      if (capture_) link.a().set_capture(&capture_->tap(i));
    }
    std::vector<Shard*> joined;
    for (const SimulationPair& pair : pairs) {
      for (Shard* shard : {pair.emulator, pair.reference}) {
        if (shard == nullptr) continue;
        if (std::find(joined.begin(), joined.end(), shard) != joined.end()) continue;
        joined.push_back(shard);
        std::vector<VirtualPort*> ports(shard->ports());
        for (size_t i = 0; i < pairs.size(); ++i) {
          if (pairs[i].emulator == shard) ports[pairs[i].emulator_port] = &links_[i]->a();
          if (pairs[i].reference == shard) ports[pairs[i].reference_port] = &links_[i]->b();
        }
        participants_.push_back(std::make_unique<ShardParticipant>(std::move(ports), *shard));
      }
    }
    for (auto& participant : participants_) loop_.add(*participant);
    for (const SimulationGuest& guest : guests) {
      std::vector<GuestNicSettings> nics;
      for (const auto& nic : guest.nics) {
        nics.push_back({nic.mac, nic.rate, &links_[nic.pair]->b()});
      }
      auto node = TRY(
          GuestNode::create(guest.name, guest.folder, std::move(nics), loop_, limits, guest.costs));
      guests_.push_back(std::move(node));
      loop_.add(*guests_.back());
    }
    return {};
  }

  Result<void> run(Time limit) override {
    for (; !changes_.empty() && changes_.front().at <= limit; changes_.pop_front()) {
      TRY(loop_.run(changes_.front().at));
      if (capture_) capture_->link_change(changes_.front());
    }
    return loop_.run(limit);
  }
  void join(Participant& participant) override { loop_.add(participant); }
  GuestNode& guest(size_t number) override { return *guests_[number]; }
  Time next() const override { return loop_.next(); }
  void watch(std::function<Result<void>()> look) override { loop_.watch(std::move(look)); }
  void note_change(const LinkChange& change) override { changes_.push_back(change); }
  Time now() const override { return loop_.now(); }
  Result<void> close() override {
    if (!capture_) return {};
    return capture_->close();
  }

 private:
  std::unique_ptr<Capture> capture_;
  std::vector<std::unique_ptr<VirtualLink>> links_;
  std::vector<std::unique_ptr<ShardParticipant>> participants_;
  std::vector<std::unique_ptr<GuestNode>> guests_;
  std::deque<LinkChange> changes_;  ///< in order of time
  VirtualLoop loop_;
};

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::create(const std::vector<SimulationPair>& pairs,
                                                       const std::string& capture_path,
                                                       const std::vector<SimulationGuest>& guests,
                                                       const GuestLimits& limits) {
  auto simulation = std::make_unique<SimulationImpl>();
  TRY(simulation->open(pairs, capture_path, guests, limits));
  return simulation;
}

}  // namespace understudy
