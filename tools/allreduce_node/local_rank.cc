#include "tools/allreduce_node/local_rank.h"

#include <chrono>
#include <thread>

#include "dataplane/base/try.h"
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
  TRY(cuda("cudaSetDevice", cudaSetDevice(device)));
  cudaDeviceProp properties;
  TRY(cuda("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device)));
  made->device_name_ = properties.name;
  TRY(cuda("cudaStreamCreate", cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking)));
  for (void** buffer : {&made->first_, &made->second_}) {
    TRY(cuda("cudaMalloc", cudaMalloc(buffer, buffer_bytes)));
  }
  const int ranks = static_cast<int>(options.ranks);
  TRY(check_nccl("ncclCommInitRank",
                 ncclCommInitRank(&made->communicator_, ranks, id, static_cast<int>(rank))));
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
  TRY(check_cuda("cudaMemset", cudaMemset(at.receive, 0, shape.receive * width)));
  void* send = const_cast<void*>(at.send);  // ours: NCCL only reads it
  if (values == nullptr) {
    TRY(check_cuda("cudaMemset", cudaMemset(send, 0, shape.send * width)));
  } else {
    const std::vector<uint8_t> input = values->input(rank_, shape);
    TRY(check_cuda("cudaMemcpy",
                   cudaMemcpy(send, input.data(), input.size(), cudaMemcpyHostToDevice)));
  }
  return check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());  // our stream waits for none
}

Result<double> LocalRank::run(const Shape& shape, bool in_place, uint32_t times) {
  const NcclCall call{options_.kind, options_.type, options_.reduction,
                      options_.root, rank_,         options_.ranks};
  const OperationBuffers at = buffers(shape, in_place);
  const Clock::time_point begun = Clock::now();
  for (uint32_t i = 0; i < times; ++i) {
    TRY(check_nccl(name_of(options_.kind).data(),
                   enqueue(call, shape, at, communicator_, stream_)));
    if (!options_.blocking && i + 1 < times) continue;
    TRY(await_stream());
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
    TRY(check_nccl("ncclCommGetAsyncError", ncclCommGetAsyncError(communicator_, &error)));
    TRY(check_nccl("the communicator", error));
    std::this_thread::yield();
  }
}

Result<RankValues::Difference> LocalRank::check(const Shape& shape, bool in_place,
                                                const RankValues& values) {
  if (options_.kind == CollectiveKind::kReduce && rank_ != options_.root) {
    return RankValues::Difference{};  // only the root has a result
  }
  std::vector<uint8_t> result(shape.receive * bytes_of(options_.type));
  TRY(check_cuda("cudaMemcpy", cudaMemcpy(result.data(), buffers(shape, in_place).receive,
                                          result.size(), cudaMemcpyDeviceToHost)));
  return values.check(rank_, shape, result);
}

Result<void> LocalRank::leave() {
  const ncclResult_t finalized = ncclCommFinalize(communicator_);
  const ncclResult_t destroyed = ncclCommDestroy(communicator_);
  communicator_ = nullptr;
  TRY(check_nccl("ncclCommFinalize", finalized));
  return check_nccl("ncclCommDestroy", destroyed);
}

}  // namespace understudy
