// [[traffic]] and its files of flows: what is read, and what is refused with file and line.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kNodes[] =
    "format = 1\n"
    "[[control]]\nname = \"cc\"\nlaw = \"dcqcn\"\n"
    "[[control]]\nname = \"other\"\nlaw = \"dctcp\"\n"
    "[[node]]\nname = \"w\"\ncount = 4\nnics = 2\n"
    "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
    "[[node]]\nname = \"solo\"\nlink = { rate = \"unlimited\", latency = \"1us\" }\n";

/// The configuration with these tables; files are taken from `files`.
ConfigResult load(const std::string& tables, const std::map<std::string, std::string>& files = {}) {
  const FileReader reader = [files](const std::string& path,
                                    size_t) -> tl::expected<std::string, ConfigError> {
    const auto file = files.find(path);
    if (file == files.end()) {
      return tl::unexpected(ConfigError{path, 0, "", "", "cannot open"});
    }
    return file->second;
  };
  return load_config_text(kNodes + tables, "dir/f.toml", reader);
}

TrafficConfig traffic(const std::string& keys) {
  const ConfigResult result = load("[[traffic]]\n" + keys);
  if (!result) {
    ADD_FAILURE() << describe(result.error());
    return {};
  }
  return result->traffic.at(0);
}

/// The one error of these keys, which must stand in the line that holds "#!"; without file and
/// line.
std::string error_of(const std::string& keys) {
  const bool whole = keys.starts_with("#!");  // the table itself is at fault
  std::string tables = whole ? "[[traffic]] " : "[[traffic]]\n";
  tables += keys;
  const ConfigResult result = load(tables);
  if (result || result.error().size() != 1) {
    return result ? "no error" : describe(result.error());
  }
  const std::string text = kNodes + tables;
  const auto mark = text.begin() + static_cast<std::ptrdiff_t>(text.find("#!"));
  EXPECT_EQ(result.error()[0].line, std::count(text.begin(), mark, '\n') + 1) << text;
  const std::string line = result.error()[0].text();
  return line.substr(line.find(' ') + 1);
}

TEST(ConfigTraffic, EveryKey) {
  TrafficConfig t = traffic(
      "name = \"burst\"\npattern = \"on_off\"\nfrom = [\"w0\", \"w2\"]\nto = \"w1\"\nnic = 1\n"
      "size = \"2MB\"\nat = \"1ms\"\nstagger = \"3us\"\noff = \"5us\"\nuntil = \"20ms\"\n"
      "priority = 3\ncontrol = \"other\"\n");
  EXPECT_EQ(t.name, "burst");
  EXPECT_EQ(t.pattern, TrafficPattern::kOnOff);
  EXPECT_EQ(t.from, (std::vector<NodeId>{0, 2}));
  EXPECT_EQ(t.to, (std::vector<NodeId>{1}));
  EXPECT_EQ(t.nic, 1u);
  EXPECT_EQ(t.bytes, 2'000'000u);
  EXPECT_EQ(t.at, Duration::ms(1));
  EXPECT_EQ(t.stagger, Duration::us(3));
  EXPECT_EQ(t.off, Duration::us(5));
  EXPECT_EQ(t.until, Duration::ms(20));
  EXPECT_EQ(t.priority, 3);
  EXPECT_EQ(t.control, 1u);
  t = traffic(
      "pattern = \"ring\"\nfrom = \"w*\"\nsize = \"1KiB\"\nsteps = 6\nchannels = 2\nrepeat = 9\n");
  EXPECT_EQ(t.name, "traffic 1");
  EXPECT_EQ(t.from, (std::vector<NodeId>{0, 1, 2, 3}));
  EXPECT_EQ(t.steps, 6u);
  EXPECT_EQ(t.channels, 2u);
  EXPECT_EQ(t.repeat, 9u);
  EXPECT_EQ(t.control, kNoControl);
  EXPECT_EQ(t.priority, 0);
  t = traffic("pattern = \"tree\"\nfrom = \"w*\"\nsize = \"1KiB\"\nchunks = 7\nchannels = 3\n");
  EXPECT_EQ(t.pattern, TrafficPattern::kTree);
  EXPECT_EQ(t.chunks, 7u);
  EXPECT_EQ(t.channels, 3u);
  t = traffic("pattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"1KiB\"\nconcurrent = 2\n");
  EXPECT_EQ(t.concurrent, 2u);
}

TEST(ConfigTraffic, Bursts) {
  TrafficConfig t = traffic(
      "pattern = \"on_off\"\nfrom = \"w0\"\nto = \"w1\"\non = \"8us\"\noff = \"2us\"\nat = "
      "\"5us\"\n"
      "until = \"25us\"\n");
  Bursts bursts = bursts_of(t, Rate::bits_per_second(10'000'000'000));
  EXPECT_EQ(bursts.bytes, 10'000u);
  EXPECT_EQ(bursts.period, Duration::us(10));
  EXPECT_EQ(bursts.count, 2u);  // at 5 and 15 us; the one at 25 us is too late
  t.until = Duration::ps(25'000'001);
  EXPECT_EQ(bursts_of(t, Rate::bits_per_second(10'000'000'000)).count, 3u);
}

TEST(ConfigTraffic, Fidelity) {
  EXPECT_EQ(load("")->fabric.fidelity, FabricFidelity::kPacket);
  EXPECT_EQ(load("[fabric]\nfidelity = \"flow\"\n")->fabric.fidelity, FabricFidelity::kFlow);
  EXPECT_FALSE(load("[fabric]\nfidelity = \"flows\"\n"));
}

TEST(ConfigTraffic, Refused) {
  const std::string ends = "from = \"w0\"\nto = \"w1\"\nsize = \"1KB\"\n";
  const std::string flow = "pattern = \"flow\"\n" + ends;
  const std::string ring = "pattern = \"ring\"\nfrom = \"w*\"\nsize = \"1KB\"\n";
  const std::string poisson =
      "pattern = \"poisson\"\nfrom = \"w0\"\nto = \"w1\"\nsizes = \"web-search\"\n";
  const std::string lonely = "pattern = \"poisson\"\nfrom = \"w0\"\nsizes = \"web-search\"\n";
  const std::string tree = "pattern = \"tree\"\nfrom = \"w*\"\nsize = \"1KB\"\n";
  const struct {
    std::string keys;
    const char* error;
  } cases[] = {
      {"pattern = \"flaw\" #!\n", "traffic.pattern: found \"flaw\" (did you mean \"flow\"?)"},
      {"pattern = \"flow\"\nfrom = \"w0\"\nto = \"w0\" #!\nsize = \"1KB\"\n",
       "a flow to itself: this node is the sender too"},
      {"pattern = \"incast\"\nfrom = \"w*\"\nto = \"w2\" #!\nsize = \"1KB\"\n",
       "found \"w2\": a flow to itself"},
      {"pattern = \"incast\"\nfrom = \"w0\"\nto = [\"w1\", \"w2\"] #!\nsize = \"1KB\"\n",
       "found 2 nodes: an incast has one receiver"},
      {"pattern = \"flow\"\nfrom = \"w0\"\nto = [\"w1\", \"w2\"] #!\nsize = \"1KB\"\n",
       "found 2 nodes: expected one node, or as many as from: 1"},
      {"pattern = \"flow\"\nfrom = \"w9\" #!\nto = \"w1\"\nsize = \"1KB\"\n",
       "traffic.from: found \"w9\""},
      {"pattern = \"flow\"\nfrom = \"x*\" #!\nto = \"w1\"\nsize = \"1KB\"\n",
       "there is no [[node]] of this name"},
      {"pattern = \"flow\"\nfrom = 7 #!\nto = \"w1\"\nsize = \"1KB\"\n",
       "found 7: expected a text in quotes, or an array of texts"},
      {"pattern = \"flow\"\nfrom = [] #!\nto = \"w1\"\nsize = \"1KB\"\n", "an empty array"},
      {"pattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"0B\" #!\n",
       "a flow has at least one byte"},
      {"pattern = \"flow\"\nfrom = \"w0\"\nto = \"solo\"\nsize = \"1B\"\nnic = 1 #!\n",
       "found 1: node solo has 1 NIC(s)"},
      {"pattern = \"ring\"\nfrom = \"w0\" #!\nsize = \"1KB\"\n",
       "a flow to itself: expected at least"},
      {"pattern = \"ring\"\nfrom = [\"w*\", \"w1\"] #!\nsize = \"1KB\"\n", "node w1 twice"},
      {ring + "to = \"w1\" #!\n", "belongs to these patterns only: flow, incast, on_off"},
      {flow + "steps = 2 #!\n", "traffic.steps: found 2: belongs to these patterns only: ring"},
      {ring + "chunks = 2 #!\n", "traffic.chunks: found 2: belongs to these patterns only: tree"},
      {flow + "channels = 2 #!\n", "belongs to these patterns only: ring, tree"},
      {"pattern = \"tree\"\nfrom = \"w1\" #!\nsize = \"1KB\"\n",
       "a flow to itself: expected at least two nodes"},
      {tree + "to = \"w1\" #!\n", "belongs to these patterns only: flow, incast, on_off"},
      {tree + "steps = 2 #!\n", "belongs to these patterns only: ring"},
      {tree + "chunks = 0 #!\n", "traffic.chunks: found 0"},
      {"#!\n" + tree + "chunks = 1000000\nrepeat = 1000000\n",
       "all [[traffic]] together may have at most 16777216"},
      {flow + "concurrent = 2 #!\n", "belongs to these patterns only: all_to_all"},
      {flow + "on = \"1us\" #!\n", "belongs to these patterns only: on_off"},
      {flow + "until = \"1us\" #!\n", "belongs to these patterns only: on_off"},
      {flow + "file = \"x\" #!\n", "belongs to these patterns only: file"},
      {flow + "priority = 8 #!\n", "from 0 to 7"},
      {flow + "control = \"c\" #!\n", "there is no [[control]] of this name"},
      {"pattern = \"on_off\"\n" + ends + "repeat = 2\nuntil = \"1ms\" #!\n",
       "the end is given by repeat or by until"},
      {"pattern = \"on_off\"\n" + ends + "at = \"1ms\"\nuntil = \"1ms\" #!\n",
       "expected a time after at"},
      {"pattern = \"on_off\"\nfrom = \"w0\"\nto = \"w1\"\non = \"0us\" #!\n",
       "a burst takes some time"},
      {"pattern = \"on_off\"\nfrom = \"solo\" #!\nto = \"w1\"\nsize = \"1KB\"\n",
       "this node's link is unlimited"},
      {flow + "load = 0.5 #!\n", "belongs to these patterns only: poisson"},
      {poisson + "load = 0.5\nflows = 1\nsize = \"1B\" #!\n", "all but file and poisson"},
      {poisson + "load = 0.5\nflows = 1\nrepeat = 2 #!\n", "all but file and poisson"},
      {poisson + "load = 0 #!\nflows = 1\n", "expected a share above 0 and at most 1"},
      {poisson + "load = 1.01 #!\nflows = 1\n", "expected a share above 0 and at most 1"},
      {poisson + "load = 0.5\nflows = 1\nuntil = \"1ms\" #!\n",
       "the end is given by flows or by until"},
      {"#!\n" + poisson + "load = 0.5\n",
       "expected the time from which on no flow starts; or flows"},
      {"#!\n" + poisson + "load = 0.5\nuntil = \"80000s\"\n", "may have at most 16777216"},
      {"#!\n" + poisson + "load = 0.00000001\nflows = 10000000\n",
       "at, flows, load and the sizes together lead there"},
      {lonely + "to = \"w0\" #!\nload = 0.5\nflows = 1\n", "it has nobody else to send to"},
      {lonely + "to = [\"w1\", \"w1\"] #!\nload = 0.5\nflows = 1\n", "each node takes part once"},
      {"pattern = \"poisson\"\nfrom = \"solo\" #!\nto = \"w1\"\nsizes = \"web-search\"\n"
       "load = 0.5\nflows = 1\n",
       "this node's link is unlimited: there is no share of it"},
      {"pattern = \"poisson\"\nfrom = \"w*\"\nsizes = \"web-serch\" #!\nload = 0.5\nflows = 1\n",
       "did you mean \"web-search\""},
      {"pattern = \"poisson\"\nfrom = \"w*\"\nsizes = \"x.csv\" #!\nload = 0.5\nflows = 1\n",
       "dir/x.csv: cannot open"},
      {"pattern = \"file\"\nfile = \"x.csv\" #!\n", "dir/x.csv: cannot open"},
      {"pattern = \"file\"\nsize = \"1B\" #!\nfile = \"x.csv\"\n", "all but file"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of(c.keys);
    // A file that is not there is reported beside what else is wrong with its table.
    EXPECT_NE(error.find(c.error), std::string::npos) << c.keys << error;
  }
  EXPECT_NE(error_of("#!\n").find("the key is missing"), std::string::npos);
}

TEST(ConfigTraffic, Poisson) {
  const std::string keys =
      "[[traffic]]\npattern = \"poisson\"\nfrom = [\"w0\", \"w2\"]\nload = 0.25\n"
      "sizes = \"sizes.csv\"\n";
  const std::map<std::string, std::string> files = {
      {"dir/sizes.csv", "bytes,probability\n0,0\n2KB,1\n"}};
  ConfigResult result = load(keys + "until = \"3ms\"\n", files);
  ASSERT_TRUE(result) << describe(result.error());
  const TrafficConfig& t = result->traffic.at(0);
  EXPECT_EQ(t.pattern, TrafficPattern::kPoisson);
  EXPECT_EQ(t.to, t.from);
  EXPECT_EQ(t.load, 0.25);
  EXPECT_EQ(t.sizes.name, "sizes.csv");
  EXPECT_EQ(t.sizes.mean(), 1000);
  EXPECT_EQ(t.until, Duration::ms(3));
  EXPECT_TRUE(t.slowdown);
  // A quarter of 10 Gbit/s in flows of 1000 bytes.
  EXPECT_DOUBLE_EQ(poisson_rate(t, Rate::bits_per_second(10'000'000'000)), 312'500);
  result = load(keys + "flows = 70\nslowdown = false\nto = \"w1\"\n", files);
  ASSERT_TRUE(result) << describe(result.error());
  EXPECT_EQ(result->traffic.at(0).count, 70u);
  EXPECT_EQ(result->traffic.at(0).to, (std::vector<NodeId>{1}));
  EXPECT_FALSE(result->traffic.at(0).slowdown);
  EXPECT_FALSE(traffic("pattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1B\"\n").slowdown);
  result = load(keys + "flows = 70\n", {{"dir/sizes.csv", "0,0\n5,0.5\n3,1\n"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(describe(result.error()),
            "dir/sizes.csv:3: found \"3\": sizes do not fall from line to line\n");
}

TEST(ConfigTraffic, MissingKeys) {
  for (const char* key : {"from", "to", "size"}) {
    std::string keys = "pattern = \"flow\"\n";
    for (const auto& [name, value] : std::map<std::string, std::string>{
             {"from", "\"w0\""}, {"to", "\"w1\""}, {"size", "\"1B\""}}) {
      if (name != key) keys += name + " = " + value + "\n";
    }
    const ConfigResult result = load("[[traffic]]\n" + keys);
    ASSERT_FALSE(result);
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
    EXPECT_EQ(result.error()[0].key, std::string("traffic.") + key);
  }
}

TEST(ConfigTraffic, TooMany) {
  const std::string ring = "#!\npattern = \"ring\"\nfrom = \"w*\"\nsize = \"1KB\"\n";
  EXPECT_EQ(error_of(ring + "steps = 1000000\nchannels = 64\nrepeat = 1000000\n").substr(0, 24),
            "traffic.pattern: found 6");
  EXPECT_TRUE(load("[[traffic]]\n" + ring + "steps = 1000000\nrepeat = 4\n"));
  // Two tables that are small enough, but not together.
  const ConfigResult both = load("[[traffic]]\n" + ring + "steps = 1000000\nrepeat = 4\n" +
                                 "[[traffic]]\n" + ring + "steps = 1000000\n");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error()[0].key, "traffic.pattern");
  EXPECT_NE(error_of("#!\npattern = \"flow\"\nfrom = \"w0\"\nto = \"w1\"\nsize = \"1B\"\n"
                     "off = \"1000s\"\nrepeat = 1000\n")
                .find("starts after more than 86400s"),
            std::string::npos);
}

constexpr char kFileTable[] = "[[traffic]]\npattern = \"file\"\nfile = \"flows.csv\"\n";

TEST(ConfigTraffic, FilesHaveBareBytes) {
  const ConfigResult result =
      load(kFileTable, {{"dir/flows.csv", "id,from,to,bytes\na,w0,w1,1000\nb,w0,w1,1000B\n"}});
  ASSERT_TRUE(result) << describe(result.error());
  EXPECT_EQ(result->traffic.at(0).flows[0].bytes, 1000u);
  EXPECT_EQ(result->traffic.at(0).flows[1].bytes, 1000u);
  for (const char* bytes : {"1000 X", "-1", "1.5", "", "99999999999999999999999999"}) {
    EXPECT_FALSE(load(
        kFileTable, {{"dir/flows.csv", std::string("id,from,to,bytes\na,w0,w1,") + bytes + "\n"}}))
        << bytes;
  }
}

TEST(ConfigTraffic, ErrorsOfAFileAreCapped) {
  std::string text = "id,from,to,bytes\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + ",w0,w1,x\n";
  const ConfigResult result =
      load(kFileTable + std::string("nic = 99 \n"), {{"dir/flows.csv", text}});
  ASSERT_FALSE(result);
  ASSERT_EQ(result.error().size(), 12u) << describe(result.error());
  EXPECT_EQ(result.error()[0].file, "dir/f.toml");  // its own are all there
  for (unsigned i = 1; i <= 10; ++i) EXPECT_EQ(result.error()[i].line, i + 1);
  EXPECT_EQ(result.error()[11].text(), "dir/flows.csv: and 990 more errors");
  const ConfigResult eleven =
      load(kFileTable, {{"dir/flows.csv", text.substr(0, text.find("11,w0"))}});
  ASSERT_FALSE(eleven);
  EXPECT_EQ(eleven.error().back().text(), "dir/flows.csv: and 1 more error");
}

TEST(ConfigTraffic, File) {
  const ConfigResult result = load(kFileTable, {{"dir/flows.csv",
                                                 "# comment\n"
                                                 "id,from,to,bytes,start,after,via\n"
                                                 "a, w0, w1:1, 2MB, 1us,,\r\n"
                                                 "\n"
                                                 "b,w1,w2,1KiB,,a;c,leaf0;spine1\n"
                                                 "c,w2,solo,7B,,,\n"}});
  ASSERT_TRUE(result) << describe(result.error());
  const TrafficConfig& t = result->traffic.at(0);
  EXPECT_EQ(t.file, "dir/flows.csv");
  ASSERT_EQ(t.flows.size(), 3u);
  EXPECT_EQ(t.flows[0].id, "a");
  EXPECT_EQ(t.flows[0].from, 0u);
  EXPECT_EQ(t.flows[0].to, 1u);
  EXPECT_EQ(t.flows[0].to_nic, 1u);
  EXPECT_EQ(t.flows[0].bytes, 2'000'000u);
  EXPECT_EQ(t.flows[0].start, Duration::us(1));
  EXPECT_TRUE(t.flows[0].after.empty());
  EXPECT_EQ(t.flows[1].after, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(t.flows[1].via, (std::vector<std::string>{"leaf0", "spine1"}));
  EXPECT_EQ(t.flows[1].line, 5u);
  EXPECT_EQ(t.flows[2].to, 4u);
}

TEST(ConfigTraffic, FileRefused) {
  const std::string head = "id,from,to,bytes,start,after,via\n";
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"", "dir/flows.csv: found no flow"},
      {head, "dir/flows.csv: found no flow"},
      {"id,from,to,size\n", "dir/flows.csv:1: found \"size\": expected a header"},
      {"id,from,to,id\n", "dir/flows.csv:1: found \"id\": expected a header"},
      {"id,from,to\n", "dir/flows.csv:1: bytes: found nothing: the header lacks this column"},
      {head + "a,w0,w1,1B\n", "dir/flows.csv:2: found 4 cells: the header has 7 columns"},
      {head + ",w0,w1,1B,,,\n", "dir/flows.csv:2: id: found nothing"},
      {head + "a,w0,w1,1B,,,\na,w0,w1,1B,,,\n",
       "dir/flows.csv:3: id: found \"a\": the flow in line 2 has this id"},
      {head + "a,w0,w0,1B,,,\n", "dir/flows.csv:2: to: found \"w0\": a flow goes to another NIC"},
      {head + "a,w0,w0:0,1B,,,\n", "dir/flows.csv:2: to: found \"w0:0\": a flow goes to another"},
      {head + "a,w0,x,1B,,,\n", "dir/flows.csv:2: to: found \"x\": there is no node"},
      {head + "a,w0,w1:2,1B,,,\n", "dir/flows.csv:2: to: found \"w1:2\": node w1 has 2 NIC(s)"},
      {head + "a,w0,w1:,1B,,,\n", "dir/flows.csv:2: to: found \"w1:\": expected the NIC's number"},
      {head + "a,w0,w1,0B,,,\n", "dir/flows.csv:2: bytes: found \"0B\": a flow has at least"},
      {head + "a,w0,w1,1 X,,,\n", "dir/flows.csv:2: bytes: found \"1 X\""},
      {head + "a,w0,w1,1B,1,,\n", "dir/flows.csv:2: start: found \"1\""},
      {head + "a,w0,w1,1B,,b,\n", "dir/flows.csv:2: after: found \"b\": there is no flow"},
      {head + "a,w0,w1,1B,,a,\n", "flow a would start after itself: a cycle"},
      {head + "x,w0,w1,1B,,c,\na,w0,w1,1B,,,\nb,w0,w1,1B,,a;c,\nc,w0,w1,1B,,b,\n",
       "dir/flows.csv:5: after: found \"b\": flow c would start after itself: a cycle"},
  };
  for (const auto& c : cases) {
    const ConfigResult result = load(kFileTable, {{"dir/flows.csv", c.text}});
    ASSERT_FALSE(result) << c.text;
    const std::string errors = describe(result.error());
    EXPECT_NE(errors.find(c.error), std::string::npos) << c.text << errors;
    EXPECT_EQ(result.error().size(), 1u) << errors;
  }
}

}  // namespace
}  // namespace understudy
