// Vectors of 16 numbers, and products of small matrices. Include it where the compiler's target is AVX-512.

#ifndef METAPL_ONEDNN_VECTORS_H_
#define METAPL_ONEDNN_VECTORS_H_

#include <cstdint>

namespace {

constexpr int64_t kLanes = 16;
typedef float Vector __attribute__((vector_size(64)));
typedef float Unaligned __attribute__((vector_size(64), aligned(4), may_alias));

inline Vector Load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void Store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }
inline Vector Broadcast(float value) { return value - Vector{}; }

// out [Rows, Width · 16] (+)= a · b with a [Rows, depth] of any strides and b [depth, Width · 16].
template <int Rows, int Width, bool Add>
inline void Product(const float* a, int64_t row_stride, int64_t depth_stride, const float* b, int64_t b_stride,
                    int64_t depth, float* out, int64_t out_stride) {
  Vector sums[Rows][Width] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[Width];
#pragma GCC unroll 4
    for (int j = 0; j < Width; ++j) right[j] = Load(b + k * b_stride + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Vector left = Broadcast(a[i * row_stride + k * depth_stride]);
#pragma GCC unroll 4
      for (int j = 0; j < Width; ++j) sums[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Width; ++j) {
      float* to = out + i * out_stride + j * kLanes;
      Store(to, Add ? Load(to) + sums[i][j] : sums[i][j]);
    }
  }
}

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

}  // namespace

#endif  // METAPL_ONEDNN_VECTORS_H_
