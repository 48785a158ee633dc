// train: trains or fine-tunes a language model.
//
//   options ─▶ data ─▶ trainer ─▶ steps ─▶ model.gguf or an adapter ─▶ sample
//
// train/step/step.cpp has the training step, train/run/run.cpp the loop with evaluations and checkpoints.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>

#include "apps/program.h"
#include "apps/train_options.h"
#include "apps/train_report.h"
#include "core/error.h"
#include "core/formats/gguf_model.h"
#include "core/print_stderr.h"
#include "core/seconds_since.h"
#include "data/document_tokens.h"
#include "train/profile/profile.h"
#include "train/step/repeatable.h"

namespace {

using namespace folio;
using train::parallel::RollCall;

// Returns --threads if given. Otherwise, returns 0 if OMP_NUM_THREADS is set, so that LibTorch uses that number.
// Without either, returns the host's cores divided by its number of ranks.
int threads_of(const apps::TrainOptions& o) {
  if (o.config.threads > 0 || std::getenv("OMP_NUM_THREADS") != nullptr) return o.config.threads;
  return std::max(1, at::get_num_threads() / static_cast<int>(o.session->launch().n_on_host));
}

int run(apps::TrainOptions& o) {
  train::fix_threads(threads_of(o));
  train::keep_freed_memory();
  const apps::TrainData data = apps::read_data(o);
  std::optional<train::MemoryUse> memory;  // created before any parameter, to count all of them
  if (o.profile && !o.session->is_alone()) memory.emplace();
  o.session->require_same("flags", apps::config_toml(o.config, train::Kept::ByRanks));
  if (o.init && !o.session->is_alone())
    o.session->require_same("model of --init", train::model_digest(core::read_model(*o.init)));
  const train::Source& source = data.dataset->source();
  const data::Tokenizer& tokenizer = data.dataset->tokenizer();
  data::Digest tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) tokens.add(tokenizer.token_bytes(id));
  o.session->require_same("data", fmt::format("text of {} bytes, digest {}\nvocabulary of {} tokens, digest {}",
                                              source.bytes, source.digest, tokenizer.vocab_size(), tokens.hex()));
  // --profile measures with random weights instead of loading --init, except with adapters, which need a base model.
  const bool needs_init = o.init && (!o.profile || o.config.lora_rank > 0);
  train::Trainer trainer(o.config, *data.dataset, needs_init ? *o.init : "", &o.session->world(),
                         o.session->launch().on_host);
  if (o.profile) {
    apps::print_profile(trainer, memory);
    return 0;
  }
  if (trainer.config().lora_rank == 0) {  // throw before the first step if model.gguf cannot be written after the last
    static_cast<void>(tokenizer.to_gguf());
    static_cast<void>(core::config_to_gguf(trainer.config().model, source.name));
  }
  trainer.dump(o.dump_batches, o.dump_grads);
  std::optional<train::StepTrace> trace;
  if (!o.trace.empty()) trace.emplace(o.trace, trainer.world());

  // Nothing is written or removed before begin_run(), so earlier errors leave an existing run unchanged.
  train::RunOptions options = apps::begin_run(o, trainer, data);
  RollCall* roll_call = o.session->roll_call();
  options.note = [&](int64_t step, bool in_step) {
    if (roll_call != nullptr) roll_call->note(step, in_step);
    if (trace) in_step ? trace->step_begins() : trace->step_ended();
  };
  if (roll_call != nullptr) options.explain = std::bind_front(&RollCall::explain, roll_call);

  apps::watch_signals();
  apps::watch_stdout();  // after Ctrl-C in `train … | tee log`, tee ends first
  const auto start = std::chrono::steady_clock::now();
  const bool finished = train::run_to_end(trainer, options);
  if (finished) apps::end_on_signals();  // if a signal ends the work below, --resume can repeat it
  apps::write_config(o, trainer);        // again, since --minutes may have changed `steps`
  if (o.session->is_first() && trace && !trace->is_written()) {
    core::print_stderr("note: --trace wrote nothing, because this process trained fewer than {} steps\n",
                       train::StepTrace::kLast);
  }
  if (!finished) return apps::interrupted_code();
  if (!o.session->is_first()) return 0;

  apps::end_run(options, core::seconds_since(start), trainer, data);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  apps::TrainOptions first, options;
  first.flags = apps::train_flags(first);
  return apps::run_program(*first.flags, argc, argv, [&] {
    try {
      apps::complete_options(options, first, argc, argv);
      const int code = run(options);
      if (options.session && options.session->roll_call()) options.session->roll_call()->leave();
      return code;
    } catch (const std::exception& error) {
      if (!options.session || options.session->is_alone()) throw;
      // Ends the process without running destructors, which would wait for lost ranks.
      apps::end_rank(options.session->roll_call()->explain(error),
                     dynamic_cast<const core::UsageError*>(&error) != nullptr ? 2 : 1);
    }
  });
}
