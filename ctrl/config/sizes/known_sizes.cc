// Published distributions of flow sizes, point by point, each with its source.
#include <array>

#include "ctrl/config/sizes/size_distribution.h"

namespace understudy {
namespace {

constexpr SizePoint kWebSearch[] = {
    {0, 0},        {10000, 0.15},  {20000, 0.2},   {30000, 0.3},   {50000, 0.4},     {80000, 0.53},
    {200000, 0.6}, {1000000, 0.7}, {2000000, 0.8}, {5000000, 0.9}, {10000000, 0.97}, {30000000, 1},
};

constexpr SizePoint kHadoop[] = {
    {0, 0},        {100, 0.01},    {200, 0.02},      {300, 0.05},     {350, 0.15},
    {400, 0.2},    {500, 0.3},     {600, 0.4},       {700, 0.5},      {1000, 0.6},
    {2000, 0.67},  {7000, 0.7},    {30000, 0.72},    {50000, 0.82},   {80000, 0.87},
    {120000, 0.9}, {300000, 0.95}, {1000000, 0.975}, {2000000, 0.99}, {10000000, 1},
};

constexpr SizePoint kStorage[] = {
    {0, 0},          {4000, 0.2293},   {8000, 0.6921},   {16000, 0.8061}, {32000, 0.9047},
    {64000, 0.9353}, {128000, 0.9677}, {256000, 0.9753}, {2000000, 1},
};

constexpr SizePoint kDataMining[] = {
    {0, 0},          {180, 0.1},        {216, 0.2},      {560, 0.3},   {900, 0.4},
    {1100, 0.5},     {1870, 0.6},       {3160, 0.7},     {10000, 0.8}, {400000, 0.9},
    {3160000, 0.95}, {100000000, 0.98}, {1000000000, 1},
};

constexpr auto kKnown = std::to_array<KnownSizes>({
    {"web-search",
     "Alizadeh et al., \"Data Center TCP\", SIGCOMM 2010; points as in "
     "traffic_gen/WebSearch_distribution.txt of "
     "github.com/alibaba-edu/High-Precision-Congestion-Control",
     kWebSearch},
    {"fb-hadoop",
     "Roy et al., \"Inside the Social Network's (Datacenter) Network\", SIGCOMM 2015, Hadoop; "
     "points as in "
     "traffic_gen/FbHdp_distribution.txt of "
     "github.com/alibaba-edu/High-Precision-Congestion-Control",
     kHadoop},
    {"ali-storage",
     "Alibaba's distributed storage in 2019; points as in traffic_gen/AliStorage2019.txt of "
     "github.com/alibaba-edu/High-Precision-Congestion-Control",
     kStorage},
    {"data-mining",
     "Greenberg et al., \"VL2\", SIGCOMM 2009; points as in conf/VL2_CDF.txt of "
     "github.com/HKUST-SING/TrafficGenerator",
     kDataMining},
});

}  // namespace

std::span<const KnownSizes> known_sizes() { return kKnown; }

}  // namespace understudy
