// Device code that moves data as NCCL's kernels do, compiled on the GPU node by NVRTC.
#pragma once

namespace understudy {

/// Every kernel is a channel's block that works on `repeat` slices of `bytes` data bytes, one after
/// the other: `reduce` adds the user's data to what was received and sends the sum, else what was
/// received is stored and sent on. Buffers of received and sent data have `window` wire bytes for
/// each block, which the slices go round; the user's have `user_window`. All words of all buffers
/// are kGpuWord: data, and the flags of LL and LL128. A slice ends as NCCL posts a step: a barrier
/// of the block, then one thread's fence to the system and the counter.
inline constexpr unsigned kGpuWord = 0x3f800000;  // 1.0f

inline constexpr const char* kGpuKernels = R"cuda(
typedef unsigned int u32;
typedef unsigned long long u64;
struct Arguments {
  char* received;
  char* user;
  char* sent;
  u64* counters;
  u64 window, user_window, bytes;
  u32 repeat, reduce;
};

__device__ __forceinline__ float add_bits(u32 a, u32 b) { return __uint_as_float(a) + __uint_as_float(b); }
__device__ __forceinline__ u32 sum32(u32 a, u32 b) { return __float_as_uint(add_bits(a, b)); }
__device__ __forceinline__ u64 sum64(u64 a, u64 b) {
  return (u64)sum32((u32)(a >> 32), (u32)(b >> 32)) << 32 | sum32((u32)a, (u32)b);
}
__device__ __forceinline__ uint4 sum128(uint4 a, uint4 b) {
  return make_uint4(sum32(a.x, b.x), sum32(a.y, b.y), sum32(a.z, b.z), sum32(a.w, b.w));
}
__device__ __forceinline__ uint4 load128(const void* p) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store128(void* p, uint4 v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};"
               :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void load64x2(const void* p, u64& a, u64& b) {
  asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
__device__ __forceinline__ void store64x2(void* p, u64 a, u64 b) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" :: "l"(p), "l"(a), "l"(b) : "memory");
}

// What a block works on: its own parts of the buffers, and where slice `i` lies in them.
struct Slices {
  char *received, *user, *sent;
  u64 window, user_window, at, user_at;
  __device__ Slices(const Arguments& a)
      : received(a.received + blockIdx.x * a.window), user(a.user + blockIdx.x * a.user_window),
        sent(a.sent + blockIdx.x * a.window), window(a.window), user_window(a.user_window), at(0), user_at(0) {}
  __device__ void next(u64 wire, u64 data) {
    at = at + 2 * wire <= window ? at + wire : 0;
    user_at = user_at + 2 * data <= user_window ? user_at + data : 0;
  }
};
__device__ __forceinline__ void post(const Arguments& a, u32 slice) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *(volatile u64*)(a.counters + blockIdx.x * 16) = slice;
  }
}

extern "C" __global__ void idle() {}

// Simple: every warp moves hunks of 8 x 512 bytes, then single pieces of 512.
extern "C" __global__ void __launch_bounds__(1024) simple(Arguments a) {
  Slices s(a);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (u32 i = 0; i < a.repeat; i++) {
    const u64 hunks = a.bytes / 4096;
    for (u64 h = warp; h < hunks; h += warps) {
      const u64 o = h * 4096 + lane * 16;
      uint4 v[8], w[8];
      #pragma unroll
      for (int k = 0; k < 8; k++) v[k] = load128(s.received + s.at + o + k * 512);
      if (a.reduce) {
        #pragma unroll
        for (int k = 0; k < 8; k++) w[k] = load128(s.user + s.user_at + o + k * 512);
        #pragma unroll
        for (int k = 0; k < 8; k++) v[k] = sum128(v[k], w[k]);
      } else {
        #pragma unroll
        for (int k = 0; k < 8; k++) store128(s.user + s.user_at + o + k * 512, v[k]);
      }
      #pragma unroll
      for (int k = 0; k < 8; k++) store128(s.sent + s.at + o + k * 512, v[k]);
    }
    for (u64 o = hunks * 4096 + warp * 512 + lane * 16; o < a.bytes; o += warps * 512) {
      uint4 v = load128(s.received + s.at + o);
      if (a.reduce) v = sum128(v, load128(s.user + s.user_at + o));
      else store128(s.user + s.user_at + o, v);
      store128(s.sent + s.at + o, v);
    }
    s.next(a.bytes, a.bytes);
    post(a, i);
  }
}

// LL: lines of two data words, each with its flag.
extern "C" __global__ void __launch_bounds__(1024) ll(Arguments a) {
  Slices s(a);
  const u32 flag = 0x3f800000;
  for (u32 i = 0; i < a.repeat; i++) {
    const u64 lines = a.bytes / 8;
    for (u64 l = threadIdx.x; l < lines; l += blockDim.x) {
      u64* user = (u64*)(s.user + s.user_at + l * 8);
      u64 mine = a.reduce ? *(volatile u64*)user : 0;
      uint4 v;
      do { v = load128(s.received + s.at + l * 16); } while (v.y != flag || v.w != flag);
      u64 data = (u64)v.z << 32 | v.x;
      if (a.reduce) data = sum64(data, mine);
      else *(volatile u64*)user = data;
      store128(s.sent + s.at + l * 16, make_uint4((u32)data, flag, (u32)(data >> 32), flag));
    }
    s.next(a.bytes * 2, a.bytes);
    post(a, i);
  }
}

// LL128: a warp moves 2048 bytes at a time; the last of every 16 words is the flag.
extern "C" __global__ void __launch_bounds__(1024) ll128(Arguments a) {
  Slices s(a);
  const u64 flag = 0x3f8000003f800000ull;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const bool flagged = lane % 8 == 7;
  for (u32 i = 0; i < a.repeat; i++) {
    const u64 parts = a.bytes / 1920;
    for (u64 p = warp; p < parts; p += warps) {
      char* in = s.received + s.at + p * 2048 + lane * 16;
      char* out = s.sent + s.at + p * 2048 + lane * 16;
      char* user = s.user + s.user_at + p * 1920 + (lane - lane / 8) * 16;
      u64 v[8], w[8];
      bool wait;
      if (a.reduce) {
        #pragma unroll
        for (int k = 0; k < 8; k += 2) {
          w[k] = w[k + 1] = 0;
          if (!flagged) load64x2(user + k / 2 * 448, w[k], w[k + 1]);
        }
      }
      do {
        wait = false;
        #pragma unroll
        for (int k = 0; k < 8; k += 2) {
          load64x2(in + k * 256, v[k], v[k + 1]);
          wait |= flagged && v[k + 1] != flag;
        }
      } while (__any_sync(~0u, wait));
      #pragma unroll
      for (int k = 0; k < 8; k += 2) {
        if (a.reduce) {
          v[k] = sum64(v[k], w[k]);
          v[k + 1] = sum64(v[k + 1], w[k + 1]);
        } else if (!flagged) {
          store64x2(user + k / 2 * 448, v[k], v[k + 1]);
        }
        store64x2(out + k * 256, v[k], flagged ? flag : v[k + 1]);
      }
    }
    s.next(a.bytes / 1920 * 2048, a.bytes);
    post(a, i);
  }
}
)cuda";

}  // namespace understudy
