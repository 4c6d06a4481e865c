// NCCL's topology files: what they say of a node, and that every text is answered.
#include "ctrl/config/read/nodes/topo_file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ctrl/config/read/load.h"
#include "tests/ctrl/config/topo_sample.h"

namespace understudy {
namespace {

Machine machine_of(const std::string& text) {
  const auto machine = read_topo_text(text, "dir/t.xml");
  EXPECT_TRUE(machine) << machine.error().text();
  return machine ? *machine : Machine();
}

std::string error_of(const std::string& text) {
  const auto machine = read_topo_text(text, "dir/t.xml");
  return machine ? "" : machine.error().text();
}

TEST(TopoFile, AServerWithSwitches) {
  const Machine h100 = machine_of(server(90, 18));
  EXPECT_EQ(h100.name, "t.xml");
  EXPECT_EQ(h100.gpus, 8u);
  EXPECT_EQ(h100.nics, 8u);
  EXPECT_EQ(h100.nic_rate, Rate::bits_per_second(400'000'000'000));
  EXPECT_EQ(h100.gpu, GpuGeneration::kHopper);
  EXPECT_EQ(h100.cpu, CpuVendor::kIntel);
  EXPECT_EQ(h100.intra, IntraLink::kNvlink);
  EXPECT_EQ(h100.nvlink, Rate::bits_per_second(3'600'000'000'000));
  EXPECT_EQ(h100.nvls, true);
  ASSERT_TRUE(h100.links);
  EXPECT_EQ(h100.links->nvlinks, 18u);
  EXPECT_DOUBLE_EQ(h100.links->pci_rate, 24);
  const Machine a800 = machine_of(server(80, 8));
  EXPECT_EQ(a800.gpu, GpuGeneration::kAmpere);
  EXPECT_EQ(a800.nvls, false);
  EXPECT_EQ(a800.nvlink, Rate::bits_per_second(1'600'000'000'000));
  EXPECT_EQ(machine_of(server(100, 18)).nvlink, Rate::bits_per_second(7'200'000'000'000));
}

TEST(TopoFile, AMeshHasTheGpusInNcclsOrder) {
  const NvlinkMesh& cube = hybrid_cube_mesh();
  std::string devices;
  for (size_t a = 8; a-- > 0;) {  // the file's order is another one
    std::string nvlinks;
    for (size_t b = 0; b < 8; ++b) {
      if (cube[a][b] == 0) continue;
      nvlinks += "<nvlink target=\"" + bus(16 + b) + "\" count=\"" + std::to_string(cube[a][b]) +
                 "\" tclass=\"0x030200\"/>\n";
    }
    devices += gpu(a, 70, nvlinks, "8 GT/s");
  }
  const Machine v100 = machine_of(file_of(devices));
  EXPECT_EQ(v100.gpu, GpuGeneration::kVolta);
  ASSERT_TRUE(v100.links && v100.links->mesh);
  EXPECT_EQ(*v100.links->mesh, cube);
  EXPECT_EQ(v100.links->nvlinks, 0u);
  EXPECT_EQ(v100.nvlink, Rate::bits_per_second(1'200'000'000'000));
  EXPECT_FALSE(v100.nics);
}

TEST(TopoFile, GpusInSlots) {
  const Machine machine = machine_of(file_of(
      gpu(0, 89, "", "16 GT/s") + gpu(1, 89, "", "32.0 GT/s PCIe") + nic(0, "-1"), "AuthenticAMD"));
  EXPECT_EQ(machine.intra, IntraLink::kPci);
  EXPECT_EQ(machine.cpu, CpuVendor::kAmd);
  EXPECT_FALSE(machine.nvlink);
  EXPECT_EQ(machine.nvls, false);
  EXPECT_DOUBLE_EQ(machine.links->pci_rate, 24);
  EXPECT_EQ(machine.nic_rate, Rate::bits_per_second(10'000'000'000));
}

// As operators write them for virtual machines: NCCL adds the rest.
TEST(TopoFile, DevicesOfTheBusAlone) {
  const Machine machine =
      machine_of("<?xml version=\"1.0\"?><!-- a comment -->\n" +
                 file_of("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" "
                         "link_width=\"16\">\n<pci busid=\"0001:00:00.0\" class=\"0x030200\"/>\n"
                         "<pci busid=\"0101:00:00.0\" class=\"0x020700\"/>\n"
                         "<pci busid=\"0002:00:00.0\" class=\"0x030200\"/>\n</pci>\n"));
  EXPECT_EQ(machine.gpus, 2u);
  EXPECT_EQ(machine.nics, 1u);
  EXPECT_FALSE(machine.gpu || machine.intra || machine.nvlink || machine.nic_rate);
}

TEST(TopoFile, NicsAreCountedAsNcclCountsThem) {
  const std::string merged =
      "<nic>\n<net name=\"a\" speed=\"1\"/><net name=\"b\" dev=\"7\" net=\"0\" "
      "speed=\"1\"/>\n</nic>\n";
  EXPECT_EQ(machine_of(file_of(nic(0, "100000") + merged)).nics, 1u);
  // A socket's stands in each cpu.
  const std::string twice = nic(0, "10000") + "<nic><net dev=\"0\" speed=\"10000\"/></nic>\n";
  EXPECT_EQ(machine_of(file_of(twice)).nics, 1u);
  const Machine several = machine_of(file_of(nic(0, "400000") + nic(1, "10000")));
  EXPECT_FALSE(several.nics || several.nic_rate);
}

struct Bad {
  std::string text;
  const char* words;
};

TEST(TopoFile, WhatIsWrongIsNamed) {
  const std::string good = server(90, 18);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const Bad cases[] = {
      {"", "t.xml:1: not XML: no element found"},
      {"hello", "not XML"},
      {good.substr(0, good.size() / 2), "not XML"},
      {with("version=\"1\"", "version=\"2\""),
       "t.xml:1: system.version: found \"2\": expected \"1\""},
      {with(" version=\"1\"", ""), "system.version: found nothing"},
      {"<graphs version=\"1\"/>",
       "t.xml:1: graphs: found it in the file: NCCL's files are one system"},
      {"<!DOCTYPE a [<!ENTITY b \"c\">]>\n" + good, "a DOCTYPE"},
      {with("<nic>", "<gpv/><nic>"), "NCCL's files have no such element there"},
      {with("0000:10:00.0", "0000:1g:00.0"), "t.xml:3: pci.busid: found \"0000:1g:00.0\""},
      {with("0000:11:00.0", "0000:10:00.0"), "another device has this address"},
      {with("0x030200", "vga"), "pci.class: found \"vga\""},
      {with("16.0 GT/s PCIe", "fast"), "pci.link_speed: found \"fast\""},
      {with("link_width=\"16\"", "link_width=\"99\""), "pci.link_width: found \"99\""},
      {with(" sm=\"90\"", ""), "t.xml:4: gpu.sm: found nothing"},
      {with("sm=\"90\"", "sm=\"60\""), "before Volta"},
      {with("sm=\"90\"", "sm=\"80\""), "other GPUs of the file have 80"},
      {with("count=\"16\"", "count=\"many\""), "t.xml:5: nvlink.count: found \"many\""},
      {with("count=\"16\"", "count=\"4000000000\""), "expected an integer from 1 to 64"},
      {with("count=\"16\"", "count=\"63\""), "nvlink.count: found 65 NVLinks"},
      {with("count=\"16\"", "count=\"15\""), "other GPUs have 17 to switches alone"},
      {with("0x068000", "0x068001"), "nvlink.tclass: found \"0x068001\""},
      {with("speed=\"400000\"", "speed=\"fast\""), "net.speed: found \"fast\""},
      {file_of(gpu(0, 86, to_switches(4))), "the rate of these is not known"},
      {file_of(gpu(0, 70, "<nvlink target=\"0000:10:00.0\" count=\"1\" tclass=\"0x030200\"/>")),
       "an NVLink of a GPU to itself"},
      {file_of(gpu(0, 70, "<nvlink target=\"0000:55:00.0\" count=\"1\" tclass=\"0x030200\"/>")),
       "no gpu of the file has this address"},
      {file_of(gpu(0, 70, "<nvlink target=\"0000:11:00.0\" count=\"1\" tclass=\"0x030200\"/>") +
               gpu(1, 70, "")),
       "that one has 0 back"},
      {"<system version=\"1\"><cpu host_hash=\"0x1\"/><cpu host_hash=\"0x2\"/></system>",
       "a second host"},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.words);
    const std::string error = error_of(bad.text);
    EXPECT_NE(error.find(bad.words), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("dir/t.xml")) << error;
  }
}

TEST(TopoFile, HugeOnesAreRefused) {
  std::string deep = "<system version=\"1\"><cpu>";
  for (size_t i = 0; i < 70; ++i) deep += "<pci busid=\"" + bus(i) + "\">";
  EXPECT_NE(error_of(deep).find("64 elements around it"), std::string::npos);
  std::string wide = "<system version=\"1\">";
  for (size_t i = 0; i < 17'000; ++i) wide += "<cpu/>";
  EXPECT_NE(error_of(wide + "</system>").find("more than 16384 elements"), std::string::npos);
  EXPECT_NE(error_of(std::string((4 << 20) + 1, ' ')).find("larger than 4 MiB"), std::string::npos);
  std::string many;
  for (size_t i = 0; i < 65; ++i) many += gpu(i, 90, "");
  EXPECT_NE(error_of(file_of(many)).find("at most 64 are modelled"), std::string::npos);
}

TEST(TopoFile, EveryTextIsAnswered) {
  const std::string good = server(90, 18);
  for (size_t length = 0; length + 1 < good.size(); length += 7) {
    EXPECT_NE(error_of(good.substr(0, length)), "") << length;
  }
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  int answered = 0, refused = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size()), length = below(30);
      switch (below(3)) {
        case 0:
          text[at] = static_cast<char>(below(128));
          break;
        case 1:
          text.erase(at, length);
          break;
        default:
          text.insert(below(text.size()), text.substr(at, length));
      }
    }
    const auto machine = read_topo_text(text, "m.xml");
    if (machine) {
      ++answered;
      EXPECT_LE(machine->gpus.value_or(0), 64u);
    } else {
      ++refused;
      EXPECT_FALSE(machine.error().allowed.empty());
      EXPECT_EQ(machine.error().file, "m.xml");
    }
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(refused, 100);
}

// In a configuration ----------------------------------------------------------------------------

ConfigResult load(const std::string& keys, const std::string& topo, const std::string& more = "") {
  const FileReader files = [&](const std::string& path,
                               size_t) -> tl::expected<std::string, ConfigError> {
    if (path == "dir/t.xml") return topo;
    return tl::unexpected(ConfigError{path, 0, "", "", "cannot open: No such file or directory"});
  };
  return load_config_text("format = 1\n[[node]]\nname = \"w\"\ncount = 2\n" + keys + more,
                          "dir/c.toml", files);
}

TEST(TopoFileOfANode, FillsInWhatTheNodeDoesNotSay) {
  const auto config = load("topo_file = \"t.xml\"\nlink = { latency = \"1us\" }\n", server(90, 8),
                           "[topology]\nkind = \"single_switch\"\n");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_EQ(config->nodes[1].gpus, 8u);
  EXPECT_EQ(config->nodes[1].nics.size(), 8u);
  EXPECT_EQ(config->nodes[1].nics[7].link_rate, Rate::bits_per_second(400'000'000'000));
  ASSERT_TRUE(config->nccl && config->intra_node);
  EXPECT_EQ(config->nccl->system.gpu, GpuGeneration::kHopper);
  EXPECT_TRUE(config->nccl->system.nvls);
  EXPECT_EQ(config->nccl->links.nvlinks, 8u);
  EXPECT_EQ(config->intra_node->gpu_link->rate, Rate::bits_per_second(1'600'000'000'000));
  EXPECT_TRUE(config->machine_notes.empty());
}

TEST(TopoFileOfANode, HoldsAgainstAMachineAndYieldsToTheFile) {
  const std::string keys =
      "machine = \"dgx-h100\"\ntopo_file = \"t.xml\"\nnics = 2\nlink = { latency = \"1us\" }\n";
  const auto config = load(keys, server(90, 8), "[nccl]\ngpu = \"hopper\"\n");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_EQ(config->nodes[0].nics.size(), 2u);
  const std::vector<std::string> notes = {"NVLink's rate is not dgx-h100's, but as in t.xml",
                                          "nics is not t.xml's, but as given in the configuration"};
  EXPECT_EQ(config->machine_notes, notes);
  // A file of the bus alone leaves GPUs to the machine.
  const auto bus_alone =
      load("machine = \"dgx-h100\"\ntopo_file = \"t.xml\"\nlink = { latency = \"1us\" }\n",
           file_of("<pci busid=\"0001:00:00.0\" class=\"0x030200\"/>\n"));
  ASSERT_TRUE(bus_alone) << describe(bus_alone.error());
  EXPECT_EQ(bus_alone->nodes[0].gpus, 1u);
  EXPECT_EQ(bus_alone->nodes[0].nics.size(), 8u);
  EXPECT_EQ(bus_alone->nccl->system.gpu, GpuGeneration::kHopper);
  EXPECT_TRUE(bus_alone->nccl->system.nvls);
}

TEST(TopoFileOfANode, FilesOfOneSearchAgree) {
  const FileReader files = [](const std::string& path, size_t) {
    return tl::expected<std::string, ConfigError>(server(90, path == "a.xml" ? 18 : 8));
  };
  const std::string text =
      "format = 1\n[[node]]\nname = \"a\"\ntopo_file = \"a.xml\"\nlink = { latency = \"1us\" }\n"
      "[[node]]\nname = \"b\"\ntopo_file = \"b.xml\"\nlink = { latency = \"1us\" }\n";
  const auto different = load_config_text(text, "c.toml", files);
  ASSERT_FALSE(different);
  EXPECT_EQ(describe(different.error()),
            "c.toml:8: node.topo_file: found \"b.xml\": its NVLinks are not those of \"a.xml\" in "
            "line 4, and NCCL's search is for all nodes: give [nccl] ring\n");
  const auto given = load_config_text(
      text + "[nccl]\nring = { channels = 8, intra = \"20GB/s\" }\n", "c.toml", files);
  EXPECT_TRUE(given) << describe(given.error());
}

TEST(TopoFileOfANode, ItsErrorsStandInItsLines) {
  const auto wrong =
      load("topo_file = \"t.xml\"\nnics = 1\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n",
           "<system version=\"3\"/>");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(describe(wrong.error()),
            "dir/t.xml:1: system.version: found \"3\": expected \"1\", which all releases of NCCL "
            "write\n");
  const auto missing = load(
      "topo_file = \"u.xml\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n", server(90, 18));
  ASSERT_FALSE(missing);
  EXPECT_NE(describe(missing.error()).find("dir/c.toml:5: node.topo_file: found \"u.xml\""),
            std::string::npos)
      << describe(missing.error());
  const auto open = load("topo_file = \"t.xml\"\nlink = { latency = \"1us\" }\n",
                         file_of(nic(0, "400000") + nic(1, "10000")));
  ASSERT_FALSE(open);
  EXPECT_NE(describe(open.error()).find("which t.xml leaves open"), std::string::npos)
      << describe(open.error());
}

}  // namespace
}  // namespace understudy
