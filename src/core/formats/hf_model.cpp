#include "core/formats/hf_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/family_files.h"
#include "core/formats/hf_packed.h"
#include "core/formats/safetensors.h"
#include "core/json.h"
#include "core/rope_layout.h"

namespace folio::core {
namespace fs = std::filesystem;

namespace {

// Returns true for tensors that are not weights: RoPE frequencies in some published files, and Folio's padding.
bool is_not_weight(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.starts_with("__pad__.");
}

// A directory's weight files, sorted by name, and their tensors by name.
struct Shards {
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::map<std::string, const TensorView*> tensors;

  void add(const fs::path& path) {
    files.push_back(std::make_shared<const SafetensorsFile>(path));
    for (const TensorView& tensor : files.back()->tensors()) {
      if (is_not_weight(tensor.name)) continue;
      require(tensors.emplace(tensor.name, &tensor).second, "{}: tensor {} is also in another shard", path.string(),
              printable(tensor.name));
    }
  }

  /// Returns the tensor with this name. Throws Error if it is missing or has another shape. If `last` is true, this is
  /// the tensor's last use: removes it from `tensors`.
  TensorView take(const std::string& name, const std::vector<int64_t>& shape, bool last, const std::string& where) {
    const auto found = tensors.find(name);
    require(found != tensors.end(), "{}: tensor {} of shape {} is missing", where, name, shape_string(shape));
    TensorView view = *found->second;
    if (last) tensors.erase(found);
    require(view.shape == shape, "{}: tensor {} has shape {}, expected {} from config.json", where, name,
            shape_string(view.shape), shape_string(shape));
    return view;
  }

  /// Returns the stored tensor for `spec`, or for matrix `part` if `spec` is a stack of matrices. From a fused tensor,
  /// returns only the rows of `spec`. Removes the stored tensor from `tensors` when its last rows are returned.
  TensorView take(const TensorSpec& spec, int64_t part, const std::string& where) {
    const FusedRows& fused = spec.hf_fused;
    const std::string name = fused.name.empty() ? spec.hf_part(part) : fused.name;
    std::vector<int64_t> shape = spec.hf_shape();
    if (!fused.name.empty()) shape[0] = fused.rows;
    const bool last = fused.name.empty() || fused.first + spec.shape[0] == fused.rows;
    TensorView view = take(name, shape, last, where);
    require_weight_type(view, where);
    if (!fused.name.empty()) view = rows_of(view, fused.first, spec.shape[0]);
    return view;
  }
};

// Returns true for a norm weight that Hugging Face files store as weight - 1 (Gemma). In these families every vector is
// a norm weight, so the shape identifies it.
bool is_stored_minus_1(const ModelConfig& config, const TensorSpec& spec) {
  return spec.shape.size() == 1 && hf_family(config.family).norms_stored_minus_1;
}

std::vector<float> plus(const TensorView& tensor, float summand) {
  std::vector<float> values = to_floats(tensor);
  for (float& value : values) value += summand;
  return values;
}

// Copies the matrices of all experts, which are separate tensors in the files, into one stacked tensor.
TensorView stacked(Shards& shards, const TensorSpec& spec, const std::string& where, StoredModel& model) {
  TensorView all = shards.take(spec, 0, where);
  std::vector<std::byte> bytes;
  bytes.reserve(all.bytes.size() * static_cast<size_t>(spec.hf_parts()));
  for (int64_t i = 0; i < spec.hf_parts(); ++i) {
    const TensorView part = i == 0 ? all : shards.take(spec, i, where);
    require(part.type == all.type, "{}: tensor {} has type {}, but {} has type {}", where, part.name,
            info(part.type).name, all.name, info(all.type).name);
    bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
    model.release(part);
  }
  store(std::move(bytes), all, model.storage);
  return all;
}

// Copies the tensor `spec` out of a Hugging Face tensor that contains several (see HfPacked). The copy is row-major.
TensorView unpacked(Shards& shards, const TensorSpec& spec, const std::string& where,
                    std::vector<std::shared_ptr<const void>>& storage) {
  const HfPacked& packed = spec.hf_packed;
  TensorView view{.name = packed.name, .type = DType::MXFP4, .shape = spec.shape, .bytes = {}};
  if (spec.is_stack() && shards.tensors.contains(packed.name + "_blocks")) {
    require(spec.shape[2] % 32 == 0, "{}: tensor {}_blocks has rows of {} elements, expected a multiple of 32", where,
            packed.name, spec.shape[2]);
    const int64_t rows = spec.shape[1] * packed.steps[1], blocks = spec.shape[2] / 32;
    const TensorView quants =
        shards.take(packed.name + "_blocks", {spec.shape[0], rows, blocks, 16}, packed.last, where);
    const TensorView scales = shards.take(packed.name + "_scales", {spec.shape[0], rows, blocks}, packed.last, where);
    for (const TensorView& tensor : {quants, scales}) {
      require(tensor.type == DType::U8, "{}: tensor {} has type {}, expected U8", where, tensor.name,
              info(tensor.type).name);
    }
    store(unpack_mxfp4(spec, quants.bytes, scales.bytes), view, storage);
  } else {
    const TensorView whole = shards.take(packed.name, packed.shape, packed.last, where);
    require_weight_type(whole, where);
    view.type = whole.type;
    store(unpack_hf(spec, whole.bytes, info(whole.type).block_bytes), view, storage);
  }
  return view;
}

Shards open_index(const fs::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, size_t{64} << 20U), where);
  const nlohmann::json& map = json_at(json, "weight_map", where);
  require(map.is_object() && !map.empty(), "{}: weight_map is empty or not an object", where);
  std::map<std::string, std::string> file_of;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), "{}: the file name of {} is not a string", where, printable(tensor));
    const auto name = file.get<std::string>();
    // Requires a plain, printable name, so that an index cannot refer to files outside its directory.
    require(!name.empty() && fs::path(name).filename() == fs::path(name) && name != ".." && name != "." &&
                printable(name, 255) == name,
            "{}: the shard \"{}\" is not a file name in this directory", where, printable(name));
    file_of[tensor] = name;
    names.insert(name);
  }
  Shards shards;
  for (const std::string& name : names) {
    shards.add(path.parent_path() / name);
    for (const TensorView& tensor : shards.files.back()->tensors()) {
      const auto listed = file_of.find(tensor.name);
      require(is_not_weight(tensor.name) || (listed != file_of.end() && listed->second == name),
              "{}: tensor {} of {} is not in weight_map", where, printable(tensor.name), name);
    }
  }
  for (const auto& [tensor, name] : file_of) {
    require(is_not_weight(tensor) || shards.tensors.contains(tensor), "{}: tensor {} is not in {}", where,
            printable(tensor), name);
  }
  return shards;
}

Shards open_weights(const fs::path& directory) {
  const fs::path single = directory / "model.safetensors";
  const fs::path index = directory / "model.safetensors.index.json";
  std::error_code error;
  const bool has_single = fs::exists(single, error);
  if (!has_single && fs::exists(index, error)) return open_index(index);
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"}) {
    require(
        has_single || !fs::exists(directory / pickled, error),
        "{}: the weights are in {}, a pickle file, which is not supported; save them as safetensors with transformers: "
        "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT, safe_serialization=True)",
        directory.string(), pickled);
  }
  Shards shards;
  shards.add(single);
  return shards;
}

}  // namespace

StoredModel read_hf_model(const fs::path& directory) {
  require(path_exists(directory / "config.json") || !path_exists(directory / "adapter_config.json"),
          "{} is an adapter, not a model: pass its base model, and the adapter with --lora (export: --merge)",
          directory.string());
  StoredModel model{.path = directory.string(),
                    .format = ModelFormat::HuggingFace,
                    .config = config_from_hf_json(directory / "config.json")};
  Shards shards = open_weights(directory);
  for (const auto& file : shards.files) model.files.emplace_back(file, &file->mapped());
  const std::string where = shards.files.size() == 1 ? shards.files[0]->path().string() : directory.string();
  const std::string ahead = fmt::format("model.layers.{}.", model.config.n_layers);
  if (!shards.tensors.contains(ahead + "eh_proj.weight")) model.config.n_tokens_ahead = 0;
  for (const TensorSpec& spec : tensor_manifest(model.config)) {
    TensorView view = !spec.hf_packed.name.empty() ? unpacked(shards, spec, where, model.storage)
                      : spec.is_stack()            ? stacked(shards, spec, where, model)
                                                   : shards.take(spec, 0, where);
    view.shape = spec.shape;
    if (is_stored_minus_1(model.config, spec)) {
      store(plus(view, 1.0F), view, model.storage);
      view.type = DType::F32;
    }
    if (spec.rope_permuted) {
      std::vector<std::byte> rows(view.bytes.size());
      reorder_rows(RopePairs::Adjacent, view.bytes, rows, model.config.head_dim,
                   static_cast<int64_t>(view.bytes.size()) / spec.shape[0]);
      model.release(view);  // the copy replaces the view
      store(std::move(rows), view, model.storage);
    }
    model.tensors.push_back(std::move(view));
  }
  // Ignores the copies of the embedding and the output in published MTP modules. If DeepSeek's MTP module isn't loaded,
  // ignores all tensors of its layer, as transformers does.
  std::erase_if(shards.tensors, [&](const auto& entry) {
    if (!entry.first.starts_with(ahead)) return false;
    if (model.config.n_tokens_ahead == 0) return info(model.config.family).mixture.deepseek;
    return entry.first == ahead + "embed_tokens.weight" || entry.first == ahead + "shared_head.head.weight";
  });
  // Some files store a tied embedding a second time, as the output matrix.
  const auto head = shards.tensors.find("lm_head.weight");
  const TensorView& embedding = model.tensors.front();
  if (head != shards.tensors.end() && head->second->type == embedding.type &&
      std::ranges::equal(head->second->bytes, embedding.bytes)) {
    shards.tensors.erase(head);
  }
  if (!shards.tensors.empty()) fail_extra_tensor(where, shards.tensors.begin()->first, model.config.family);
  return model;
}

namespace {

// A Hugging Face tensor. It consists of `count` manifest tensors, starting at index `first`, or is matrix `part` of the
// stacked tensor at that index.
struct HfTensor {
  TensorView header;
  size_t first;
  size_t count = 1;
  int64_t part = 0;
};

std::vector<HfTensor> hf_tensors(const ModelConfig& config, const std::vector<TensorSpec>& manifest,
                                 const std::vector<TensorView>& tensors) {
  std::vector<HfTensor> all;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorSpec& spec = manifest[i];
    const TensorView& tensor = tensors.at(i);
    if (spec.hf_fused.first > 0 || spec.hf_packed.first > 0) {
      const TensorView& header = all.back().header;
      ++all.back().count;
      require(tensor.type == header.type, "{} has tensors of types {} and {}; use --type f16, bf16 or f32", header.name,
              info(tensor.type).name, info(header.type).name);
      continue;
    }
    for (int64_t part = 0; part < spec.hf_parts(); ++part) {
      TensorView& header = all.emplace_back(HfTensor{.header = tensor, .first = i, .part = part}).header;
      header.name = spec.hf_fused.name.empty() ? spec.hf_part(part) : spec.hf_fused.name;
      header.shape = spec.hf_shape();
      if (!spec.hf_fused.name.empty()) header.shape[0] = spec.hf_fused.rows;
      if (is_stored_minus_1(config, spec)) header.type = DType::F32;
    }
  }
  return all;
}

// Converts norm weights and the row order of Wq and Wk to Hugging Face's form. Returns tensor.bytes if nothing changes,
// otherwise a view of `copy`, which receives the converted bytes.
std::span<const std::byte> hf_bytes(const ModelConfig& config, const TensorSpec& spec, const TensorView& tensor,
                                    std::vector<std::byte>& copy) {
  if (is_stored_minus_1(config, spec)) {
    const std::vector<float> values = plus(tensor, -1.0F);
    const auto less = std::as_bytes(std::span(values));
    copy.assign(less.begin(), less.end());
    return copy;
  }
  if (!spec.rope_permuted) return tensor.bytes;
  copy.resize(tensor.bytes.size());
  reorder_rows(RopePairs::Halves, tensor.bytes, copy, config.head_dim,
               static_cast<int64_t>(tensor.bytes.size()) / spec.shape[0]);
  return copy;
}

// Returns the tensors with Hugging Face's names, shapes and row order.
TensorStream hf_stream(const ModelConfig& config, const TensorStream& stream) {
  const auto manifest = tensor_manifest(config);
  const std::vector<HfTensor> sources = hf_tensors(config, manifest, stream.tensors);
  std::vector<TensorView> headers;
  for (const HfTensor& source : sources) headers.push_back(source.header);
  // Requests the bytes of a stacked tensor once, for its first matrix; the other matrices are views of these bytes.
  return {headers, [=, copy = std::vector<std::byte>(), stack = std::span<const std::byte>()](size_t at) mutable {
            const auto& [header, i, count, part] = sources[at];
            const TensorSpec& spec = manifest[i];
            if (!spec.hf_packed.name.empty()) {
              const size_t size = info(header.type).block_bytes;
              size_t bytes = size;
              for (const int64_t d : header.shape) bytes *= static_cast<size_t>(d);
              copy.resize(bytes);
              for (size_t n = 0; n < count; ++n) pack_hf(manifest[i + n], checked_bytes(stream, i + n), size, copy);
              return std::span<const std::byte>(copy);
            }
            if (spec.is_stack()) {
              if (part == 0) stack = checked_bytes(stream, i);
              const size_t n = stack.size() / static_cast<size_t>(spec.hf_parts());
              return stack.subspan(static_cast<size_t>(part) * n, n);
            }
            if (count == 1) {
              TensorView tensor = stream.tensors[i];
              tensor.bytes = checked_bytes(stream, i);
              return hf_bytes(config, spec, tensor, copy);
            }
            copy.clear();
            for (size_t n = 0; n < count; ++n) {
              const auto bytes = checked_bytes(stream, i + n);
              copy.insert(copy.end(), bytes.begin(), bytes.end());
            }
            return std::span<const std::byte>(copy);
          }};
}

// Returns for each shard the index after its last tensor. A shard has at most `max_bytes`, or a single larger tensor.
std::vector<size_t> shard_ends(const std::vector<TensorView>& tensors, uint64_t max_bytes) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t next = tensor_bytes(tensors[i].type, tensors[i].shape).value();
    if (bytes > 0 && bytes + next > max_bytes) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += next;
  }
  ends.push_back(tensors.size());
  return ends;
}

void write_shards(const fs::path& directory, const TensorStream& stream, const std::vector<size_t>& ends) {
  nlohmann::ordered_json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::ordered_json::object()}};
  uint64_t total = 0;
  size_t begin = 0;
  for (size_t n = 0; n < ends.size(); ++n) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", n + 1, ends.size());
    TensorStream shard({}, [&, begin](size_t i) { return stream.bytes(begin + i); });
    for (size_t i = begin; i < ends[n]; ++i) {
      const TensorView& tensor = stream.tensors[i];
      shard.tensors.push_back(tensor);
      index["weight_map"][tensor.name] = name;
      total += tensor_bytes(tensor.type, tensor.shape).value();
    }
    write_safetensors(directory / name, shard);
    begin = ends[n];
  }
  index["metadata"]["total_size"] = total;
  write_file_atomically(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

void write_hf_model(const fs::path& directory, const ModelConfig& config, const TensorStream& stream,
                    int64_t begin_of_text, int64_t end_of_text, uint64_t max_shard_bytes) {
  const TensorStream hf = hf_stream(config, stream);
  const auto ends = shard_ends(hf.tensors, max_shard_bytes);
  if (ends.size() == 1) {
    write_safetensors(directory / "model.safetensors", hf);
  } else {
    write_shards(directory, hf, ends);
  }
  const DType type = hf.tensors.at(0).type;  // type of the embedding, since vectors may be F32
  write_file_atomically(directory / "config.json", config_to_hf_json(config, begin_of_text, end_of_text, type));
}

void write_hf_tensors(const fs::path& file, const Weights& weights) {
  write_safetensors(file, hf_stream(weights.config, weights.views()));
}

}  // namespace folio::core
