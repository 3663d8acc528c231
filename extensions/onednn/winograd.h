// 3×3 convolutions with stride 1 by Winograd's algorithm F(4×4, 3×3): a quarter of the multiplications.
//
// A tile of 6×6 inputs gives 4×4 outputs. With ⊙ for the product of numbers at the same of the 36 places:
//
//   y  = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A        summed over the input channels: 36 matrix products
//   dw = Gᵀ [ (Bᵀ x B) ⊙ (A dy Aᵀ) ] G       summed over the tiles
//
// The gradient of the input is the first form, with dy for x and the filters turned by 180 degrees.
// All functions work on a part of the whole and are called from several threads; none of them allocates memory.

#ifndef METAPL_ONEDNN_WINOGRAD_H_
#define METAPL_ONEDNN_WINOGRAD_H_

#include <cstddef>
#include <cstdint>

namespace winograd {

constexpr int64_t kPlaces = 36, kTile = 4;
constexpr int64_t kRows = 8;  // tiles in a matrix product: parts of the work should be multiples of it
constexpr int64_t kBlock = 32;  // output channels in a matrix product

// Pictures in [N, height, width, inputs] and out [N, out_height, out_width, outputs]; channels are multiples of 16.
struct Shape {
  int64_t batch, height, width, inputs, out_height, out_width, outputs, pad_top, pad_left;

  int64_t Rows() const { return (out_height + kTile - 1) / kTile; }
  int64_t Columns() const { return (out_width + kTile - 1) / kTile; }
  int64_t Tiles() const { return batch * Rows() * Columns(); }
};

bool Available();  // whether this processor has the instructions

// Filters w [3, 3, inputs, outputs] of the input channels first … last to the layout that Forward reads.
// `transposed`: w is [3, 3, outputs, inputs] and turned by 180 degrees, as for the gradient of the input.
size_t FilterFloats(const Shape& shape);
void TransformFilters(const Shape& shape, bool transposed, const float* w, int64_t first, int64_t last, float* filters);

// Outputs of the tiles first … last.
size_t ForwardScratchFloats(const Shape& shape);
void Forward(const Shape& shape, const float* x, const float* filters, int64_t first, int64_t last, float* scratch,
             float* y);

// The same if there are few tiles for many channels, whose transformed filters would be larger than the pictures: the
// transformed tiles first … last; then the outputs of kBlock channels, from all tiles.
size_t InputFloats(const Shape& shape);
void TransformInputs(const Shape& shape, const float* x, int64_t first, int64_t last, float* inputs);
size_t BlockScratchFloats(const Shape& shape);
void ForwardBlock(const Shape& shape, bool transposed, const float* inputs, const float* w, int64_t block,
                  float* scratch, float* y);

// dw if there are many tiles: the sum over the tiles first … last of the products at all 36 places; then, of `count` such
// sums one after another, dw of the input channels first … last.
size_t SumFloats(const Shape& shape);
size_t WeightsScratchFloats(const Shape& shape);
void WeightSums(const Shape& shape, const float* x, const float* dy, int64_t first, int64_t last, float* scratch,
                float* sums);
void FinishWeights(const Shape& shape, const float* sums, int64_t count, int64_t first, int64_t last, float* dw);

// dw if there are few tiles for many channels, whose sums over parts of the tiles would be larger than the pictures:
// the transformed dy of the tiles first … last; then dw of the input channels first … last, from all tiles.
size_t GradientFloats(const Shape& shape);
void TransformGradients(const Shape& shape, const float* dy, int64_t first, int64_t last, float* gradients);
size_t ChannelScratchFloats(const Shape& shape, int64_t channels);
void ChannelWeights(const Shape& shape, const float* x, const float* gradients, int64_t first, int64_t last,
                    float* scratch, float* dw);

}  // namespace winograd

#endif  // METAPL_ONEDNN_WINOGRAD_H_
