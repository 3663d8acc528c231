// Convolutions as sums of matrix products, one for each place (tap) of the kernel:
//
//   y[r]  = Σ_taps x[q] w[tap]           dx[q] = Σ_taps dy[r] w[tap]ᵀ           dw[tap] = Σ_r x[q]ᵀ dy[r]
//
// where the output pixel r reads the input pixel q at that tap; taps outside of the picture are left out. Weights stay in
// JAX's layout, and each call computes a part of the result by itself: no sums over parts, so the number of threads
// changes no bit. For 1×1 kernels, strides and small pictures; channels are multiples of 16.

#ifndef METAPL_ONEDNN_DIRECT_H_
#define METAPL_ONEDNN_DIRECT_H_

#include <cstddef>
#include <cstdint>

namespace direct {

constexpr int64_t kBlock = 32;     // channels of a result in a matrix product
constexpr int64_t kChannels = 64;  // input channels of a part of dw
constexpr int64_t kMostRows = 512;  // pixels of a part of y or dx

struct Shape {
  int64_t batch, height, width, inputs, out_height, out_width, outputs, kernel_height, kernel_width;
  int64_t stride_height, stride_width, pad_top, pad_left;

  int64_t InputPixels() const { return batch * height * width; }
  int64_t OutputPixels() const { return batch * out_height * out_width; }
  int64_t Taps() const { return kernel_height * kernel_width; }
};

// A range of pixels (at most kMostRows) and of channels of a result.
struct Part {
  int64_t first_row, last_row, first_channel, last_channel;
};

// A part of y from x and w or, if `back`, of dx from dy and w.
size_t PicturesScratchBytes(const Shape& shape);
void Pictures(const Shape& shape, bool back, const float* from, const float* w, Part part, void* scratch, float* to);

// dw of one tap; `part` has input channels (at most kChannels) as rows, and output channels.
size_t WeightsScratchBytes(const Shape& shape);
void Weights(const Shape& shape, const float* x, const float* dy, int64_t tap, Part part, void* scratch, float* dw);

}  // namespace direct

#endif  // METAPL_ONEDNN_DIRECT_H_
