// Bad input: services, clients and events.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

const BadCase kCases[] = {
    // Services and events.
    {"[[service]]", "node = \"w0\"", "node = \"gpu\"#!", "service.node", {"emulated node"}},
    {"[[service]]", "node = \"w0\"", "node = \"W0\"#!", "service.node", {"did you mean \"w0\""}},
    {"[[service]]", "port = 18515", "port = 65536#!", "service.port", {"1 to 65535"}},
    {"[[service]]",
     "kind = \"write_bw\"",
     "kind = \"write_bw\"\n[[service]]\nnode = \"w0\"\nport = 18515#!",
     "service.port",
     {"node w0 already has the service on this port"}},
    {"[[service]]", "\"write_bw\"", "\"writebw\"#!", "service.kind", {"did you mean \"write_bw\""}},
    {"[[service]]", "\"backed\"", "\"patern\"#!", "service.memory", {"pattern"}},
    {"[[service]]", "size = \"1MiB\"", "size = \"0B\"#!", "service.size", {"1 GiB"}},
    {"[[service]]", "= 2048", "= 2000#!", "service.pingpong_mtu", {"2048"}},
    {"[[service]]",
     "kind = \"write_bw\"",
     "kind = \"read_bw\"\nconnection = \"uc\"#!",
     "service.connection",
     {"unreliable connections have kind auto"}},
    {"[[service]]",
     "kind = \"write_bw\"",
     "kind = \"write_bw\"\nconnection = \"ud\"#!",
     "service.connection",
     {"one of rc, uc"}},
    {"[[service]]", "\"70ms\"", "\"1001s\"#!", "service.accept_delay", {"1000 s"}},
    {"[[service]]",
     "kind = \"write_bw\"\nmemory = \"backed\"\nsize = \"1MiB\"\npingpong_mtu = 2048\n"
     "accept_delay = \"70ms\"",
     "kind = \"pingpong\"\naccept_delay = \"70ms\"#!",
     "service.accept_delay",
     {"RDMA-CM"}},
    {"[[client]]",
     "kind = \"send_bw\"\nsize = \"4KiB\"\niterations = 500\nqueue_pairs = 2\nrdma_cm = true",
     "kind = \"rping\"\nrdma_cm = false#!",
     "client.rdma_cm",
     {"RDMA-CM only"}},
    {"[[client]]", "rdma_cm = true", "rdma_cm = 1#!", "client.rdma_cm", {"true or false"}},
    {"[[client]]",
     "kind = \"send_bw\"\nsize = \"4KiB\"\niterations = 500\nqueue_pairs = 2",
     "kind = \"rping\"\nqueue_pairs = 2#!",
     "client.queue_pairs",
     {"one queue pair"}},
    {"[[client]]",
     "kind = \"send_bw\"\nsize = \"4KiB\"\niterations = 500\nqueue_pairs = 2",
     "kind = \"rping\"\nsize = \"64KiB\"#!",
     "client.size",
     {"65535 B"}},
    {"[[client]]", "node = \"w1\"", "node = \"gpu\"#!", "client.node", {"emulated node"}},
    {"[[client]]", "server = \"gpu\"", "server = \"w0\"#!", "client.server", {"real node"}},
    {"[[client]]", "\"send_bw\"", "\"send_lat\"#!", "client.kind", {"send_bw"}},
    {"[[client]]", "size = \"4KiB\"", "size = \"2GiB\"#!", "client.size", {"1 GiB"}},
    {"[[client]]",
     "iterations = 500",
     "iterations = 0#!",
     "client.iterations",
     {"1 to 2147483647"}},
    {"[[event]]", "link = \"w1\"", "link = \"w9\"#!", "event.link", {"no node of this name"}},
    {"",
     "[[event]]\nat = \"40ms\"\nlink = \"w1\"\nlatency = \"9us\"",
     "[[event]]#!\nat = \"40ms\"\nlink = \"w1\"",
     "event.rate",
     {"rate, latency, loss or an action"}},
    {"[[event]]", "rate = \"50Mbit/s\"", "rate = \"0Mbit/s\"#!", "event.rate", {"above zero"}},
    {"[[event]]", "at = \"40ms\"", "at = 40#!", "event.at", {"bare number", "2us"}},
};

TEST(ConfigBadServices, EachCaseGivesItsOneError) { expect_errors(kCases); }

}  // namespace
}  // namespace understudy
