#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/adapter_files.h"
#include "core/formats/adapter_tensors.h"
#include "core/formats/family_files.h"
#include "core/formats/gguf.h"

namespace folio::core {
namespace {

constexpr const char* kAlpha = "adapter.lora.alpha";

void check_kind(const GgufFile& file, const ModelConfig& config) {
  const std::string where = file.path().string();
  const bool adapter = file.find("general.type") != nullptr && file.string("general.type") == "adapter";
  require(adapter, "{} is not an adapter: general.type is not \"adapter\"", where);
  const std::string& type = file.string("adapter.type");
  require(type == "lora", "{}: adapter.type is {}, expected lora", where, [&] { return printable(type); });
  const std::string& architecture = file.string("general.architecture");
  require(
      architecture == gguf_architecture(config.family), "{}: the adapter's architecture is {}, but the model's is {}",
      where, [&] { return printable(architecture); }, gguf_architecture(config.family));
  const char* invocation = "adapter.alora.invocation_tokens";
  require(file.find(invocation) == nullptr, "{}: activated LoRA ({}) is not supported", where, invocation);
}

}  // namespace

Adapter read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor) {
  const GgufFile file(path);
  const std::string where = path.string();
  check_kind(file, config);
  const float alpha = file.real(kAlpha, 0.0F);
  const AdapterTensors tensors{.all = file.tensors(),
                               .name = [](const TensorSpec& spec) { return spec.gguf_name; },
                               .endings = {"lora_a", "lora_b"},
                               .tail = "",
                               .where = where};
  const auto scaling = [&](const TensorSpec&, const TensorView& a) {
    const int64_t rank = a.shape.size() == 2 ? a.shape[0] : 0;
    require(rank >= 1 && rank <= kMaxAdapterRank, "{}: tensor {} has shape {}, but the rank must be in [1, {}]", where,
            a.name, shape_string(a.shape), kMaxAdapterRank);
    const float scale = alpha == 0.0F ? factor : factor * alpha / static_cast<float>(rank);
    require(std::isfinite(scale), "{}: {} is {}, but the resulting scale must be finite", where, kAlpha, alpha);
    return std::pair(rank, scale);
  };
  return {.path = where, .parts = adapter_parts(tensors, config, scaling)};
}

void write_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, const Adapter& adapter,
                        const AdapterInfo& info, DType type, const std::string& name) {
  const std::string where = path.string();
  require_parts_of(adapter, info, where);
  // llama.cpp divides alpha by the rank, and uses a scale of 1 if alpha is 0.
  const auto alpha = static_cast<float>(info.by_root ? info.alpha * std::sqrt(info.rank) : info.alpha);
  require(alpha != 0 && std::isfinite(alpha), "{}: a GGUF cannot store an adapter with alpha {}", where, alpha);
  std::vector<TensorView> tensors;
  const auto matrices = adaptable_matrices(config);
  for (const Adapter::Part& part : adapter.parts) {
    const TensorSpec& spec = matrix_of(part, matrices, where);
    const auto add = [&](const char* which, const std::vector<float>& values, int64_t rows, int64_t columns) {
      tensors.push_back({.name = spec.gguf_name + which,
                         .type = DType::F32,
                         .shape = {rows, columns},
                         .bytes = std::as_bytes(std::span(values))});
    };
    add(".lora_a", part.a, info.rank, spec.shape[1]);
    add(".lora_b", part.b, spec.shape[0], info.rank);
  }
  const GgufMetadata metadata{{"general.architecture", std::string(gguf_architecture(config.family))},
                              {"general.type", std::string("adapter")},
                              {"general.name", name},
                              {"adapter.type", std::string("lora")},
                              {kAlpha, alpha}};
  const TensorStream stream = stream_as(std::move(tensors), type);
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, stream); });
}

}  // namespace folio::core
