// The times of a chain's diagonals, by node: a row each. A row is made of parts: of its own lines
// (node_times.h), or of another row's, all as much later. In a steady state a row is what the row a
// window before it is, later by what a window takes there, over all nodes that no change has
// reached, however irregular they are: it shares that row's lines, which stay as long as any row
// has them.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/plan/node_times.h"
#include "dataplane/base/units.h"

namespace understudy {

class RowTimes {
 public:
  static constexpr Duration kNoRise = Duration::ps(INT64_MIN);
  struct Part {
    uint32_t begin = 0;  ///< node
    uint32_t sheet = 0;  ///< of which row's lines
    Duration later;      ///< than they
    /// What is known to be the same in all its slots: how much later than the row a window before
    /// it, of messages of the same size. Or kNoRise.
    Duration rise = kNoRise;
  };
  struct Row {
    BlockList<Part> parts;  ///< none: all is its own
    uint32_t sheet = 0;     ///< its own
    bool related = false;   ///< some part has a rise
  };
  /// Goes along a row, or a few nodes ahead of what is asked.
  struct Cursor {
    uint32_t part = 0, last_part = 0, part_end = 0;
    uint32_t piece = 0, last = 0;
    uint32_t slot = 0, ahead = 0;
    uint32_t end = 0;  ///< of the row
    Duration later;
    Time now;        ///< at the node last asked for
    Duration slope;  ///< from there on
  };

  RowTimes() = default;
  /// `slots`: times of a node; for how many rows, pieces of their lines and parts there is room.
  RowTimes(uint32_t slots, size_t rows, size_t pieces, size_t parts);
  /// Forgets all rows.
  void reset();
  /// Begins a row with a slot of a node.
  void create(Row& row, uint32_t node, uint32_t slot);
  void release(Row& row);

  Time at(const Row& row, uint32_t slot, uint32_t node) const {
    if (row.parts.count() == 0) return lines(row.sheet, slot).at(pieces_, node);
    const Part& part = parts_[row.parts.find(parts_, node)];
    return lines(part.sheet, slot).at(pieces_, node) + part.later;
  }
  /// The next node's, which is in no part yet or in the last one.
  void push(const Row& row, uint32_t slot, Time t) { lines(row.sheet, slot).push(pieces_, t); }
  /// What has been pushed from a node on is a part, or belongs to the last one.
  void own(Row& row, uint32_t node, Duration rise = kNoRise) {
    if (row.parts.count() != 0 || rise != kNoRise) add(row, {node, row.sheet, {}, rise});
  }
  /// Before pushes from a node on: where others' lines were before it.
  void skip_to(const Row& row, uint32_t node) {
    if (row.parts.count() == 0 || parts_[row.parts.last()].sheet == row.sheet) return;
    for (uint32_t s = 0; s < slots_; ++s) lines(row.sheet, s).skip_to(node);
  }
  /// From a node on as the part of another row that holds it, later by `rise`.
  void share(Row& row, uint32_t node, const Part& part, Duration rise) {
    add(row, {node, part.sheet, part.later + rise, rise});
  }

  const Part& part(uint32_t place) const { return parts_[place]; }
  uint32_t part_at(const Row& row, uint32_t node) const { return row.parts.find(parts_, node); }
  uint32_t part_end(const Row& row, uint32_t place, uint32_t end) const {
    return place == row.parts.last() ? end : parts_[place + 1].begin;
  }

  NodeTimes& lines(uint32_t sheet, uint32_t slot) { return lines_[sheet * slots_ + slot]; }
  const NodeTimes& lines(uint32_t sheet, uint32_t slot) const {
    return lines_[sheet * slots_ + slot];
  }
  PieceStore& pieces() { return pieces_; }

  void read(Cursor& c, const Row& row, uint32_t slot, uint32_t node, uint32_t ahead,
            uint32_t end) const {
    if (row.parts.count() == 0) {
      read(c, lines(row.sheet, slot), node + ahead, end);
      c.ahead = ahead;
      return;
    }
    c.part = row.parts.find(parts_, node + ahead);
    c.last_part = row.parts.last();
    c.slot = slot;
    c.ahead = ahead;
    c.end = end;
    enter(c, node + ahead);
  }
  /// Of lines that are not a row's, or in no part yet.
  void read(Cursor& c, const NodeTimes& lines, uint32_t node, uint32_t end) const {
    c.ahead = 0;
    c.later = {};
    c.piece = lines.piece(pieces_, node);
    c.last = lines.last_piece();
    c.end = c.part_end = end;
  }
  /// The times at a node; gives up to which one they are on one line.
  uint32_t until(Cursor& c, uint32_t node) const {
    node += c.ahead;
    while (node >= c.part_end) {
      ++c.part;
      enter(c, node);
    }
    while (c.piece != c.last && pieces_[c.piece + 1].begin <= node) ++c.piece;
    const LinePiece& piece = pieces_[c.piece];
    c.now = piece.at(node) + c.later;
    c.slope = piece.slope;
    return (c.piece == c.last ? c.part_end : std::min(c.part_end, pieces_[c.piece + 1].begin)) -
           c.ahead;
  }

 private:
  void enter(Cursor& c, uint32_t node) const {
    const Part& part = parts_[c.part];
    const NodeTimes& times = lines(part.sheet, c.slot);
    c.piece = times.piece(pieces_, node);
    c.last = times.last_piece();
    c.later = part.later;
    c.part_end = c.part == c.last_part ? c.end : parts_[c.part + 1].begin;
  }
  void add(Row& row, const Part& part);
  void drop(uint32_t sheet);

  uint32_t slots_ = 1;
  PieceStore pieces_;
  BlockStore<Part> parts_;
  std::vector<NodeTimes> lines_;  ///< by sheet and slot
  std::vector<uint32_t> users_;   ///< of each sheet: its row and others' parts
  std::vector<uint32_t> free_;    ///< sheets
};

}  // namespace understudy
