// What a trainer trains on, as batches: each a pure function of the configuration and its number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batches.h"
#include "data/corpus.h"
#include "data/document_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/request.h"
#include "train/config/train_config.h"

namespace folio::train {

enum class Split { Train, Validation };

/// Where the data came from, for the log and to know them again.
struct Source {
  std::string name;
  std::string path;            ///< of several files a line for each
  std::string field = "text";  ///< of lines of JSON, the one with the text
  int64_t bytes = 0;
  std::string digest;
  std::string eval_path{};  ///< of what is validated on, where that is not a part of it; likewise
};

/// A 64-bit hash of a text (FNV-1a) in hexadecimal digits. It detects changes, but is not cryptographic.
[[nodiscard]] std::string corpus_digest(std::string_view text);

/// Source::path of texts.
[[nodiscard]] std::string paths_of(const data::TextFiles& texts);

/// How a text of the model in training begins, which is looked at beside its loss.
struct SamplePrompt {
  std::vector<int32_t> tokens{};  ///< none: there is no sample
  infer::GenerateOptions options{};
  std::string before{};  ///< stands before the text in the log
};

class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  [[nodiscard]] virtual const Source& source() const = 0;
  [[nodiscard]] virtual const data::Tokenizer& tokenizer() const = 0;

  /// Batches of the configuration's size, without end, in an order that the seed decides. They live as long as the
  /// dataset.
  [[nodiscard]] virtual data::BatchOf random_batches(Split split, const TrainConfig& config, uint64_t seed) const = 0;
  /// The whole validation split, each token once.
  [[nodiscard]] virtual data::Batches validation_batches(const TrainConfig& config) const = 0;

  /// How many windows have seen each training token once.
  [[nodiscard]] virtual int64_t windows_per_epoch(const TrainConfig& config) const = 0;

  [[nodiscard]] virtual SamplePrompt sample_prompt() const = 0;
};

/// A text, or documents: tokens, cut into splits, and windows at random places of them.
class TextDataset final : public Dataset {
 public:
  /// Without a tokenizer, each character of the text is a token. Throws core::Error where the tokenizer has no tokens
  /// for the text, or a split is shorter than a window.
  TextDataset(const data::Corpus& corpus, const TrainConfig& config,
              std::unique_ptr<const data::Tokenizer> tokenizer = nullptr);
  /// The same for texts of any size. `summary` is that of `texts`. With `eval`, that is the validation split.
  TextDataset(const data::TextFiles& texts, const data::DocumentsSummary& summary, const TrainConfig& config,
              std::unique_ptr<const data::Tokenizer> tokenizer, const data::DocumentTokens::Options& options,
              const data::TextFiles* eval = nullptr);

  [[nodiscard]] const Source& source() const override { return source_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const override { return *tokenizer_; }
  [[nodiscard]] data::BatchOf random_batches(Split split, const TrainConfig& config, uint64_t seed) const override;
  [[nodiscard]] data::Batches validation_batches(const TrainConfig& config) const override;
  [[nodiscard]] int64_t windows_per_epoch(const TrainConfig& config) const override;
  [[nodiscard]] SamplePrompt sample_prompt() const override;

  [[nodiscard]] const data::SplitsOf<data::TokenView>& splits() const { return splits_; }

 private:
  /// Where windows end, as the configuration says.
  [[nodiscard]] data::DocumentEnd document_end(const TrainConfig& config) const;

  Source source_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  std::vector<int32_t> tokens_;                          ///< of a corpus
  std::optional<data::DocumentTokens> document_tokens_;  ///< or of texts
  std::optional<data::DocumentTokens> eval_tokens_;
  data::SplitsOf<data::TokenView> splits_;
};

}  // namespace folio::train
