#include "tools/allreduce_node/nccl_call.h"

namespace understudy {
namespace {

ncclDataType_t nccl_type(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return ncclInt8;
    case ElementType::kUint8:
      return ncclUint8;
    case ElementType::kInt32:
      return ncclInt32;
    case ElementType::kUint32:
      return ncclUint32;
    case ElementType::kInt64:
      return ncclInt64;
    case ElementType::kUint64:
      return ncclUint64;
    case ElementType::kHalf:
      return ncclFloat16;
    case ElementType::kBfloat16:
      return ncclBfloat16;
    case ElementType::kFloat:
      return ncclFloat32;
    case ElementType::kDouble:
      return ncclFloat64;
  }
  return ncclFloat32;
}

ncclRedOp_t nccl_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return ncclSum;
    case Reduction::kProd:
      return ncclProd;
    case Reduction::kMin:
      return ncclMin;
    case Reduction::kMax:
      return ncclMax;
    case Reduction::kAvg:
      return ncclAvg;
  }
  return ncclSum;
}

/// The first error of a group of sends and receives.
class Group {
 public:
  Group() : first_(ncclGroupStart()) {}
  void add(ncclResult_t result) {
    if (first_ == ncclSuccess) first_ = result;
  }
  ncclResult_t end() {
    add(ncclGroupEnd());
    return first_;
  }

 private:
  ncclResult_t first_;
};

}  // namespace

ncclResult_t enqueue(const NcclCall& call, const Shape& shape, OperationBuffers buffers,
                     ncclComm_t communicator, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(call.type);
  const ncclRedOp_t op = nccl_op(call.reduction);
  const int root = static_cast<int>(call.root);
  const size_t count = shape.count;
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return ncclAllReduce(buffers.send, buffers.receive, count, type, op, communicator, stream);
    case CollectiveKind::kAllGather:
      return ncclAllGather(buffers.send, buffers.receive, count, type, communicator, stream);
    case CollectiveKind::kReduceScatter:
      return ncclReduceScatter(buffers.send, buffers.receive, count, type, op, communicator,
                               stream);
    case CollectiveKind::kBroadcast:
      return ncclBroadcast(buffers.send, buffers.receive, count, type, root, communicator, stream);
    case CollectiveKind::kReduce:
      return ncclReduce(buffers.send, buffers.receive, count, type, op, root, communicator, stream);
    case CollectiveKind::kSendRecv: {
      Group group;
      const int next = static_cast<int>((call.rank + 1) % call.ranks);
      const int previous = static_cast<int>((call.rank + call.ranks - 1) % call.ranks);
      group.add(ncclSend(buffers.send, count, type, next, communicator, stream));
      group.add(ncclRecv(buffers.receive, count, type, previous, communicator, stream));
      return group.end();
    }
    case CollectiveKind::kAllToAll: {
      Group group;
      const size_t share = count * bytes_of(call.type);
      for (uint32_t peer = 0; peer < call.ranks; ++peer) {
        const char* to = static_cast<const char*>(buffers.send) + peer * share;
        char* from = static_cast<char*>(buffers.receive) + peer * share;
        group.add(ncclSend(to, count, type, static_cast<int>(peer), communicator, stream));
        group.add(ncclRecv(from, count, type, static_cast<int>(peer), communicator, stream));
      }
      return group.end();
    }
  }
  return ncclInvalidArgument;
}

}  // namespace understudy
