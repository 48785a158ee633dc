// export: converts a model between formats and types, merges adapters into it, or converts an adapter for llama.cpp.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/adapter_files.h"
#include "core/formats/gguf_model.h"
#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/mixtures.h"
#include "core/print_stderr.h"
#include "core/quants.h"
#include "data/tokenizers/llama2c/llama2c_vocabulary.h"
#include "data/tokenizers/tokenizer_files.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::string tokenizer;
  std::string out;
  std::string format = "gguf";
  std::string type;
  int bits = 0;  ///< alias of --type: 16 is f16, 8 is q8_0, 4 is q4_0; 0: not given
  int version = 0;
  uint64_t max_shard_bytes = core::kMaxShardBytes;
  int64_t layers = 0;                    ///< number of layers to keep; 0: all
  bool mtp = false;                      ///< keep the multi-token prediction module even if llama.cpp rejects it
  std::vector<core::AdapterPath> merge;  ///< adapters to merge into the model
  std::string base;                      ///< path of the exported adapter's base model
};

/// The model to write, and the adapters to merge into it.
struct ExportSource {
  core::StoredModel model;
  std::vector<core::Adapter> adapters;

  [[nodiscard]] core::TensorStream tensors() const {
    if (adapters.empty()) return model.tensors;
    return core::merged(model, adapters);
  }
};

std::optional<core::DType> type_named(const std::string& name) {
  using enum core::DType;
  constexpr std::pair<const char*, core::DType> kTypes[] = {{"f32", F32},   {"f16", F16},   {"bf16", BF16},
                                                            {"q8_0", Q8_0}, {"q4_0", Q4_0}, {"q4_1", Q4_1}};
  const auto* found = std::ranges::find(kTypes, name, [](const auto& entry) { return std::string_view(entry.first); });
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

bool has_blocks(const core::StoredModel& model) {
  return std::ranges::any_of(model.tensors, [](const auto& t) { return core::quant_info(t.type) != nullptr; });
}

// Returns the types in which to store the tensors if --type is not given: those of the source, with two exceptions. In
// a quantized model, vectors become F32, as other programs expect. Merged matrices of 4 to 6 bits become Q8_0, because
// an adapter's change is often smaller than their quantization step.
std::vector<core::DType> stored_types(const ExportSource& source) {
  using enum core::DType;
  const core::TensorStream stream = source.tensors();
  std::vector<core::DType> types;
  std::optional<core::DType> coarse;
  const bool blocks = has_blocks(source.model);
  const std::vector<core::TensorSpec> manifest = core::tensor_manifest(source.model.config);
  for (size_t i = 0; i < stream.tensors.size(); ++i) {
    const core::DType type = blocks && !manifest[i].is_matrix() ? F32 : source.model.tensors[i].type;
    const bool rounds = stream.tensors[i].type != type && core::quant_info(type) != nullptr && type != Q8_0;
    if (rounds) coarse = type;
    types.push_back(rounds ? Q8_0 : type);
  }
  if (coarse) {
    core::print_stderr("{}: matrices with an adapter become Q8_0, because {} is too coarse for the adapter's changes\n",
                       source.model.path, core::info(*coarse).name);
  }
  return types;
}

// Returns a stream that throws core::Error with the tensor's name when it reads a value that is not finite.
core::TensorStream all_finite(core::TensorStream stream, const std::string& where) {
  return {stream.tensors, [stream, where](size_t i) {
            core::TensorView piece = stream.tensors[i];
            const size_t n = core::info(piece.type).block_bytes << 14U;
            const auto bytes = stream.bytes(i);
            for (size_t at = 0; at < bytes.size(); at += n) {
              piece.bytes = bytes.subspan(at, std::min(n, bytes.size() - at));
              const std::vector<float> values = core::to_floats(piece);
              const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
              core::require(bad == values.end(),
                            "{}: tensor \"{}\" contains {}, expected finite values; convert or train the model again, "
                            "or leave out --type to keep the value",
                            where, core::printable(piece.name), bad == values.end() ? 0.0F : *bad);
            }
            return bytes;
          }};
}

core::TensorStream typed(const ExportSource& source, const std::string& type) {
  if (const auto one = type_named(type)) {
    return core::stream_as(one == core::DType::F16 ? all_finite(source.tensors(), source.model.path) : source.tensors(),
                           core::uniform_types(source.model.config, *one));
  }
  if (const core::Mixture* mixture = core::find_mixture(type))
    return core::stream_as(source.tensors(), core::mixture_types(source.model.config, *mixture));
  return core::stream_as(source.tensors(), stored_types(source));
}

std::string name_of(const core::StoredModel& model) {
  const auto* name = std::get_if<std::string>(model.gguf ? model.gguf->find("general.name") : nullptr);
  return name != nullptr ? *name : core::plain_name(model.path);
}

// Returns the type to write in formats without quantized blocks: `type` (--type) if given, otherwise "f32" for a
// quantized model, and "" for other models, which keep their types.
std::string type_without_blocks(const core::StoredModel& model, const std::string& type) {
  if (!type.empty() || !has_blocks(model)) return type;
  core::print_stderr("{}: its blocks are written as f32; --type f16 or bf16 halves the size\n", model.path);
  return "f32";
}

// Prints how many matrices get a type other than `type` (such as q4_k_m): those with row lengths not divisible by 256.
void report_undividable_rows(const core::StoredModel& model, const std::string& type) {
  size_t matrices = 0;
  size_t others = 0;
  for (const core::TensorSpec& spec : core::tensor_manifest(model.config)) {
    if (!spec.is_matrix()) continue;
    ++matrices;
    if (spec.shape.back() % 256 != 0) ++others;
  }
  if (others == 0) return;
  core::print_stderr("{}: {} of {} matrices have rows that are not whole blocks of 256 and get other types in {}\n",
                     model.path, others, matrices, type);
}

// Returns the tokenizer's metadata. If the source is a GGUF, copies all its tokenizer keys, even those Folio ignores.
core::GgufMetadata tokenizer_metadata(const core::StoredModel& model, const Options& o) {
  if (!model.gguf || !o.tokenizer.empty()) return data::load_tokenizer(model, o.tokenizer)->to_gguf();
  core::GgufMetadata metadata = model.gguf->metadata();
  std::erase_if(metadata, [](const auto& entry) { return !entry.first.starts_with("tokenizer."); });
  return metadata;
}

void export_gguf(const ExportSource& source, const Options& o) {
  const core::StoredModel& model = source.model;
  if (const std::string lost = core::lost_in_gguf(model.config); !lost.empty())
    core::print_stderr("warning: {}\n", lost);
  const core::Mixture* mixture = core::find_mixture(o.type);
  if (mixture != nullptr) report_undividable_rows(model, o.type);
  core::GgufMetadata metadata = core::generation_to_gguf(model.generation);
  for (auto& entry : tokenizer_metadata(model, o)) metadata.push_back(std::move(entry));
  core::write_gguf_model(o.out, model.config, typed(source, o.type), name_of(model), metadata,
                         mixture == nullptr ? std::nullopt : std::optional(core::info(mixture->type).file_type));
}

// Warns if the model's default repetition penalty considers only the last tokens, which Hugging Face files can't store.
void report_lost_window(const core::StoredModel& model) {
  const infer::SamplerOptions options = infer::with_config({}, model.generation);
  const int64_t last = options.repeat_last_n;
  if (options.repetition_penalty == 1.0F || last == 0 || last >= model.config.context_length) return;
  core::print_stderr(
      "warning: generation_config.json cannot store repeat_last_n {}; its repetition penalty {} considers "
      "the whole sequence\n",
      last, options.repetition_penalty);
}

void export_hf(const ExportSource& source, const Options& o) {
  const core::StoredModel& model = source.model;
  report_lost_window(model);
  const auto tokenizer = data::load_tokenizer(model, o.tokenizer);
  core::write_folder_atomically(o.out, [&](const fs::path& folder) {
    core::write_hf_model(folder, model.config, typed(source, type_without_blocks(model, o.type)),
                         tokenizer->begin_of_text(), tokenizer->end_of_text(), o.max_shard_bytes);
    tokenizer->write_hf(folder);
    core::write_generation_config(folder, model.generation, tokenizer->begin_of_text(), tokenizer->end_of_text());
  });
}

// Returns false if `out` is a device or a pipe, which cannot be read back.
bool is_file_or_folder(const std::string& out) { return core::is_plain_file(out) || core::is_folder(out); }

fs::path llama2c_tokenizer_of(const Options& o) {
  fs::path out = o.out;
  if (out.extension() == ".bin") out.replace_extension();
  return out += ".tokenizer.bin";
}

// Writes the model and its tokenizer for llama2.c. llama2.c hard-codes token ids, so embedding rows are reordered.
void export_llama2c(const ExportSource& source, const Options& o) {
  const core::StoredModel& model = source.model;
  const int version = o.type == "q8_0" ? 2 : o.version;
  if (core::is_llama2c(model.format) && o.tokenizer.empty()) {
    core::write_llama2c(o.out, model.config, core::stream_as(source.tensors(), core::DType::F32), version);
    return;
  }
  core::require(!core::path_exists(o.out) || core::is_plain_file(o.out),
                "{} is not a regular file, but {} must be written next to it; choose another --out", o.out,
                llama2c_tokenizer_of(o).string());
  const auto vocabulary = data::to_llama2c(*data::load_tokenizer(model, o.tokenizer));
  const ExportSource moved{core::with_vocabulary(model, vocabulary.source_row), source.adapters};
  core::write_llama2c(o.out, moved.model.config, core::stream_as(moved.tensors(), core::DType::F32), version);
  const fs::path tokenizer = llama2c_tokenizer_of(o);
  data::write_llama2c_tokenizer(tokenizer, vocabulary);
  fmt::print("{}: {} tokens, for -z of llama2.c\n", tokenizer.string(), vocabulary.pieces.size());
}

// Returns the configuration of the adapter's base model, whose path is --base or else stored in the adapter.
core::ModelConfig base_of(const core::AdapterInfo& adapter, const Options& o) {
  if (!o.base.empty()) return core::read_model_config(o.base);
  std::error_code error;
  if (!fs::exists(adapter.base, error)) {
    throw core::UsageError(fmt::format("{}: its base model {} was not found; give its path with --base MODEL", o.model,
                                       adapter.base.empty() ? "(not named)" : core::printable(adapter.base)));
  }
  return core::read_model_config(adapter.base);
}

int export_adapter(const Options& o) {
  const core::AdapterInfo adapter = core::read_adapter_info(o.model);
  const core::ModelConfig config = base_of(adapter, o);
  const core::DType type = type_named(o.type).value_or(core::DType::F32);
  const std::string name = core::without_links(o.model).filename().string();
  const core::Adapter parts = core::read_peft_adapter(o.model, config);
  core::write_gguf_adapter(o.out, config, parts, adapter, type, name);
  if (!is_file_or_folder(o.out)) return 0;
  const core::Adapter written = core::read_gguf_adapter(o.out, config);
  fmt::print("{}: GGUF, adapter of rank {} for {} matrices, {}\n", o.out, adapter.rank, written.parts.size(),
             core::info(type).name);
  return 0;
}

void check(const apps::Flags& app, const Options& o) {
  const bool adapter = o.format == "gguf-lora";
  if (adapter && o.type.starts_with("q"))
    throw core::UsageError("--type " + o.type + ", expected f32, f16 or bf16 for an adapter");
  if (adapter && (!o.merge.empty() || o.layers > 0 || !o.tokenizer.empty())) {
    throw core::UsageError("--merge, --layers and --tokenizer are not supported with --format gguf-lora");
  }
  if (!adapter && !o.base.empty()) throw core::UsageError("--base requires --format gguf-lora");
  const bool llama2c = o.format == "llama2c";
  if (app.count("--version") > 0 && !llama2c) throw core::UsageError("--version requires --format llama2c");
  if (app.count("--max-shard-bytes") > 0 && o.format != "hf") {
    throw core::UsageError("--max-shard-bytes requires --format hf");
  }
  if (llama2c && !o.type.empty() && o.type != "f32" && o.type != "q8_0") {
    throw core::UsageError("--type " + o.type + ", expected f32, or q8_0 (version 2), for --format llama2c");
  }
  if (o.mtp && o.format != "gguf") throw core::UsageError("--mtp requires --format gguf");
  if (o.format == "hf" && o.type.starts_with("q")) {
    throw core::UsageError("--type " + o.type + " requires --format gguf" + (o.type == "q8_0" ? " or llama2c" : ""));
  }
  if (llama2c && o.type == "q8_0" && o.version != 2 && app.count("--version") > 0) {
    throw core::UsageError("--type q8_0 requires --version 2");
  }
  if (o.type == "f32" && o.version == 2) throw core::UsageError("--version 2 requires --type q8_0, not f32");
}

int run(const apps::Flags& app, Options& o) {
  if (o.bits != 0) {
    if (!o.type.empty()) throw core::UsageError("--bits and --type both select the type; give one of them");
    o.type = o.bits == 16 ? "f16" : o.bits == 8 ? "q8_0" : "q4_0";
  }
  check(app, o);
  if (o.format == "gguf-lora") return export_adapter(o);
  // Follows the link checkpoints/best once, so that all files are read from one checkpoint even if training moves it.
  const fs::path input = core::without_links(o.model);
  core::StoredModel model = core::read_model(input);
  if (o.layers > model.config.n_layers) {
    throw core::UsageError(fmt::format("--layers is {}, but the model has {}", o.layers, model.config.n_layers));
  }
  model.generation = core::read_generation_config(model);
  static_cast<void>(infer::with_config({}, model.generation));  // throws if a sampling default is out of range
  if (o.layers > 0) model = core::with_layers(std::move(model), o.layers);
  const int64_t ahead = model.config.n_tokens_ahead;
  if (o.mtp && ahead == 0) {
    throw core::UsageError(o.layers > 0 ? "--mtp does not support --layers, which removes the module"
                                        : fmt::format("{} has no module for --mtp; remove --mtp", o.model));
  }
  if (o.format != "hf" && !o.mtp) model = core::for_llama_cpp(std::move(model));
  if (model.config.n_tokens_ahead < ahead) {
    core::print_stderr("{}: the module of multi-token prediction is left out; {}--mtp keeps it\n", o.model,
                       o.format == "gguf" ? "" : "--format gguf ");
  }
  ExportSource source{std::move(model), {}};
  for (const core::AdapterPath& adapter : o.merge) {
    source.adapters.push_back(core::read_adapter(adapter.path, source.model.config, adapter.scale));
  }
  if (o.format == "gguf") export_gguf(source, o);
  if (o.format == "hf") export_hf(source, o);
  if (o.format == "llama2c") export_llama2c(source, o);
  if (!is_file_or_folder(o.out)) return 0;
  const core::StoredModel written = core::read_model(o.out);
  fmt::print("{}: {}, {} parameters, {}\n", o.out, core::format_name(written.format),
             core::parameter_count(written.config),
             core::info(written.tensors[2].type).name);  // Wq or WqA, whose type most matrices have
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::Flags app(
      "Convert a model (checkpoint or other Hugging Face directory, GGUF, llama2.c file) to another format or type, or "
      "an adapter to GGUF.",
      "export");
  Options o;
  app.add_option("model", o.model,
                 "model to convert, such as runs/NAME/checkpoints/best; for gguf-lora, an adapter directory")
      ->required();
  app.add_option("--out PATH", o.out, "output file, or directory for hf")->required();
  app.add_option("--format FORMAT", o.format,
                 "output format: gguf, hf (Hugging Face directory), llama2c, or gguf-lora for adapters")
      ->one_of({"gguf", "hf", "llama2c", "gguf-lora"});
  app.add_option("--type TYPE", o.type,
                 "type of the weights: f32, f16, bf16; for gguf also q8_0, q4_0, q4_1, q4_k_m, q5_k_m, q6_k; for "
                 "llama2c f32 or q8_0 (default: unchanged)")
      ->one_of({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k_m", "q5_k_m", "q6_k"});
  app.add_option("-b,--bits 16|8|4", o.bits, "alias of --type f16, q8_0 and q4_0")->one_of({"16", "8", "4"});
  app.add_option("--version", o.version, "llama2.c file version: 0 for its program run, 2 for runq, 1 for neither")
      ->in_range(0, 2);
  app.add_option("--max-shard-bytes", o.max_shard_bytes, "maximum bytes per safetensors file, for hf")
      ->in_range(1, 1e15);
  app.add_flag("--mtp", o.mtp, "for gguf: keep the module of multi-token prediction, which llama.cpp may reject");
  app.add_option("--layers", o.layers, "keep only the first N layers, for tests (default: all)")->in_range(1, 1024);
  apps::add_adapters_flag(app, "--merge", o.merge,
                          "LoRA adapter (peft directory or GGUF) to merge into the weights (repeatable)");
  app.add_option("--base PATH", o.base, "for gguf-lora: the adapter's base model (default: the path in its config)");
  apps::add_tokenizer_flag(app, o.tokenizer);
  return apps::run_program(app, argc, argv, [&] { return run(app, o); });
}
