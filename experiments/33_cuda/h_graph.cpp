// Step (h) of the lesson measures a feed-forward network in six launches and in two, each also as a CUDA graph.
#include "experiments/33_cuda/h_graph.h"

#include <fmt/format.h>

#include <cmath>

#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/tiles.h"
#include "infer/cuda/kernels.h"
#include "train/report/svg.h"

namespace folio::experiments {
namespace {

namespace gpu = infer::gpu;

constexpr size_t kDim = 256;
constexpr size_t kHidden = 512;
constexpr float kNormEps = 1e-5F;

/// Returns n random values from 0 to `largest`. Positive terms keep the relative error of a sum small.
std::vector<float> positive(const Lesson& lesson, size_t n, uint64_t stream, float largest) {
  std::vector<float> values = lesson.random(n, stream);
  for (float& v : values) v = (v + 1.0F) / 2.0F * largest;
  return values;
}

std::vector<double> times(const std::vector<float>& matrix, const std::vector<double>& x) {
  std::vector<double> out(matrix.size() / x.size());
  for (size_t i = 0; i < matrix.size(); ++i) out[i / x.size()] += matrix[i] * x[i % x.size()];
  return out;
}

/// The weights of a layer's feed-forward network, and an input row x.
struct Layer {
  std::vector<float> x, weight, gate, up, down;

  [[nodiscard]] std::vector<double> forward() const {
    double squares = 0.0;
    for (const float v : x) squares += double{v} * v;
    std::vector<double> normed(kDim);
    for (size_t i = 0; i < kDim; ++i) normed[i] = x[i] / std::sqrt(squares / kDim + kNormEps) * weight[i];
    std::vector<double> hidden = times(gate, normed);
    const std::vector<double> ups = times(up, normed);
    for (size_t i = 0; i < kHidden; ++i) hidden[i] *= ups[i] / (1.0 + std::exp(-hidden[i]));
    std::vector<double> out = times(down, hidden);
    for (size_t i = 0; i < kDim; ++i) out[i] += x[i];
    return out;
  }
};

/// The engine's operations on the same layer, in five launches.
struct EngineLayer {
  EngineLayer(Lesson& lesson, const Layer& layer, const FeedForward& f)
      : stream(lesson.stream()),
        x(on_device(stream, layer.x)),
        f(f),
        normed{.n_rows = 1, .k = kDim},
        gated{.n_rows = 1, .k = kHidden} {
    const auto packed = [&](const std::vector<float>& numbers, uint32_t n_out, uint32_t k) {
      gpu::PackedMatrix matrix{.n_out = n_out, .k = k};
      matrix.data = memory.emplace_back(on_device(stream, in_tiles(matrix, numbers))).as<uint8_t>();
      return matrix;
    };
    for (gpu::PackedInputs* inputs : {&normed, &gated}) {
      inputs->data = memory.emplace_back(on_device(stream, std::vector<float>(inputs->bytes() / 4))).as<uint8_t>();
    }
    first[0] = {.weight = packed(layer.gate, kHidden, kDim), .out = f.gated};
    first[1] = {.weight = packed(layer.up, kHidden, kDim), .out = f.upped};
    second = {.weight = packed(layer.down, kDim, kHidden), .out = f.branch};
  }

  void run() const {
    gpu::add_norm_pack(stream, x.as<float>(), {}, f.weight, f.eps, f.normed, normed);
    gpu::multiply(stream, normed, first, 2);
    gpu::activate_pack(stream, gpu::Activation::Silu, f.gated, f.upped, gated);
    gpu::multiply(stream, gated, &second, 1);
    gpu::add(stream, f.out, {.numbers = f.branch}, f.dim);
  }

  gpu::Stream& stream;
  gpu::DeviceMemory x;
  FeedForward f;
  gpu::PackedInputs normed;
  gpu::PackedInputs gated;
  std::vector<gpu::DeviceMemory> memory;
  gpu::Matmul first[2];
  gpu::Matmul second;
};

/// Draws the accesses of each launch's first warp over time, with a row for each array.
std::string arrays_over_time(const std::vector<std::pair<std::string, std::vector<gpu::host::WarpAccess>>>& panels,
                             const FeedForward& f) {
  const std::pair<const char*, std::pair<const float*, size_t>> arrays[] = {{"x", {f.x, f.dim}},
                                                                            {"norm's weight", {f.weight, f.dim}},
                                                                            {"normed", {f.normed, f.dim}},
                                                                            {"gate", {f.gate, kHidden * kDim}},
                                                                            {"up", {f.up, kHidden * kDim}},
                                                                            {"gate · n", {f.gated, f.hidden}},
                                                                            {"up · n", {f.upped, f.hidden}},
                                                                            {"down", {f.down, kHidden * kDim}},
                                                                            {"branch", {f.branch, f.dim}},
                                                                            {"out", {f.out, f.dim}}};
  constexpr double kLeftOfRows = 130;
  constexpr double kStep = 9;
  double y = 78;
  std::string body;
  for (const auto& [name, trace] : panels) {
    body += train::svg::text_at(24, y, name, "start", "strong");
    y += 10;
    for (const auto& [array, memory] : arrays) {
      double x = kLeftOfRows;
      body += train::svg::text_at(kLeftOfRows - 8, y + 10, array, "end");
      for (const gpu::host::WarpAccess& a : trace) {
        if (a.shared) continue;
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(a.active));
        const uint64_t at = a.address[lane] - reinterpret_cast<uint64_t>(memory.first);
        if (at < memory.second * sizeof(float)) {
          body += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="11" class="{} fill"/>)", x, y + 1,
                              kStep - 2, train::svg::colour(a.store ? 1 : 0));
        }
        x += kStep;
      }
      y += 15;
    }
    y += 26;
  }
  return train::svg::document(880, y - 10, "Who reads what: a feed-forward network",
                              "one warp's accesses, in order: loads are blue, stores orange", body);
}

}  // namespace

void step_h(Lesson& lesson) {
  constexpr float kLargest = 1.0F / 64;  // largest weight: small, so that x affects the result
  const Layer layer{positive(lesson, kDim, 1, 1.0F), positive(lesson, kDim, 2, 1.0F),
                    positive(lesson, kHidden * kDim, 3, kLargest), positive(lesson, kHidden * kDim, 4, kLargest),
                    positive(lesson, kDim * kHidden, 5, kLargest)};
  gpu::Stream& stream = lesson.stream();
  const auto x = on_device(stream, layer.x);
  const auto weight = on_device(stream, layer.weight);
  const auto gate = on_device(stream, layer.gate);
  const auto up = on_device(stream, layer.up);
  const auto down = on_device(stream, layer.down);
  const auto normed = lesson.unwritten(kDim);
  const auto gated = lesson.unwritten(kHidden);
  const auto upped = lesson.unwritten(kHidden);
  const auto branch = lesson.unwritten(kDim);
  const auto out = lesson.unwritten(kDim);
  const FeedForward f{
      x.as<float>(), weight.as<float>(), gate.as<float>(),  up.as<float>(),    down.as<float>(),   kNormEps,       kDim,
      kHidden,       normed.as<float>(), gated.as<float>(), upped.as<float>(), branch.as<float>(), out.as<float>()};
  const EngineLayer engine(lesson, layer, f);
  gpu::Recording six = stream.record([&] { feed_forward_launches(stream, f); });
  gpu::Recording two = stream.record([&] { feed_forward_fused(stream, f); });
  constexpr double kBytes = (3.0 * kHidden * kDim + 3 * kDim) * sizeof(float);
  const auto kernel = [&](const std::string& name, const std::string& symbol, const std::function<void()>& run) {
    return Kernel{name, symbol, kBytes, run, &out, {}, {.max_accesses = 200}};
  };
  const std::vector<Kernel> kernels{
      kernel("six launches", "h_graph.cu:add_each", [&] { feed_forward_launches(stream, f); }),
      kernel("six, replayed", "h_graph.cu:add_each", [&] { stream.run(six); }),
      kernel("two, fused", "h_graph.cu:down_add", [&] { feed_forward_fused(stream, f); }),
      kernel("two, fused and replayed", "h_graph.cu:down_add", [&] { stream.run(two); }),
      // The engine adds the network's output to the residual stream in place, so `out` must contain x first.
      {"the engine's", "embed.cu:add_numbers", kBytes, [&] { engine.run(); }, &out,
       [&] { stream.copy_within(out.as<float>(), x.as<float>(), x.bytes()); }}};
  // Bounds the rounding of F32 sums over kDim and kHidden, and of three matrix products by 3xTF32, 2⁻²⁰ each.
  constexpr double kRoundings = (4.0 * kDim + kHidden) * 0x1p-24 + 3 * 0x1p-20;
  const std::vector<Measured> all =
      lesson.table("h, a feed-forward network of 256 and 512", kernels, {layer.forward(), kRoundings});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [launched, replayed, fused] = std::tie(all[0].counts, all[1].counts, all[2].counts);
  const auto equal = [&](const std::string& what, uint64_t measured, uint64_t value) {
    report.check_equal("h: " + what, measured, value);
  };
  equal("launches, one after another", launched.launches, 6);
  equal("launches of a replay, which the host calls once", replayed.launches, 6);
  equal("launches, fused", fused.launches, 2);
  equal("sectors of a replay, less those of launches", replayed.sectors() - launched.sectors(), 0);
  // Fusion saves loads and stores of intermediate vectors: 5 accesses to `dim` elements, and 4 to `hidden` elements.
  equal("distinct sectors that fusing saves", launched.distinct_sectors - fused.distinct_sectors,
        (5 * kDim + 4 * kHidden) / 8);
  report.check_below("h: those, as a share of all", 1.0 - ratio(fused.distinct_sectors, launched.distinct_sectors),
                     0.01);
  equal("the engine's launches", all[4].counts.launches, 5);
  report.picture("h_graph.svg", arrays_over_time({{"six launches", all[0].trace}, {"two, fused", all[2].trace}}, f));
}

}  // namespace folio::experiments
