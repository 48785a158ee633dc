#include "core/formats/gguf_adapter.h"

#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/gguf.h"

namespace folio::core {
namespace {

constexpr const char* kAlpha = "adapter.lora.alpha";

// That it is a LoRA for a model of this architecture.
void check_kind(const GgufFile& file, const ModelConfig& config) {
  const std::string where = file.path().string();
  const bool adapter = file.find("general.type") != nullptr && file.string("general.type") == "adapter";
  require(adapter, "{} is a GGUF, but not of an adapter (general.type)", where);
  const std::string& type = file.string("adapter.type");
  require(type == "lora", "{}: the adapter is of the type {}, but only lora runs here", where,
          [&] { return printable(type); });
  const std::string& architecture = file.string("general.architecture");
  require(
      architecture == info(config.family).gguf, "{}: it is an adapter of a {}, but the model is a {}", where,
      [&] { return printable(architecture); }, info(config.family).gguf);
  const char* invocation = "adapter.alora.invocation_tokens";
  require(file.find(invocation) == nullptr, "{}: an adapter that tokens switch on ({}) is not supported here", where,
          invocation);
}

std::vector<float> checked_floats(const GgufFile& file, const TensorView& tensor, const std::vector<int64_t>& shape) {
  const std::string where = file.path().string();
  require(tensor.shape == shape, "{}: tensor {} has shape {}, but the model and the rank require {}", where,
          tensor.name, shape_string(tensor.shape), shape_string(shape));
  require_weight_type(tensor, where);
  return to_floats(tensor);
}

}  // namespace

Adapter read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor) {
  const GgufFile file(path);
  const std::string where = path.string();
  check_kind(file, config);
  const float alpha = file.real(kAlpha, 0.0F);
  std::set<std::string> left;  // names that no part has taken
  for (const TensorView& tensor : file.tensors()) left.insert(tensor.name);

  Adapter adapter{.path = where, .parts = {}};
  for (const TensorSpec& spec : adaptable_matrices(config)) {
    const TensorView* a = file.find_tensor(spec.gguf_name + ".lora_a");
    const TensorView* b = file.find_tensor(spec.gguf_name + ".lora_b");
    if (a == nullptr && b == nullptr) continue;
    require(a != nullptr && b != nullptr, "{}: {} has only one of lora_a and lora_b", where, spec.gguf_name);
    const int64_t rank = a->shape.size() == 2 ? a->shape[0] : 0;
    require(rank >= 1 && rank <= kMaxAdapterRank, "{}: tensor {} of shape {} has no rank in [1, {}]", where, a->name,
            shape_string(a->shape), kMaxAdapterRank);
    const float scale = alpha == 0.0F ? factor : factor * alpha / static_cast<float>(rank);
    require(std::isfinite(scale), "{}: {} is {}, which makes a scale that is no finite number", where, kAlpha, alpha);
    adapter.parts.push_back({.role = spec.role,
                             .layer = spec.layer,
                             .rank = static_cast<size_t>(rank),
                             .scale = scale,
                             .a = checked_floats(file, *a, {rank, spec.shape[1]}),
                             .b = checked_floats(file, *b, {spec.shape[0], rank})});
    left.erase(a->name);
    left.erase(b->name);
  }
  require(left.empty(),
          "{}: the tensor {} belongs to no linear layer of the model's {} blocks; only those are adapted here", where,
          printable(left.empty() ? "" : *left.begin()), config.n_layers);
  require(!adapter.parts.empty(), "{}: there is no adapter in it", where);
  return adapter;
}

void write_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config, const Adapter& adapter,
                        const AdapterInfo& info, DType type, const std::string& name) {
  const std::string where = path.string();
  require_parts_of(adapter, info, where);
  // llama.cpp divides it by the rank, and takes a scale of 1 for an alpha of 0.
  const auto alpha = static_cast<float>(info.by_root ? info.alpha * std::sqrt(info.rank) : info.alpha);
  require(alpha != 0 && std::isfinite(alpha), "{}: a GGUF cannot hold an adapter whose alpha is {}", where, alpha);
  std::vector<TensorView> tensors;
  const auto matrices = adaptable_matrices(config);
  for (const Adapter::Part& part : adapter.parts) {
    const auto spec = std::ranges::find_if(
        matrices, [&](const TensorSpec& s) { return s.role == part.role && s.layer == part.layer; });
    require(spec != matrices.end(), "{}: the model has no layer {}", where, part.layer);
    const auto add = [&](const char* which, const std::vector<float>& values, int64_t rows, int64_t columns) {
      tensors.push_back({.name = spec->gguf_name + which,
                         .type = DType::F32,
                         .shape = {rows, columns},
                         .bytes = std::as_bytes(std::span(values))});
    };
    add(".lora_a", part.a, info.rank, spec->shape[1]);
    add(".lora_b", part.b, spec->shape[0], info.rank);
  }
  const GgufMetadata metadata{{"general.architecture", std::string(core::info(config.family).gguf)},
                              {"general.type", std::string("adapter")},
                              {"general.name", name},
                              {"adapter.type", std::string("lora")},
                              {kAlpha, alpha}};
  const TensorStream stream = stream_as(std::move(tensors), type);
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, stream); });
}

}  // namespace folio::core
