#include "direct.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

// Everything below is compiled for AVX-512; winograd::Available() is asked before any of it runs.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")

#include "vectors.h"

namespace direct {
namespace {

constexpr int64_t kRows = 8;     // pixels in a matrix product
constexpr int64_t kDepth = 512;  // channels that a matrix product sums over at a time: a panel of w stays in the caches
constexpr int64_t kPixels = 256;  // pixels that dw sums over at a time

struct Pair {
  int32_t row, partner;  // a pixel of the result, counted in its part, and the pixel of the other picture
};

// The pixel of the other picture that belongs to a pixel at a tap: x's to y's or, if `back`, y's to x's; −1: none.
struct Pixel {
  int64_t picture, row, column;
};
inline int64_t Along(int64_t place, int64_t tap, int64_t stride, int64_t pad, int64_t size, bool back) {
  if (!back) {
    const int64_t there = place * stride - pad + tap;
    return there >= 0 && there < size ? there : -1;
  }
  const int64_t there = place + pad - tap;
  return there >= 0 && there % stride == 0 && there / stride < size ? there / stride : -1;
}

// Lists the pairs of all pixels first … last at a tap, and returns how many there are.
int64_t Pairs(const Shape& s, bool back, int64_t tap, int64_t first, int64_t last, Pair* pairs) {
  const int64_t height = back ? s.height : s.out_height, width = back ? s.width : s.out_width;
  const int64_t other_height = back ? s.out_height : s.height, other_width = back ? s.out_width : s.width;
  const int64_t tap_row = tap / s.kernel_width, tap_column = tap % s.kernel_width;
  Pixel at{first / (height * width), first / width % height, first % width};
  int64_t count = 0;
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = Along(at.row, tap_row, s.stride_height, s.pad_top, other_height, back);
    const int64_t column = Along(at.column, tap_column, s.stride_width, s.pad_left, other_width, back);
    if (row >= 0 && column >= 0) {
      pairs[count++] = {static_cast<int32_t>(i - first),
                        static_cast<int32_t>((at.picture * other_height + row) * other_width + column)};
    }
    if (++at.column == width) {
      at.column = 0;
      if (++at.row == height) {
        at.row = 0;
        ++at.picture;
      }
    }
  }
  return count;
}

// 16 × 16 numbers with rows and columns exchanged: four times, the rows i and i + 8 are interleaved.
inline void Transpose(Vector rows[16]) {
  typedef int Order __attribute__((vector_size(64)));
  const Order low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}, high = low + 8;
  for (int round = 0; round < 4; ++round) {
    Vector next[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + 8], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + 8], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

// Weights of one tap as a panel [depth, width]: of w [inputs, outputs] or, if `back`, of its transpose.
void PackWeights(const Shape& s, bool back, const float* w, int64_t first_depth, int64_t depth, int64_t channel,
                 int64_t width, float* panel) {
  if (!back) {
    for (int64_t k = 0; k < depth; ++k) {
      const float* from = w + (first_depth + k) * s.outputs + channel;
      for (int64_t j = 0; j < width; j += kLanes) Store(panel + k * width + j, Load(from + j));
    }
    return;
  }
  for (int64_t j = 0; j < width; j += kLanes) {
    for (int64_t k = 0; k < depth; k += kLanes) {
      Vector square[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) square[i] = Load(w + (channel + j + i) * s.outputs + first_depth + k);
      Transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) Store(panel + (k + i) * width + j, square[i]);
    }
  }
}

// to[i] += from[i] · panel for eight rows, each anywhere.
template <int Width>
inline void AddRows(const float* const from[kRows], const float* panel, int64_t depth, float* const to[kRows]) {
  Vector sums[kRows][Width] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[Width];
#pragma GCC unroll 2
    for (int j = 0; j < Width; ++j) right[j] = Load(panel + (k * Width + j) * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vector left = Broadcast(from[i][k]);
#pragma GCC unroll 2
      for (int j = 0; j < Width; ++j) sums[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < Width; ++j) Store(to[i] + j * kLanes, Load(to[i] + j * kLanes) + sums[i][j]);
  }
}

// Rows `first`, first + 1, … of a picture, in a panel [pairs, width]; `pairs` says which pixels.
void PackPixels(const float* pixels, int64_t channels, int64_t channel, int64_t width, const Pair* pairs, int64_t count,
                bool partners, int64_t first, float* panel) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t pixel = partners ? pairs[k].partner : first + pairs[k].row;
    const float* from = pixels + pixel * channels + channel;
    for (int64_t j = 0; j < width; j += kLanes) Store(panel + k * width + j, Load(from + j));
  }
}

}  // namespace

size_t PicturesScratchBytes(const Shape& s) {
  return (kDepth + 1) * kBlock * sizeof(float) + s.Taps() * (kMostRows * sizeof(Pair) + sizeof(int64_t));
}

void Pictures(const Shape& s, bool back, const float* from, const float* w, Part part, void* scratch, float* to) {
  const int64_t depth = back ? s.outputs : s.inputs, channels = back ? s.inputs : s.outputs;
  const int64_t rows = part.last_row - part.first_row, taps = s.Taps();
  float* panel = static_cast<float*>(scratch);
  float* spare = panel + kDepth * kBlock;  // the result of rows that there are not
  auto* counts = reinterpret_cast<int64_t*>(spare + kBlock);
  auto* pairs = reinterpret_cast<Pair*>(counts + taps);
  float* result = to + part.first_row * channels;
  for (int64_t tap = 0; tap < taps; ++tap) {
    counts[tap] = Pairs(s, back, tap, part.first_row, part.last_row, pairs + tap * kMostRows);
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = part.first_channel; c < part.last_channel; c += kLanes) Store(result + row * channels + c, Vector{});
  }
  for (int64_t c = part.first_channel; c < part.last_channel; c += kBlock) {
    const int64_t width = Least(kBlock, part.last_channel - c);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const Pair* own = pairs + tap * kMostRows;
      for (int64_t d = 0; counts[tap] > 0 && d < depth; d += kDepth) {
        const int64_t deep = Least(kDepth, depth - d);
        PackWeights(s, back, w + tap * s.inputs * s.outputs, d, deep, c, width, panel);
        for (int64_t first = 0; first < counts[tap]; first += kRows) {
          const float* sources[kRows];
          float* targets[kRows];
          for (int64_t i = 0; i < kRows; ++i) {
            const bool real = first + i < counts[tap];
            const Pair& pair = own[real ? first + i : first];
            sources[i] = from + pair.partner * depth + d;
            targets[i] = real ? result + pair.row * channels + c : spare;
          }
          if (width == kBlock) {
            AddRows<2>(sources, panel, deep, targets);
          } else {
            AddRows<1>(sources, panel, deep, targets);
          }
        }
      }
    }
  }
}

size_t WeightsScratchBytes(const Shape&) {
  return kPixels * ((kChannels + kBlock) * sizeof(float) + sizeof(Pair));
}

void Weights(const Shape& s, const float* x, const float* dy, int64_t tap, Part part, void* scratch, float* dw) {
  const int64_t channels = part.last_row - part.first_row;
  float* left = static_cast<float*>(scratch);
  float* right = left + kPixels * kChannels;
  auto* pairs = reinterpret_cast<Pair*>(right + kPixels * kBlock);
  float* result = dw + (tap * s.inputs + part.first_row) * s.outputs;
  for (int64_t row = 0; row < channels; ++row) {
    for (int64_t c = part.first_channel; c < part.last_channel; c += kLanes) Store(result + row * s.outputs + c, Vector{});
  }
  for (int64_t first = 0; first < s.OutputPixels(); first += kPixels) {
    const int64_t count = Pairs(s, false, tap, first, Least(first + kPixels, s.OutputPixels()), pairs);
    if (count == 0) continue;
    PackPixels(x, s.inputs, part.first_row, channels, pairs, count, true, first, left);
    for (int64_t c = part.first_channel; c < part.last_channel; c += kBlock) {
      const int64_t width = Least(kBlock, part.last_channel - c);
      PackPixels(dy, s.outputs, c, width, pairs, count, false, first, right);
      for (int64_t row = 0; row < channels; row += kRows) {
        float* out = result + row * s.outputs + c;
        if (width == kBlock) {
          Product<kRows, 2, true>(left + row, 1, channels, right, width, count, out, s.outputs);
        } else {
          Product<kRows, 1, true>(left + row, 1, channels, right, width, count, out, s.outputs);
        }
      }
    }
  }
}

}  // namespace direct

#pragma GCC pop_options

#else

namespace direct {
size_t PicturesScratchBytes(const Shape&) { return 0; }
void Pictures(const Shape&, bool, const float*, const float*, Part, void*, float*) {}
size_t WeightsScratchBytes(const Shape&) { return 0; }
void Weights(const Shape&, const float*, const float*, int64_t, Part, void*, float*) {}
}  // namespace direct

#endif
