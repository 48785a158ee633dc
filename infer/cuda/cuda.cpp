#include "infer/cuda/cuda.h"

#include <fmt/format.h>

#include "core/error.h"
#include "infer/cuda/cuda_stage.h"

namespace folio::infer {
namespace {

class Cuda final : public Machine {
 public:
  explicit Cuda(const CudaOptions& options) : options_(options) {
    const gpu::Stream stream(options.device);  // throws if the device doesn't exist or is too old
    device_ = gpu::device_info(options.device);
  }

  [[nodiscard]] std::string describe() const override {
    return fmt::format("{}, {:.1f} GB", device_.name, static_cast<double>(device_.memory_bytes) / 1e9);
  }

  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override {
    core::require(!model.config.latent(), "{}: latent attention ({}) is supported only on CPUs; use --device cpu",
                  model.path, model.config.family);
    core::require(model.config.head_dim <= static_cast<int64_t>(gpu::kMaxGpuHeadDim),
                  "head_dim is {}, but the GPU kernels support at most {}; use --device cpu", model.config.head_dim,
                  gpu::kMaxGpuHeadDim);
    require_whole(shard, "a GPU");
    core::require(cache_type != CacheType::Q8_0,
                  "--cache-type q8_0 is supported only on CPUs; use --cache-type f16 or --device cpu");
    return std::make_unique<CudaStage>(options_, device_, model, shard.layers, cache_type);
  }

 private:
  CudaOptions options_;
  gpu::DeviceInfo device_;
};

}  // namespace

bool cuda_built() { return true; }

std::unique_ptr<Machine> make_cuda(const CudaOptions& options) { return std::make_unique<Cuda>(options); }

}  // namespace folio::infer
