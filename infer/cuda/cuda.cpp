#include "infer/cuda/cuda.h"

#include <fmt/format.h>

#include "core/error.h"
#include "infer/cuda/cuda_stage.h"

namespace folio::infer {
namespace {

class Cuda final : public Machine {
 public:
  explicit Cuda(const CudaOptions& options) : options_(options) {
    gpu::Stream stream(options.device);  // throws if the device doesn't exist or is too old
    // Launching any kernel throws if this build has none for the device.
    const gpu::DeviceMemory number(stream, sizeof(float));
    stream.fill(number.as<void>(), 0, number.bytes());
    gpu::finish_logits(stream, number.as<float>(), 1, 1.0F, 0.0F);
    stream.wait();
    device_ = gpu::device_info(options.device);
  }

  [[nodiscard]] std::string describe() const override {
    return fmt::format("{}, {:.1f} GB", device_.name, static_cast<double>(device_.memory_bytes) / 1e9);
  }

  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override {
    const core::ModelConfig& c = model.config;
    const auto require_at_most = [](size_t most, const char* name, int64_t value) {
      core::require(value <= static_cast<int64_t>(most),
                    "{} is {}, but the GPU kernels support at most {}; use --device cpu", name, value, most);
    };
    if (c.latent()) {
      require_at_most(gpu::kMaxLatentRank, "kv_lora_rank", c.kv_lora_rank);
      require_at_most(gpu::kMaxLatentRank, "qk_rope_head_dim", c.qk_rope_head_dim);
    } else {
      require_at_most(gpu::kMaxGpuHeadDim, "head_dim", c.head_dim);
    }
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
