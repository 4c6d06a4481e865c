#include "ctrl/run/virtual_control.h"

#include <algorithm>

#include "ctrl/run/kernel_guests.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Between turns while nothing has come, and while messages wait for their operation to become
/// known: as in a run in real time.
constexpr Duration kTurn = Duration::ms(1), kSoon = Duration::us(50);

}  // namespace

Result<std::unique_ptr<VirtualControl>> VirtualControl::create(
    const Config& config, Emulator& emulator, std::vector<ShardControl*> reference,
    const std::string& feed, RunReport& report, EmulatedSide::Say say) {
  std::unique_ptr<VirtualControl> control(new VirtualControl(emulator.sides().front()->shard));
  auto side = EmulatedSide::create(
      config, emulator, report, [c = control.get()] { return c->now_; }, std::move(say),
      std::move(reference));
  if (!side) return tl::unexpected(side.error());
  control->side_ = std::move(*side);
  if (!feed.empty()) TRY(control->side_->jobs().follow(feed));
  if (auto opened = control->open(config); !opened) return tl::unexpected(opened.error());
  return control;
}

Result<void> VirtualControl::open(const Config& config) {
  HostNamespaceSpec spec = emulated_addresses(config);
  spec.mtu = config.fabric.mtu + kGuestHeaders;
  host_ = std::make_unique<VirtualHost>(spec, config.seed, side_->callbacks(),
                                        [this](std::span<const uint8_t> frame) { send(frame); });
  return side_->open(*host_);
}

void VirtualControl::send(std::span<const uint8_t> frame) {
  const auto size = static_cast<uint32_t>(frame.size());
  uint8_t* out = shard_.from_host().reserve(size);
  if (out == nullptr) return;  // TCP repeats
  std::ranges::copy(frame, out);
  shard_.from_host().commit(size);
}

Time VirtualControl::next_event() const {
  if (!shard_.to_host().empty() || !shard_.notices().empty() || !shard_.replies().empty()) {
    return Time::zero();
  }
  return std::min(next_, host_->deadline());
}

void VirtualControl::advance_to(Time t) {
  now_ = t;
  for (auto frame = shard_.to_host().front(); frame.data() != nullptr;
       frame = shard_.to_host().front()) {
    host_->on_frame(t, frame);
    shard_.to_host().pop();
  }
  host_->on_time(t);
  side_->turn();
  next_ = t + (side_->find_out() ? kSoon : kTurn);
}

}  // namespace understudy
