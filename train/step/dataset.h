// Training data as batches: each a pure function of the configuration and its number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/batches.h"
#include "data/corpus.h"
#include "data/document_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/request.h"
#include "train/config/train_config.h"

namespace folio::train {

enum class Split { Train, Validation };

/// Origin of the data, for the log and for --resume.
struct Source {
  std::string name;
  std::string path;            ///< a line for each file
  std::string field = "text";  ///< with the text, of lines of JSON
  int64_t bytes = 0;
  std::string digest{};
  std::string eval_path{};  ///< of separate validation files; likewise
};

/// Source::path of texts.
[[nodiscard]] std::string paths_of(const data::TextFiles& texts);

/// The beginning of a text that the model in training completes, for the log.
struct SamplePrompt {
  std::vector<int32_t> tokens{};  ///< empty: no sample
  infer::GenerateOptions options{};
  std::string before{};  ///< shown before the text
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] const Source& source() const { return source_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }

  /// Batches of the configuration's size, without end, in an order that the seed decides. They live as long as the
  /// dataset.
  [[nodiscard]] virtual data::BatchOf random_batches(Split split, const TrainConfig& config, uint64_t seed) const = 0;
  /// The whole validation split, each token once.
  [[nodiscard]] virtual data::Batches validation_batches(const TrainConfig& config) const = 0;

  /// Windows that cover each training token once.
  [[nodiscard]] virtual int64_t windows_per_epoch(const TrainConfig& config) const = 0;

  [[nodiscard]] virtual SamplePrompt sample_prompt() const = 0;

 protected:
  Dataset(Source source, std::unique_ptr<const data::Tokenizer> tokenizer)
      : source_(std::move(source)), tokenizer_(std::move(tokenizer)) {}

  Source source_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
};

/// A text, or documents, as tokens that are cut into splits; batches are windows at random places.
class TextDataset final : public Dataset {
 public:
  /// Without a tokenizer, each character of the texts is a token. `summary` is that of `texts`. With `eval`, that is
  /// the validation split. Throws core::Error where a text cannot be tokenized, or a split is shorter than a window.
  TextDataset(const data::TextFiles& texts, const data::DocumentsSummary& summary, const TrainConfig& config,
              std::unique_ptr<const data::Tokenizer> tokenizer = nullptr,
              const data::DocumentTokens::Options& options = {}, const data::TextFiles* eval = nullptr);

  [[nodiscard]] data::BatchOf random_batches(Split split, const TrainConfig& config, uint64_t seed) const override;
  [[nodiscard]] data::Batches validation_batches(const TrainConfig& config) const override;
  [[nodiscard]] int64_t windows_per_epoch(const TrainConfig& c) const override {
    return data::consecutive_windows(splits_.train, c.window);
  }
  [[nodiscard]] SamplePrompt sample_prompt() const override;

  [[nodiscard]] const data::SplitsOf<data::TokenView>& splits() const { return splits_; }

 private:
  [[nodiscard]] data::DocumentEnd document_end(const TrainConfig& config) const;

  data::DocumentTokens tokens_;
  std::optional<data::DocumentTokens> eval_tokens_;
  data::SplitsOf<data::TokenView> splits_;
};

}  // namespace folio::train
