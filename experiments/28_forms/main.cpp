// Study: how does constraining a model's output to a grammar or schema change the probabilities of outputs? The results
// are explained in README.md.
#include "experiments/28_forms/parts.h"
#include "infer/cpu/cpu.h"

namespace folio::experiments {

std::shared_ptr<infer::forms::Form> form_for(const data::Tokenizer& tokenizer, infer::forms::FormOptions::Kind kind,
                                             std::string text) {
  return infer::forms::make_form({.kind = kind, .text = std::move(text)},
                                 std::make_shared<infer::forms::TokenTree>(tokenizer));
}

namespace {

void study(Report& report) {
  const ReadersModel reader = readers_model(report);
  infer::Cpu cpu;
  infer::Engine engine(reader.model, cpu, {.n_sequences = 40});
  Speeches speeches(report, reader, engine);
  speeches.automaton();
  speeches.texts();
  speeches.steps();
  bias(report, reader, engine);
  json_lines(report);
  cuts(report);
  refusal(report, reader);
}

}  // namespace
}  // namespace folio::experiments

int main(int argc, char** argv) {
  return folio::experiments::run_study(argc, argv, "28_forms", folio::experiments::study);
}
