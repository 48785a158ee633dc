// The parts of the structured output study: speeches, bias of masked sampling, JSON, forced tokens, and rejected forms.
#pragma once

#include "experiments/28_forms/walks.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {

/// Compiles a form from its source `text`, such as a regular expression. Throws core::Error if the source is rejected.
[[nodiscard]] std::shared_ptr<infer::forms::Form> form_for(const data::Tokenizer& tokenizer,
                                                           infer::forms::FormOptions::Kind kind, std::string text);

/// Measures how a form changes the outputs of a Shakespeare model, whose training text mostly does not match the form.
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
  std::string book_;                   // text of the validation split
  std::vector<size_t> speech_begins_;  // offsets of speeches in book_
};

/// Studies how masked sampling changes the probabilities of whole outputs, for forms with few enough matches to list.
void bias(Report& report, const ReadersModel& reader, infer::Engine& engine);

/// Trains small models on lines of JSON, and compares their outputs with and without a schema.
void json_lines(Report& report);

/// Counts the possible tokenizations of bytes that a form forces, and shows which ones outputs use.
void cuts(Report& report);

/// Shows that a form is rejected exactly if all its matches contain a brace and the vocabulary has none.
void refusal(Report& report, const ReadersModel& reader);

}  // namespace folio::experiments
