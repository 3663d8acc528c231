// Convolutions of float32 pictures by oneDNN, for XLA programs on CPUs (XLA's foreign function interface).
//
//   forward   x, w   -> y        weights   x, dy  -> dw
//   input     dy, w  -> dx       x [N, H, W, I], w [kh, kw, I / groups, O], y [N, H', W', O], as JAX stores them
//
// With AVX-512, 3×3 convolutions with stride 1 are computed by winograd.cc, and most others by direct.cc; small depthwise
// weight gradients here, because oneDNN is slower at them. For all others the batch is cut into one slice for each thread
// of XLA's own pool, and each slice is one call of oneDNN with one thread. So oneDNN never starts threads that would
// compete with XLA's. The weight gradients of the slices are added in the order of the slices: the same machine gives the
// same bits.

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "direct.h"
#include "dnnl.hpp"
#include "parallel.h"
#include "processors.h"
#include "winograd.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using dnnl::memory;

namespace {

enum Kind : int64_t { kForward = 0, kInput = 1, kWeights = 2 };

// What a call computes; `metapl/models/onednn.py` sends these numbers in this order.
struct Geometry {
  int64_t kind, batch, height, width, inputs, outputs, out_height, out_width, kernel_height, kernel_width;
  int64_t stride_height, stride_width, pad_top, pad_bottom, pad_left, pad_right, groups;

  static constexpr size_t kNumbers = 17;
  bool operator<(const Geometry& other) const {
    return std::lexicographical_compare(&kind, &kind + kNumbers, &other.kind, &other.kind + kNumbers);
  }
};
static_assert(sizeof(Geometry) == Geometry::kNumbers * sizeof(int64_t));

// oneDNN's wheel uses OpenMP. While this lives, calls from this thread use this thread alone.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
};

dnnl::engine& Cpu() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// One compiled convolution of one slice of a batch.
struct Plan {
  dnnl::primitive primitive;
  dnnl::reorder reorder;  // of weights: from JAX's layout to oneDNN's, or back for a gradient
  bool same_layout = false;
  memory::desc x, y, weights, jax_weights, scratch;
};

template <class Description, class Primitive>
void Finish(Plan& plan, const Description& description, const Primitive& primitive) {
  plan.primitive = primitive;
  plan.scratch = description.scratchpad_desc();
}

std::shared_ptr<const Plan> MakePlan(const Geometry& g) {
  OneThread one;
  auto plan = std::make_shared<Plan>();
  const auto f32 = memory::data_type::f32;
  const int64_t depth = g.inputs / g.groups, features = g.outputs / g.groups;
  plan->x = {{g.batch, g.inputs, g.height, g.width}, f32, memory::format_tag::nhwc};
  plan->y = {{g.batch, g.outputs, g.out_height, g.out_width}, f32, memory::format_tag::nhwc};
  memory::dims shape{features, depth, g.kernel_height, g.kernel_width};
  memory::dims strides{1, g.outputs, g.kernel_width * depth * g.outputs, depth * g.outputs};
  if (g.groups > 1) {
    shape.insert(shape.begin(), g.groups);
    strides.insert(strides.begin(), features);
  }
  plan->jax_weights = {shape, f32, strides};
  const memory::desc any(shape, f32, memory::format_tag::any);
  const memory::dims steps{g.stride_height, g.stride_width}, before{g.pad_top, g.pad_left},
      after{g.pad_bottom, g.pad_right};

  dnnl::primitive_attr own_scratch;
  own_scratch.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(Cpu(), dnnl::prop_kind::forward_training, direct, plan->x,
                                                          any, plan->y, steps, before, after, own_scratch);
  if (g.kind == kForward) {
    plan->weights = forward.weights_desc();
    Finish(*plan, forward, dnnl::convolution_forward(forward));
  } else if (g.kind == kInput) {
    const dnnl::convolution_backward_data::primitive_desc input(Cpu(), direct, plan->x, any, plan->y, steps, before,
                                                                after, forward, own_scratch);
    plan->weights = input.weights_desc();
    Finish(*plan, input, dnnl::convolution_backward_data(input));
  } else {
    const dnnl::convolution_backward_weights::primitive_desc weights(Cpu(), direct, plan->x, any, plan->y, steps,
                                                                     before, after, forward, own_scratch);
    plan->weights = weights.diff_weights_desc();
    Finish(*plan, weights, dnnl::convolution_backward_weights(weights));
  }
  plan->same_layout = plan->weights == plan->jax_weights;
  if (!plan->same_layout) {
    const auto& from = g.kind == kWeights ? plan->weights : plan->jax_weights;
    const auto& to = g.kind == kWeights ? plan->jax_weights : plan->weights;
    plan->reorder = dnnl::reorder(dnnl::reorder::primitive_desc(Cpu(), from, Cpu(), to));
  }
  return plan;
}

std::shared_ptr<const Plan> PlanFor(const Geometry& geometry) {
  static auto* mutex = new std::mutex;
  static auto* plans = new std::map<Geometry, std::shared_ptr<const Plan>>;
  std::lock_guard<std::mutex> lock(*mutex);
  auto& plan = (*plans)[geometry];
  if (!plan) plan = MakePlan(geometry);
  return plan;
}

void Run(const Plan& plan, int64_t kind, float* x, void* weights, float* y) {
  static thread_local Buffer buffer;
  static thread_local dnnl::stream stream(Cpu());
  OneThread one;
  const int x_name = kind == kInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  const int weights_name = kind == kWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  const int y_name = kind == kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
  std::unordered_map<int, memory> arguments{{x_name, memory(plan.x, Cpu(), x)},
                                            {weights_name, memory(plan.weights, Cpu(), weights)},
                                            {y_name, memory(plan.y, Cpu(), y)}};
  if (plan.scratch.get_size() > 0) {
    arguments.insert({DNNL_ARG_SCRATCHPAD, memory(plan.scratch, Cpu(), buffer.Get(plan.scratch.get_size()))});
  }
  plan.primitive.execute(stream, arguments);
  stream.wait();
}

void Reorder(const Plan& plan, const memory::desc& from, void* source, const memory::desc& to, void* target) {
  static thread_local dnnl::stream stream(Cpu());
  OneThread one;
  plan.reorder.execute(stream, {{DNNL_ARG_FROM, memory(from, Cpu(), source)}, {DNNL_ARG_TO, memory(to, Cpu(), target)}});
  stream.wait();
}

// A batch in nearly equal slices; their plans differ by their size alone, and all have one layout of weights.
class Slices {
 public:
  Slices(Geometry geometry, int64_t threads)
      : count_(std::max<int64_t>(1, std::min(geometry.batch, threads))), batch_(geometry.batch) {
    x_row_ = geometry.height * geometry.width * geometry.inputs;
    y_row_ = geometry.out_height * geometry.out_width * geometry.outputs;
    for (int64_t i = 0; i < count_; ++i) {
      geometry.batch = First(i + 1) - First(i);
      plans_.push_back(PlanFor(geometry));
      if (plans_[i]->weights != plans_[0]->weights) one_layout_ = false;
    }
  }
  int64_t count() const { return count_; }
  bool one_layout() const { return one_layout_; }
  const Plan& plan(int64_t i) const { return *plans_[i]; }
  float* X(float* x, int64_t i) const { return x + First(i) * x_row_; }
  float* Y(float* y, int64_t i) const { return y + First(i) * y_row_; }

 private:
  int64_t First(int64_t i) const { return i * batch_ / count_; }
  int64_t count_, batch_, x_row_, y_row_;
  bool one_layout_ = true;
  std::vector<std::shared_ptr<const Plan>> plans_;
};

void WithWeights(ffi::ThreadPool& pool, const Slices& slices, int64_t kind, float* x, float* weights, float* y) {
  static thread_local Buffer buffer;
  const Plan& first = slices.plan(0);
  void* laid_out = weights;
  if (!first.same_layout) {
    laid_out = buffer.Get(first.weights.get_size());
    Reorder(first, first.jax_weights, weights, first.weights, laid_out);
  }
  InParallel(pool, slices.count(), [=, &slices](int64_t i) {
    Run(slices.plan(i), kind, slices.X(x, i), laid_out, slices.Y(y, i));
  });
}

void OfWeights(ffi::ThreadPool& pool, const Slices& slices, float* x, float* gradient, float* y) {
  static thread_local Buffer buffer;
  const Plan& first = slices.plan(0);
  const size_t bytes = (first.weights.get_size() + 63) / 64 * 64, numbers = first.weights.get_size() / sizeof(float);
  char* parts = buffer.Get(bytes * slices.count());
  InParallel(pool, slices.count(), [=, &slices](int64_t i) {
    Run(slices.plan(i), kWeights, slices.X(x, i), parts + i * bytes, slices.Y(y, i));
  });
  auto* sum = reinterpret_cast<float*>(parts);
  for (int64_t i = 1; i < slices.count(); ++i) {
    const auto* part = reinterpret_cast<const float*>(parts + i * bytes);
    for (size_t j = 0; j < numbers; ++j) sum[j] += part[j];
  }
  if (first.same_layout) {
    std::copy(sum, sum + numbers, gradient);
  } else {
    Reorder(first, first.weights, sum, first.jax_weights, gradient);
  }
}

// The weight gradients of `Width` channels of a depthwise convolution: a sum over all pixels for each place of the kernel.
// The sums of a block of channels stay in the processor's first cache.
template <int64_t Width>
FOR_EACH_PROCESSOR void DepthwiseBlock(const Geometry& g, const float* x, const float* dy, float* dw) {
  const int64_t channels = g.inputs;
  for (int64_t place = 0; place < g.kernel_height * g.kernel_width; ++place) {
    std::fill(dw + place * channels, dw + place * channels + Width, 0.0f);
  }
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t row = 0; row < g.out_height; ++row) {
      for (int64_t column = 0; column < g.out_width; ++column) {
        const float* pixel = dy + ((n * g.out_height + row) * g.out_width + column) * channels;
        const int64_t top = row * g.stride_height - g.pad_top, left = column * g.stride_width - g.pad_left;
        const int64_t first_b = std::max<int64_t>(0, -left), last_b = std::min(g.kernel_width, g.width - left);
        for (int64_t a = std::max<int64_t>(0, -top); a < std::min(g.kernel_height, g.height - top); ++a) {
          const float* seen = x + ((n * g.height + top + a) * g.width + left) * channels;
          float* sums = dw + a * g.kernel_width * channels;
          for (int64_t b = first_b; b < last_b; ++b) {
            for (int64_t c = 0; c < Width; ++c) sums[b * channels + c] += seen[b * channels + c] * pixel[c];
          }
        }
      }
    }
  }
}

// Each thread has channels of its own, so the same bits come out for any number of threads.
void DepthwiseWeights(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* dy, float* dw) {
  constexpr int64_t kBlock = 16;
  const int64_t blocks = g.inputs / kBlock, threads = std::max<int64_t>(1, std::min(blocks, pool.num_threads()));
  InParallel(pool, threads, [=](int64_t i) {
    int64_t c = i * blocks / threads * kBlock;
    const int64_t end = i + 1 == threads ? g.inputs : (i + 1) * blocks / threads * kBlock;
    for (; c + 64 <= end; c += 64) DepthwiseBlock<64>(g, x + c, dy + c, dw + c);
    for (; c + kBlock <= end; c += kBlock) DepthwiseBlock<kBlock>(g, x + c, dy + c, dw + c);
    for (; c < end; ++c) DepthwiseBlock<1>(g, x + c, dy + c, dw + c);
  });
}

// Whether DepthwiseWeights is faster than oneDNN. Batch 16, 2 cores, oneDNN and this: 1,152 channels at 2×2, 5×5 kernel,
// 6.5 and 0.03 ms; 240 channels at 8×8, 5×5, 1.9 and 0.6 ms; 144 channels at 16×16, 3×3, 0.3 and 0.8 ms.
bool IsSmallDepthwise(const Geometry& g) {
  return g.groups > 1 && g.groups == g.inputs && g.groups == g.outputs && g.out_height * g.out_width <= 64;
}

// The convolution that Winograd's algorithm computes for a call: of x, or for the gradient of the input, of dy.
winograd::Shape WinogradShape(const Geometry& g) {
  if (g.kind == kInput) {
    return {g.batch, g.out_height, g.out_width, g.outputs, g.height, g.width, g.inputs, 2 - g.pad_top, 2 - g.pad_left};
  }
  return {g.batch, g.height, g.width, g.inputs, g.out_height, g.out_width, g.outputs, g.pad_top, g.pad_left};
}

// Winograd's algorithm computes three to four times as many outputs in a second as oneDNN. So it is worth it as long as
// not more than half of the pixels of its tiles lie outside of the picture, and there are enough tiles for the work of
// transforming the filters: 256 channels at 4×4, batch 16 (16 tiles), one core, all three kinds: 6.0 instead of 8.6 ms.
constexpr int64_t kFewestTiles = 16, kMostWaste = 2;

bool SuitsWinograd(const Geometry& g) {
  static const bool available = winograd::Available();
  const bool is_3x3 = g.kernel_height == 3 && g.kernel_width == 3 && g.stride_height == 1 && g.stride_width == 1;
  const bool plain = g.groups == 1 && g.inputs % 16 == 0 && g.outputs % 16 == 0;
  if (!available || !is_3x3 || !plain || std::max({g.pad_top, g.pad_bottom, g.pad_left, g.pad_right}) > 2) return false;
  const auto shape = WinogradShape(g);
  const int64_t pixels = g.batch * shape.out_height * shape.out_width;
  return shape.Tiles() >= kFewestTiles && shape.Tiles() * winograd::kTile * winograd::kTile <= kMostWaste * pixels;
}

// Work whose parts need nothing of each other is cut into more parts than there are threads: a thread that comes late, or
// that another program has interrupted, then does fewer of them.
constexpr int64_t kPartsForAThread = 4;

// Where part i of `count` begins, if `total` is cut into parts whose sizes are multiples of `unit`, but for the last.
int64_t Begin(int64_t i, int64_t count, int64_t total, int64_t unit) {
  const int64_t units = (total + unit - 1) / unit;
  return std::min(total, i * units / count * unit);
}

float* Floats(Buffer& buffer, size_t count) { return reinterpret_cast<float*>(buffer.Get(count * sizeof(float))); }

void WinogradPictureByTiles(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* w, float* y) {
  static thread_local Buffer buffer;
  const auto shape = WinogradShape(g);
  const int64_t threads = std::max<int64_t>(1, pool.num_threads());
  float* filters = Floats(buffer, winograd::FilterFloats(shape));
  InParallel(pool, threads, [=](int64_t i) {
    const int64_t first = Begin(i, threads, shape.inputs, 16), last = Begin(i + 1, threads, shape.inputs, 16);
    winograd::TransformFilters(shape, g.kind == kInput, w, first, last, filters);
  });
  const int64_t parts = threads == 1 ? 1 : kPartsForAThread * threads;
  InParallel(pool, parts, [=](int64_t i) {
    static thread_local Buffer scratch;
    const int64_t first = Begin(i, parts, shape.Tiles(), winograd::kRows);
    const int64_t last = Begin(i + 1, parts, shape.Tiles(), winograd::kRows);
    winograd::Forward(shape, x, filters, first, last, Floats(scratch, winograd::ForwardScratchFloats(shape)), y);
  });
}

void WinogradPictureByChannels(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* w, float* y) {
  static thread_local Buffer buffer;
  const auto shape = WinogradShape(g);
  const int64_t threads = std::max<int64_t>(1, pool.num_threads());
  float* inputs = Floats(buffer, winograd::InputFloats(shape));
  InParallel(pool, threads, [=](int64_t i) {
    const int64_t first = Begin(i, threads, shape.Tiles(), 1), last = Begin(i + 1, threads, shape.Tiles(), 1);
    winograd::TransformInputs(shape, x, first, last, inputs);
  });
  InParallel(pool, (shape.outputs + winograd::kBlock - 1) / winograd::kBlock, [=](int64_t i) {
    static thread_local Buffer scratch;
    float* own = Floats(scratch, winograd::BlockScratchFloats(shape));
    winograd::ForwardBlock(shape, g.kind == kInput, inputs, w, i * winograd::kBlock, own, y);
  });
}

void WinogradWeightsByTiles(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* dy, float* dw) {
  static thread_local Buffer buffer;
  const auto shape = WinogradShape(g);
  const int64_t threads = std::max<int64_t>(1, pool.num_threads()), floats = winograd::SumFloats(shape);
  float* sums = Floats(buffer, threads * floats);
  InParallel(pool, threads, [=](int64_t i) {
    static thread_local Buffer scratch;
    const int64_t first = Begin(i, threads, shape.Tiles(), 1), last = Begin(i + 1, threads, shape.Tiles(), 1);
    float* own = Floats(scratch, winograd::WeightsScratchFloats(shape));
    winograd::WeightSums(shape, x, dy, first, last, own, sums + i * floats);
  });
  InParallel(pool, threads, [=](int64_t i) {
    const int64_t first = Begin(i, threads, shape.inputs, 1), last = Begin(i + 1, threads, shape.inputs, 1);
    winograd::FinishWeights(shape, sums, threads, first, last, dw);
  });
}

void WinogradWeightsByChannels(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* dy, float* dw) {
  static thread_local Buffer buffer;
  const auto shape = WinogradShape(g);
  const int64_t threads = std::max<int64_t>(1, pool.num_threads());
  float* gradients = Floats(buffer, winograd::GradientFloats(shape));
  InParallel(pool, threads, [=](int64_t i) {
    const int64_t first = Begin(i, threads, shape.Tiles(), 1), last = Begin(i + 1, threads, shape.Tiles(), 1);
    winograd::TransformGradients(shape, dy, first, last, gradients);
  });
  const int64_t channels = shape.inputs % 32 == 0 && shape.inputs >= 32 * threads ? 32 : 16;
  InParallel(pool, shape.inputs / channels, [=](int64_t i) {
    static thread_local Buffer scratch;
    float* own = Floats(scratch, winograd::ChannelScratchFloats(shape, channels));
    winograd::ChannelWeights(shape, x, gradients, i * channels, (i + 1) * channels, own, dw);
  });
}

// By channels if there are few tiles for so many. Batch 16, one core, by tiles and by channels: dw of 256 channels at 4×4
// 6.4 and 1.1 ms, of 128 at 8×8 2.1 and 0.9 ms; y of 256 channels at 4×4 2.7 and 2.0 ms, of 128 at 8×8 with batch 64 4.4
// and 4.7 ms.
void Winograd(ffi::ThreadPool& pool, const Geometry& g, const float* a, const float* b, float* out) {
  const auto shape = WinogradShape(g);
  if (g.kind == kWeights) {
    const bool few = shape.Tiles() <= 2 * shape.inputs;
    (few ? WinogradWeightsByChannels : WinogradWeightsByTiles)(pool, g, a, b, out);
  } else {
    const bool few = 2 * shape.Tiles() <= shape.inputs;
    (few ? WinogradPictureByChannels : WinogradPictureByTiles)(pool, g, a, b, out);
  }
}

// 1×1 kernels, strides and small pictures. At these, direct.cc is at the processor's peak (100 GFLOP/s of one core), and
// oneDNN lays out the weights anew in each call: 1024→2048, 1×1 with stride 2 to 2×2, batch 16, all three kinds, 9.2
// instead of 23.9 ms of processor time; 3×3 with 512 channels at 2×2 5.0 instead of 13 ms as XLA's product.
constexpr int64_t kMostTaps = 9;  // as in metapl/models/convolution.py
constexpr int64_t kLeastFlops = 1 << 20;  // of a part: about 10 µs

bool SuitsDirect(const Geometry& g) {
  static const bool available = winograd::Available();
  const bool plain = g.groups == 1 && g.inputs % 16 == 0 && g.outputs % 16 == 0;
  return available && plain && g.kernel_height * g.kernel_width <= kMostTaps;
}

// How many parts the work is cut into, at least if its shape allows it.
int64_t WantedParts(ffi::ThreadPool& pool, const Geometry& g) {
  const int64_t pixels = g.batch * g.out_height * g.out_width, taps = g.kernel_height * g.kernel_width;
  const int64_t flops = 2 * pixels * taps * g.inputs * g.outputs;
  return std::max<int64_t>(1, std::min(kPartsForAThread * pool.num_threads(), flops / kLeastFlops));
}

direct::Shape DirectShape(const Geometry& g) {
  return {g.batch,         g.height,       g.width,         g.inputs,       g.out_height, g.out_width, g.outputs,
          g.kernel_height, g.kernel_width, g.stride_height, g.stride_width, g.pad_top,    g.pad_left};
}

// A result of `rows` times `channels` in parts: as many of its rows as may be, and then as many blocks of channels as
// give each thread several parts.
class Parts {
 public:
  Parts(int64_t rows, int64_t most_rows, int64_t channels, int64_t wanted)
      : rows_(rows), channels_(channels), row_parts_((rows + most_rows - 1) / most_rows) {
    const int64_t blocks = (channels + direct::kBlock - 1) / direct::kBlock;
    channel_parts_ = std::max<int64_t>(1, std::min(blocks, (wanted + row_parts_ - 1) / row_parts_));
  }
  int64_t count() const { return row_parts_ * channel_parts_; }
  direct::Part operator[](int64_t i) const {
    const int64_t row = i / channel_parts_, channel = i % channel_parts_;
    return {Begin(row, row_parts_, rows_, 16), Begin(row + 1, row_parts_, rows_, 16),
            Begin(channel, channel_parts_, channels_, direct::kBlock),
            Begin(channel + 1, channel_parts_, channels_, direct::kBlock)};
  }

 private:
  int64_t rows_, channels_, row_parts_, channel_parts_;
};

void DirectPictures(ffi::ThreadPool& pool, const Geometry& g, const float* from, const float* w, float* to) {
  const auto shape = DirectShape(g);
  const bool back = g.kind == kInput;
  const int64_t rows = back ? shape.InputPixels() : shape.OutputPixels();
  const Parts parts(rows, direct::kMostRows, back ? g.inputs : g.outputs, WantedParts(pool, g));
  InParallel(pool, parts.count(), [=](int64_t i) {
    static thread_local Buffer scratch;
    direct::Pictures(shape, back, from, w, parts[i], scratch.Get(direct::PicturesScratchBytes(shape)), to);
  });
}

void DirectWeights(ffi::ThreadPool& pool, const Geometry& g, const float* x, const float* dy, float* dw) {
  const auto shape = DirectShape(g);
  const int64_t wanted = (WantedParts(pool, g) + shape.Taps() - 1) / shape.Taps();
  const Parts parts(g.inputs, direct::kChannels, g.outputs, wanted);
  InParallel(pool, shape.Taps() * parts.count(), [=](int64_t i) {
    static thread_local Buffer scratch;
    const int64_t tap = i / parts.count();
    direct::Weights(shape, x, dy, tap, parts[i % parts.count()], scratch.Get(direct::WeightsScratchBytes(shape)), dw);
  });
}

ffi::Error Convolution(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b,
                       ffi::ResultBuffer<ffi::F32> result, ffi::Span<const int64_t> numbers) {
  if (numbers.size() != Geometry::kNumbers) return ffi::Error::InvalidArgument("metapl_onednn: wrong geometry");
  Geometry geometry;
  std::copy(numbers.begin(), numbers.end(), &geometry.kind);
  float *first = a.typed_data(), *second = b.typed_data(), *out = result->typed_data();
  try {
    if (geometry.kind == kWeights && IsSmallDepthwise(geometry)) {
      DepthwiseWeights(pool, geometry, first, second, out);
      return ffi::Error::Success();
    }
    if (SuitsWinograd(geometry)) {
      Winograd(pool, geometry, first, second, out);
      return ffi::Error::Success();
    }
    if (SuitsDirect(geometry)) {
      if (geometry.kind == kWeights) {
        DirectWeights(pool, geometry, first, second, out);
      } else {
        DirectPictures(pool, geometry, first, second, out);
      }
      return ffi::Error::Success();
    }
    Slices slices(geometry, pool.num_threads());
    if (!slices.one_layout()) slices = Slices(geometry, 1);
    switch (geometry.kind) {
      case kForward: WithWeights(pool, slices, kForward, first, second, out); break;
      case kInput: WithWeights(pool, slices, kInput, out, second, first); break;
      default: OfWeights(pool, slices, first, out, second);
    }
  } catch (const std::exception& error) {
    return ffi::Error::Internal(std::string("metapl_onednn: ") + error.what());
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(metapl_onednn_convolution, Convolution,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<ffi::Span<const int64_t>>("geometry"));

// Whether this processor has the instructions that winograd.cc and direct.cc need, and the compiler could write them.
extern "C" int metapl_onednn_own_kernels() { return winograd::Available() ? 1 : 0; }
