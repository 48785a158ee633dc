// Beam search: which texts go on. Several are followed at a time, the most likely ones; each of their next tokens makes
// a candidate, and of all candidates the most likely go on. Texts that end are kept by their score. As in transformers'
// generate(num_beams=…, do_sample=False), to the order of the results: tests/infer/engine/beam_search_test.py. Knows no
// model, no cache and no text: the callers do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace folio::infer {

/// When a search ends, once as many texts have ended as it follows. The names are transformers'.
enum class EarlyStopping : uint8_t {
  False,  ///< when no text that goes on would be better if it ended now
  True,   ///< at once
  Never   ///< when none can become better, however long it gets
};

struct BeamOptions {
  int64_t width = 0;            ///< texts that are followed at a time; 0: no search, tokens are sampled
  double length_penalty = 1.0;  ///< a text's score is ln p over its number of tokens to this power
  EarlyStopping early_stopping = EarlyStopping::False;
};

inline constexpr int64_t kMostBeams = 64;
inline constexpr double kMostLengthPenalty = 10.0;  ///< and the least is its negative

class BeamSearch {
 public:
  enum class Ending : uint8_t { None, EndToken, StopText, Length };

  /// A token that a text may go on with.
  struct Candidate {
    size_t beam;  ///< index of the text
    int32_t token;
    double log_prob;  ///< ln p of the whole text behind the prompt, with this token
    Ending ending;
  };
  /// A text that has ended.
  struct Finished {
    std::vector<int32_t> tokens;  ///< behind the prompt; without a token that ends texts
    double score;
    Ending ending;
  };

  /// A text has at most `max_tokens` tokens, at least 1. Throws core::Error if an option is out of its range.
  BeamSearch(const BeamOptions& options, size_t max_tokens);

  [[nodiscard]] size_t width() const { return static_cast<size_t>(options_.width); }

  /// Every text has been followed by one token more. `candidates` are those of all texts, of each at least its width()
  /// most likely that don't end; `texts` the tokens of each behind the prompt. Returns the candidates that go on, the
  /// most likely first.
  [[nodiscard]] std::vector<Candidate> step(std::vector<Candidate> candidates,
                                            std::span<const std::span<const int32_t>> texts);
  [[nodiscard]] bool done() const { return done_; }
  /// The texts that have ended, the best first, at most width().
  [[nodiscard]] std::span<const Finished> finished() const { return finished_; }
  /// Of a text with so many tokens.
  [[nodiscard]] double score(double log_prob, size_t n_tokens) const;

 private:
  void keep(const Candidate& candidate, std::span<const int32_t> text);

  BeamOptions options_;
  size_t max_tokens_;
  size_t n_tokens_ = 0;  ///< of every text that goes on
  bool done_ = false;
  std::vector<Finished> finished_;
};

}  // namespace folio::infer
