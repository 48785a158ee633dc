#include "train/run/sample.h"

#include <ATen/Parallel.h>

#include "infer/cpu/cpu.h"
#include "infer/engine/generate.h"
#include "train/run/weights.h"

namespace folio::train {

std::string sample_text(const nn::Llama& model, const data::Tokenizer& tokenizer, int64_t tokens) {
  const core::Weights weights = weights_of(model);
  const core::StoredModel stored{.path = "the model in training",
                                 .format = core::ModelFormat::Gguf,
                                 .config = weights.config,
                                 .tensors = weights.views(),
                                 .storage = {},
                                 .gguf = {}};
  infer::Cpu cpu({.n_threads = static_cast<size_t>(at::get_num_threads())});
  infer::Engine engine(stored, cpu);
  infer::GenerateOptions options;
  options.max_tokens = tokens;
  options.slide = true;  // a text may be longer than the context
  options.sampler.seed = 1;
  return infer::generate(engine, tokenizer, tokenizer.default_prompt(), options).text;
}

}  // namespace folio::train
