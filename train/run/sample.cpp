#include "train/run/sample.h"

#include <ATen/Parallel.h>

#include "infer/cpu/cpu.h"
#include "infer/engine/generate.h"

namespace folio::train {

std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter, const data::Tokenizer& tokenizer,
                        const SamplePrompt& prompt, int64_t tokens) {
  if (prompt.tokens.empty()) return "";
  infer::Cpu cpu({.n_threads = static_cast<size_t>(at::get_num_threads())});
  infer::Engine engine(model, cpu);
  infer::GenerateOptions options = prompt.options;
  options.max_tokens = tokens;
  if (adapter != nullptr) options.adapter = engine.load_adapter(*adapter);
  return prompt.before + infer::generate(engine, tokenizer, prompt.tokens, options).text;
}

}  // namespace folio::train
