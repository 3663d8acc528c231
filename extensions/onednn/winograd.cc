#include "winograd.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

// Everything below is compiled for AVX-512; Available() is asked before any of it runs.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")

#include "vectors.h"

namespace winograd {
namespace {

// The points 0, ±p, ±q and infinity. In float32, 2/3 and 3/2 have half of the error of the usual 1 and 2.
constexpr float kP = 2.0f / 3, kQ = 3.0f / 2, kP2 = 4.0f / 9, kQ2 = 9.0f / 4, kP3 = 8.0f / 27, kQ3 = 27.0f / 8;
constexpr float kSum = 97.0f / 36;  // p² + q²; p² q² is 1
constexpr float kNp = -1 / (2 * (4.0 / 9) * (65.0 / 36)), kNq = 1 / (2 * (9.0 / 4) * (65.0 / 36));  // 1 / Π (x − x_j)

// Bᵀ d
inline void Inputs(const Vector d[6], Vector out[6]) {
  const Vector ep = d[4] - kQ2 * d[2], op = kP * d[3] - (kP * kQ2) * d[1];
  const Vector eq = d[4] - kP2 * d[2], oq = kQ * d[3] - (kQ * kP2) * d[1];
  out[0] = d[4] - kSum * d[2] + d[0];
  out[1] = ep + op;
  out[2] = ep - op;
  out[3] = eq + oq;
  out[4] = eq - oq;
  out[5] = d[5] - kSum * d[3] + d[1];
}

// G w
inline void Filters(const Vector w[3], Vector out[6]) {
  const Vector ep = kNp * w[0] + (kNp * kP2) * w[2], op = (kNp * kP) * w[1];
  const Vector eq = kNq * w[0] + (kNq * kQ2) * w[2], oq = (kNq * kQ) * w[1];
  out[0] = w[0];
  out[1] = ep + op;
  out[2] = ep - op;
  out[3] = eq + oq;
  out[4] = eq - oq;
  out[5] = w[2];
}

// Aᵀ m
inline void Outputs(const Vector m[6], Vector out[4]) {
  const Vector sp = m[1] + m[2], dp = m[1] - m[2], sq = m[3] + m[4], dq = m[3] - m[4];
  out[0] = m[0] + sp + sq;
  out[1] = kP * dp + kQ * dq;
  out[2] = kP2 * sp + kQ2 * sq;
  out[3] = m[5] + kP3 * dp + kQ3 * dq;
}

// A dy
inline void Gradients(const Vector y[4], Vector out[6]) {
  const Vector ep = y[0] + kP2 * y[2], op = kP * y[1] + kP3 * y[3];
  const Vector eq = y[0] + kQ2 * y[2], oq = kQ * y[1] + kQ3 * y[3];
  out[0] = y[0];
  out[1] = ep + op;
  out[2] = ep - op;
  out[3] = eq + oq;
  out[4] = eq - oq;
  out[5] = y[3];
}

// Gᵀ m
inline void Weights(const Vector m[6], Vector out[3]) {
  const Vector sp = kNp * (m[1] + m[2]), dp = m[1] - m[2], sq = kNq * (m[3] + m[4]), dq = m[3] - m[4];
  out[0] = m[0] + sp + sq;
  out[1] = (kNp * kP) * dp + (kNq * kQ) * dq;
  out[2] = m[5] + kP2 * sp + kQ2 * sq;
}

// Applies a transform of `From` to `To` numbers to the columns and then to the rows of a square.
template <int From, int To, void (*Transform)(const Vector*, Vector*), class Source, class Target>
inline __attribute__((always_inline)) void OfSquare(Source source, Target target) {
  Vector half[To][From];
  for (int j = 0; j < From; ++j) {
    Vector column[From], out[To];
#pragma GCC unroll 6
    for (int i = 0; i < From; ++i) column[i] = source(i, j);
    Transform(column, out);
#pragma GCC unroll 6
    for (int i = 0; i < To; ++i) half[i][j] = out[i];
  }
  for (int i = 0; i < To; ++i) {
    Vector out[To];
    Transform(half[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < To; ++j) target(i, j, out[j]);
  }
}

// Numbers between two of the 36 places. The odd multiple of a cache line spreads them over the cache.
int64_t Stride(int64_t numbers) { return RoundUp(numbers, 2 * kLanes) + kLanes; }

// How many tiles are transformed at a time: what belongs to them should stay in the second cache.
int64_t TilesAtOnce(int64_t channels, int64_t bytes) {
  const int64_t tiles = bytes / (kPlaces * static_cast<int64_t>(sizeof(float)) * channels) / kRows * kRows;
  return tiles < kRows ? kRows : tiles;
}
int64_t ForwardTiles(const Shape& s) { return Least(TilesAtOnce(s.inputs + kBlock, 640 << 10), 96); }
int64_t WeightTiles(const Shape& s) { return Least(TilesAtOnce(s.inputs + s.outputs, 1 << 20), 96); }

struct Place {
  int64_t picture, row, column;  // of a tile's first output
};
Place PlaceOf(const Shape& s, int64_t tile) {
  const int64_t in_picture = s.Rows() * s.Columns();
  const int64_t rest = tile % in_picture;
  return {tile / in_picture, rest / s.Columns() * kTile, rest % s.Columns() * kTile};
}

alignas(64) const float kZeros[kLanes] = {};

// Bᵀ x B of a tile: places [36] at `stride`, each with the channels first … last.
void TransformInput(const Shape& s, const float* x, int64_t tile, int64_t first, int64_t last, float* to,
                    int64_t stride) {
  const Place place = PlaceOf(s, tile);
  const float* pixels[6][6];
  int64_t steps[6][6];
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      const int64_t row = place.row - s.pad_top + i, column = place.column - s.pad_left + j;
      const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
      pixels[i][j] = inside ? x + ((place.picture * s.height + row) * s.width + column) * s.inputs : kZeros;
      steps[i][j] = inside ? 1 : 0;
    }
  }
  for (int64_t c = first; c < last; c += kLanes) {
    OfSquare<6, 6, Inputs>([&](int i, int j) { return Load(pixels[i][j] + c * steps[i][j]); },
                           [&](int i, int j, Vector value) { Store(to + (i * 6 + j) * stride + c - first, value); });
  }
}

// A dy Aᵀ of a tile, with all channels.
void TransformGradient(const Shape& s, const float* dy, int64_t tile, float* to, int64_t stride) {
  const Place place = PlaceOf(s, tile);
  const int64_t rows = s.out_height - place.row, columns = s.out_width - place.column;
  const float* first = dy + ((place.picture * s.out_height + place.row) * s.out_width + place.column) * s.outputs;
  for (int64_t c = 0; c < s.outputs; c += kLanes) {
    OfSquare<4, 6, Gradients>(
        [&](int i, int j) {
          return i < rows && j < columns ? Load(first + (i * s.out_width + j) * s.outputs + c) : Vector{};
        },
        [&](int i, int j, Vector value) { Store(to + (i * 6 + j) * stride + c, value); });
  }
}

// Aᵀ m A of some channels of a tile, from places at `stride` to the picture.
void TransformOutput(const Shape& s, const float* m, int64_t stride, int64_t tile, int64_t channel, int64_t width,
                     float* y) {
  const Place place = PlaceOf(s, tile);
  const int64_t rows = s.out_height - place.row, columns = s.out_width - place.column;
  float* first = y + ((place.picture * s.out_height + place.row) * s.out_width + place.column) * s.outputs + channel;
  for (int64_t c = 0; c < width; c += kLanes) {
    OfSquare<6, 4, Outputs>([&](int i, int j) { return Load(m + (i * 6 + j) * stride + c); },
                            [&](int i, int j, Vector value) {
                              if (i < rows && j < columns) Store(first + (i * s.out_width + j) * s.outputs + c, value);
                            });
  }
}

// sums [36, channels, outputs] += the products of inputs [36, count, channels] and gradients [36, count, outputs].
void SumProducts(const float* inputs, int64_t in_stride, int64_t channels, const float* gradients, int64_t out_stride,
                 int64_t outputs, int64_t count, float* sums) {
  constexpr int kChannels = 8;  // in a product
  for (int64_t place = 0; place < kPlaces; ++place) {
    for (int64_t o = 0; o < outputs; o += kBlock) {
      for (int64_t c = 0; c < channels; c += kChannels) {
        const float *left = inputs + place * in_stride + c, *right = gradients + place * out_stride + o;
        float* out = sums + (place * channels + c) * outputs + o;
        if (outputs - o >= kBlock) {
          Product<kChannels, 2, true>(left, 1, channels, right, outputs, count, out, outputs);
        } else {
          Product<kChannels, 1, true>(left, 1, channels, right, outputs, count, out, outputs);
        }
      }
    }
  }
}

// G w Gᵀ of a block of outputs and the input channels first … last: [36, inputs, outputs of the block].
void TransformBlock(const Shape& s, bool transposed, const float* w, int64_t block, int64_t first, int64_t last,
                    float* filters) {
  const int64_t width = Least(kBlock, s.outputs - block);
  alignas(64) float turned[9][kLanes];
  for (int64_t o = 0; o < width; o += kLanes) {
    for (int64_t c = first; c < last; ++c) {
      if (transposed) {
        for (int64_t place = 0; place < 9; ++place) {
          const float* from = w + ((8 - place) * s.outputs + block + o) * s.inputs + c;
          for (int64_t lane = 0; lane < kLanes; ++lane) turned[place][lane] = from[lane * s.inputs];
        }
      }
      OfSquare<3, 6, Filters>(
          [&](int i, int j) {
            const int place = i * 3 + j;
            return transposed ? Load(turned[place]) : Load(w + (place * s.inputs + c) * s.outputs + block + o);
          },
          [&](int i, int j, Vector value) { Store(filters + ((i * 6 + j) * s.inputs + c) * width + o, value); });
    }
  }
}

// Outputs of a block of channels of the tiles begin … begin + count, from inputs [36, tiles, inputs].
void BlockOutputs(const Shape& s, const float* inputs, int64_t stride, const float* filters, int64_t block,
                  int64_t begin, int64_t count, float* products, float* y) {
  const int64_t width = Least(kBlock, s.outputs - block), out_stride = Stride(ForwardTiles(s) * kBlock);
  for (int64_t place = 0; place < kPlaces; ++place) {
    const float* right = filters + place * s.inputs * width;
    for (int64_t t = 0; t < count; t += kRows) {  // rows beyond `count` are computed, but never read
      const float* left = inputs + place * stride + t * s.inputs;
      float* out = products + place * out_stride + t * kBlock;
      if (width == kBlock) {
        Product<kRows, 2, false>(left, s.inputs, 1, right, width, s.inputs, out, kBlock);
      } else {
        Product<kRows, 1, false>(left, s.inputs, 1, right, width, s.inputs, out, kBlock);
      }
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    TransformOutput(s, products + t * kBlock, out_stride, begin + t, block, width, y);
  }
}

}  // namespace

bool Available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

// Layout: blocks of 32 outputs (the last may have 16), in each [36, inputs, outputs of the block].
size_t FilterFloats(const Shape& s) { return kPlaces * s.inputs * s.outputs; }

void TransformFilters(const Shape& s, bool transposed, const float* w, int64_t first, int64_t last, float* filters) {
  for (int64_t block = 0; block < s.outputs; block += kBlock) {
    TransformBlock(s, transposed, w, block, first, last, filters + kPlaces * s.inputs * block);
  }
}

size_t ForwardScratchFloats(const Shape& s) {
  const int64_t tiles = ForwardTiles(s);
  return kPlaces * (Stride(tiles * s.inputs) + Stride(tiles * kBlock));
}

void Forward(const Shape& s, const float* x, const float* filters, int64_t first, int64_t last, float* scratch,
             float* y) {
  const int64_t at_once = ForwardTiles(s), stride = Stride(at_once * s.inputs);
  float *inputs = scratch, *products = scratch + kPlaces * stride;
  for (int64_t begin = first; begin < last; begin += at_once) {
    const int64_t count = Least(at_once, last - begin);
    for (int64_t t = 0; t < count; ++t) TransformInput(s, x, begin + t, 0, s.inputs, inputs + t * s.inputs, stride);
    for (int64_t block = 0; block < s.outputs; block += kBlock) {
      BlockOutputs(s, inputs, stride, filters + kPlaces * s.inputs * block, block, begin, count, products, y);
    }
  }
}

size_t InputFloats(const Shape& s) { return kPlaces * Stride(RoundUp(s.Tiles(), kRows) * s.inputs); }

void TransformInputs(const Shape& s, const float* x, int64_t first, int64_t last, float* inputs) {
  const int64_t stride = Stride(RoundUp(s.Tiles(), kRows) * s.inputs);
  for (int64_t t = first; t < last; ++t) TransformInput(s, x, t, 0, s.inputs, inputs + t * s.inputs, stride);
}

size_t BlockScratchFloats(const Shape& s) {
  return kPlaces * (s.inputs * kBlock + Stride(ForwardTiles(s) * kBlock));
}

void ForwardBlock(const Shape& s, bool transposed, const float* inputs, const float* w, int64_t block, float* scratch,
                  float* y) {
  const int64_t at_once = ForwardTiles(s), stride = Stride(RoundUp(s.Tiles(), kRows) * s.inputs);
  float *filters = scratch, *products = scratch + kPlaces * s.inputs * kBlock;
  TransformBlock(s, transposed, w, block, 0, s.inputs, filters);
  for (int64_t begin = 0; begin < s.Tiles(); begin += at_once) {
    const int64_t count = Least(at_once, s.Tiles() - begin);
    BlockOutputs(s, inputs + begin * s.inputs, stride, filters, block, begin, count, products, y);
  }
}

// Sums: [36, inputs, outputs].
size_t SumFloats(const Shape& s) { return kPlaces * s.inputs * s.outputs; }

size_t WeightsScratchFloats(const Shape& s) {
  const int64_t tiles = WeightTiles(s);
  return kPlaces * (Stride(tiles * s.inputs) + Stride(tiles * s.outputs));
}

void WeightSums(const Shape& s, const float* x, const float* dy, int64_t first, int64_t last, float* scratch,
                float* sums) {
  const int64_t at_once = WeightTiles(s), in_stride = Stride(at_once * s.inputs);
  const int64_t out_stride = Stride(at_once * s.outputs);
  float *inputs = scratch, *gradients = scratch + kPlaces * in_stride;
  for (int64_t i = 0; i < static_cast<int64_t>(SumFloats(s)); ++i) sums[i] = 0;
  for (int64_t begin = first; begin < last; begin += at_once) {
    const int64_t count = Least(at_once, last - begin);
    for (int64_t t = 0; t < count; ++t) {
      TransformInput(s, x, begin + t, 0, s.inputs, inputs + t * s.inputs, in_stride);
      TransformGradient(s, dy, begin + t, gradients + t * s.outputs, out_stride);
    }
    SumProducts(inputs, in_stride, s.inputs, gradients, out_stride, s.outputs, count, sums);
  }
}

void FinishWeights(const Shape& s, const float* sums, int64_t count, int64_t first, int64_t last, float* dw) {
  const int64_t stride = s.inputs * s.outputs;
  for (int64_t at = first * s.outputs; at < last * s.outputs; at += kLanes) {
    OfSquare<6, 3, Weights>(
        [&](int i, int j) {
          Vector sum = {};
          for (int64_t part = 0; part < count; ++part) sum += Load(sums + (part * kPlaces + i * 6 + j) * stride + at);
          return sum;
        },
        [&](int i, int j, Vector value) { Store(dw + (i * 3 + j) * stride + at, value); });
  }
}

size_t GradientFloats(const Shape& s) { return kPlaces * Stride(s.Tiles() * s.outputs); }

void TransformGradients(const Shape& s, const float* dy, int64_t first, int64_t last, float* gradients) {
  const int64_t stride = Stride(s.Tiles() * s.outputs);
  for (int64_t t = first; t < last; ++t) TransformGradient(s, dy, t, gradients + t * s.outputs, stride);
}

size_t ChannelScratchFloats(const Shape& s, int64_t channels) {
  return kPlaces * (Stride(s.Tiles() * channels) + channels * s.outputs);
}

void ChannelWeights(const Shape& s, const float* x, const float* gradients, int64_t first, int64_t last, float* scratch,
                    float* dw) {
  const int64_t tiles = s.Tiles(), channels = last - first, stride = Stride(tiles * channels);
  float *inputs = scratch, *sums = scratch + kPlaces * stride;
  for (int64_t t = 0; t < tiles; ++t) TransformInput(s, x, t, first, last, inputs + t * channels, stride);
  for (int64_t i = 0; i < kPlaces * channels * s.outputs; ++i) sums[i] = 0;
  SumProducts(inputs, stride, channels, gradients, Stride(tiles * s.outputs), s.outputs, tiles, sums);
  for (int64_t at = 0; at < channels * s.outputs; at += kLanes) {
    OfSquare<6, 3, Weights>([&](int i, int j) { return Load(sums + (i * 6 + j) * channels * s.outputs + at); },
                            [&](int i, int j, Vector value) {
                              Store(dw + ((i * 3 + j) * s.inputs + first) * s.outputs + at, value);
                            });
  }
}

}  // namespace winograd

#pragma GCC pop_options

#else

namespace winograd {
bool Available() { return false; }
size_t FilterFloats(const Shape&) { return 0; }
void TransformFilters(const Shape&, bool, const float*, int64_t, int64_t, float*) {}
size_t ForwardScratchFloats(const Shape&) { return 0; }
void Forward(const Shape&, const float*, const float*, int64_t, int64_t, float*, float*) {}
size_t InputFloats(const Shape&) { return 0; }
void TransformInputs(const Shape&, const float*, int64_t, int64_t, float*) {}
size_t BlockScratchFloats(const Shape&) { return 0; }
void ForwardBlock(const Shape&, bool, const float*, const float*, int64_t, float*, float*) {}
size_t SumFloats(const Shape&) { return 0; }
size_t WeightsScratchFloats(const Shape&) { return 0; }
void WeightSums(const Shape&, const float*, const float*, int64_t, int64_t, float*, float*) {}
void FinishWeights(const Shape&, const float*, int64_t, int64_t, int64_t, float*) {}
size_t GradientFloats(const Shape&) { return 0; }
void TransformGradients(const Shape&, const float*, int64_t, int64_t, float*) {}
size_t ChannelScratchFloats(const Shape&, int64_t) { return 0; }
void ChannelWeights(const Shape&, const float*, const float*, int64_t, int64_t, float*, float*) {}
}  // namespace winograd

#endif
