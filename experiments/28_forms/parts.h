// The parts of the study. Each prints tables, draws pictures and checks results.
#pragma once

#include "experiments/28_forms/walks.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {

/// Returns a form of the given kind for the vocabulary.
[[nodiscard]] std::shared_ptr<infer::forms::Form> form_for(const data::Tokenizer& tokenizer,
                                                           infer::forms::FormOptions::Kind kind, std::string text);

/// A model trained on Shakespeare's characters, under a form that it was not trained on.
class Speeches {
 public:
  Speeches(Report& report, const ReadersModel& reader, infer::Engine& engine);
  void automaton();
  void texts();
  void steps();

 private:
  [[nodiscard]] Tokens prompt(size_t i) const;
  [[nodiscard]] std::vector<infer::GenerateResult> written(size_t n, const Drawing& drawing) const;

  Report& report_;
  const ReadersModel& reader_;
  infer::Engine& engine_;
  std::shared_ptr<infer::forms::Form> form_;
  std::string book_;                   // the validation split
  std::vector<size_t> speech_begins_;  // offsets in book_
};

/// Studies how masked sampling changes the probabilities of whole texts, for forms with few enough texts to list.
void bias(Report& report, const ReadersModel& reader, infer::Engine& engine);

/// Trains models on lines of JSON for seconds and generates with and without a schema.
void json_lines(Report& report);

/// Studies how forced bytes are split into tokens.
void cuts(Report& report);

/// Shows that a form is rejected if the vocabulary lacks a brace.
void refusal(Report& report, const ReadersModel& reader);

}  // namespace folio::experiments
