#include "tools/allreduce_node/local_rank.h"

#include <chrono>
#include <thread>

#include "tools/allreduce_node/nccl_call.h"

namespace understudy {
namespace {

using Clock = std::chrono::steady_clock;

Result<void> check_cuda(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return fail(std::string(what) + ": " + cudaGetErrorString(error));
}

Result<void> check_nccl(const char* what, ncclResult_t result) {
  if (result == ncclSuccess) return {};
  return fail(std::string(what) + ": " + ncclGetErrorString(result) +
              " (NCCL_DEBUG=WARN tells more)");
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

Result<std::unique_ptr<LocalRank>> LocalRank::join(const NodeOptions& options, uint32_t rank,
                                                   int device, const ncclUniqueId& id,
                                                   uint64_t buffer_bytes) {
  std::unique_ptr<LocalRank> made(new LocalRank(options, rank));
  const auto cuda = [](const char* what, cudaError_t error) { return check_cuda(what, error); };
  if (auto r = cuda("cudaSetDevice", cudaSetDevice(device)); !r) return tl::unexpected(r.error());
  cudaDeviceProp properties;
  if (auto r = cuda("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device)); !r) {
    return tl::unexpected(r.error());
  }
  made->device_name_ = properties.name;
  if (auto r = cuda("cudaStreamCreate",
                    cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking));
      !r) {
    return tl::unexpected(r.error());
  }
  for (void** buffer : {&made->first_, &made->second_}) {
    if (auto r = cuda("cudaMalloc", cudaMalloc(buffer, buffer_bytes)); !r) {
      return tl::unexpected(r.error());
    }
  }
  const int ranks = static_cast<int>(options.ranks);
  if (auto r = check_nccl("ncclCommInitRank", ncclCommInitRank(&made->communicator_, ranks, id,
                                                               static_cast<int>(rank)));
      !r) {
    return tl::unexpected(r.error());
  }
  return made;
}

LocalRank::~LocalRank() {
  if (communicator_ != nullptr) ncclCommAbort(communicator_);
  cudaFree(first_);
  cudaFree(second_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

OperationBuffers LocalRank::buffers(const Shape& shape, bool in_place) const {
  return buffers_of(options_.kind, options_.type, shape, rank_, in_place, first_, second_);
}

Result<void> LocalRank::prepare(const Shape& shape, bool in_place, const RankValues* values) {
  const OperationBuffers at = buffers(shape, in_place);
  const size_t width = bytes_of(options_.type);
  if (auto r = check_cuda("cudaMemset", cudaMemset(at.receive, 0, shape.receive * width)); !r) {
    return r;
  }
  void* send = const_cast<void*>(at.send);  // ours: NCCL only reads it
  if (values == nullptr) {
    if (auto r = check_cuda("cudaMemset", cudaMemset(send, 0, shape.send * width)); !r) return r;
  } else {
    const std::vector<uint8_t> input = values->input(rank_, shape);
    if (auto r = check_cuda("cudaMemcpy",
                            cudaMemcpy(send, input.data(), input.size(), cudaMemcpyHostToDevice));
        !r) {
      return r;
    }
  }
  return check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());  // our stream waits for none
}

Result<double> LocalRank::run(const Shape& shape, bool in_place, uint32_t times) {
  const NcclCall call{options_.kind, options_.type, options_.reduction,
                      options_.root, rank_,         options_.ranks};
  const OperationBuffers at = buffers(shape, in_place);
  const Clock::time_point begun = Clock::now();
  for (uint32_t i = 0; i < times; ++i) {
    if (auto r = check_nccl(name_of(options_.kind).data(),
                            enqueue(call, shape, at, communicator_, stream_));
        !r) {
      return tl::unexpected(r.error());
    }
    if (!options_.blocking && i + 1 < times) continue;
    if (auto r = await_stream(); !r) return tl::unexpected(r.error());
  }
  return times == 0 ? 0 : microseconds(Clock::now() - begun) / times;
}

/// Polls, as only so NCCL's own errors are seen: a kernel whose peer is gone never ends.
Result<void> LocalRank::await_stream() {
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) return check_cuda("cudaStreamQuery", state);
    ncclResult_t error = ncclSuccess;
    if (auto r = check_nccl("ncclCommGetAsyncError", ncclCommGetAsyncError(communicator_, &error));
        !r) {
      return r;
    }
    if (auto r = check_nccl("the communicator", error); !r) return r;
    std::this_thread::yield();
  }
}

Result<RankValues::Difference> LocalRank::check(const Shape& shape, bool in_place,
                                                const RankValues& values) {
  if (options_.kind == CollectiveKind::kReduce && rank_ != options_.root) {
    return RankValues::Difference{};  // only the root has a result
  }
  std::vector<uint8_t> result(shape.receive * bytes_of(options_.type));
  if (auto r = check_cuda("cudaMemcpy", cudaMemcpy(result.data(), buffers(shape, in_place).receive,
                                                   result.size(), cudaMemcpyDeviceToHost));
      !r) {
    return tl::unexpected(r.error());
  }
  return values.check(rank_, shape, result);
}

Result<void> LocalRank::leave() {
  const ncclResult_t finalized = ncclCommFinalize(communicator_);
  const ncclResult_t destroyed = ncclCommDestroy(communicator_);
  communicator_ = nullptr;
  if (auto r = check_nccl("ncclCommFinalize", finalized); !r) return r;
  return check_nccl("ncclCommDestroy", destroyed);
}

}  // namespace understudy
