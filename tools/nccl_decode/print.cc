#include "tools/nccl_decode/print.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dataplane/base/text_format.h"

namespace understudy::nccl_decode {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(uint64_t value) {
  return format_text("0x%llx", static_cast<unsigned long long>(value));
}

/// `name value, name value`, broken into lines.
std::string fields_text(const Fields& fields) {
  constexpr size_t kColumns = 110;
  const std::string indent = "        ";
  std::string out, line;
  for (size_t i = 0; i < fields.size(); ++i) {
    std::string part = fields[i].name + " " + fields[i].value;
    if (i + 1 < fields.size()) part += ",";
    if (!line.empty() && line.size() + part.size() > kColumns) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + part;
  }
  return line.empty() ? out : out + indent + line + "\n";
}

std::string side_end(const TcpSide& side, const char* who) {
  if (!side.finished && !side.reset) return "";
  return format_text("    %12.6f  packet %llu  %s %s\n", side.ended.at.seconds(),
                     static_cast<unsigned long long>(side.ended.packet), who,
                     side.reset && !side.finished ? "resets" : "closes");
}

Json fields_json(const Fields& fields) {
  Json out = Json::object();
  for (const Field& field : fields) out[field.name] = field.value;
  return out;
}

Json side_json(const TcpSide& side) {
  Json out = {{"bytes", side.bytes.size()}, {"closed", side.finished}, {"reset", side.reset}};
  if (side.missing > 0) {
    out["missing"] = side.missing;
    out["behind_missing"] = side.behind;
  }
  return out;
}

}  // namespace

std::string text_of(const std::string& path, const Capture& capture, const Exchange& exchange) {
  const auto others = std::count_if(exchange.streams.begin(), exchange.streams.end(),
                                    [](const Stream& s) { return s.kind == StreamKind::kOther; });
  std::string out = path + ": " + std::to_string(capture.packets) + " packets, " +
                    std::to_string(exchange.streams.size() - static_cast<size_t>(others)) +
                    " connections of NCCL, " + std::to_string(others) + " others\n";
  if (capture.truncated) out += "the file ends within a packet\n";
  if (capture.cut > 0) {
    out += std::to_string(capture.cut) +
           " packets were cut by the capture (tcpdump -s 0 keeps them whole)\n";
  }
  if (exchange.release) {
    out += "NCCL " + exchange.release->text() + ", by " + exchange.release_from + "\n";
  }
  for (const Communicator& comm : exchange.communicators) {
    out += "communicator " + hex(comm.magic);
    if (comm.ranks > 0) out += ": " + std::to_string(comm.ranks) + " ranks";
    out += "\n";
  }
  for (size_t i = 0; i < exchange.streams.size(); ++i) {
    const Stream& stream = exchange.streams[i];
    if (stream.kind == StreamKind::kOther) continue;
    out += "\n" + std::to_string(i + 1) + "  " + stream.connection.opener.text() + " > " +
           stream.connection.taker.text() + "  " +
           (stream.about.empty() ? stream_kind_name(stream.kind) : stream.about) + "\n";
    for (const Message& message : stream.messages) {
      out += format_text("    %12.6f  packet %llu  ", message.at.seconds(),
                         static_cast<unsigned long long>(message.packet)) +
             (message.from_opener ? "> " : "< ") + message.what + "\n" +
             fields_text(message.fields);
    }
    out += side_end(stream.connection.sides[0], ">") + side_end(stream.connection.sides[1], "<");
  }
  if (!exchange.open_ends.empty()) {
    out += "\nnot complete:\n";
    for (const std::string& end : exchange.open_ends) out += "    " + end + "\n";
  }
  return out;
}

std::string json_of(const std::string& path, const Capture& capture, const Exchange& exchange) {
  Json out = {{"schema", "understudy-nccl-decode/1"},
              {"capture", path},
              {"packets", capture.packets},
              {"cut_packets", capture.cut},
              {"truncated", capture.truncated}};
  if (exchange.release) {
    out["nccl"] = exchange.release->text();
    out["nccl_from"] = exchange.release_from;
  }
  out["communicators"] = Json::array();
  for (const Communicator& comm : exchange.communicators) {
    Json entry = {{"magic", hex(comm.magic)}, {"checked_in", comm.checked_in}};
    if (comm.ranks > 0) entry["ranks"] = comm.ranks;
    out["communicators"].push_back(std::move(entry));
  }
  out["connections"] = Json::array();
  for (size_t i = 0; i < exchange.streams.size(); ++i) {
    const Stream& stream = exchange.streams[i];
    Json entry = {{"number", i + 1},
                  {"kind", stream_kind_name(stream.kind)},
                  {"opener", stream.connection.opener.text()},
                  {"taker", stream.connection.taker.text()},
                  {"time_ps", stream.connection.at.ps()},
                  {"packet", stream.connection.packet}};
    if (!stream.about.empty()) entry["about"] = stream.about;
    if (stream.magic) entry["magic"] = hex(*stream.magic);
    if (stream.opener_rank) entry["opener_rank"] = *stream.opener_rank;
    if (stream.taker_rank) entry["taker_rank"] = *stream.taker_rank;
    if (stream.tag) entry["tag"] = *stream.tag;
    entry["opener_side"] = side_json(stream.connection.sides[0]);
    entry["taker_side"] = side_json(stream.connection.sides[1]);
    entry["messages"] = Json::array();
    for (const Message& message : stream.messages) {
      entry["messages"].push_back({{"from", message.from_opener ? "opener" : "taker"},
                                   {"packet", message.packet},
                                   {"time_ps", message.at.ps()},
                                   {"bytes", message.end - message.begin},
                                   {"whole", message.whole},
                                   {"what", message.what},
                                   {"fields", fields_json(message.fields)}});
    }
    out["connections"].push_back(std::move(entry));
  }
  out["not_complete"] = exchange.open_ends;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace understudy::nccl_decode
