#include "tools/roce_check/between/two_ends.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using WayKey = std::tuple<IpAddress, IpAddress, Qpn>;
/// What stays the same on the way: all that the table knows of a packet but its stamps and marks.
using PacketKey =
    std::tuple<uint32_t, uint8_t, bool, uint8_t, uint32_t, uint32_t, uint64_t, uint32_t, uint32_t>;

PacketKey key_of(const PacketRecord& p) {
  return {p.psn.value(), p.opcode, p.ack_request, p.syndrome,     p.msn,
          p.dma_length,  p.va,     p.imm,         p.payload_bytes};
}

/// Packets of one way in one capture, in the order of the file.
using Packets = std::vector<const PacketRecord*>;

std::map<WayKey, Packets> ways_of(const PacketTable& table) {
  std::map<WayKey, Packets> out;
  for (const PacketRecord& p : table.packets) {
    const Flow& f = table.flows[p.flow];
    out[{f.src, f.dst, f.dest_qpn}].push_back(&p);
  }
  return out;
}

/// The same packet at both ends, as far as it was captured there.
struct Sightings {
  std::vector<const PacketRecord*> a, b;
};
using Way = std::map<PacketKey, Sightings>;

/// Least and most of the time from A's stamp to B's.
struct Span {
  Duration least = Duration::max();
  Duration most = Duration() - Duration::max();
  bool any = false;
  void add(Duration d) {
    least = std::min(least, d);
    most = std::max(most, d);
    any = true;
  }
};

class Comparison {
 public:
  Comparison(const PacketTable& a, const PacketTable& b) {
    for (const auto& [key, packets] : ways_of(a)) {
      for (const PacketRecord* p : packets) ways_[key][key_of(*p)].a.push_back(p);
    }
    for (const auto& [key, packets] : ways_of(b)) {
      for (const PacketRecord* p : packets) ways_[key][key_of(*p)].b.push_back(p);
    }
  }

  Between run() {
    find_ends();
    for (const auto& [key, way] : ways_) judge(key, way);
    return std::move(out_);
  }

 private:
  using Ends = std::pair<IpAddress, IpAddress>;  ///< source and destination

  /// Of two addresses that speak to each other, that one is at A's end whose packets have the later
  /// stamps in B, compared with those of the other.
  void find_ends() {
    std::map<Ends, Span> spans;
    for (const auto& [key, way] : ways_) {
      Span& span = spans[{std::get<0>(key), std::get<1>(key)}];
      for (const auto& [packet, seen] : way) {
        if (seen.a.size() != seen.b.size()) continue;  // some were lost: which?
        for (size_t i = 0; i < seen.a.size(); ++i) span.add(seen.b[i]->at - seen.a[i]->at);
      }
    }
    Span fastest;  // from A's end in `least`, to it in `most`
    for (const auto& [ends, span] : spans) {
      const auto back = spans.find({ends.second, ends.first});
      if (!span.any || back == spans.end() || !back->second.any) continue;
      const Duration other = back->second.most;
      at_a_[ends] = span.least > other || (span.least == other && ends.first < ends.second);
      if (!at_a_[ends]) continue;
      fastest.least = std::min(fastest.least, span.least);
      fastest.most = std::max(fastest.most, other);
      fastest.any = true;
    }
    if (fastest.any) out_.clock_ahead = (fastest.least + fastest.most) / 2;
  }

  void judge(const WayKey& key, const Way& way) {
    WayBetween result;
    Flow named;
    std::tie(named.src, named.dst, named.dest_qpn) = key;
    result.name = named.name();
    const auto at = at_a_.find({named.src, named.dst});
    if (at == at_a_.end() || !out_.clock_ahead) {  // nobody knows whose end this is
      ++out_.unjudged;
      return;
    }
    result.from_a = at->second;
    const Duration ahead = *out_.clock_ahead;
    std::vector<std::pair<const PacketRecord*, const PacketRecord*>> both;
    std::vector<Stamp> lost;
    for (const auto& [packet, seen] : way) {
      const auto& near = result.from_a ? seen.a : seen.b;
      const auto& far = result.from_a ? seen.b : seen.a;
      result.sent += near.size();
      // From the last one on: what came was the newest that can have come by then.
      size_t left = near.size();
      for (size_t j = far.size(); j-- > 0;) {
        const auto corrected = [&](const PacketRecord* p, bool of_a) {
          return of_a ? p->at : p->at - ahead;
        };
        size_t i = left;
        while (i > 0 && i > j + 1 &&
               corrected(near[i - 1], result.from_a) > corrected(far[j], !result.from_a)) {
          lost.push_back(near[--i]->stamp());
        }
        if (i == 0) {
          ++result.unseen;
          left = 0;
          continue;
        }
        both.emplace_back(near[i - 1], far[j]);
        result.delay.add(corrected(far[j], !result.from_a) - corrected(near[i - 1], result.from_a));
        left = i - 1;
      }
      while (left > 0) lost.push_back(near[--left]->stamp());
    }
    result.came = both.size();
    result.lost = lost.size();
    std::ranges::sort(lost, {}, &Stamp::frame);
    if (lost.size() > kShownLosses) lost.resize(kShownLosses);
    result.first_lost = std::move(lost);
    std::ranges::sort(both, {}, [](const auto& pair) { return pair.first->frame; });
    uint64_t newest = 0;
    for (const auto& [near, far] : both) {
      result.overtaken += far->frame < newest ? 1 : 0;
      newest = std::max(newest, far->frame);
    }
    out_.ways.push_back(std::move(result));
  }

  std::map<WayKey, Way> ways_;
  std::map<Ends, bool> at_a_;  ///< whether the source is at A's end
  Between out_;
};

}  // namespace

uint64_t Between::lost() const {
  uint64_t sum = 0;
  for (const WayBetween& way : ways) sum += way.lost;
  return sum;
}

Between compare_ends(const Analysis& a, const Analysis& b) {
  Between out = Comparison(a.table, b.table).run();
  // Stamps are since the second in which each capture begins.
  if (out.clock_ahead) {
    *out.clock_ahead += Duration::s(b.source.first_second - a.source.first_second);
  }
  return out;
}

std::string between_text(const Between& between, const std::string& a, const std::string& b) {
  std::string out = "between " + a + " and " + b + '\n';
  if (!between.clock_ahead) {
    return out + "  not judged: no packets both ways that both captures have\n";
  }
  out += format_text("  clocks           the second is %.3f us ahead, if both ways take as long\n",
                     between.clock_ahead->microseconds());
  for (const WayBetween& way : between.ways) {
    out += format_text(
        "  %s, sent at the %s end: %llu packets, %llu came, %llu lost", way.name.c_str(),
        way.from_a ? "first" : "second", static_cast<unsigned long long>(way.sent),
        static_cast<unsigned long long>(way.came), static_cast<unsigned long long>(way.lost));
    if (way.overtaken != 0) {
      out += format_text(", %llu overtaken", static_cast<unsigned long long>(way.overtaken));
    }
    if (way.unseen != 0) {
      out += format_text(", %llu came that the sender's end has not captured",
                         static_cast<unsigned long long>(way.unseen));
    }
    if (way.delay.count() != 0) {
      out += format_text("; %.3f us in the median, %.3f us at most",
                         way.delay.quantile(500).microseconds(),
                         way.delay.quantile(1000).microseconds());
    }
    out += '\n';
    for (const Stamp& stamp : way.first_lost) {
      out += format_text("      lost: frame %llu at %.9f s\n",
                         static_cast<unsigned long long>(stamp.frame), stamp.at.seconds());
    }
    if (way.lost > way.first_lost.size()) out += "      ...\n";
  }
  if (between.unjudged != 0) {
    out += "  not judged: " + std::to_string(between.unjudged) +
           " queue pairs whose two ends these captures do not have\n";
  }
  return out;
}

}  // namespace understudy
