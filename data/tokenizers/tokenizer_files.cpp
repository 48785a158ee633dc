#include "data/tokenizers/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/utf8.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/hf/hf_tokenizer.h"
#include "data/tokenizers/llama2c/llama2c_vocabulary.h"
#include "data/tokenizers/sentencepiece.h"

namespace folio::data {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxChatTemplate = size_t{1} << 20U;

enum class Format { Gguf, Json, Llama2c };

Format format_of(const fs::path& path) {
  const core::MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (bytes.starts_with("GGUF")) return Format::Gguf;
  // A tokenizer.bin begins with the length of its longest piece, a little-endian int32 below 65536.
  if (bytes.size() >= 4 && bytes[2] == 0 && bytes[3] == 0) return Format::Llama2c;
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  core::require(first != std::string_view::npos && bytes[first] == '{',
                "{}: not a supported tokenizer: a tokenizer.json, a GGUF, or a llama2.c tokenizer.bin", path.string());
  return Format::Json;
}

nlohmann::json read_json(const fs::path& path) {
  return core::parse_json(core::read_text_file(path, size_t{64} << 20U), path.string());
}

// Reads chat templates as transformers does: chat_template.jinja and additional_chat_templates/NAME.jinja if they
// exist, or else "chat_template" of tokenizer_config.json, which is a string or a list of named templates.
ChatTemplates chat_templates_of(const nlohmann::json& config, const fs::path& directory) {
  ChatTemplates templates;
  const auto add_file = [&](const std::string& name, const fs::path& file) {
    templates[name] = core::read_text_file(file, kMaxChatTemplate);
    core::require(core::is_utf8(templates[name]), "{}: not UTF-8; save it as UTF-8", file.string());
  };
  if (const fs::path file = directory / "chat_template.jinja"; core::path_exists(file))
    add_file(kDefaultTemplate, file);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory / "additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja") add_file(entry.path().stem().string(), entry.path());
  }
  if (!templates.empty()) return templates;
  const std::string where = (directory / "tokenizer_config.json").string();
  const nlohmann::json& value = hf::value(config, "chat_template");
  if (value.is_string()) return {{kDefaultTemplate, value.get<std::string>()}};
  if (value.is_null()) return {};
  core::require(value.is_array(), "{}: chat_template is neither a string nor a list; write it as a string", where);
  for (const nlohmann::json& entry : value) {
    templates[core::json_get<std::string>(entry, "name", where)] =
        core::json_get<std::string>(entry, "template", where);
  }
  return templates;
}

size_t model_vocab_size(const fs::path& directory, int64_t otherwise) {
  constexpr uint64_t kMost = uint64_t{1} << 22U;
  const fs::path path = directory / "config.json";
  if (!core::path_exists(path)) return static_cast<size_t>(std::max<int64_t>(otherwise, 0));
  const nlohmann::json config = read_json(path);
  const nlohmann::json& size = hf::value(config, "vocab_size");
  return size.is_number_unsigned() && size.get<uint64_t>() <= kMost ? size.get<size_t>() : 0;
}

template <typename T>
std::unique_ptr<Tokenizer> owned(T tokenizer) {
  return std::make_unique<T>(std::move(tokenizer));
}

std::unique_ptr<Tokenizer> from_hf_file(const fs::path& path, int64_t vocab_size = 0) {
  const std::string where = path.string();
  core::require(core::path_exists(path) || !core::path_exists(path.parent_path() / "tekken.json"),
                "{}: the tokenizer tekken (tekken.json) is not supported", path.parent_path().string());
  const nlohmann::json tokenizer = read_json(path);
  core::require(tokenizer.is_object() && tokenizer.contains("model"),
                "{}: the key \"model\" is missing; this is not a tokenizer.json", where);
  const fs::path config_path = path.parent_path() / "tokenizer_config.json";
  const bool is_char = CharTokenizer::is_hf(tokenizer);  // character tokenizers need no tokenizer_config.json
  const nlohmann::json config =
      is_char && !core::path_exists(config_path) ? nlohmann::json::object() : read_json(config_path);
  const hf::TokenizerFiles source{.tokenizer = tokenizer,
                                  .where = where,
                                  .config = config,
                                  .config_where = config_path,
                                  .vocab_size = is_char ? 0 : model_vocab_size(path.parent_path(), vocab_size)};
  auto result = is_char                          ? owned(CharTokenizer::from_hf(tokenizer, where))
                : BpeTokenizer::is_hf(tokenizer) ? owned(BpeTokenizer::from_hf(source))
                                                 : owned(SentencePieceTokenizer::from_hf(source));
  result->set_chat_templates(chat_templates_of(config, path.parent_path()));
  return result;
}

std::unique_ptr<Tokenizer> load(const fs::path& path, int64_t vocab_size) {
  std::error_code error;
  if (fs::is_directory(path, error)) return tokenizer_from_hf(path);
  const Format format = format_of(path);
  if (format == Format::Gguf) return tokenizer_from_gguf(core::GgufFile(path));
  if (format == Format::Json) return from_hf_file(path);
  return owned(read_llama2c_tokenizer(path, vocab_size));
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const core::GgufFile& file) {
  const std::string& model = file.string("tokenizer.ggml.model");
  core::require(model == "llama" || model == "gpt2", "{}: a tokenizer of kind \"{}\" is not supported",
                file.path().string(), core::printable(model));
  auto tokenizer = model == "llama"               ? owned(SentencePieceTokenizer::from_gguf(file))
                   : CharTokenizer::is_gguf(file) ? owned(CharTokenizer::from_gguf(file))
                                                  : owned(BpeTokenizer::from_gguf(file));
  ChatTemplates templates;
  for (const auto& [key, value] : file.metadata()) {
    const bool is_named = key.starts_with(fmt::format("{}.", kGgufChatTemplate));
    if (!is_named && key != kGgufChatTemplate) continue;
    const std::string& text = file.string(key);
    core::require(core::is_utf8(text), "{}: {} is not UTF-8", file.path().string(), core::printable(key));
    templates[is_named ? key.substr(std::string_view(kGgufChatTemplate).size() + 1) : kDefaultTemplate] = text;
  }
  tokenizer->set_chat_templates(std::move(templates));
  const int64_t end_of_message = file.integer("tokenizer.ggml.eom_token_id", -1);
  if (end_of_message >= 0 && end_of_message < tokenizer->vocab_size()) {
    tokenizer->end_at({static_cast<int32_t>(end_of_message)});
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> tokenizer_from_hf(const fs::path& directory, int64_t vocab_size) {
  return from_hf_file(directory / "tokenizer.json", vocab_size);
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path, int64_t vocab_size) {
  auto tokenizer = load(path, vocab_size);
  core::require(vocab_size <= 0 || tokenizer->vocab_size() == vocab_size,
                "{}: the tokenizer has {} tokens, but the model has {}", path.string(), tokenizer->vocab_size(),
                vocab_size);
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_tokenizer(const core::StoredModel& model, const std::string& file) {
  const int64_t vocab_size = model.config.vocab_size;
  core::require(!file.empty() || !core::is_llama2c(model.format), "{} contains no tokenizer; add --tokenizer FILE",
                model.path);
  auto tokenizer = !file.empty() ? load_tokenizer(fs::path(file), vocab_size)
                   : model.gguf  ? tokenizer_from_gguf(*model.gguf)
                                 : tokenizer_from_hf(model.path);
  core::require(tokenizer->vocab_size() == vocab_size, "{}: the tokenizer has {} tokens, but the model has {}",
                model.path, tokenizer->vocab_size(), vocab_size);
  if (!model.generation.end_tokens.empty()) tokenizer->end_at(model.generation.end_tokens);
  return tokenizer;
}

}  // namespace folio::data
