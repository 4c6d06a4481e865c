#include "collective_model/inference/belief.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "collective_model/schedule/lane_kind.h"

namespace understudy {
namespace {

using Candidate = InferredOperation::Candidate;

constexpr uint32_t kMostRound = 30;  ///< bits of the roundest size
/// Collectives, algorithms and protocols together, near enough: only ratios to what was there before
/// depend on it.
constexpr double kKinds = 45;
/// What was there before and is kept apart; more is forgotten from the first one on.
constexpr size_t kMostTables = 64;

uint32_t element_of(const Candidate& candidate) {
  return std::max(candidate.elements & (~candidate.elements + 1), 1u);
}

/// What is of both; without bytes if nothing is. Roots are in ascending order, and may be all ranks.
Candidate intersection(const Candidate& a, const Candidate& b) {
  Candidate both;
  if (a.collective != b.collective || a.algorithm != b.algorithm || a.protocol != b.protocol) {
    return both;
  }
  both.collective = a.collective;
  both.algorithm = a.algorithm;
  both.protocol = a.protocol;
  both.elements = a.elements;
  std::ranges::set_intersection(a.roots, b.roots, std::back_inserter(both.roots));
  if (both.roots.empty() == a.roots.empty()) both.bytes = a.bytes.intersected(b.bytes);
  return both;
}

Candidate candidate_of(const Operation& o) {
  Candidate c;
  c.collective = o.collective;
  c.algorithm = o.algorithm;
  c.protocol = o.protocol;
  c.elements = element_bytes(o.type);
  if (has_root(o.collective)) c.roots = {o.root};
  c.bytes.add(o.bytes(), o.bytes());
  return c;
}

bool alike_candidates(const Candidate& a, const Candidate& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.roots == b.roots && a.bytes == b.bytes;
}

Operation operation_of(const Candidate& c) {
  Operation o;
  o.collective = c.collective;
  o.algorithm = c.algorithm;
  o.protocol = c.protocol;
  o.root = c.roots.empty() ? 0 : c.roots.front();
  const uint64_t bytes = c.bytes.least();
  uint32_t element = (c.elements & 4) != 0 ? 4 : element_of(c);
  if (bytes % element != 0) element = element_of(c);
  o.type = element == 4 ? DataType::kFloat32 : type_of_bytes(element);
  o.count = bytes / element;
  return o;
}

/// The roundest size of an interval that is a multiple of `element`; nothing if none is.
std::optional<uint64_t> roundest(SizeSet::Interval i, uint32_t element) {
  i.most = std::min(i.most, kMostOperationBytes);
  for (uint64_t unit = kMostOperationBytes; unit >= element; unit /= 2) {
    const uint64_t size = i.most / unit * unit;
    if (size >= i.least && size > 0) return size;
  }
  return std::nullopt;
}

uint64_t explanations_of(const std::vector<Candidate>& candidates) {
  uint64_t all = 0;
  for (const Candidate& c : candidates) {
    if (c.bytes.most() == SizeSet::kUnbounded) return SizeSet::kUnbounded;
    const uint64_t roots = std::max<size_t>(c.roots.size(), 1);
    for (const SizeSet::Interval& i : c.bytes.intervals()) {
      all += (i.most / element_of(c) - (i.least - 1) / element_of(c)) * roots;
    }
  }
  return all;
}

}  // namespace

double size_weight(const SizeSet& sizes, uint32_t element) {
  double sum = 0;
  for (const SizeSet::Interval& i : sizes.intervals()) {
    const uint64_t most = std::min(i.most, kMostOperationBytes),
                   below = std::max<uint64_t>(i.least, 1) - 1;
    for (uint32_t bit = 0; bit <= kMostRound; ++bit) {
      const uint64_t unit = std::max<uint64_t>(uint64_t{1} << bit, element);
      const uint64_t multiples = most / unit - below / unit;
      sum += static_cast<double>(multiples);
    }
  }
  return sum / (kMostRound + 1) / static_cast<double>(uint64_t{1} << kMostRound);
}

Beliefs::Beliefs(uint32_t ranks, std::span<const Operation> named) : ranks_(ranks) {
  std::vector<Candidate> candidates;
  for (const Operation& o : named) {
    const Candidate c = candidate_of(o);
    const bool known =
        std::ranges::any_of(candidates, [&](const Candidate& k) { return alike_candidates(k, c); });
    if (!known) candidates.push_back(c);
  }
  if (!candidates.empty()) remember(candidates, 1);
}

/// If nothing is known.
double Beliefs::base(const Candidate& candidate) const {
  const double roots = candidate.roots.empty()
                           ? 1
                           : static_cast<double>(candidate.roots.size()) / std::max(ranks_, 1u);
  return size_weight(candidate.bytes, element_of(candidate)) * roots / kKinds;
}

double Beliefs::weight(const Candidate& candidate) const {
  double sum = base(candidate);
  for (const Table& table : tables_) {
    for (const Candidate& c : table.candidates) {
      const Candidate both = intersection(candidate, c);
      if (!both.bytes.empty()) sum += table.count * base(both) / table.weight;
    }
  }
  return sum;
}

void Beliefs::remember(const std::vector<Candidate>& candidates, double count) {
  for (Table& table : tables_) {
    if (std::ranges::equal(table.candidates, candidates, alike_candidates)) {
      table.count += count;
      return;
    }
  }
  Table table{candidates, 0, count};
  for (const Candidate& c : candidates) table.weight += base(c);
  if (table.weight <= 0) return;
  if (tables_.size() == kMostTables) tables_.erase(tables_.begin());
  tables_.push_back(std::move(table));
}

/// Single operations one of which is the likeliest, and another one the likeliest of the others.
std::vector<Candidate> Beliefs::contenders(const InferredOperation& said) const {
  std::vector<Candidate> all;
  const auto add = [&](const Candidate& candidate, const SizeSet& bytes) {
    for (const SizeSet::Interval& i : bytes.intervals()) {
      const auto first = roundest(i, element_of(candidate));
      if (!first) continue;
      Candidate one = candidate;
      if (one.roots.size() > 1) one.roots.erase(one.roots.begin() + 1, one.roots.end());
      one.bytes = SizeSet(*first, *first);
      all.push_back(one);
      if (candidate.roots.size() > 1) {
        one.roots = {candidate.roots[1]};
        all.push_back(one);
      }
      // The next ones on both sides.
      for (const SizeSet::Interval rest :
           {SizeSet::Interval{i.least, *first - 1}, SizeSet::Interval{*first + 1, i.most}}) {
        if (rest.least > rest.most || rest.least == 0) continue;
        if (const auto size = roundest(rest, element_of(candidate))) {
          one.bytes = SizeSet(*size, *size);
          all.push_back(one);
        }
      }
    }
  };
  for (const Candidate& candidate : said.candidates) {
    add(candidate, candidate.bytes);
    for (const Table& table : tables_) {
      for (const Candidate& c : table.candidates) {
        const Candidate both = intersection(candidate, c);
        add(both, both.bytes);
      }
    }
  }
  return all;
}

Operation Beliefs::likeliest(const InferredOperation& said) const {
  const Candidate* best = nullptr;
  double most = -1;
  const std::vector<Candidate> all = contenders(said);
  for (const Candidate& c : all) {
    if (const double w = weight(c); w > most) {
      most = w;
      best = &c;
    }
  }
  return operation_of(best != nullptr ? *best : said.candidates.front());
}

Belief Beliefs::judge(const PairInference::Found& found) {
  Belief belief;
  if (found.unique) return belief;
  double share = found.border_open ? 0.5 : 1;
  for (const PairInference::Found::Unknown& size : found.unknown) {
    const double own = size_weight({size.taken, size.taken}, 1);
    const double all = size_weight({size.least, size.most}, 1);
    const double before = size.known_elsewhere ? 1 : 0;
    share *= (own + before) / (all + before);
    const uint64_t sizes = size.most - size.least + 1;
    const bool many = belief.explanations > SizeSet::kUnbounded / sizes;
    belief.explanations = many ? SizeSet::kUnbounded : belief.explanations * sizes;
  }
  belief.confidence = std::min(share, kMostDoubted);
  if (found.border_open && belief.explanations != SizeSet::kUnbounded) ++belief.explanations;
  return belief;
}

Belief Beliefs::judge(const InferredOperation& said, const Operation& taken) {
  Belief belief;
  if (!said.unique()) {
    double all = 0;
    for (const Candidate& c : said.candidates) all += weight(c);
    const Candidate own = candidate_of(taken);
    const double share = all > 0 ? weight(own) / all : 0;
    belief.confidence = std::min(said.border_open ? share / 2 : share, kMostDoubted);
    belief.explanations = explanations_of(said.candidates);
    if (said.border_open && belief.explanations != SizeSet::kUnbounded) ++belief.explanations;
    double most = -1;
    for (const Candidate& c : contenders(said)) {
      if (alike_candidates(c, own)) continue;
      if (const double w = weight(c); w > most) {
        most = w;
        belief.other = operation_of(c);
      }
    }
  }
  remember(said.candidates, said.border_open ? 0.5 : 1);
  return belief;
}

}  // namespace understudy
