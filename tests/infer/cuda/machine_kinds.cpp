// Lists the machines that test_infer_cuda tests: those of test_infer, and the GPU emulated by tests/infer/cuda/host.
#include "infer/cuda/cuda.h"
#include "tests/infer/machines.h"

namespace folio::infer::test {
namespace {

// Average relative error of a product of two floats on a GPU, which splits each float into two TF32 numbers (mma.h).
// Each factor and the product have an error of up to 2^-20, on average half of that.
constexpr double kSplitFloats = 3 * 0x1p-21;

}  // namespace

std::vector<MachineKind> machine_kinds() {
  auto kinds = cpu_kinds();
  const auto cuda = [] { return make_cuda({.max_rows = kMaxRows}); };
  kinds.push_back({"cuda", CacheType::F32,
                   [=](const CpuOptions&) {
                     Machines machines;
                     machines.push_back(cuda());
                     return machines;
                   },
                   kSplitFloats});
  const auto latent = std::ranges::find(kinds, "latent", &MachineKind::name)->model;
  kinds.push_back({"latent_cuda_f16", CacheType::F16, kinds.back().make, kSplitFloats, latent});
  kinds.push_back({"cpu_and_cuda_f16", CacheType::F16,
                   [=](const CpuOptions& options) {
                     Machines machines;
                     machines.push_back(std::make_unique<Cpu>(options));
                     machines.push_back(cuda());
                     return machines;
                   },
                   kSplitFloats});
  return kinds;
}

}  // namespace folio::infer::test
