// Sums over all pixels of a batch, for batch norm, in one pass over the pictures:
//
//   a, b [rows, channels], m [channels]  ->  [Σ (a − m) b, Σ b]   [2, channels]
//
// The rows are cut into parts by their shape alone, and the parts are added in their order: the same bits come out for any
// number of threads.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>

#include "parallel.h"
#include "processors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kNumbersOfAPart = 1 << 15, kMostParts = 64;

// Adds the rows of a part to products and sums. Four rows at a time: memory should be what it waits for.
FOR_EACH_PROCESSOR void AddRows(const float* __restrict a, const float* __restrict m, const float* __restrict b,
                                int64_t rows, int64_t channels, float* __restrict products, float* __restrict sums) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4, a += 4 * channels, b += 4 * channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float b0 = b[c], b1 = b[channels + c], b2 = b[2 * channels + c], b3 = b[3 * channels + c];
      const float first = (a[c] - m[c]) * b0 + (a[channels + c] - m[c]) * b1;
      const float second = (a[2 * channels + c] - m[c]) * b2 + (a[3 * channels + c] - m[c]) * b3;
      products[c] += first + second;
      sums[c] += (b0 + b1) + (b2 + b3);
    }
  }
  for (; row < rows; ++row, a += channels, b += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      products[c] += (a[c] - m[c]) * b[c];
      sums[c] += b[c];
    }
  }
}

void Sum(ffi::ThreadPool& pool, const float* a, const float* m, const float* b, int64_t rows, int64_t channels,
         float* out) {
  static thread_local Buffer buffer;
  const int64_t wanted = (rows * channels + kNumbersOfAPart - 1) / kNumbersOfAPart;
  const int64_t parts = std::max<int64_t>(1, std::min({wanted, rows, kMostParts}));
  auto* partial = reinterpret_cast<float*>(buffer.Get(parts * 2 * channels * sizeof(float)));
  InParallel(pool, parts, [=](int64_t i) {
    const int64_t first = i * rows / parts, last = (i + 1) * rows / parts;
    float* own = partial + i * 2 * channels;
    std::fill(own, own + 2 * channels, 0.0f);
    AddRows(a + first * channels, m, b + first * channels, last - first, channels, own, own + channels);
  });
  for (int64_t c = 0; c < 2 * channels; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < parts; ++i) sum += partial[i * 2 * channels + c];
    out[c] = static_cast<float>(sum);
  }
}

ffi::Error Sums(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> m, ffi::Buffer<ffi::F32> b,
                ffi::ResultBuffer<ffi::F32> out) {
  const auto channels = static_cast<int64_t>(m.element_count()), numbers = static_cast<int64_t>(a.element_count());
  if (channels == 0 || b.element_count() != a.element_count() || numbers % channels != 0) {
    return ffi::Error::InvalidArgument("metapl_onednn: wrong shapes");
  }
  try {
    Sum(pool, a.typed_data(), m.typed_data(), b.typed_data(), numbers / channels, channels, out->typed_data());
  } catch (const std::exception& error) {
    return ffi::Error::Internal(std::string("metapl_onednn: ") + error.what());
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(metapl_onednn_sums, Sums,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
