// Step (a) of the lesson measures SwiGLU with one thread per element, and with other access patterns.
#include "experiments/33_cuda/a_elements.h"

#include <cmath>

#include "experiments/33_cuda/lesson.h"
#include "experiments/33_cuda/picture.h"
#include "infer/cuda/kernels.h"

namespace folio::experiments {

void step_a(Lesson& lesson) {
  constexpr size_t kN = 100'004;  // not a multiple of the block size, 256 threads
  // Relative error bound: a sum, a division and a product are rounded by up to 2⁻²⁴ each, and exp_of() has an error of
  // about 2 ulp.
  constexpr double kRoundings = 8 * 0x1p-24;
  const std::vector<float> gates = lesson.random(kN, 1);
  const std::vector<float> ups = lesson.random(kN, 2);
  std::vector<double> expected(kN);
  for (size_t i = 0; i < kN; ++i) expected[i] = gates[i] / (1.0 + std::exp(-double{gates[i]})) * ups[i];

  const auto gate = on_device(lesson.stream(), gates);
  const auto up = on_device(lesson.stream(), ups);
  const auto out = lesson.unwritten(kN);
  const auto kernel = [&](const std::string& name, const std::string& symbol, auto swiglu) {
    return Kernel{name, symbol, 3.0 * kN * sizeof(float),
                  [&, swiglu] { swiglu(lesson.stream(), gate.as<float>(), up.as<float>(), kN, out.as<float>()); },
                  &out};
  };
  const std::vector<Kernel> kernels{
      kernel("eight elements a thread", "a_elements.cu:eights", swiglu_eights),
      kernel("a thread an element", "a_elements.cu:elements", swiglu_elements),
      kernel("four elements, one load", "a_elements.cu:fours", swiglu_fours),
      // The engine's kernel works in place, so `out` must contain the gates first.
      {"the engine's", "swiglu.cu:swiglu_plain", 3.0 * kN * sizeof(float),
       [&] {
         infer::gpu::activate(lesson.stream(), infer::gpu::Activation::Silu, out.as<float>(), up.as<float>(), kN);
       },
       &out, [&] { lesson.stream().copy_within(out.as<float>(), gate.as<float>(), gate.bytes()); }}};
  const std::vector<Measured> all = lesson.table("a, SwiGLU of 100,004 elements", kernels, {expected, kRoundings});
  lesson.check_error("a: a thread past the end", "correct the index",
                     [&] { swiglu_unchecked(lesson.stream(), gate.as<float>(), up.as<float>(), kN, out.as<float>()); });
  if (!lesson.counts()) return;
  Report& report = lesson.report();
  const auto& [eights, elements, fours, engine] = std::tie(all[0].counts, all[1].counts, all[2].counts, all[3].counts);
  report.check_equal("a: bytes requested by a thread an element", elements.requested_bytes(), 3 * kN * sizeof(float));
  report.check_equal("a: sectors of a thread an element, less those of all data once",
                     elements.sectors() - elements.distinct_sectors, 0);
  report.check_above("a: sectors of eight elements a thread, as a multiple",
                     ratio(eights.sectors(), elements.sectors()), 7.9);
  report.check_below("a: requests of four elements a thread, as a share of one's",
                     ratio(fours.load_requests, elements.load_requests), 0.251);
  report.check_equal("a: warps that part at the comparison with n", elements.divergent_branches, 1);
  report.check_equal("a: sectors of the engine's kernel", engine.sectors(), elements.sectors());
  report.picture("a_elements.svg",
                 who_reads("Who reads what: SwiGLU", {{"a thread an element", all[1].trace, 1},
                                                      {"eight elements a thread, the first of eight", all[0].trace, 1},
                                                      {"four elements a thread, one load", all[2].trace, 1}}));
}

}  // namespace folio::experiments
