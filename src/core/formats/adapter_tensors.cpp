#include "core/formats/adapter_tensors.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/formats/adapter_files.h"

namespace folio::core {
namespace {

std::vector<float> floats_of(const AdapterTensors& tensors, const TensorView& tensor,
                             const std::vector<int64_t>& shape) {
  require(tensor.shape == shape, "{}: tensor {} has shape {}, expected {} for this model and rank{}", tensors.where,
          tensor.name, shape_string(tensor.shape), shape_string(shape), tensors.why);
  require_weight_type(tensor, tensors.where);
  return to_floats(tensor);
}

}  // namespace

std::vector<Adapter::Part> adapter_parts(
    const AdapterTensors& tensors, const ModelConfig& config,
    const std::function<std::pair<int64_t, float>(const TensorSpec&, const TensorView&)>& scaling) {
  std::map<std::string, const TensorView*> left;  // tensors not yet assigned to a matrix
  for (const TensorView& tensor : tensors.all) left.emplace(tensor.name, &tensor);
  const auto extracted = [&](const std::string& name) {
    const auto node = left.extract(name);
    return node.empty() ? nullptr : node.mapped();
  };
  const auto& [first, second] = tensors.endings;
  std::vector<Adapter::Part> parts;
  for (const TensorSpec& spec : adaptable_matrices(config)) {
    const std::string name = tensors.name(spec);
    const TensorView* a = extracted(name + "." + first + tensors.tail);
    const TensorView* b = extracted(name + "." + second + tensors.tail);
    if (a == nullptr && b == nullptr) continue;
    require(a != nullptr && b != nullptr, "{}: {} has only one of {} and {}", tensors.where, name, first, second);
    const auto [rank, scale] = scaling(spec, *a);
    parts.push_back({.role = spec.role,
                     .layer = spec.layer,
                     .rank = static_cast<size_t>(rank),
                     .scale = scale,
                     .a = floats_of(tensors, *a, {rank, spec.shape[1]}),
                     .b = floats_of(tensors, *b, {spec.shape[0], rank})});
  }
  std::vector<std::string> fused;  // prefixes of tensors for fused matrices and for their parts
  for (TensorSpec& spec : tensor_manifest(config)) {
    if (!spec.is_fused()) continue;
    fused.push_back(tensors.name(spec) + ".");
    spec.hf_name = spec.hf_fused.name;
    spec.gguf_name = spec.gguf_fused.name;
    fused.push_back(tensors.name(spec) + ".");
  }
  for (const auto& [name, tensor] : left) {
    const bool in_fused = std::ranges::any_of(fused, [&](const std::string& f) { return name.starts_with(f); });
    require(!in_fused, "{}: adapters of matrices that files of the family {} fuse ({}) are not supported",
            tensors.where, config.family, printable(name));
    const bool experts = name.find(".experts.") != name.npos || name.find("_exps.") != name.npos;
    require(!experts, "{}: adapters of experts ({}) are not supported", tensors.where, printable(name));
    const bool heads =
        name.find("kv_b_proj") != name.npos || name.find("attn_k_b") != name.npos || name.find("attn_v_b") != name.npos;
    require(!heads, "{}: adapters of latent attention's matrices per head ({}) are not supported", tensors.where,
            printable(name));
  }
  require(left.empty(),
          "{}: tensor {} matches no linear layer of the model's {} blocks; only those can have adapters{}",
          tensors.where, printable(left.empty() ? "" : left.begin()->first), config.n_layers, tensors.why);
  require(!parts.empty(), "{}: the file contains no adapter", tensors.where);
  return parts;
}

Adapter read_adapter(const std::filesystem::path& path, const ModelConfig& config, float factor) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return read_gguf_adapter(path, config, factor);
  return read_peft_adapter(path, config, factor);
}

}  // namespace folio::core
