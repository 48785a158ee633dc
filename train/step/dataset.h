// Training data as batches. Each batch is a pure function of the configuration and the batch number.
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
  std::string path;            ///< paths of the files, one per line
  std::string field = "text";  ///< key of the text in JSON Lines files
  int64_t bytes = 0;
  std::string digest{};
  std::string eval_path{};  ///< paths of separate validation files, one per line
};

/// Returns the paths of the files, one per line, for Source::path.
[[nodiscard]] std::string paths_of(const data::TextFiles& texts);

/// Prompt and options of the sample completions in the log.
struct SamplePrompt {
  std::vector<int32_t> tokens{};  ///< empty: no sample
  infer::GenerateOptions options{};
  std::string before{};  ///< shown before the completion
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] const Source& source() const { return source_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }

  /// Returns an unlimited sequence of batches of config.batch_size windows, in an order determined by the seed. The
  /// result must not outlive the dataset.
  [[nodiscard]] virtual data::BatchOf random_batches(Split split, const TrainConfig& config, uint64_t seed) const = 0;
  /// Returns batches that cover the validation split once.
  [[nodiscard]] virtual data::Batches validation_batches(const TrainConfig& config) const = 0;

  /// Returns the number of windows that cover the training split once.
  [[nodiscard]] virtual int64_t windows_per_epoch(const TrainConfig& config) const = 0;

  [[nodiscard]] virtual SamplePrompt sample_prompt() const = 0;

 protected:
  Dataset(Source source, std::unique_ptr<const data::Tokenizer> tokenizer)
      : source_(std::move(source)), tokenizer_(std::move(tokenizer)) {}

  Source source_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
};

/// A dataset of plain text or documents. The tokens are cut into splits; training batches are windows at random
/// positions.
class TextDataset final : public Dataset {
 public:
  /// If `tokenizer` is null, each character is a token. `summary` must be data::summarize(texts.documents). `eval` is
  /// the validation split; if it is null, the split is cut from `texts`. Throws core::Error if a text cannot be
  /// tokenized or a split is shorter than a window.
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
