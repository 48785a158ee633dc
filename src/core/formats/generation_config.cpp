#include "core/formats/generation_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/json.h"
#include "core/weights.h"

namespace folio::core {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFileName = "generation_config.json";
constexpr const char* kRemedy = "correct it, or remove it from the file";
constexpr double kAll = INT32_MAX;  // value of repeat_last_n that covers the whole sequence

struct Field {
  const char* name;
  const char* hf;    ///< key in generation_config.json; null if there is none
  const char* gguf;  ///< key in GGUF after "general.sampling."
  bool whole = false;
};
constexpr std::array<Field, 6> kFields{{{"temperature", "temperature", "temp"},
                                        {"top_p", "top_p", "top_p"},
                                        {"top_k", "top_k", "top_k", true},
                                        {"min_p", "min_p", "min_p"},
                                        {"repetition_penalty", "repetition_penalty", "penalty_repeat"},
                                        {"repeat_last_n", nullptr, "penalty_last_n", true}}};

std::string key_of(const Field& field) { return fmt::format("general.sampling.{}", field.gguf); }

// Converts a value in a file to the sampler's. In files, top_k = -1 means off, and repeat_last_n = -1 means all tokens.
double sampler_value(const Field& field, double value) {
  if (!field.whole || value != -1) return value;
  return field.name == std::string_view("top_k") ? 0 : kAll;
}

nlohmann::json read_object(const fs::path& path) {
  nlohmann::json json = parse_json(read_text_file(path, size_t{16} << 20U), path.string());
  require(json.is_object(), "{}: not a JSON object; save it again with transformers", path.string());
  return json;
}

// Returns the IDs in eos_token_id, which may be an ID, a list of IDs, or null.
std::vector<int32_t> end_tokens_of(const nlohmann::json& json, int64_t vocab_size, const std::string& where) {
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return {};
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    require(id.is_number_integer() && id >= 0 && id < vocab_size,
            "{}: eos_token_id is {}, but the vocabulary has IDs 0 to {}; {}", where, printable(id.dump(), 40),
            vocab_size - 1, kRemedy);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

GenerationConfig from_json(const fs::path& path, int64_t vocab_size) {
  GenerationConfig config{.where = path.string()};
  const nlohmann::json json = read_object(path);
  for (const Field& field : kFields) {
    if (field.hf == nullptr) continue;
    const auto found = json.find(field.hf);
    if (found == json.end() || found->is_null()) continue;
    require(field.whole ? found->is_number_integer() : found->is_number(), "{}: {} is {}, expected {}; {}",
            config.where, field.hf, printable(found->dump(), 40), field.whole ? "an integer" : "a number", kRemedy);
    config.sampling[field.name] = sampler_value(field, found->get<double>());
  }
  // transformers applies the repetition penalty to the whole sequence.
  if (config.sampling.contains("repetition_penalty")) config.sampling["repeat_last_n"] = kAll;
  config.end_tokens = end_tokens_of(json, vocab_size, config.where);
  return config;
}

GenerationConfig from_gguf(const GgufFile& file, int64_t vocab_size) {
  GenerationConfig config{.where = file.path().string()};
  for (const Field& field : kFields) {
    const std::string key = key_of(field);
    if (file.find(key) == nullptr) continue;
    const double value = field.whole ? static_cast<double>(file.integer(key)) : double{file.real(key)};
    require(std::isfinite(value), "{}: {} is {}, expected a finite number; {}", config.where, key, value, kRemedy);
    config.sampling[field.name] = sampler_value(field, value);
  }
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const int64_t id = file.integer(key, -1);
    if (id >= 0 && id < vocab_size) config.end_tokens.push_back(static_cast<int32_t>(id));
  }
  return config;
}

}  // namespace

GenerationConfig read_generation_config(const StoredModel& model, const std::string& source) {
  const int64_t vocab_size = model.config.vocab_size;
  if (source == "none") return {};
  if (source != "auto") {
    const fs::path path = fs::path(source) / kFileName;
    require(path_exists(path), "{}: no {} found; use auto, none, or a directory that contains one", source, kFileName);
    return from_json(path, vocab_size);
  }
  if (model.gguf) return from_gguf(*model.gguf, vocab_size);
  if (model.format != ModelFormat::HuggingFace) return {};
  const fs::path path = fs::path(model.path) / kFileName;
  if (path_exists(path)) return from_json(path, vocab_size);
  const fs::path other = fs::path(model.path) / "config.json";
  return {.where = other.string(), .end_tokens = end_tokens_of(read_object(other), vocab_size, other.string())};
}

GgufMetadata generation_to_gguf(const GenerationConfig& config) {
  GgufMetadata metadata;
  for (const Field& field : kFields) {
    const auto found = config.sampling.find(field.name);
    if (found == config.sampling.end()) continue;
    if (field.whole) {
      metadata.emplace_back(key_of(field), found->second == kAll ? -1 : static_cast<int32_t>(found->second));
    } else {
      metadata.emplace_back(key_of(field), static_cast<float>(found->second));
    }
  }
  return metadata;
}

void write_generation_config(const fs::path& directory, const GenerationConfig& config, int32_t begin_of_text,
                             int32_t end_of_text) {
  std::vector<int32_t> ends{end_of_text};
  for (const int32_t id : config.end_tokens) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
  if (config.sampling.empty() && ends.size() == 1) return;
  nlohmann::ordered_json json = {{"bos_token_id", begin_of_text}};
  json["eos_token_id"] = ends.size() == 1 ? nlohmann::json(end_of_text) : nlohmann::json(ends);
  const auto is_zero = [&](const char* name) {
    const auto found = config.sampling.find(name);
    return found != config.sampling.end() && found->second == 0.0;
  };
  // transformers ignores sampling values without do_sample, and rejects a temperature of 0 with it.
  if (!config.sampling.empty()) json["do_sample"] = !is_zero("temperature");
  for (const Field& field : kFields) {
    const auto found = config.sampling.find(field.name);
    if (field.hf == nullptr || found == config.sampling.end()) continue;
    if (found->first == "repetition_penalty" && is_zero("repeat_last_n")) continue;  // off
    if (field.whole) {
      json[field.hf] = static_cast<int64_t>(found->second);
    } else {
      json[field.hf] = found->second;
    }
  }
  write_file_atomically(directory / kFileName, json.dump(2) + "\n");
}

}  // namespace folio::core
