#include "tools/rigs/ring_node/whole_node/node_ranks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dataplane/base/try.h"
#include "dataplane/collective/wire_lines.h"

namespace understudy {
namespace {

/// One operation at a time, and the one before it, whose buffers may become free later.
constexpr uint32_t kSlots = 2;

std::optional<NodeWay> inside_of(const NodeJobMessage& job) {
  if (job.inside_rate.is_unlimited() && job.inside_latency == Duration()) return std::nullopt;
  return NodeWay{job.inside_rate, job.inside_latency};
}

}  // namespace

NodeRanks::NodeRanks(const NodeJobMessage& job, const std::vector<NodeKind>& kinds,
                     std::vector<MessageLink*> links, NodeValues* values)
    : job_(job),
      kinds_(kinds),
      values_(values),
      links_(links.size()),
      takes_time_(inside_of(job).has_value()),
      program_(*this, job.communicator.gpus, kSlots, inside_of(job)) {
  for (size_t l = 0; l < links.size(); ++l) links_[l].at = links[l];
}

Result<void> NodeRanks::start(uint32_t kind, Time now) {
  ++operation_;
  kind_ = &kinds_[kind];
  if (values_ != nullptr) values_->begin(kind);
  for (Link& link : links_) {
    link.base += link.messages();
    link.schedule = nullptr;
    link.granted = link.received = 0;
  }
  const auto ranks = static_cast<uint32_t>(kind_->parts.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t c = 0; c < kind_->links[rank].size(); ++c) {
      if (kind_->links[rank][c] == NodeKind::kInside) continue;
      Link& link = link_of({operation_, rank, c});
      link.rank = rank;
      link.connection = c;
      link.schedule = kind_->schedules[rank].get();
    }
    program_.begin(operation_, rank, kind_->parts[rank]);
  }
  ranks_left_ = ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) program_.enter(operation_, rank, now);
  TRY(progress(now));
  return {};
}

Result<bool> NodeRanks::progress(Time now) {
  bool moved = pass(now);
  if (!failure_.empty()) return fail(failure_);
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const auto posted = TRY(post(l));
    moved = moved || posted;
  }
  return moved;
}

bool NodeRanks::pass(Time now) {
  bool any = false;
  while (!passing_.empty() && passing_.top().at <= now) {
    const RankEnd end = passing_.top().end;
    passing_.pop();
    // Of an earlier operation: a buffer is free that nobody needs any more.
    if (end.operation == operation_) program_.passed(end, now);
    any = true;
  }
  return any;
}

Result<bool> NodeRanks::post(uint32_t l) {
  Link& link = links_[l];
  bool any = false;
  while (!link.due.empty()) {
    const CreditEntry* credit = link.at->credit(link.posted);
    if (credit == nullptr) break;
    const Due& due = link.due.front();
    const uint32_t bytes = due.bytes;
    const std::string fault = credit_fault(*credit, job_.links[l].rank, bytes);
    if (!fault.empty()) {
      return fail(name_of(l) + ", credit " + std::to_string(link.posted) + ": " + fault);
    }
    if (values_ != nullptr) {
      // The device may still read a message of an earlier operation from there.
      if (link.posted - link.acknowledged >= job_.links[l].slots) break;
      auto* out = reinterpret_cast<uint8_t*>(link.at->slot(link.posted));
      WireLines(due.protocol).write_all(due.data, flag_of(link, credit->size), {out, bytes});
    }
    TRY(link.at->send(link.posted, *credit, bytes));
    link.due.pop_front();
    ++link.posted;
    any = true;
  }
  return any;
}

/// That LL and LL128 carry in the next message of a connection for collectives.
uint64_t NodeRanks::flag_of(Link& link, uint64_t capacity) {
  const BufferSizes& sizes = job_.communicator.buffers;
  return link.steps.next(capacity, {.simple = sizes.simple, .ll = sizes.ll, .ll128 = sizes.ll128})
      .flag();
}

/// The next message that has come, out of its slot.
Result<void> NodeRanks::take(uint32_t l, const std::string& where) {
  Link& link = links_[l];
  const Message message = link.schedule->message(link.connection, link.received);
  const auto* came = reinterpret_cast<const uint8_t*>(link.at->slot(link.base + link.received));
  const WireLines lines(link.schedule->connections()[link.connection].protocol);
  if (lines.wrong_flags(came, message.wire, link.flags.front()) > 0) {
    return fail(where + "a flag that NCCL's kernel would wait for is not there");
  }
  link.flags.pop_front();
  std::vector<uint8_t> data(message.data);
  lines.read(came, 0, data);
  values_->take({operation_, link.rank, link.connection}, link.received, std::move(data));
  return {};
}

Result<void> NodeRanks::on_received(uint32_t l, uint32_t size, Time now) {
  Link& link = links_[l];
  const std::string where =
      name_of(l) + ", message " + std::to_string(link.base + link.received) + ": ";
  if (link.received == link.granted) return fail(where + "came without a credit");
  const uint32_t expected = link.schedule->message(link.connection, link.received).wire;
  if (size != expected) {
    return fail(where + std::to_string(size) + " bytes, the schedule says " +
                std::to_string(expected));
  }
  if (values_ != nullptr) {
    TRY(take(l, where));
  }
  ++link.received;
  program_.arrived({operation_, link.rank, link.connection}, now);
  return {};
}

void NodeRanks::on_sent(uint32_t l, Time now) {
  Link& link = links_[l];
  const bool of_this = link.acknowledged++ >= link.base;
  if (of_this) program_.acknowledged({operation_, link.rank, link.connection}, now);
}

bool NodeRanks::done() const {
  return ranks_left_ == 0 && std::ranges::all_of(links_, [](const Link& link) {
           return link.under_way() <= link.window();
         });
}

bool NodeRanks::all_posted() const {
  return std::ranges::all_of(links_, [](const Link& link) { return link.due.empty(); });
}

bool NodeRanks::idle() const {
  return ranks_left_ == 0 &&
         std::ranges::all_of(links_, [](const Link& link) { return link.under_way() == 0; });
}

void NodeRanks::on_filled(const RankEnd& sender, uint64_t k, Time) {
  std::vector<uint8_t> data;
  if (values_ != nullptr) data = values_->made(sender, k);
  if (kind_->links[sender.rank][sender.connection] == NodeKind::kInside) {
    if (values_ == nullptr) return;
    const FarEnd& far = kind_->parts[sender.rank].far(sender.connection);
    values_->take({operation_, far.rank, far.connection}, k, std::move(data));
    return;
  }
  Link& link = link_of(sender);
  link.due.push_back({.bytes = link.schedule->message(link.connection, k).wire,
                      .protocol = link.schedule->connections()[link.connection].protocol,
                      .data = std::move(data)});
}

void NodeRanks::on_grantable(const RankEnd& receiver, uint64_t, Time) {
  Link& link = link_of(receiver);
  const uint32_t capacity = link.schedule->connections()[link.connection].capacity;
  const auto granted = link.at->grant(link.base + link.granted, capacity);
  if (values_ != nullptr) link.flags.push_back(flag_of(link, capacity));
  ++link.granted;
  if (!granted && failure_.empty()) failure_ = granted.error().text;
}

void NodeRanks::on_passing(const RankEnd& end, Time at) { passing_.push({at, passed_++, end}); }

void NodeRanks::on_done(uint32_t, uint32_t, Time) { --ranks_left_; }

std::string NodeRanks::name_of(uint32_t l) const {
  const NodeJobMessage::Link& link = job_.links[l];
  return "rank " + std::to_string(link.rank) + (link.client_sends ? " to rank " : " from rank ") +
         std::to_string(link.peer_rank) + ", channel " + std::to_string(link.channel) +
         (link.index == 0 ? "" : ", send/recv");
}

std::string NodeRanks::waiting_for() const {
  std::string text = "waits for ";
  size_t named = 0;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const Link& link = links_[l];
    const std::string of = " (" + name_of(l) + ")";
    std::string what;
    if (!link.due.empty()) {
      what = "the credit for message " + std::to_string(link.posted);
    } else if (link.received < link.granted) {
      what = "message " + std::to_string(link.base + link.received);
    } else if (link.under_way() != 0) {
      what = "the acknowledgement of message " + std::to_string(link.acknowledged);
    }
    if (what.empty()) continue;
    if (++named > 4) return text + " and more";
    text.append(named == 1 ? "" : ", ").append(what).append(of);
  }
  return named == 0 ? text + "nothing that came from outside" : text;
}

}  // namespace understudy
