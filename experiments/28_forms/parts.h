// The parts of the study: each prints its tables, draws its pictures and makes its claims.
#pragma once

#include "experiments/28_forms/walks.h"
#include "experiments/common/readers_model.h"

namespace folio::experiments {

/// A form of the kind, for the vocabulary.
[[nodiscard]] std::shared_ptr<infer::forms::Form> form_for(const data::Tokenizer& tokenizer,
                                                           infer::forms::FormOptions::Kind kind, std::string text);

/// A model of Shakespeare's letters speaks under a form that it never learned.
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
  std::string book_;                   // the validation text
  std::vector<size_t> speech_begins_;  // in it
};

/// What masked sampling does to the probabilities of whole texts, where all of them can be listed.
void bias(Report& report, const ReadersModel& reader, infer::Engine& engine);

/// Models that are trained on lines of JSON for seconds, with a schema and without.
void json_lines(Report& report);

/// How bytes that are forced are cut into tokens.
void cuts(Report& report);

/// A vocabulary without a brace.
void refusal(Report& report, const ReadersModel& reader);

}  // namespace folio::experiments
