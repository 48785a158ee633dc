// A model that is ready to answer, with all that it needs in one owner: the file, its tokenizer, the machines, the
// cache, the model that drafts, and the engine. The programs begin with it, and so does a program of one's own:
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
#include "infer/machines/machines.h"

namespace folio::infer {

/// LoadOptions::cache_positions for a server: a full context for each of limits.max_sequences texts, but no more than
/// 16,384 positions, or four contexts where these are more. (Memory is taken when texts come to need it.)
inline constexpr int64_t kForMany = -1;

struct LoadOptions {
  std::string tokenizer{};    ///< a file, where the model has none in it
  std::string draft_model{};  ///< a smaller model of the same vocabulary, for requests that speculate; empty: none
  std::vector<core::AdapterPath> adapters{};  ///< low-rank adapters that add up; empty: none
  MachineOptions machines{};
  std::string generation_config = "auto";  ///< as core::read_generation_config() has it
  int64_t context = 0;                     ///< positions of a sequence; 0: the model's context length
  int64_t n_contexts = 1;                  ///< the cache has room for so many sequences of that length,
  int64_t cache_positions = 0;             ///< unless it is to hold so many positions in all
  std::optional<CacheType> cache_type{};   ///< of the draft's, too; none: default_cache_type() of each
  SchedulerLimits limits{};
};

class LoadedModel {
 public:
  /// Reads the model in `path`, which is a GGUF, a llama2.c file or a Hugging Face directory, and its tokenizer. The
  /// weights go to the machines with the first call of engine(). Throws core::Error if a file can't be read, and
  /// core::UsageError if the options ask for more than the model has.
  [[nodiscard]] static LoadedModel open(const std::string& path, const LoadOptions& options = {});

  [[nodiscard]] const core::StoredModel& file() const { return *file_; }
  [[nodiscard]] const core::ModelConfig& config() const { return file_->config; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const Machines& machines() const { return machines_; }
  [[nodiscard]] int64_t context() const { return options_.context; }

  /// `base` with what file().generation says of sampling. open() has checked that each value is in its range.
  [[nodiscard]] SamplerOptions sampler_defaults(SamplerOptions base = {}) const {
    return with_config(std::move(base), file_->generation);
  }

  /// What requests say to use options.adapters, or kNoAdapter. Loads the weights, as engine() does.
  [[nodiscard]] int32_t adapter();

  /// Throws core::Error if a machine can't run the model or has no room for it, or if the draft's tokens are others.
  [[nodiscard]] Engine& engine();
  /// What loading the weights repacked, of the draft and of the model.
  [[nodiscard]] std::vector<LoadReport> load_reports();

  /// How a text goes on, with the adapter if there is one. Special tokens in `prompt` are parsed (see
  /// Tokenizer::encode_prompt). `on_text` gets it as it comes, in whole UTF-8 characters,
  /// and may be empty. Throws core::Error as Engine::add does.
  GenerateResult generate(std::string_view prompt, GenerateOptions options = {},
                          const std::function<void(std::string_view)>& on_text = {});

 private:
  // The engine and the drafter use what stands above them, wherever the LoadedModel moves.
  LoadOptions options_;
  std::unique_ptr<core::StoredModel> file_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::optional<core::Adapter> adapter_;
  int32_t adapter_number_ = kNoAdapter;
  Machines machines_;
  std::unique_ptr<core::StoredModel> draft_file_;
  std::unique_ptr<DraftModel> drafter_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace folio::infer
