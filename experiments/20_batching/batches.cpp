#include "experiments/20_batching/batches.h"

#include <algorithm>

#include "infer/cpu/cpu.h"
#include "infer/engine/engine.h"

namespace folio::experiments {

Batches::Batches(const Report& report, const ReadersModel& reader)
    : model_(reader.model),
      longest_prompt_(static_cast<size_t>(std::clamp<int64_t>(model_.config.context_length / 8, 1, 13))),
      n_tokens_(std::min<int64_t>(report.short_form() ? 24 : 96, model_.config.context_length / 2)),
      seed_(report.seed()) {
  infer::Cpu cpu({.n_threads = 1});
  infer::Engine engine(model_, cpu);
  infer::Request first{.prompt = reader.tokenizer->default_prompt()};
  first.options.max_tokens = static_cast<int64_t>(longest_prompt_);
  prompt_ = completed(engine, {first})[0].tokens;
}

Run Batches::run(size_t first, size_t last, size_t n_threads, int64_t apart) const {
  infer::Cpu cpu({.n_threads = n_threads});
  infer::ProfiledMachine machine(cpu);
  infer::Engine engine(model_, machine, {.n_sequences = static_cast<int64_t>(last - first)});
  std::vector<infer::RequestId> ids;
  bool continues = true;
  for (int64_t step = 0; continues || first + ids.size() < last; ++step) {
    while (first + ids.size() < last && static_cast<int64_t>(ids.size()) * apart <= step) {
      ids.push_back(engine.add(request(first + ids.size())));
    }
    continues = engine.step();
  }
  Run run{machine.profile.steps, machine.profile.total(), {}};
  for (const infer::RequestId id : ids) run.texts.push_back(engine.take(id).tokens);
  return run;
}

// Returns request i. The prompts of 32 requests have at most 224 tokens in total, so they fit into a step of 256 rows.
infer::Request Batches::request(size_t i) const {
  const auto length = static_cast<ptrdiff_t>(1 + i * 5 % longest_prompt_);
  infer::Request request{.prompt = {prompt_.begin(), prompt_.begin() + length}};
  request.options.max_tokens = n_tokens_;
  request.options.sampler.seed = seed_ + i;
  return request;
}

}  // namespace folio::experiments
