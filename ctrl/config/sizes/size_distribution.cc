#include "ctrl/config/sizes/size_distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

constexpr size_t kMostPoints = 100'000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == ','; }

/// The next cell, which is taken off `line`; empty: there is none.
std::string_view take_cell(std::string_view& line) {
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  size_t end = 0;
  while (end < line.size() && !is_blank(line[end])) ++end;
  const std::string_view cell = line.substr(0, end);
  line.remove_prefix(end);
  return cell;
}

bool begins_with_letter(std::string_view line) {
  const std::string_view cell = take_cell(line);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !cell.empty() && is_letter(cell.front());
}

class SizesParser {
 public:
  tl::expected<std::vector<SizePoint>, SizesError> run(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      if (!read(text.substr(0, end))) return tl::unexpected(error_);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    line_ = 0;
    if (!scale()) return tl::unexpected(error_);
    return std::move(points_);
  }

 private:
  bool wrong(std::string_view found, std::string allowed) {
    error_ = {line_, found.empty() ? "nothing" : "\"" + std::string(found) + "\"",
              std::move(allowed)};
    return false;
  }

  bool read(std::string_view line) {
    const std::string_view whole = line;
    const std::string_view bytes = take_cell(line), share = take_cell(line);
    if (bytes.empty() || bytes.front() == '#') return true;
    if (points_.empty() && begins_with_letter(whole)) return true;
    if (share.empty() || !take_cell(line).empty()) {
      return wrong(whole, "expected two cells: bytes, and the share of flows that are no larger");
    }
    SizePoint point;
    const auto size = parse_bytes(bytes);
    if (!size) return wrong(bytes, size.error().text);
    point.bytes = static_cast<double>(*size);
    const char* end = share.data() + share.size();
    const auto [rest, failed] = std::from_chars(share.data(), end, point.share);
    if (failed != std::errc() || rest != end || !(point.share >= 0)) {
      return wrong(share, "expected a share, as in 0.25, or in per cent");
    }
    if (!points_.empty() && point.bytes < points_.back().bytes) {
      return wrong(bytes, "sizes do not fall from line to line");
    }
    if (!points_.empty() && point.share < points_.back().share) {
      return wrong(share, "shares do not fall from line to line");
    }
    if (points_.size() == kMostPoints) return wrong(whole, "at most 100000 points");
    points_.push_back(point);
    return true;
  }

  bool scale() {
    if (points_.empty()) return wrong("", "expected one point a line: bytes, share");
    const double last = points_.back().share;
    if (last != 1 && last != 100) {
      return wrong("", "the last share must be 1, or 100 where shares are per cent");
    }
    for (SizePoint& point : points_) point.share /= last;
    if (points_.back().bytes < 1) return wrong("", "the last size must be at least 1 byte");
    return true;
  }

  unsigned line_ = 0;
  std::vector<SizePoint> points_;
  SizesError error_;
};

}  // namespace

double SizeDistribution::mean() const {
  double sum = points.front().bytes * points.front().share;
  for (size_t i = 1; i < points.size(); ++i) {
    const SizePoint &a = points[i - 1], &b = points[i];
    sum += (b.share - a.share) * (a.bytes + b.bytes) / 2;
  }
  return sum;
}

uint64_t SizeDistribution::at(double u) const {
  const auto above = std::ranges::upper_bound(points, u, {}, &SizePoint::share);
  if (above == points.end()) return static_cast<uint64_t>(points.back().bytes);
  double bytes = above->bytes;
  if (above != points.begin()) {
    const SizePoint& below = *(above - 1);
    bytes = below.bytes +
            (above->bytes - below.bytes) * ((u - below.share) / (above->share - below.share));
  }
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(bytes)));
}

tl::expected<std::vector<SizePoint>, SizesError> parse_sizes(std::string_view text) {
  return SizesParser().run(text);
}

}  // namespace understudy
