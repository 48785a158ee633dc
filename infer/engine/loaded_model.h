// A model that is ready to generate, and everything it needs in one object: file, tokenizer, machines, KV cache, draft
// model and engine. This is the entry point of the C++ API, and of Folio's own programs:
//   auto model = LoadedModel::open("model.gguf");
//   std::cout << model.generate("ROMEO:", {.max_tokens = 100}).text;
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/adapter.h"
#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/engine.h"
#include "infer/engine/generate.h"
#include "infer/engine/mtp_drafter.h"
#include "infer/machines/machines.h"

namespace folio::infer {

/// A value of LoadOptions::cache_positions for servers: a full context for each of limits.max_sequences sequences,
/// limited to 16,384 positions or four contexts, whichever is more. Memory is used only as sequences need it.
inline constexpr int64_t kForMany = -1;

/// Sources of draft tokens, in the order of python/folio/checks.py. NGrams: repetitions in the sequence. Model: a draft
/// model. Mtp: the model's own module for multi-token prediction. Auto: Mtp if the model has a module and runs in one
/// process (a draft model is then an error), else Model if a draft model is given, else NGrams.
enum class DraftSource : uint8_t { Auto, NGrams, Model, Mtp };

struct LoadOptions {
  std::string tokenizer{};                    ///< a tokenizer file, if the model's own file has none
  std::optional<DraftSource> draft{};         ///< empty: the draft model if there is one, else n-grams
  std::string draft_model{};                  ///< a smaller model of the same vocabulary, for speculation; empty: none
  std::vector<core::AdapterPath> adapters{};  ///< low-rank adapters, applied as their sum; empty: none
  MachineOptions machines{};
  std::string generation_config = "auto";  ///< "auto" (the model's), "none", or the directory of another configuration
  int64_t context = 0;                     ///< maximum positions of a sequence; 0: the model's context length
  int64_t n_contexts = 1;                  ///< full contexts that the KV cache can hold, if cache_positions is 0
  int64_t cache_positions = 0;             ///< total number of positions in the KV cache; 0: n_contexts full contexts
  std::optional<CacheType> cache_type{};   ///< element type of the KV caches; empty: each model's default_cache_type()
  SchedulerLimits limits{};
};

class LoadedModel {
 public:
  /// Reads a model (a GGUF file, a llama2.c file or a Hugging Face directory) and its tokenizer. The first call of
  /// engine() loads the weights onto the machines. Throws core::Error if a file cannot be read, and core::UsageError if
  /// the options exceed what the model supports.
  [[nodiscard]] static LoadedModel open(const std::string& path, const LoadOptions& options = {});
  LoadedModel(LoadedModel&&) = default;
  LoadedModel& operator=(LoadedModel&& other) noexcept;

  [[nodiscard]] const core::StoredModel& file() const { return *file_; }
  [[nodiscard]] const core::ModelConfig& config() const { return file_->config; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const Machines& machines() const { return machines_; }
  [[nodiscard]] int64_t context() const { return options_.context; }

  /// Returns `base` with the sampling settings in file().generation. open() has checked their ranges.
  [[nodiscard]] SamplerOptions sampler_defaults(SamplerOptions base = {}) const {
    return with_config(std::move(base), file_->generation);
  }

  /// Returns the value of GenerateOptions::adapter that applies options.adapters; kNoAdapter if there are none. Loads
  /// the weights, as engine() does.
  [[nodiscard]] int32_t adapter();

  /// Returns the engine; the first call loads the weights. Throws core::Error if a machine cannot run the model or
  /// lacks memory, or if the draft model's tokens differ.
  [[nodiscard]] Engine& engine();
  /// Returns the load reports of the draft model or module, if there is one, and of the model.
  [[nodiscard]] std::vector<LoadReport> load_reports();

  /// Generates a completion with the adapter, if any. Special tokens in `prompt` are parsed (Tokenizer::encode_prompt).
  /// `on_text`, if set, receives text as it is generated, in whole UTF-8 characters. Throws core::Error if
  /// the prompt or an option is invalid (see Engine::add).
  GenerateResult generate(std::string_view prompt, GenerateOptions options = {},
                          const std::function<void(std::string_view)>& on_text = {});

 private:
  LoadedModel() = default;

  // engine_ and drafter_ refer to objects owned by the members above them. Moving a LoadedModel doesn't change the
  // addresses of these objects.
  LoadOptions options_;
  std::unique_ptr<core::StoredModel> file_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::optional<core::Adapter> adapter_;
  int32_t adapter_number_ = kNoAdapter;
  Machines machines_;
  std::unique_ptr<DraftModel> drafter_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace folio::infer
