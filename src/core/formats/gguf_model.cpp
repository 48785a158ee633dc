#include "core/formats/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/family_files.h"
#include "core/formats/hf_packed.h"
#include "core/quants.h"
#include "core/rope_scaling.h"

namespace folio::core {
namespace {

// Returns the value of llama.cpp's enum llama_ftype for the type of the layers' first matrix.
uint32_t main_type(const std::vector<TensorView>& tensors) {
  // Skips the embedding, which comes first and often has a more precise type.
  const auto matrix =
      std::find_if(tensors.begin() + 1, tensors.end(), [](const auto& t) { return t.shape.size() > 1; });
  return info(matrix == tensors.end() ? tensors.front().type : matrix->type).file_type;
}

using Copies = std::vector<std::shared_ptr<const void>>;

// Returns a float32 copy of WkB or WvB from the tensor that holds both in older GGUFs and in Hugging Face files.
TensorView unpacked(const GgufFile& file, const TensorView& both, const TensorSpec& spec, Copies& copies) {
  const std::string where = file.path().string();
  require(both.shape == spec.hf_packed.shape, "{}: tensor {} has shape {}, expected {}", where, both.name,
          shape_string(both.shape), shape_string(spec.hf_packed.shape));
  require_weight_type(both, where);
  const std::vector<float> values = to_floats(both);
  TensorView view{.name = spec.gguf_name, .type = DType::F32, .shape = spec.shape, .bytes = {}};
  store(unpack_hf(spec, std::as_bytes(std::span(values)), sizeof(float)), view, copies);
  return view;
}

// Returns the tensor of `spec`, or its rows of a fused tensor. Inserts the names of tensors found into `names`.
TensorView find_part(const GgufFile& file, const TensorSpec& spec, std::set<std::string_view>& names, Copies& copies) {
  const std::string where = file.path().string();
  const TensorView* const alone = file.find_tensor(spec.gguf_name);
  const TensorView* const both = file.find_tensor(fmt::format("blk.{}.attn_kv_b.weight", spec.layer));
  if (both != nullptr && (spec.role == Role::WkB || spec.role == Role::WvB)) {
    names.insert(both->name);  // unused, but not an error, if the file also has WkB and WvB
    if (alone != nullptr) names.insert(alone->name);
    if (alone == nullptr || alone->shape != spec.shape) return unpacked(file, *both, spec, copies);
  }
  const FusedRows& fused = spec.gguf_fused;
  const TensorView* const together = fused.name.empty() ? nullptr : file.find_tensor(fused.name);
  const bool is_part = together != nullptr && (spec.gguf_writes_fused || alone == nullptr);
  const TensorView* const found = is_part ? together : alone;
  const bool names_all = is_part || (found == nullptr && spec.gguf_writes_fused);
  const std::string& name = names_all ? fused.name : spec.gguf_name;
  std::vector<int64_t> shape = spec.shape;
  if (names_all) shape[0] = fused.rows;
  if (found == nullptr && spec.is_stack() &&
      spec.of_experts()) {  // older GGUFs have one tensor per expert: "blk.0.ffn_gate.0.weight"
    std::string old = spec.gguf_name;
    old.replace(old.find("_exps"), 5, ".0");
    require(file.find_tensor(old) == nullptr, "{}: one tensor per expert ({}) is not supported; re-convert the model",
            where, old);
  }
  require(found != nullptr, "{}: tensor {} of shape {} is missing", where, name, shape_string(shape));
  require(found->shape == shape, "{}: tensor {} has shape {}, expected {}", where, name, shape_string(found->shape),
          shape_string(shape));
  names.insert(found->name);
  if (!is_part) return *found;
  TensorView part = rows_of(*found, fused.first, spec.shape[0]);
  part.name = spec.gguf_name;
  return part;
}

// Returns true for unneeded tensors after the last layer: the MTP module's copies of the embedding and the output, or
// the whole module if ModelConfig::n_tokens_ahead is 0.
bool is_unused(std::string_view tensor, const ModelConfig& c) {
  if (!tensor.starts_with("blk.")) return false;
  int64_t layer = 0;
  std::from_chars(tensor.data() + 4, tensor.data() + tensor.size(), layer);
  return layer >= c.n_layers && (c.n_tokens_ahead == 0 || tensor.ends_with(".nextn.embed_tokens.weight") ||
                                 tensor.ends_with(".nextn.shared_head_head.weight"));
}

bool is_rope_factors(std::string_view name) {
  return name == kRopeFactors || name == kLongFactors || name == kShortFactors;
}

}  // namespace

std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config, Copies& copies) {
  std::vector<TensorView> views;
  std::set<std::string_view> names;
  for (const TensorSpec& spec : tensor_manifest(config)) views.push_back(find_part(file, spec, names, copies));
  const int64_t n_after = file.integer(fmt::format("{}.nextn_predict_layers", gguf_architecture(config.family)), 0);
  for (const TensorView& tensor : file.tensors()) {
    if (names.contains(tensor.name) || is_rope_factors(tensor.name)) continue;  // config_from_gguf reads RoPE factors
    if (n_after > 0 && is_unused(tensor.name, config)) continue;
    fail_extra_tensor(file.path().string(), tensor.name, config.family);
  }
  return views;
}

namespace {

// Returns the tensors under their GGUF names. Concatenates tensors that this family's GGUFs store fused.
TensorStream gguf_stream(const ModelConfig& config, const TensorStream& stream) {
  const auto manifest = tensor_manifest(config);
  std::vector<TensorView> tensors;
  std::vector<std::pair<size_t, size_t>> sources;  // per GGUF tensor: first manifest index, count of fused tensors
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorSpec& spec = manifest[i];
    const TensorView& tensor = stream.tensors.at(i);
    if (spec.gguf_writes_fused && spec.gguf_fused.first > 0) {
      ++sources.back().second;
      require(tensor.type == tensors.back().type, "{} has tensors of types {} and {}; use a single --type",
              spec.gguf_fused.name, info(tensor.type).name, info(tensors.back().type).name);
      continue;
    }
    tensors.push_back(tensor);
    tensors.back().name = spec.gguf_writes_fused ? spec.gguf_fused.name : spec.gguf_name;
    if (spec.gguf_writes_fused) tensors.back().shape[0] = spec.gguf_fused.rows;
    sources.emplace_back(i, 1);
  }
  return {tensors, [=, all = std::vector<std::byte>()](size_t at) mutable {
            const auto [first, count] = sources[at];
            if (count == 1) return stream.bytes(first);
            all.clear();
            for (size_t i = first; i < first + count; ++i) {
              const auto bytes = checked_bytes(stream, i);
              all.insert(all.end(), bytes.begin(), bytes.end());
            }
            return std::span<const std::byte>(all);
          }};
}

// Appends the RoPE factors of Llama 3 or LongRoPE as tensors, from which other programs read them.
TensorStream with_rope_factors(const ModelConfig& config, TensorStream stream) {
  const RopeScaling& scaling = config.rope_scaling;
  std::vector<std::pair<const char*, std::vector<float>>> more;
  if (scaling.active() && scaling.type == RopeScalingType::Llama3) {
    const std::vector<double> exact = rope_factors(config);
    more = {{kRopeFactors, {exact.begin(), exact.end()}}};
  } else if (scaling.type == RopeScalingType::LongRope) {
    more = {{kLongFactors, scaling.long_factors}, {kShortFactors, scaling.short_factors}};
  }
  if (more.empty()) return stream;
  std::vector<TensorView> tensors = stream.tensors;
  for (const auto& [name, factors] : more) {
    tensors.push_back({.name = name, .type = DType::F32, .shape = {static_cast<int64_t>(factors.size())}, .bytes = {}});
  }
  return {tensors, [=](size_t i) {
            const size_t n = stream.tensors.size();
            return i < n ? stream.bytes(i) : std::as_bytes(std::span(more[i - n].second));
          }};
}

}  // namespace

StoredModel read_gguf_model(const std::filesystem::path& path) {
  const auto file = std::make_shared<const GgufFile>(path);
  StoredModel model{.path = path.string(), .format = ModelFormat::Gguf, .config = config_from_gguf(*file)};
  model.tensors = manifest_tensors(*file, model.config, model.storage);
  for (const TensorView& tensor : model.tensors) require_weight_type(tensor, model.path);
  for (const MappedFile* mapped : file->mapped()) model.files.emplace_back(file, mapped);
  model.gguf = file;
  return model;
}

StoredModel for_llama_cpp(StoredModel model) {
  const int64_t n_layers = model.config.n_layers;
  const bool fits = model.config.n_tokens_ahead == 0 || gguf_family(model.config.family).ahead;
  return fits ? std::move(model) : with_layers(std::move(model), n_layers);
}

void write_gguf_model(const std::filesystem::path& path, const ModelConfig& config, TensorStream stream,
                      const std::string& model_name, const GgufMetadata& tokenizer, std::optional<uint32_t> file_type) {
  GgufMetadata metadata = config_to_gguf(config, model_name);
  metadata.emplace_back("general.file_type", file_type.value_or(main_type(stream.tensors)));
  const bool blocks = std::ranges::any_of(stream.tensors, [](const auto& t) { return quant_info(t.type) != nullptr; });
  if (blocks) metadata.emplace_back("general.quantization_version", uint32_t{2});
  metadata.insert(metadata.end(), tokenizer.begin(), tokenizer.end());
  stream = gguf_stream(config, stream);
  stream = with_rope_factors(config, std::move(stream));
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, stream); });
}

}  // namespace folio::core
