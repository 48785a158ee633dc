// Step (d) of the lesson measures the product of a matrix and a vector.
#include "experiments/33_cuda/d_vector.h"

#include <cmath>

#include "core/float16.h"
#include "experiments/33_cuda/engine_product.h"
#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/picture.h"

namespace folio::experiments {

void step_d(Lesson& lesson) {
  constexpr size_t kRows = 2048;
  constexpr size_t kColumns = 1024;
  constexpr size_t kScaled = 32;
  // All kernels of the table compute the same product. Its weights are exact in 8 bits. No weight or input is negative,
  // so sums don't cancel. The inputs are multiples of 1/128, and the largest in each group of 32 is 127/128, so the
  // engine quantizes them to 8 bits exactly.
  const std::vector<float> randoms = lesson.random(kRows * kColumns, 1);
  const std::vector<float> randoms_of_scales = lesson.random(kRows * kColumns / kScaled, 2);
  std::vector<float> xs = lesson.random(kColumns, 3);
  std::vector<int8_t> quants(randoms.size());
  std::vector<uint16_t> scales(randoms_of_scales.size());
  std::vector<float> weights(randoms.size());
  for (size_t i = 0; i < kColumns; ++i)
    xs[i] = i % kScaled == 0 ? 127.0F / 128 : std::floor(std::abs(xs[i]) * 127) / 128;
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = core::float_to_f16((1.0F + std::abs(randoms_of_scales[i])) / 128);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    quants[i] = static_cast<int8_t>(std::abs(randoms[i]) * 127);
    weights[i] = static_cast<float>(quants[i]) * core::f16_to_float(scales[i / kScaled]);
  }
  std::vector<double> expected(kRows);
  for (size_t i = 0; i < weights.size(); ++i) expected[i / kColumns] += double{weights[i]} * xs[i % kColumns];

  const auto weight = on_device(lesson.stream(), weights);
  const auto quant = on_device(lesson.stream(), quants);
  const auto scale = on_device(lesson.stream(), scales);
  const auto x = on_device(lesson.stream(), xs);
  const auto out = lesson.unwritten(kRows);
  const VectorProduct product{weight.as<float>(), x.as<float>(), kRows, kColumns, out.as<float>()};
  const QuantizedProduct quantized{quant.as<int8_t>(), scale.as<uint16_t>(), x.as<float>(), kRows,
                                   kColumns,           out.as<float>()};
  const EngineProduct engine(lesson.stream(),
                             {.n_out = kRows,
                              .k = kColumns,
                              .kind = infer::gpu::Kind::Groups,
                              .bits = 8,
                              .group = kScaled,
                              .half_scales = true},
                             quants, scales, x.as<float>(), 1);
  constexpr double kFloats = (kColumns + kRows) * sizeof(float);  // bytes of the input and output vectors
  constexpr double kBytes = kRows * kColumns * sizeof(float) + kFloats;
  constexpr double kQuantBytes = kRows * kColumns * (1 + 2.0 / kScaled) + kFloats;
  const std::vector<Kernel> kernels{
      {"a thread a row", "d_vector.cu:threads", kBytes, [&] { product_threads(lesson.stream(), product); }, &out},
      {"a warp a row", "d_vector.cu:warps", kBytes, [&] { product_warps(lesson.stream(), product); }, &out},
      {"a warp a row, 8 bits", "d_vector.cu:quants", kQuantBytes, [&] { product_quants(lesson.stream(), quantized); },
       &out},
      {"the engine's, 8 bits", "product.cu:product_narrow<Groups<8, 32, false>, 1, 1>", kQuantBytes,
       [&] { engine.run(lesson.stream(), out.as<float>()); }, &out}};
  const std::vector<Measured> all =
      lesson.table("d, 2,048 × 1,024 by a vector", kernels, {expected, kColumns * 0x1p-24});
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [threads, warps, eights, engines] = std::tie(all[0].counts, all[1].counts, all[2].counts, all[3].counts);
  report.check_equal("d: bytes requested by a thread a row, less those of a warp a row",
                     threads.requested_bytes() - warps.requested_bytes(), 0);
  report.check_above("d: sectors of a thread a row, as a multiple", ratio(threads.sectors(), warps.sectors()), 4.0);
  report.check_below("d: distinct sectors with 8-bit weights, as a share",
                     ratio(eights.distinct_sectors, warps.distinct_sectors), 0.27);
  // For 128 weights of 8 bits: 4 sectors of weights, 1 with their 4 scales, and 16 with their inputs (512 bytes).
  report.check_equal("d: sectors for 128 weights of 8 bits, a warp a row",
                     eights.load_sectors / (kRows * kColumns / 128), 4 + 1 + 16);
  report.check_below("d: sectors of the engine's kernel, as a share of a warp a row's",
                     ratio(engines.sectors(), eights.sectors()), 0.5);
  Report::Rows rows;
  for (const double bits : {32.0, 16.0, 8.5, 4.5}) {
    auto& row = rows.emplace_back(std::vector<Report::Json>{bits});
    for (const Card& card : cards()) row.emplace_back(card.bytes_per_s / (8e9 * bits / 8));
  }
  report.table("d, tokens per second of 8 billion weights, at most",
               {"bits per weight", cards()[0].name, cards()[1].name, cards()[2].name}, rows);
  report.picture("d_vector.svg",
                 who_reads("Who reads what: a matrix by a vector", {{"a thread a row", all[0].trace, 2},
                                                                    {"a warp a row", all[1].trace, 2},
                                                                    {"a warp a row, 8 bits", all[2].trace, 3}}));
}

}  // namespace folio::experiments
